//! `jbb`: the same trade on vectors, one warehouse after the other.
//!
//! Nothing is ever overwritten here: a district has all its orders, a warehouse all its payments, and stock is what
//! it was at first without all that was taken. That another order of the threads comes to the same is what the tests
//! show.

use std::collections::BTreeSet;

use super::random::{Random, chained, hash_of, scattered};

const DISTRICTS: usize = 10;

/// How much there is: items, customers of a district, orders that a district keeps, transactions of a warehouse.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub items: usize,
    pub customers: usize,
    pub orders: usize,
    pub transactions: u32,
}

struct Order {
    customer: usize,
    carrier: u64,
    /// The place of the stock, and the quantity.
    lines: Vec<(usize, u64)>,
}

#[derive(Clone, Default)]
struct Customer {
    balance: u64,
    payments: u64,
    deliveries: u64,
    /// Its place among all orders of the district.
    last: Option<usize>,
}

#[derive(Default)]
struct District {
    orders: Vec<Order>,
    /// How many of them.
    delivered: usize,
    /// The sum of the payments.
    received: u64,
}

/// All warehouses: districts, customers and stocks are numbered through.
struct Company {
    sizes: Sizes,
    warehouses: usize,
    districts: Vec<District>,
    customers: Vec<Customer>,
    /// What was taken of each stock.
    taken: Vec<u64>,
    /// The customer and the amount of each payment, by the warehouse that received it.
    payments: Vec<Vec<(usize, u64)>>,
    /// What order status and stock level found.
    found: u64,
}

/// What `warehouses` warehouses come to.
pub fn jbb(sizes: Sizes, warehouses: usize, seed: u64) -> u64 {
    let mut company = Company {
        sizes,
        warehouses,
        districts: Vec::new(),
        customers: vec![Customer::default(); warehouses * DISTRICTS * sizes.customers],
        taken: vec![0; warehouses * sizes.items],
        payments: vec![Vec::new(); warehouses],
        found: 0,
    };
    company
        .districts
        .resize_with(warehouses * DISTRICTS, District::default);
    for own in 0..warehouses {
        let random = |first: u64| Random::new((seed << 32) + first + own as u64);
        let mut before = random(10_000);
        for number in 0..sizes.orders / 2 * DISTRICTS {
            company.order(&mut before, own, number % DISTRICTS);
        }
        let mut random = random(11_000);
        for _ in 0..sizes.transactions {
            company.transact(&mut random, own);
        }
    }
    company.sum()
}

fn one_of(random: &mut Random, count: usize) -> usize {
    random.below(count as u32) as usize
}

impl Company {
    fn transact(&mut self, random: &mut Random, own: usize) {
        let district = one_of(random, DISTRICTS);
        match random.below(23) {
            0..=9 => self.order(random, own, district),
            10..=19 => self.pay(random, own, district),
            20 => {
                let customer = self.customer(random, own, district);
                let orders = &self.districts[own * DISTRICTS + district].orders;
                if let Some(last) = self.customers[customer].last {
                    self.found += total(&orders[last], self.sizes.items);
                }
            }
            21 => (0..DISTRICTS).for_each(|district| self.deliver(random, own, district)),
            _ => {
                random.draw();
                let orders = &self.districts[own * DISTRICTS + district].orders;
                let latest = orders.iter().rev().take(self.sizes.orders.min(20));
                let lines = latest.flat_map(|order| &order.lines);
                let items: BTreeSet<_> = lines.map(|(stock, _)| stock % self.sizes.items).collect();
                self.found += items.len() as u64;
            }
        }
    }

    /// Any customer of a district.
    fn customer(&self, random: &mut Random, warehouse: usize, district: usize) -> usize {
        let first = (warehouse * DISTRICTS + district) * self.sizes.customers;
        first + one_of(random, self.sizes.customers)
    }

    /// The own warehouse, or in a tenth of all cases another one.
    fn somewhere(&self, random: &mut Random, own: usize) -> usize {
        let (percent, which) = (random.below(100), random.draw() as usize);
        let mut others = (1..self.warehouses).map(|step| (own + step) % self.warehouses);
        match percent {
            0..=9 if self.warehouses > 1 => others.nth(which % (self.warehouses - 1)).unwrap(),
            _ => own,
        }
    }

    fn order(&mut self, random: &mut Random, own: usize, district: usize) {
        let customer = self.customer(random, own, district);
        let mut lines = Vec::new();
        for _ in 0..5 + random.below(11) {
            let item = one_of(random, self.sizes.items);
            let quantity = u64::from(1 + random.below(10));
            let stock = self.somewhere(random, own) * self.sizes.items + item;
            self.taken[stock] += quantity;
            lines.push((stock, quantity));
        }
        let place = &self.districts[own * DISTRICTS + district];
        if place.orders.len() - place.delivered == self.sizes.orders {
            self.deliver(random, own, district);
        }
        let orders = &mut self.districts[own * DISTRICTS + district].orders;
        self.customers[customer].last = Some(orders.len());
        orders.push(Order {
            customer,
            carrier: 0,
            lines,
        });
    }

    fn pay(&mut self, random: &mut Random, own: usize, district: usize) {
        let home = self.somewhere(random, own);
        let customer = self.customer(random, home, district);
        let amount = u64::from(1 + random.below(5000));
        let who = &mut self.customers[customer];
        who.balance = who.balance.wrapping_sub(amount);
        who.payments += 1;
        self.districts[own * DISTRICTS + district].received += amount;
        self.payments[own].push((customer, amount));
    }

    /// Delivers the oldest order that is not delivered.
    fn deliver(&mut self, random: &mut Random, own: usize, district: usize) {
        let carrier = u64::from(1 + random.below(10));
        let place = &mut self.districts[own * DISTRICTS + district];
        let Some(order) = place.orders.get_mut(place.delivered) else {
            return;
        };
        place.delivered += 1;
        order.carrier = carrier;
        let total = total(order, self.sizes.items);
        let who = &mut self.customers[order.customer];
        who.balance = who.balance.wrapping_add(total);
        who.deliveries += 1;
    }
}

/// The number made of it all.
impl Company {
    fn sum(&self) -> u64 {
        let Sizes { items, .. } = self.sizes;
        let mut sum = self.found;
        for own in 0..self.warehouses {
            for stock in own * items..(own + 1) * items {
                sum = self.stock(stock).into_iter().fold(sum, chained);
            }
            for number in own * DISTRICTS..(own + 1) * DISTRICTS {
                sum = chained(sum, self.district(number));
            }
            sum = chained(sum, payments(&self.payments[own]));
        }
        sum
    }

    /// Its place, what was taken, what is left, its item.
    fn stock(&self, place: usize) -> [u64; 5] {
        let item = place % self.sizes.items;
        let taken = self.taken[place];
        let first = scattered(place as u64) % 91;
        let left = 10 + (first as i64 - taken as i64).rem_euclid(91) as u64;
        let name = name("item", item);
        [place as u64, taken, left, item as u64, name]
    }

    fn district(&self, number: usize) -> u64 {
        let Sizes {
            customers, orders, ..
        } = self.sizes;
        let district = &self.districts[number];
        let all = &district.orders;
        let kept = &all[all.len().saturating_sub(orders)..];
        let first = all.len() - kept.len();
        let mut sum = district.received;
        for (index, order) in kept.iter().enumerate() {
            sum = chained(sum, self.one(first + index, order));
        }
        for place in number * customers..(number + 1) * customers {
            let who = &self.customers[place];
            let parts = [who.balance, who.payments, who.deliveries];
            sum = parts.into_iter().fold(sum, chained);
            sum = chained(sum, name("customer", place));
            if let Some(last) = who.last {
                sum = chained(sum, self.one(last, &all[last]));
            }
        }
        chained(chained(sum, all.len() as u64), district.delivered as u64)
    }

    fn one(&self, number: usize, order: &Order) -> u64 {
        let first = [number as u64, order.carrier].into_iter();
        let lines = order.lines.iter();
        let lines = lines.flat_map(|&(stock, quantity)| [stock as u64, quantity]);
        let last = total(order, self.sizes.items);
        let parts = first.chain(lines).chain([last]);
        parts.fold(name("customer", order.customer), chained)
    }
}

fn name(what: &str, number: usize) -> u64 {
    hash_of(format!("{what} number {number}").as_bytes())
}

fn price(item: usize) -> u64 {
    1 + scattered(item as u64) % 10_000
}

/// What an order costs.
fn total(order: &Order, items: usize) -> u64 {
    let lines = order.lines.iter();
    lines
        .map(|(stock, quantity)| quantity * price(stock % items))
        .sum()
}

/// The last thousand payments, and how many there were.
fn payments(all: &[(usize, u64)]) -> u64 {
    let last = &all[all.len().saturating_sub(1000)..];
    last.iter().fold(all.len() as u64, |sum, &(who, amount)| {
        chained(chained(sum, amount), name("customer", who))
    })
}
