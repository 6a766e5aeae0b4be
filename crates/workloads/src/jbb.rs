//! Warehouses that take orders, in the manner of pjbb2005: fixed work, a warehouse for each mutator.
//!
//! One thread builds the data, then each mutator does its transactions on its own warehouse: new orders, payments,
//! order status, deliveries, stock levels, in the shares of TPC-C. Some orders take stock from another warehouse, and
//! some payments are by another's customer; a lock for each warehouse protects the stock and the balances that others
//! change so. These changes are sums (of the quantity in stock, modulo 91 as in TPC-C), so that their order does not
//! count. What was built is old; orders live for a while and die old, too; what is printed dies at once. All that a
//! mutator refers to, it chose itself: what lives in the end does not depend on how the threads took turns.

use std::cell::Cell;
use std::hint;
use std::sync::Mutex;
use std::time::Instant;

use gleaner::raw::{Address, Value};
use gleaner::{Handle, Heap, Mutator, OutOfMemory};

use super::mutators::{Mutators, lock};
use super::objects::{
    Allocated, Code, Numbers, Record, Slots, address, frame, object, shared, value,
};
use super::random::{Random, chained, hash_of, scattered};
use super::{Facts, Prepared, Scale, Workload, failed};

const DISTRICTS: usize = 10;
/// Items of an order.
const LINES: std::ops::RangeInclusive<u32> = 5..=15;
/// The latest orders that a stock level looks at.
const LATEST: u64 = 20;
/// What a payment is remembered in: the last ones of a warehouse.
const HISTORY: u64 = 1000;
/// How many of a hundred lines are delivered from another warehouse, and how many of a hundred payments are by the
/// customer of another.
const AWAY: u32 = 10;
/// A stock goes from the first to the last of these, and around.
const STOCK: (u32, u32) = (10, 100);
/// Bytes of what is printed.
const SCREEN: usize = 1024;

/// How much there is.
#[derive(Clone, Copy)]
struct Sizes {
    items: usize,
    /// Of a district.
    customers: usize,
    /// Orders that a district keeps.
    orders: u64,
    transactions: u32,
}

/// The types.
struct Company<F> {
    sizes: Sizes,
    seed: u64,
    /// Its name; its price and its place in the list.
    item: Record<F, 1, 8>,
    /// The item; numbers: quantity, sum of what was ordered, its place among those of all warehouses.
    stock: Record<F, 1, 12>,
    /// The districts, the stock, the history; the sum of payments, and their count.
    warehouse: Record<F, 3, 16>,
    /// The customers, the last orders in a ring; the next order, the next to be delivered, the sum of payments.
    district: Record<F, 2, 24>,
    /// The name, which no other has, and the last order; the balance, payments, deliveries.
    customer: Record<F, 2, 24>,
    /// The customer, the lines; its number, its sum, the carrier.
    order: Record<F, 2, 24>,
    /// The stock; numbers: quantity, amount.
    line: Record<F, 1, 8>,
    /// The customer; the amount.
    payment: Record<F, 1, 8>,
    slots: Slots<F>,
    bytes: Numbers<F, u8>,
}

/// All warehouses, and the lock of each.
struct Trade {
    warehouses: Handle,
    locks: Vec<Mutex<()>>,
}

/// What one mutator did.
#[derive(Default)]
struct Tally {
    ordered: u64,
    paid: u64,
    delivered: u64,
    /// Made of what the transactions found.
    found: u64,
}

/// A mutator at its warehouse.
struct Clerk<'a, F> {
    company: &'a Company<F>,
    trade: &'a Trade,
    own: usize,
    random: Random,
    tally: Tally,
}

/// 20,000 items, 10,000 customers and orders of each warehouse, 500,000 transactions; or a hundredth, and 500.
pub fn prepare<F: Code>(heap: &Heap, scale: &Scale) -> Prepared {
    Ok(Box::new(Company::<F> {
        sizes: Sizes {
            items: scale.of(20_000, 200),
            customers: scale.of(1000, 10),
            orders: scale.of(1000, 20),
            transactions: scale.transactions.unwrap_or(scale.of(500_000, 500)),
        },
        seed: scale.seed,
        item: Record::register(heap).map_err(failed)?,
        stock: Record::register(heap).map_err(failed)?,
        warehouse: Record::register(heap).map_err(failed)?,
        district: Record::register(heap).map_err(failed)?,
        customer: Record::register(heap).map_err(failed)?,
        order: Record::register(heap).map_err(failed)?,
        line: Record::register(heap).map_err(failed)?,
        payment: Record::register(heap).map_err(failed)?,
        slots: Slots::register(heap).map_err(failed)?,
        bytes: Numbers::register(heap).map_err(failed)?,
    }))
}

impl<F: Code> Workload for Company<F> {
    /// A number made of all warehouses, and of what the transactions found.
    fn run(
        &self,
        mutator: &mut Mutator,
        mutators: &Mutators,
        facts: &mut Facts,
    ) -> Result<u64, OutOfMemory> {
        let trade = self.build(mutator, mutators.threads as usize)?;
        let mut all = Tally::default();
        for own in 0..mutators.threads as usize {
            all.add(self.first_orders(mutator, &trade, own)?);
        }
        let started = Instant::now();
        let tallies = mutators.run(mutator, |mutator, thread| {
            let mut clerk = self.clerk(&trade, thread as usize, 11_000);
            for _ in 0..self.sizes.transactions {
                clerk.transaction(mutator)?;
            }
            Ok(clerk.tally)
        })?;
        let seconds = started.elapsed().as_secs_f64();
        for tally in tallies {
            all.add(tally);
        }
        let transactions = u64::from(mutators.threads) * u64::from(self.sizes.transactions);
        facts.insert("transactions".into(), transactions.into());
        facts.insert(
            "transactions_per_s".into(),
            (transactions as f64 / seconds).into(),
        );
        Ok(self.audit(mutator, &trade, &all))
    }
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.ordered += other.ordered;
        self.paid += other.paid;
        self.delivered += other.delivered;
        self.found = self.found.wrapping_add(other.found);
    }
}

/// Building the data.
impl<F: Code> Company<F> {
    fn build(&self, mutator: &mut Mutator, warehouses: usize) -> Result<Trade, OutOfMemory> {
        let items = self.slots.fresh(mutator, self.sizes.items)?;
        let items = shared(mutator, items);
        for index in 0..self.sizes.items {
            let name = self.name(mutator, "item", index)?;
            frame(mutator, [name], |mutator, [name]| {
                let item = self.item.fresh(mutator)?;
                self.item.set(mutator, item, 0, object(name));
                let price = 1 + scattered(index as u64) % 10_000;
                self.item.set_number(item, 0, price as u32);
                self.item.set_number(item, 1, index as u32);
                self.slots
                    .set(mutator, address(items.get_raw()), index, item)
            })?;
        }
        let all = self.slots.fresh(mutator, warehouses)?;
        let all = shared(mutator, all);
        for index in 0..warehouses {
            let warehouse = self.new_warehouse(mutator, &items, index)?;
            self.slots
                .set(mutator, address(all.get_raw()), index, warehouse)?;
        }
        Ok(Trade {
            warehouses: all,
            locks: (0..warehouses).map(|_| Mutex::new(())).collect(),
        })
    }

    fn name(&self, mutator: &mut Mutator, what: &str, index: usize) -> Allocated {
        self.bytes
            .copied(mutator, format!("{what} number {index}").as_bytes())
    }

    fn new_warehouse(&self, mutator: &mut Mutator, items: &Handle, number: usize) -> Allocated {
        let warehouse = self.warehouse.fresh(mutator)?;
        frame(
            mutator,
            [warehouse, Address::NULL],
            |mutator, [warehouse, list]| {
                list.set(value(self.slots.fresh(mutator, self.sizes.items)?));
                self.warehouse
                    .set(mutator, object(warehouse), 1, object(list));
                for index in 0..self.sizes.items {
                    let stock = self.stock.fresh(mutator)?;
                    let item = self.slots.get(mutator, address(items.get_raw()), index);
                    self.stock.set(mutator, stock, 0, item);
                    let place = (number * self.sizes.items + index) as u32;
                    self.stock.set_number(stock, 0, at_first(place));
                    self.stock.set_number(stock, 2, place);
                    self.slots.set(mutator, object(list), index, stock)?;
                }
                list.set(value(self.slots.fresh(mutator, DISTRICTS)?));
                self.warehouse
                    .set(mutator, object(warehouse), 0, object(list));
                for index in 0..DISTRICTS {
                    let district = self.new_district(mutator, number * DISTRICTS + index)?;
                    self.slots.set(mutator, object(list), index, district)?;
                }
                let history = self.slots.fresh(mutator, HISTORY as usize)?;
                self.warehouse.set(mutator, object(warehouse), 2, history);
                Ok(object(warehouse))
            },
        )
    }

    fn new_district(&self, mutator: &mut Mutator, number: usize) -> Allocated {
        let district = self.district.fresh(mutator)?;
        frame(
            mutator,
            [district, Address::NULL],
            |mutator, [district, list]| {
                let orders = self.slots.fresh(mutator, self.sizes.orders as usize)?;
                self.district.set(mutator, object(district), 1, orders);
                list.set(value(self.slots.fresh(mutator, self.sizes.customers)?));
                self.district
                    .set(mutator, object(district), 0, object(list));
                for index in 0..self.sizes.customers {
                    let place = number * self.sizes.customers + index;
                    let name = self.name(mutator, "customer", place)?;
                    frame(mutator, [name], |mutator, [name]| {
                        let customer = self.customer.fresh(mutator)?;
                        self.customer.set(mutator, customer, 0, object(name));
                        self.slots.set(mutator, object(list), index, customer)
                    })?;
                }
                Ok(object(district))
            },
        )
    }

    /// Half of the orders that the districts keep.
    fn first_orders(
        &self,
        mutator: &mut Mutator,
        trade: &Trade,
        own: usize,
    ) -> Result<Tally, OutOfMemory> {
        let mut clerk = self.clerk(trade, own, 10_000);
        for _ in 0..self.sizes.orders / 2 {
            for district in 0..DISTRICTS {
                clerk.new_order(mutator, district)?;
            }
        }
        Ok(clerk.tally)
    }

    fn clerk<'a>(&'a self, trade: &'a Trade, own: usize, seed: u64) -> Clerk<'a, F> {
        Clerk {
            company: self,
            trade,
            own,
            random: Random::new(seed + own as u64 + (self.seed << 32)),
            tally: Tally::default(),
        }
    }
}

/// The quantity of the stock at a place before anything was ordered.
fn at_first(place: u32) -> u32 {
    STOCK.0 + (scattered(u64::from(place)) % 91) as u32
}

/// The books, when all threads are done.
impl<F: Code> Company<F> {
    /// Checks that everything fits together; a number made of all that lives.
    fn audit(&self, mutator: &Mutator, trade: &Trade, tally: &Tally) -> u64 {
        let mut sum = tally.found;
        let (mut ordered, mut paid, mut balance) = (0, 0, 0u64);
        for index in 0..trade.locks.len() {
            let warehouse = trade.warehouse(self, mutator, index);
            let stocks = self.warehouse.get(mutator, warehouse, 1);
            for index in 0..self.sizes.items {
                let stock = self.slots.get(mutator, stocks, index);
                let [quantity, taken, place] = [0, 1, 2].map(|of| self.stock.number(stock, of));
                let span = STOCK.1 - STOCK.0 + 1;
                let left = STOCK.0 + (at_first(place) - STOCK.0 + span - taken % span) % span;
                assert_eq!(
                    quantity, left,
                    "a stock is what it was without what was taken"
                );
                ordered += u64::from(taken);
                let item = self.stock.get(mutator, stock, 0);
                for part in [place, taken, quantity, self.item.number(item, 1)] {
                    sum = chained(sum, u64::from(part));
                }
                sum = chained(sum, self.name_of(mutator, &self.item, item));
            }
            let districts = self.warehouse.get(mutator, warehouse, 0);
            let mut received = 0;
            for index in 0..DISTRICTS {
                let district = self.slots.get(mutator, districts, index);
                received += self.district.long(district, 2);
                sum = chained(sum, self.audit_district(mutator, district, &mut balance));
            }
            assert_eq!(
                received,
                self.warehouse.long(warehouse, 0),
                "payments are in both books"
            );
            paid += received;
            sum = chained(sum, self.audit_history(mutator, warehouse));
        }
        assert_eq!(
            ordered, tally.ordered,
            "all that was ordered was taken from a stock"
        );
        assert_eq!(paid, tally.paid, "no payment is lost");
        let owed = tally.delivered.wrapping_sub(tally.paid);
        assert_eq!(
            balance, owed,
            "balances are what was delivered without what was paid"
        );
        sum
    }

    fn audit_district(&self, mutator: &Mutator, district: Address, balance: &mut u64) -> u64 {
        let [next, delivery, received] = [0, 1, 2].map(|of| self.district.long(district, of));
        let mut sum = received;
        let orders = self.district.get(mutator, district, 1);
        for number in next.saturating_sub(self.sizes.orders)..next {
            let place = (number % self.sizes.orders) as usize;
            let order = self.slots.get(mutator, orders, place);
            assert_eq!(
                self.order.long(order, 0),
                number,
                "an order is in its place"
            );
            let delivered = self.order.long(order, 2) != 0;
            assert_eq!(delivered, number < delivery, "the oldest are delivered");
            sum = chained(sum, self.audit_order(mutator, order));
        }
        let customers = self.district.get(mutator, district, 0);
        for index in 0..self.sizes.customers {
            let customer = self.slots.get(mutator, customers, index);
            *balance = balance.wrapping_add(self.customer.long(customer, 0));
            for of in 0..3 {
                sum = chained(sum, self.customer.long(customer, of));
            }
            sum = chained(sum, self.name_of(mutator, &self.customer, customer));
            // It may be one that the district does not keep any more.
            let last = self.customer.get(mutator, customer, 1);
            if last != Address::NULL {
                sum = chained(sum, self.audit_order(mutator, last));
            }
        }
        chained(chained(sum, next), delivery)
    }

    /// A number made of an order, its customer and its lines.
    fn audit_order(&self, mutator: &Mutator, order: Address) -> u64 {
        let customer = self.order.get(mutator, order, 0);
        let mut sum = self.name_of(mutator, &self.customer, customer);
        for part in [self.order.long(order, 0), self.order.long(order, 2)] {
            sum = chained(sum, part);
        }
        let lines = self.order.get(mutator, order, 1);
        for index in 0..self.slots.length(mutator, lines) {
            let line = self.slots.get(mutator, lines, index);
            let stock = self.line.get(mutator, line, 0);
            for part in [self.stock.number(stock, 2), self.line.number(line, 0)] {
                sum = chained(sum, u64::from(part));
            }
        }
        chained(sum, self.total(mutator, order))
    }

    /// A number made of the payments that a warehouse remembers, from the oldest on.
    fn audit_history(&self, mutator: &Mutator, warehouse: Address) -> u64 {
        let history = self.warehouse.get(mutator, warehouse, 2);
        let count = self.warehouse.long(warehouse, 1);
        (count.saturating_sub(HISTORY)..count).fold(count, |sum, number| {
            let payment = self
                .slots
                .get(mutator, history, (number % HISTORY) as usize);
            assert_ne!(payment, Address::NULL, "a payment is remembered");
            let customer = self.payment.get(mutator, payment, 0);
            let sum = chained(sum, self.payment.long(payment, 0));
            chained(sum, self.name_of(mutator, &self.customer, customer))
        })
    }

    /// A number made of the name of an item or a customer.
    fn name_of<const REFERENCES: usize, const DATA: usize>(
        &self,
        mutator: &Mutator,
        record: &Record<F, REFERENCES, DATA>,
        named: Address,
    ) -> u64 {
        let name = record.get(mutator, named, 0);
        self.bytes.look(mutator, name, hash_of)
    }

    /// The sum of an order, which its lines come to.
    fn total(&self, mutator: &Mutator, order: Address) -> u64 {
        let lines = self.order.get(mutator, order, 1);
        let mut total = 0;
        for index in 0..self.slots.length(mutator, lines) {
            let line = self.slots.get(mutator, lines, index);
            let item = self.stock.get(mutator, self.line.get(mutator, line, 0), 0);
            let [quantity, amount] = [0, 1].map(|of| self.line.number(line, of));
            assert_eq!(
                amount,
                quantity * self.item.number(item, 0),
                "a line is its price"
            );
            total += u64::from(amount);
        }
        assert_eq!(
            total,
            self.order.long(order, 1),
            "an order is the sum of its lines"
        );
        total
    }
}

impl Trade {
    fn warehouse<F: Code>(&self, company: &Company<F>, mutator: &Mutator, index: usize) -> Address {
        let all = address(self.warehouses.get_raw());
        company.slots.get(mutator, all, index)
    }
}

/// The transactions.
impl<F: Code> Clerk<'_, F> {
    fn transaction(&mut self, mutator: &mut Mutator) -> Result<(), OutOfMemory> {
        let district = self.random.below(DISTRICTS as u32) as usize;
        match self.random.below(23) {
            0..10 => self.new_order(mutator, district)?,
            10..20 => self.payment(mutator, district)?,
            20 => self.status(mutator, district),
            21 => (0..DISTRICTS).for_each(|district| self.deliver(mutator, district)),
            _ => self.stock_level(mutator, district)?,
        }
        self.print(mutator)
    }

    /// The warehouse that delivers or whose customer pays.
    fn somewhere(&mut self) -> usize {
        let (away, which) = (self.random.below(100) < AWAY, self.random.draw() as usize);
        match self.trade.locks.len() - 1 {
            others if away && others > 0 => (self.own + 1 + which % others) % (others + 1),
            _ => self.own,
        }
    }

    fn district(&self, mutator: &Mutator, warehouse: usize, index: usize) -> Address {
        let company = self.company;
        let warehouse = self.trade.warehouse(company, mutator, warehouse);
        let districts = company.warehouse.get(mutator, warehouse, 0);
        company.slots.get(mutator, districts, index)
    }

    fn new_order(&mut self, mutator: &mut Mutator, district: usize) -> Result<(), OutOfMemory> {
        let company = self.company;
        let customer = self.random.below(company.sizes.customers as u32) as usize;
        let count = LINES.start() + self.random.below(LINES.end() - LINES.start() + 1);
        let lines = company.slots.fresh(mutator, count as usize)?;
        let (order, total) = frame(mutator, [lines], |mutator, [lines]| {
            let mut total = 0;
            for index in 0..count as usize {
                total += u64::from(self.new_line(mutator, lines, index)?);
            }
            let order = company.order.fresh(mutator)?;
            company.order.set(mutator, order, 1, object(lines));
            Ok((order, total))
        })?;
        frame(mutator, [order], |mutator, [order]| {
            let place = self.district(mutator, self.own, district);
            let [next, delivery] = [0, 1].map(|of| company.district.long(place, of));
            if next - delivery == company.sizes.orders {
                self.deliver(mutator, district);
            }
            let (order, place) = (object(order), self.district(mutator, self.own, district));
            let customers = company.district.get(mutator, place, 0);
            let customer = company.slots.get(mutator, customers, customer);
            company.order.set(mutator, order, 0, customer);
            company.order.set_long(order, 0, next);
            company.order.set_long(order, 1, total);
            company.customer.set(mutator, customer, 1, order);
            let orders = company.district.get(mutator, place, 1);
            let slot = (next % company.sizes.orders) as usize;
            company.district.set_long(place, 0, next + 1);
            company.slots.set(mutator, orders, slot, order)
        })
    }

    /// A line of an order; its amount.
    fn new_line(
        &mut self,
        mutator: &mut Mutator,
        lines: &Cell<Value>,
        index: usize,
    ) -> Result<u32, OutOfMemory> {
        let company = self.company;
        let item = self.random.below(company.sizes.items as u32) as usize;
        let quantity = 1 + self.random.below(10);
        let supplier = self.somewhere();
        let line = company.line.fresh(mutator)?;
        company.slots.set(mutator, object(lines), index, line)?;
        let guard = lock(mutator, &self.trade.locks[supplier]);
        let warehouse = self.trade.warehouse(company, mutator, supplier);
        let stocks = company.warehouse.get(mutator, warehouse, 1);
        let stock = company.slots.get(mutator, stocks, item);
        let mut left = company.stock.number(stock, 0);
        if left < quantity + STOCK.0 {
            left += STOCK.1 - STOCK.0 + 1;
        }
        company.stock.set_number(stock, 0, left - quantity);
        let taken = company.stock.number(stock, 1);
        company.stock.set_number(stock, 1, taken + quantity);
        drop(guard);
        self.tally.ordered += u64::from(quantity);
        let price = company.item.number(company.stock.get(mutator, stock, 0), 0);
        let line = company.slots.get(mutator, object(lines), index);
        company.line.set(mutator, line, 0, stock);
        company.line.set_number(line, 0, quantity);
        company.line.set_number(line, 1, quantity * price);
        Ok(quantity * price)
    }

    fn payment(&mut self, mutator: &mut Mutator, district: usize) -> Result<(), OutOfMemory> {
        let company = self.company;
        let home = self.somewhere();
        let customer = self.random.below(company.sizes.customers as u32) as usize;
        let amount = u64::from(1 + self.random.below(5000));
        let payment = company.payment.fresh(mutator)?;
        company.payment.set_long(payment, 0, amount);
        frame(mutator, [payment], |mutator, [payment]| {
            let guard = lock(mutator, &self.trade.locks[home]);
            let theirs = self.district(mutator, home, district);
            let customers = company.district.get(mutator, theirs, 0);
            let customer = company.slots.get(mutator, customers, customer);
            company
                .customer
                .add_long(customer, 0, amount.wrapping_neg());
            company.customer.add_long(customer, 1, 1);
            drop(guard);
            company.payment.set(mutator, object(payment), 0, customer);
            let warehouse = self.trade.warehouse(company, mutator, self.own);
            let history = company.warehouse.get(mutator, warehouse, 2);
            let place = company.warehouse.long(warehouse, 1) % HISTORY;
            company.warehouse.add_long(warehouse, 0, amount);
            company.warehouse.add_long(warehouse, 1, 1);
            let ours = self.district(mutator, self.own, district);
            company.district.add_long(ours, 2, amount);
            company
                .slots
                .set(mutator, history, place as usize, object(payment))
        })?;
        self.tally.paid += amount;
        Ok(())
    }

    /// Adds up the last order of a customer.
    fn status(&mut self, mutator: &mut Mutator, district: usize) {
        let company = self.company;
        let customer = self.random.below(company.sizes.customers as u32) as usize;
        let guard = lock(mutator, &self.trade.locks[self.own]);
        let place = self.district(mutator, self.own, district);
        let customers = company.district.get(mutator, place, 0);
        let customer = company.slots.get(mutator, customers, customer);
        // What it is depends on the other threads.
        hint::black_box(company.customer.long(customer, 0));
        drop(guard);
        let order = company.customer.get(mutator, customer, 1);
        if order != Address::NULL {
            let total = company.total(mutator, order);
            self.tally.found = self.tally.found.wrapping_add(total);
        }
    }

    /// Delivers the oldest order of a district, if there is one.
    fn deliver(&mut self, mutator: &mut Mutator, district: usize) {
        let company = self.company;
        let carrier = u64::from(1 + self.random.below(10));
        let guard = lock(mutator, &self.trade.locks[self.own]);
        let place = self.district(mutator, self.own, district);
        let [next, delivery] = [0, 1].map(|of| company.district.long(place, of));
        if delivery == next {
            return;
        }
        let orders = company.district.get(mutator, place, 1);
        let slot = (delivery % company.sizes.orders) as usize;
        let order = company.slots.get(mutator, orders, slot);
        company.order.set_long(order, 2, carrier);
        let total = company.order.long(order, 1);
        let customer = company.order.get(mutator, order, 0);
        company.customer.add_long(customer, 0, total);
        company.customer.add_long(customer, 2, 1);
        company.district.set_long(place, 1, delivery + 1);
        drop(guard);
        self.tally.delivered += total;
    }

    /// Looks for items of the latest orders of which few are left.
    fn stock_level(&mut self, mutator: &mut Mutator, district: usize) -> Result<(), OutOfMemory> {
        let company = self.company;
        let level = STOCK.0 + self.random.below(10);
        let seen = company.bytes.fresh(mutator, company.sizes.items)?;
        let roots = [seen, Address::NULL, Address::NULL, Address::NULL];
        let (distinct, low) = frame(mutator, roots, |mutator, [seen, stocks, orders, lines]| {
            let _guard = lock(mutator, &self.trade.locks[self.own]);
            let warehouse = self.trade.warehouse(company, mutator, self.own);
            stocks.set(value(company.warehouse.get(mutator, warehouse, 1)));
            let place = self.district(mutator, self.own, district);
            let next = company.district.long(place, 0);
            orders.set(value(company.district.get(mutator, place, 1)));
            let (mut distinct, mut low) = (0, 0);
            let latest = LATEST.min(company.sizes.orders);
            for number in next.saturating_sub(latest)..next {
                let slot = (number % company.sizes.orders) as usize;
                let order = company.slots.get(mutator, object(orders), slot);
                lines.set(value(company.order.get(mutator, order, 1)));
                for index in 0..company.slots.length(mutator, object(lines)) {
                    let line = company.slots.get(mutator, object(lines), index);
                    let stock = company.line.get(mutator, line, 0);
                    let item = company.item.number(company.stock.get(mutator, stock, 0), 1);
                    let mut first = false;
                    company
                        .bytes
                        .update(mutator, object(seen), item as usize, |before| {
                            first = before == 0;
                            1
                        })?;
                    distinct += u64::from(first);
                    let ours = company.slots.get(mutator, object(stocks), item as usize);
                    low += u64::from(first && company.stock.number(ours, 0) < level);
                }
            }
            Ok((distinct, low))
        })?;
        assert!(low <= distinct, "few of the items that there are");
        self.tally.found = self.tally.found.wrapping_add(distinct);
        Ok(())
    }

    /// What the terminal shows after a transaction.
    fn print(&mut self, mutator: &mut Mutator) -> Result<(), OutOfMemory> {
        let found = self.tally.found;
        let screen = self.company.bytes.filled(mutator, SCREEN, |_, screen| {
            for (line, text) in screen.chunks_exact_mut(64).enumerate() {
                text[..8].copy_from_slice(&found.wrapping_add(line as u64).to_le_bytes());
            }
        })?;
        hint::black_box(screen);
        Ok(())
    }
}
