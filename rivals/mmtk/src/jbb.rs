//! Warehouses that take orders, in the manner of pjbb2005, step by step as in `gleaner-bench native`: one thread builds
//! the data, then each mutator does its transactions on its own warehouse, and some of them on another's.

use std::cell::Cell;
use std::hint;
use std::marker::PhantomData;
use std::sync::Mutex;
use std::time::Instant;

use crate::context::{Context, Mode};
use crate::handles::Handle;
use crate::mutators::{self, lock};
use crate::object::{References, length};
use crate::records::{Record, copied};
use crate::shared::Scale;
use crate::shared::random::{Random, chained, hash_of, scattered};

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
const QUANTITIES: (u32, u32) = (10, 100);
/// Bytes of what is printed.
const SCREEN: usize = 1024;

/// Its name; its price and its place in the list.
const ITEM: Record = Record::new(1, 8);
/// The item; numbers: quantity, sum of what was ordered, its place among those of all warehouses.
const STOCK: Record = Record::new(1, 12);
/// The districts, the stock, the history; the sum of payments, and their count.
const WAREHOUSE: Record = Record::new(3, 16);
/// The customers, the last orders in a ring; the next order, the next to be delivered, the sum of payments.
const DISTRICT: Record = Record::new(2, 24);
/// The name, which no other has, and the last order; the balance, payments, deliveries.
const CUSTOMER: Record = Record::new(2, 24);
/// The customer, the lines; its number, its sum, the carrier.
const ORDER: Record = Record::new(2, 24);
/// The stock; numbers: quantity, amount.
const LINE: Record = Record::new(1, 8);
/// The customer; the amount.
const PAYMENT: Record = Record::new(1, 8);

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

/// Builds the data and checks the books.
struct Company<R, M> {
    sizes: Sizes,
    kinds: PhantomData<fn(R, M)>,
}

/// A mutator at its warehouse.
struct Clerk<'a, R, M> {
    sizes: Sizes,
    trade: &'a Trade,
    own: usize,
    random: Random,
    tally: Tally,
    kinds: PhantomData<fn(R, M)>,
}

/// Runs once; a number made of all warehouses and of what the transactions found, how many transactions there were, and
/// how many in a second.
pub fn jbb<R: References, M: Mode>(
    context: &mut Context<R, M>,
    threads: u32,
    scale: &Scale,
) -> (u64, u64, f64) {
    let sizes = Sizes {
        items: scale.of(20_000, 200),
        customers: scale.of(1000, 10),
        orders: scale.of(1000, 20),
        transactions: scale.of(500_000, 500),
    };
    let kinds = PhantomData;
    let company = Company::<R, M> { sizes, kinds };
    let trade = company.build(context, threads as usize);
    let mut all = Tally::default();
    for own in 0..threads as usize {
        all.add(company.first_orders(context, &trade, own));
    }
    let started = Instant::now();
    let tallies = mutators::run(context, threads, |context, thread| {
        let mut clerk = Clerk::new(sizes, &trade, thread as usize, 11_000);
        for _ in 0..sizes.transactions {
            clerk.transaction(context);
        }
        clerk.tally
    });
    let seconds = started.elapsed().as_secs_f64();
    for tally in tallies {
        all.add(tally);
    }
    let transactions = u64::from(threads) * u64::from(sizes.transactions);
    let sum = company.audit(context, &trade, &all);
    (sum, transactions, transactions as f64 / seconds)
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.ordered += other.ordered;
        self.paid += other.paid;
        self.delivered += other.delivered;
        self.found = self.found.wrapping_add(other.found);
    }
}

fn name<R: References, M: Mode>(context: &mut Context<R, M>, what: &str, index: usize) -> usize {
    copied(context, format!("{what} number {index}").as_bytes())
}

/// The quantity of the stock at a place before anything was ordered.
fn at_first(place: u32) -> u32 {
    QUANTITIES.0 + (scattered(u64::from(place)) % 91) as u32
}

/// Building the data.
impl<R: References, M: Mode> Company<R, M> {
    fn build(&self, context: &mut Context<R, M>, warehouses: usize) -> Trade {
        let items = Handle::new(context.references(self.sizes.items));
        for index in 0..self.sizes.items {
            let name = name(context, "item", index);
            context.with_roots([name], |context, [name]| {
                let item = ITEM.fresh(context);
                context.set(item, 0, name.get());
                let price = 1 + scattered(index as u64) % 10_000;
                ITEM.set_number(context, item, 0, price as u32);
                ITEM.set_number(context, item, 1, index as u32);
                context.set_element(items.get(), index, item);
            });
        }
        let all = Handle::new(context.references(warehouses));
        for index in 0..warehouses {
            let warehouse = self.new_warehouse(context, &items, index);
            context.set_element(all.get(), index, warehouse);
        }
        Trade {
            warehouses: all,
            locks: (0..warehouses).map(|_| Mutex::new(())).collect(),
        }
    }

    fn new_warehouse(&self, context: &mut Context<R, M>, items: &Handle, number: usize) -> usize {
        let warehouse = WAREHOUSE.fresh(context);
        context.with_roots([warehouse, 0], |context, [warehouse, list]| {
            list.set(context.references(self.sizes.items));
            context.set(warehouse.get(), 1, list.get());
            for index in 0..self.sizes.items {
                let stock = STOCK.fresh(context);
                let item = context.element(items.get(), index);
                context.set(stock, 0, item);
                let place = (number * self.sizes.items + index) as u32;
                STOCK.set_number(context, stock, 0, at_first(place));
                STOCK.set_number(context, stock, 2, place);
                context.set_element(list.get(), index, stock);
            }
            list.set(context.references(DISTRICTS));
            context.set(warehouse.get(), 0, list.get());
            for index in 0..DISTRICTS {
                let district = self.new_district(context, number * DISTRICTS + index);
                context.set_element(list.get(), index, district);
            }
            let history = context.references(HISTORY as usize);
            context.set(warehouse.get(), 2, history);
            warehouse.get()
        })
    }

    fn new_district(&self, context: &mut Context<R, M>, number: usize) -> usize {
        let district = DISTRICT.fresh(context);
        context.with_roots([district, 0], |context, [district, list]| {
            let orders = context.references(self.sizes.orders as usize);
            context.set(district.get(), 1, orders);
            list.set(context.references(self.sizes.customers));
            context.set(district.get(), 0, list.get());
            for index in 0..self.sizes.customers {
                let place = number * self.sizes.customers + index;
                let name = name(context, "customer", place);
                context.with_roots([name], |context, [name]| {
                    let customer = CUSTOMER.fresh(context);
                    context.set(customer, 0, name.get());
                    context.set_element(list.get(), index, customer);
                });
            }
            district.get()
        })
    }

    /// Half of the orders that the districts keep.
    fn first_orders(&self, context: &mut Context<R, M>, trade: &Trade, own: usize) -> Tally {
        let mut clerk = Clerk::new(self.sizes, trade, own, 10_000);
        for _ in 0..self.sizes.orders / 2 {
            for district in 0..DISTRICTS {
                clerk.new_order(context, district);
            }
        }
        clerk.tally
    }
}

/// The books, when all threads are done.
impl<R: References, M: Mode> Company<R, M> {
    /// Checks that everything fits together; a number made of all that lives.
    fn audit(&self, context: &Context<R, M>, trade: &Trade, tally: &Tally) -> u64 {
        let mut sum = tally.found;
        let (mut ordered, mut paid, mut balance) = (0, 0, 0u64);
        for index in 0..trade.locks.len() {
            let warehouse = context.element(trade.warehouses.get(), index);
            let stocks = context.get(warehouse, 1);
            for index in 0..self.sizes.items {
                let stock = context.element(stocks, index);
                let [quantity, taken, place] = [0, 1, 2].map(|of| STOCK.number(context, stock, of));
                let span = QUANTITIES.1 - QUANTITIES.0 + 1;
                let left =
                    QUANTITIES.0 + (at_first(place) - QUANTITIES.0 + span - taken % span) % span;
                assert_eq!(
                    quantity, left,
                    "a stock is what it was without what was taken"
                );
                ordered += u64::from(taken);
                let item = context.get(stock, 0);
                for part in [place, taken, quantity, ITEM.number(context, item, 1)] {
                    sum = chained(sum, u64::from(part));
                }
                sum = chained(sum, name_of(context, item));
            }
            let districts = context.get(warehouse, 0);
            let mut received = 0;
            for index in 0..DISTRICTS {
                let district = context.element(districts, index);
                received += DISTRICT.long(context, district, 2);
                sum = chained(sum, self.audit_district(context, district, &mut balance));
            }
            assert_eq!(
                received,
                WAREHOUSE.long(context, warehouse, 0),
                "payments are in both books"
            );
            paid += received;
            sum = chained(sum, audit_history(context, warehouse));
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

    fn audit_district(&self, context: &Context<R, M>, district: usize, balance: &mut u64) -> u64 {
        let [next, delivery, received] = [0, 1, 2].map(|of| DISTRICT.long(context, district, of));
        let mut sum = received;
        let orders = context.get(district, 1);
        for number in next.saturating_sub(self.sizes.orders)..next {
            let order = context.element(orders, (number % self.sizes.orders) as usize);
            assert_eq!(
                ORDER.long(context, order, 0),
                number,
                "an order is in its place"
            );
            let delivered = ORDER.long(context, order, 2) != 0;
            assert_eq!(delivered, number < delivery, "the oldest are delivered");
            sum = chained(sum, audit_order(context, order));
        }
        let customers = context.get(district, 0);
        for index in 0..self.sizes.customers {
            let customer = context.element(customers, index);
            *balance = balance.wrapping_add(CUSTOMER.long(context, customer, 0));
            for of in 0..3 {
                sum = chained(sum, CUSTOMER.long(context, customer, of));
            }
            sum = chained(sum, name_of(context, customer));
            // It may be one that the district does not keep any more.
            let last = context.get(customer, 1);
            if last != 0 {
                sum = chained(sum, audit_order(context, last));
            }
        }
        chained(chained(sum, next), delivery)
    }
}

/// A number made of an order, its customer and its lines.
fn audit_order<R: References, M: Mode>(context: &Context<R, M>, order: usize) -> u64 {
    let mut sum = name_of(context, context.get(order, 0));
    for of in [0, 2] {
        sum = chained(sum, ORDER.long(context, order, of));
    }
    let lines = context.get(order, 1);
    for index in 0..length(lines) {
        let line = context.element(lines, index);
        let stock = context.get(line, 0);
        for part in [
            STOCK.number(context, stock, 2),
            LINE.number(context, line, 0),
        ] {
            sum = chained(sum, u64::from(part));
        }
    }
    chained(sum, total(context, order))
}

/// A number made of the payments that a warehouse remembers, from the oldest on.
fn audit_history<R: References, M: Mode>(context: &Context<R, M>, warehouse: usize) -> u64 {
    let history = context.get(warehouse, 2);
    let count = WAREHOUSE.long(context, warehouse, 1);
    (count.saturating_sub(HISTORY)..count).fold(count, |sum, number| {
        let payment = context.element(history, (number % HISTORY) as usize);
        assert_ne!(payment, 0, "a payment is remembered");
        let customer = context.get(payment, 0);
        let sum = chained(sum, PAYMENT.long(context, payment, 0));
        chained(sum, name_of(context, customer))
    })
}

/// A number made of the name of an item or a customer.
fn name_of<R: References, M: Mode>(context: &Context<R, M>, named: usize) -> u64 {
    context.look(context.get(named, 0), hash_of)
}

/// The sum of an order, which its lines come to.
fn total<R: References, M: Mode>(context: &Context<R, M>, order: usize) -> u64 {
    let lines = context.get(order, 1);
    let mut total = 0;
    for index in 0..length(lines) {
        let line = context.element(lines, index);
        let item = context.get(context.get(line, 0), 0);
        let [quantity, amount] = [0, 1].map(|of| LINE.number(context, line, of));
        assert_eq!(
            amount,
            quantity * ITEM.number(context, item, 0),
            "a line is its price"
        );
        total += u64::from(amount);
    }
    assert_eq!(
        total,
        ORDER.long(context, order, 1),
        "an order is the sum of its lines"
    );
    total
}

/// The transactions.
impl<'a, R: References, M: Mode> Clerk<'a, R, M> {
    fn new(sizes: Sizes, trade: &'a Trade, own: usize, seed: u64) -> Clerk<'a, R, M> {
        Clerk {
            sizes,
            trade,
            own,
            random: Random::new(seed + own as u64),
            tally: Tally::default(),
            kinds: PhantomData,
        }
    }

    fn transaction(&mut self, context: &mut Context<R, M>) {
        let district = self.random.below(DISTRICTS as u32) as usize;
        match self.random.below(23) {
            0..10 => self.new_order(context, district),
            10..20 => self.payment(context, district),
            20 => self.status(context, district),
            21 => (0..DISTRICTS).for_each(|district| self.deliver(context, district)),
            _ => self.stock_level(context, district),
        }
        self.print(context);
    }

    /// The warehouse that delivers or whose customer pays.
    fn somewhere(&mut self) -> usize {
        let (away, which) = (self.random.below(100) < AWAY, self.random.draw() as usize);
        match self.trade.locks.len() - 1 {
            others if away && others > 0 => (self.own + 1 + which % others) % (others + 1),
            _ => self.own,
        }
    }

    fn warehouse(&self, context: &Context<R, M>, index: usize) -> usize {
        context.element(self.trade.warehouses.get(), index)
    }

    fn district(&self, context: &Context<R, M>, warehouse: usize, index: usize) -> usize {
        let districts = context.get(self.warehouse(context, warehouse), 0);
        context.element(districts, index)
    }

    fn customer(&self, context: &Context<R, M>, district: usize, index: usize) -> usize {
        context.element(context.get(district, 0), index)
    }

    fn new_order(&mut self, context: &mut Context<R, M>, district: usize) {
        let customer = self.random.below(self.sizes.customers as u32) as usize;
        let count = LINES.start() + self.random.below(LINES.end() - LINES.start() + 1);
        let lines = context.references(count as usize);
        let (order, total) = context.with_roots([lines], |context, [lines]| {
            let mut total = 0;
            for index in 0..count as usize {
                total += u64::from(self.new_line(context, lines, index));
            }
            let order = ORDER.fresh(context);
            context.set(order, 1, lines.get());
            (order, total)
        });
        context.with_roots([order], |context, [order]| {
            let place = self.district(context, self.own, district);
            let [next, delivery] = [0, 1].map(|of| DISTRICT.long(context, place, of));
            if next - delivery == self.sizes.orders {
                self.deliver(context, district);
            }
            let (order, place) = (order.get(), self.district(context, self.own, district));
            let customer = self.customer(context, place, customer);
            context.set(order, 0, customer);
            ORDER.set_long(context, order, 0, next);
            ORDER.set_long(context, order, 1, total);
            context.set(customer, 1, order);
            let slot = (next % self.sizes.orders) as usize;
            context.set_element(context.get(place, 1), slot, order);
            DISTRICT.set_long(context, place, 0, next + 1);
        });
    }

    /// A line of an order; its amount.
    fn new_line(&mut self, context: &mut Context<R, M>, lines: &Cell<usize>, index: usize) -> u32 {
        let item = self.random.below(self.sizes.items as u32) as usize;
        let quantity = 1 + self.random.below(10);
        let supplier = self.somewhere();
        let line = LINE.fresh(context);
        context.set_element(lines.get(), index, line);
        let guard = lock(context, &self.trade.locks[supplier]);
        let stocks = context.get(self.warehouse(context, supplier), 1);
        let stock = context.element(stocks, item);
        let mut left = STOCK.number(context, stock, 0);
        if left < quantity + QUANTITIES.0 {
            left += QUANTITIES.1 - QUANTITIES.0 + 1;
        }
        STOCK.set_number(context, stock, 0, left - quantity);
        let taken = STOCK.number(context, stock, 1);
        STOCK.set_number(context, stock, 1, taken + quantity);
        drop(guard);
        self.tally.ordered += u64::from(quantity);
        let price = ITEM.number(context, context.get(stock, 0), 0);
        let line = context.element(lines.get(), index);
        context.set(line, 0, stock);
        LINE.set_number(context, line, 0, quantity);
        LINE.set_number(context, line, 1, quantity * price);
        quantity * price
    }

    fn payment(&mut self, context: &mut Context<R, M>, district: usize) {
        let home = self.somewhere();
        let customer = self.random.below(self.sizes.customers as u32) as usize;
        let amount = u64::from(1 + self.random.below(5000));
        let payment = PAYMENT.fresh(context);
        PAYMENT.set_long(context, payment, 0, amount);
        context.with_roots([payment], |context, [payment]| {
            let guard = lock(context, &self.trade.locks[home]);
            let theirs = self.district(context, home, district);
            let customer = self.customer(context, theirs, customer);
            CUSTOMER.add_long(context, customer, 0, amount.wrapping_neg());
            CUSTOMER.add_long(context, customer, 1, 1);
            drop(guard);
            context.set(payment.get(), 0, customer);
            let warehouse = self.warehouse(context, self.own);
            let place = WAREHOUSE.long(context, warehouse, 1) % HISTORY;
            context.set_element(context.get(warehouse, 2), place as usize, payment.get());
            WAREHOUSE.add_long(context, warehouse, 0, amount);
            WAREHOUSE.add_long(context, warehouse, 1, 1);
            let ours = self.district(context, self.own, district);
            DISTRICT.add_long(context, ours, 2, amount);
        });
        self.tally.paid += amount;
    }

    /// Adds up the last order of a customer.
    fn status(&mut self, context: &mut Context<R, M>, district: usize) {
        let customer = self.random.below(self.sizes.customers as u32) as usize;
        let guard = lock(context, &self.trade.locks[self.own]);
        let place = self.district(context, self.own, district);
        let customer = self.customer(context, place, customer);
        // What it is depends on the other threads.
        hint::black_box(CUSTOMER.long(context, customer, 0));
        drop(guard);
        let order = context.get(customer, 1);
        if order != 0 {
            self.tally.found = self.tally.found.wrapping_add(total(context, order));
        }
    }

    /// Delivers the oldest order of a district, if there is one.
    fn deliver(&mut self, context: &mut Context<R, M>, district: usize) {
        let carrier = u64::from(1 + self.random.below(10));
        let guard = lock(context, &self.trade.locks[self.own]);
        let place = self.district(context, self.own, district);
        let [next, delivery] = [0, 1].map(|of| DISTRICT.long(context, place, of));
        if delivery == next {
            return;
        }
        let slot = (delivery % self.sizes.orders) as usize;
        let order = context.element(context.get(place, 1), slot);
        ORDER.set_long(context, order, 2, carrier);
        let total = ORDER.long(context, order, 1);
        let customer = context.get(order, 0);
        CUSTOMER.add_long(context, customer, 0, total);
        CUSTOMER.add_long(context, customer, 2, 1);
        DISTRICT.set_long(context, place, 1, delivery + 1);
        drop(guard);
        self.tally.delivered += total;
    }

    /// Looks for items of the latest orders of which few are left.
    fn stock_level(&mut self, context: &mut Context<R, M>, district: usize) {
        let level = QUANTITIES.0 + self.random.below(10);
        let seen = context.bytes(self.sizes.items);
        let (distinct, low) = context.with_roots([seen], |context, [seen]| {
            let _guard = lock(context, &self.trade.locks[self.own]);
            let stocks = context.get(self.warehouse(context, self.own), 1);
            let place = self.district(context, self.own, district);
            let next = DISTRICT.long(context, place, 0);
            let orders = context.get(place, 1);
            let (mut distinct, mut low) = (0, 0);
            let latest = LATEST.min(self.sizes.orders);
            context.change(seen.get(), |seen: &mut [u8]| {
                for number in next.saturating_sub(latest)..next {
                    let slot = (number % self.sizes.orders) as usize;
                    let lines = context.get(context.element(orders, slot), 1);
                    for index in 0..length(lines) {
                        let stock = context.get(context.element(lines, index), 0);
                        let item = ITEM.number(context, context.get(stock, 0), 1) as usize;
                        let first = std::mem::replace(&mut seen[item], 1) == 0;
                        let ours = context.element(stocks, item);
                        distinct += u64::from(first);
                        low += u64::from(first && STOCK.number(context, ours, 0) < level);
                    }
                }
            });
            (distinct, low)
        });
        assert!(low <= distinct, "few of the items that there are");
        self.tally.found = self.tally.found.wrapping_add(distinct);
    }

    /// What the terminal shows after a transaction.
    fn print(&mut self, context: &mut Context<R, M>) {
        let screen = context.bytes(SCREEN);
        let found = self.tally.found;
        context.change(screen, |screen: &mut [u8]| {
            for (line, text) in screen.chunks_exact_mut(64).enumerate() {
                text[..8].copy_from_slice(&found.wrapping_add(line as u64).to_le_bytes());
            }
        });
        hint::black_box(screen);
    }
}
