package main

import (
	"encoding/binary"
	"strconv"
	"sync"
	"time"
)

const (
	districts    = 10
	fewestLines  = 5 // lines of an order
	mostLines    = 15
	latestOrders = 20   // orders that a stock level looks at
	remembered   = 1000 // payments of a warehouse
	awayShare    = 10   // how many of a hundred lines or payments are another warehouse's
	stockFrom    = 10   // a stock goes from here
	stockTo      = 100  // to here, and around
	stockSpan    = stockTo - stockFrom + 1
	screenSize   = 1024
)

type item struct {
	name         string
	price, place uint32
}

type stock struct {
	item *item
	// Quantity, sum of what was ordered, and place among those of all warehouses.
	quantity, taken, place uint32
}

type warehouse struct {
	districts *[districts]*district
	stocks    []*stock
	history   *[remembered]*payment
	// The sum of payments, and their count.
	paid, payments uint64
}

type district struct {
	customers []*customer
	// The last orders in a ring.
	orders []*order
	// The next order, the next to be delivered, the sum of payments.
	next, delivery, paid uint64
}

type customer struct {
	name                          string
	last                          *order
	balance, payments, deliveries uint64
}

type order struct {
	customer               *customer
	lines                  []*orderLine
	number, total, carrier uint64
}

type orderLine struct {
	stock            *stock
	quantity, amount uint32
}

type payment struct {
	customer *customer
	amount   uint64
}

// company: how much there is, all warehouses, and the lock of each, which protects quantities and balances.
type company struct {
	items, customers, orders, transactions int
	warehouses                             []*warehouse
	locks                                  []sync.Mutex
}

// tally is what one mutator did; found is made of what the transactions found.
type tally struct{ ordered, paid, delivered, found uint64 }

func (t *tally) add(other tally) {
	t.ordered += other.ordered
	t.paid += other.paid
	t.delivered += other.delivered
	t.found += other.found
}

// clerk: a mutator at its warehouse.
type clerk struct {
	*company
	own    int
	random random
	tally
	// What is shown at the end of a transaction; here, it is on the heap.
	screen *[screenSize]byte
	// The balance that was seen last, which depends on the other mutators.
	balance uint64
}

// jbb: warehouses that take orders, in the manner of pjbb2005 with fixed work. One mutator builds the data; then each
// does its transactions at its own warehouse.
func jbb(what chosen, out *facts) uint64 {
	c := &company{items: 20_000, customers: 1000, orders: 1000, transactions: 500_000}
	if what.tiny {
		c = &company{items: 200, customers: 10, orders: 20, transactions: 500}
	}
	c.build(what.threads)
	var all tally
	for own := range c.warehouses {
		all.add(c.firstOrders(own))
	}
	started := time.Now()
	tallies := mutate(what.threads, func(number int) tally {
		clerk := c.clerk(number, 11_000)
		for i := 0; i < c.transactions; i++ {
			clerk.transaction()
		}
		return clerk.tally
	})
	seconds := time.Since(started).Seconds()
	for _, tally := range tallies {
		all.add(tally)
	}
	out.Transactions = uint64(what.threads) * uint64(c.transactions)
	out.TransactionsPerS = float64(out.Transactions) / seconds
	return c.audit(&all)
}

// build makes all warehouses.
func (c *company) build(warehouses int) {
	items := make([]*item, c.items)
	for i := range items {
		name := numbered("item", i)
		items[i] = &item{name, 1 + uint32(scattered(uint64(i))%10_000), uint32(i)}
	}
	c.warehouses = make([]*warehouse, warehouses)
	c.locks = make([]sync.Mutex, warehouses)
	for number := range c.warehouses {
		c.warehouses[number] = c.newWarehouse(items, number)
	}
}

func numbered(what string, number int) string {
	var buffer [40]byte
	name := append(append(buffer[:0], what...), " number "...)
	return string(strconv.AppendInt(name, int64(number), 10))
}

func (c *company) newWarehouse(items []*item, number int) *warehouse {
	w := new(warehouse)
	w.stocks = make([]*stock, c.items)
	for i := range w.stocks {
		place := uint32(number*c.items + i)
		w.stocks[i] = &stock{item: items[i], quantity: atFirst(place), place: place}
	}
	w.districts = new([districts]*district)
	for i := range w.districts {
		w.districts[i] = c.newDistrict(number*districts + i)
	}
	w.history = new([remembered]*payment)
	return w
}

func (c *company) newDistrict(number int) *district {
	d := new(district)
	d.orders = make([]*order, c.orders)
	d.customers = make([]*customer, c.customers)
	for i := range d.customers {
		d.customers[i] = &customer{name: numbered("customer", number*c.customers+i)}
	}
	return d
}

// firstOrders are half of the orders that the districts keep.
func (c *company) firstOrders(own int) tally {
	clerk := c.clerk(own, 10_000)
	for i := 0; i < c.orders/2; i++ {
		for district := 0; district < districts; district++ {
			clerk.newOrder(district)
		}
	}
	return clerk.tally
}

func (c *company) clerk(own int, seed uint64) *clerk {
	return &clerk{company: c, own: own, random: random(seed + uint64(own))}
}

// atFirst is the quantity of the stock at a place before anything was ordered.
func atFirst(place uint32) uint32 { return stockFrom + uint32(scattered(uint64(place))%91) }

func (k *clerk) transaction() {
	district := int(k.random.below(districts))
	switch kind := k.random.below(23); {
	case kind < 10:
		k.newOrder(district)
	case kind < 20:
		k.payment(district)
	case kind == 20:
		k.status(district)
	case kind == 21:
		for district := 0; district < districts; district++ {
			k.deliver(district)
		}
	default:
		k.stockLevel(district)
	}
	k.print()
}

// somewhere is the warehouse that delivers or whose customer pays.
func (k *clerk) somewhere() int {
	isAway, which := k.random.below(100) < awayShare, int(k.random.next())
	if others := len(k.warehouses) - 1; isAway && others > 0 {
		return (k.own + 1 + which%others) % (others + 1)
	}
	return k.own
}

func (k *clerk) newOrder(district int) {
	number := k.random.below(uint32(k.customers))
	lines := make([]*orderLine, fewestLines+k.random.below(mostLines-fewestLines+1))
	total := uint64(0)
	for i := range lines {
		line := new(orderLine)
		lines[i] = line
		k.fill(line)
		total += uint64(line.amount)
	}
	o := new(order)
	o.lines = lines
	d := k.warehouses[k.own].districts[district]
	if d.next-d.delivery == uint64(k.orders) {
		k.deliver(district)
	}
	o.customer = d.customers[number]
	o.number = d.next
	o.total = total
	o.customer.last = o
	d.orders[d.next%uint64(k.orders)] = o
	d.next++
}

// fill orders what is in a line.
func (k *clerk) fill(line *orderLine) {
	item := k.random.below(uint32(k.items))
	quantity := 1 + k.random.below(10)
	supplier := k.somewhere()
	k.locks[supplier].Lock()
	s := k.warehouses[supplier].stocks[item]
	left := s.quantity
	if left < quantity+stockFrom {
		left += stockSpan
	}
	s.quantity = left - quantity
	s.taken += quantity
	k.locks[supplier].Unlock()
	k.ordered += uint64(quantity)
	line.stock = s
	line.quantity = quantity
	line.amount = quantity * s.item.price
}

func (k *clerk) payment(district int) {
	home := k.somewhere()
	number := k.random.below(uint32(k.customers))
	amount := uint64(1 + k.random.below(5000))
	p := new(payment)
	p.amount = amount
	k.locks[home].Lock()
	customer := k.warehouses[home].districts[district].customers[number]
	customer.balance -= amount
	customer.payments++
	k.locks[home].Unlock()
	p.customer = customer
	ours := k.warehouses[k.own]
	ours.history[ours.payments%remembered] = p
	ours.paid += amount
	ours.payments++
	ours.districts[district].paid += amount
	k.paid += amount
}

// status adds up the last order of a customer.
func (k *clerk) status(district int) {
	number := k.random.below(uint32(k.customers))
	k.locks[k.own].Lock()
	customer := k.warehouses[k.own].districts[district].customers[number]
	k.balance = customer.balance
	k.locks[k.own].Unlock()
	if order := customer.last; order != nil {
		k.found += order.sum()
	}
}

// deliver delivers the oldest order of a district, if there is one.
func (k *clerk) deliver(district int) {
	carrier := uint64(1 + k.random.below(10))
	k.locks[k.own].Lock()
	d := k.warehouses[k.own].districts[district]
	if d.delivery == d.next {
		k.locks[k.own].Unlock()
		return
	}
	order := d.orders[d.delivery%uint64(k.orders)]
	order.carrier = carrier
	order.customer.balance += order.total
	order.customer.deliveries++
	d.delivery++
	k.locks[k.own].Unlock()
	k.delivered += order.total
}

// stockLevel looks for items of the latest orders of which few are left.
func (k *clerk) stockLevel(district int) {
	level := stockFrom + k.random.below(10)
	seen := make([]bool, k.items)
	distinct, low := uint64(0), uint64(0)
	k.locks[k.own].Lock()
	w := k.warehouses[k.own]
	d := w.districts[district]
	count := uint64(latestOrders)
	if count > uint64(k.orders) {
		count = uint64(k.orders)
	}
	for number := d.next - lesser(count, d.next); number < d.next; number++ {
		for _, line := range d.orders[number%uint64(k.orders)].lines {
			item := line.stock.item.place
			if seen[item] {
				continue
			}
			seen[item] = true
			distinct++
			if w.stocks[item].quantity < level {
				low++
			}
		}
	}
	k.locks[k.own].Unlock()
	require(low <= distinct, "few of the items that there are")
	k.found += distinct
}

// print makes what the terminal shows after a transaction.
func (k *clerk) print() {
	k.screen = new([screenSize]byte)
	for line := 0; line < screenSize/64; line++ {
		binary.LittleEndian.PutUint64(k.screen[64*line:], k.found+uint64(line))
	}
}

// audit checks that everything fits together; a number made of all that lives.
func (c *company) audit(all *tally) uint64 {
	sum := all.found
	ordered, paid, balance := uint64(0), uint64(0), uint64(0)
	for _, w := range c.warehouses {
		for _, s := range w.stocks {
			left := stockFrom + (atFirst(s.place)-stockFrom+stockSpan-s.taken%stockSpan)%stockSpan
			require(s.quantity == left, "a stock is what it was without what was taken")
			ordered += uint64(s.taken)
			for _, part := range [...]uint32{s.place, s.taken, s.quantity, s.item.place} {
				sum = chained(sum, uint64(part))
			}
			sum = chained(sum, hashOf(s.item.name))
		}
		received := uint64(0)
		for _, d := range w.districts {
			received += d.paid
			sum = chained(sum, c.auditDistrict(d, &balance))
		}
		require(received == w.paid, "payments are in both books")
		paid += received
		sum = chained(sum, w.auditHistory())
	}
	require(ordered == all.ordered, "all that was ordered was taken from a stock")
	require(paid == all.paid, "no payment is lost")
	require(balance == all.delivered-all.paid, "balances are what was delivered without what was paid")
	return sum
}

func (c *company) auditDistrict(d *district, balance *uint64) uint64 {
	sum := d.paid
	kept := uint64(c.orders)
	for number := d.next - lesser(kept, d.next); number < d.next; number++ {
		order := d.orders[number%kept]
		require(order.number == number, "an order is in its place")
		require((order.carrier != 0) == (number < d.delivery), "the oldest are delivered")
		sum = chained(sum, order.audit())
	}
	for _, customer := range d.customers {
		*balance += customer.balance
		for _, part := range [...]uint64{customer.balance, customer.payments, customer.deliveries} {
			sum = chained(sum, part)
		}
		sum = chained(sum, hashOf(customer.name))
		// It may be one that the district does not keep any more.
		if customer.last != nil {
			sum = chained(sum, customer.last.audit())
		}
	}
	return chained(chained(sum, d.next), d.delivery)
}

// audit is a number made of an order, its customer and its lines.
func (o *order) audit() uint64 {
	sum := chained(chained(hashOf(o.customer.name), o.number), o.carrier)
	for _, line := range o.lines {
		sum = chained(chained(sum, uint64(line.stock.place)), uint64(line.quantity))
	}
	return chained(sum, o.sum())
}

// auditHistory is a number made of the payments that a warehouse remembers, from the oldest on.
func (w *warehouse) auditHistory() uint64 {
	sum := w.payments
	for number := w.payments - lesser(remembered, w.payments); number < w.payments; number++ {
		payment := w.history[number%remembered]
		require(payment != nil, "a payment is remembered")
		sum = chained(chained(sum, payment.amount), hashOf(payment.customer.name))
	}
	return sum
}

// sum is the total of an order, which its lines come to.
func (o *order) sum() uint64 {
	total := uint64(0)
	for _, line := range o.lines {
		require(line.amount == line.quantity*line.stock.item.price, "a line is its price")
		total += uint64(line.amount)
	}
	require(total == o.total, "an order is the sum of its lines")
	return total
}
