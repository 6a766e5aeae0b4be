//! The table of finalizers against a model of it, with segments decided about and moved in any order, as workers do.

use std::collections::VecDeque;
use std::sync::Arc;
use std::vec::Vec;

use gleaner_mem::slot::{SlotFormat, Wide};

use super::*;

/// An object is old when it has lived through so many collections.
const OLD: u32 = 2;

/// A finalizer, as the model knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Made {
    number: usize,
    object: usize,
    order: usize,
    revives: bool,
}

struct World {
    table: Arc<FinalizerTable>,
    random: u64,
    /// Of each object whether it lives, and its age.
    objects: Vec<(bool, u32)>,
    /// Of each finalizer that can be taken back, by its number.
    tickets: Vec<Option<u64>>,
    waiting: Vec<Made>,
    ready: [VecDeque<Made>; ORDERS],
}

fn address(object: usize) -> Address {
    Address::new(16 * (object + 1))
}

fn object(address: Address) -> usize {
    address.word() / 16 - 1
}

impl World {
    fn new(most: usize) -> World {
        World {
            table: Arc::new(FinalizerTable::new(most).unwrap()),
            random: 1,
            objects: Vec::new(),
            tickets: Vec::new(),
            waiting: Vec::new(),
            ready: Default::default(),
        }
    }

    fn below(&mut self, end: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 16) as usize % end
    }

    fn fresh(&mut self) -> usize {
        self.objects.push((true, 0));
        self.objects.len() - 1
    }

    fn add(&mut self, object: usize, order: usize, revives: bool) {
        let number = self.tickets.len();
        let value = Value::immediate(number as i64);
        let condition = Condition::new(order, revives);
        let object_value = Value::reference(address(object));
        let ticket = (self.below(3) > 0).then(|| {
            let ticket = self.table.add_with_ticket(object_value, value, condition);
            ticket.unwrap()
        });
        assert!(ticket.is_some() || self.table.add(object_value, value, condition));
        self.tickets.push(ticket);
        self.waiting.push(Made {
            number,
            object,
            order,
            revives,
        });
    }

    /// Takes back the finalizer of this number, as the model says whether it can be.
    fn take_back(&mut self, number: usize) {
        let Some(ticket) = self.tickets[number] else {
            return;
        };
        let before = self.left();
        self.waiting.retain(|made| made.number != number);
        for queue in &mut self.ready {
            queue.retain(|made| made.number != number);
        }
        let expected = self.left() < before;
        assert_eq!(self.table.take_back(ticket), expected);
    }

    fn left(&self) -> usize {
        let ready: usize = self.ready.iter().map(VecDeque::len).sum();
        self.waiting.len() + ready
    }

    /// Takes the next one, which is the one that the model has.
    fn take(&mut self) -> bool {
        let next = self.ready.iter_mut().find_map(VecDeque::pop_front);
        let held = next.map(|made| {
            let object = match made.revives {
                true => Value::reference(address(made.object)),
                false => Value::NULL,
            };
            (object, Value::immediate(made.number as i64))
        });
        assert_eq!(self.table.take_ready(), held);
        held.is_some()
    }

    /// These numbers in another order.
    fn shuffled(&mut self, count: usize) -> Vec<usize> {
        let mut numbers: Vec<usize> = (0..count).collect();
        for end in (2..=count).rev() {
            let other = self.below(end);
            numbers.swap(other, end - 1);
        }
        numbers
    }

    /// Collects; how many entries were looked at.
    fn collect(&mut self, is_full: bool) -> u64 {
        let table = Arc::clone(&self.table);
        let mut looks = 0;
        table.begin_sifting();
        let from = if is_full { 0 } else { table.young_from() };
        let segments = self.shuffled(table.listed() - from);
        let lives = |object: usize, objects: &[(bool, u32)]| {
            let (lives, age) = objects[object];
            lives || !is_full && age >= OLD
        };
        for segment in segments {
            looks += table.decide(
                (from + segment, is_full),
                |at| lives(object(at), &self.objects).then_some(at),
                |at| self.objects[object(at)].1 + 1 < OLD,
            );
        }
        let plan = table.plan(from, is_full);
        for number in self.shuffled(plan.moving) {
            let is_young = |at| self.objects[object(at)].1 + 1 < OLD;
            table.hand_over(number, |object| object, is_young);
        }
        table.end_sifting(from, &plan);
        let dead: Vec<Made> = (self.waiting.iter().copied())
            .filter(|made| !lives(made.object, &self.objects))
            .collect();
        assert_eq!(plan.ready, dead.len());
        self.waiting
            .retain(|made| lives(made.object, &self.objects));
        for made in dead {
            self.ready[made.order].push_back(made);
        }
        self.objects.iter_mut().for_each(|(_, age)| *age += 1);
        self.check();
        looks
    }

    /// What the table holds is what the model has, and what is not young is old.
    fn check(&self) {
        let (mut waiting, mut slots) = (Vec::new(), 0);
        for position in 0..self.table.listed() {
            let is_young = self.table.is_young(position);
            assert!(!is_young || position >= self.table.young_from());
            self.table.visit_all(position, |slot| {
                slots += 1;
                // SAFETY: a slot of the table.
                let held = unsafe { Wide::load(slot, Address::NULL) };
                let age = held.as_object().map(|at| self.objects[object(at)].1);
                assert!(is_young || age.is_none_or(|age| age >= OLD));
                if !self.table.is_ready(position) && slots % 2 == 0 {
                    waiting.extend(held.as_immediate());
                }
            });
        }
        let expected = self.waiting.iter().map(|made| made.number as i64);
        assert_eq!(waiting, expected.collect::<Vec<_>>());
        let ready: usize = self.ready.iter().map(VecDeque::len).sum();
        assert_eq!(self.table.ready_count(), ready);
    }

    /// How many segments there is memory for.
    fn segments(&self) -> usize {
        self.table.with_state(|state| state.segments)
    }
}

#[test]
fn finalizers_wait_become_ready_and_leave_as_a_model_says() {
    let mut world = World::new(1 << 20);
    let mut taken = 0;
    for round in 0..300 {
        // Now few, now many segments of new ones; and objects with several.
        let made = match round % 7 {
            0 => 3000,
            1 => 0,
            _ => world.below(400),
        };
        for _ in 0..made {
            let object = world.fresh();
            for _ in 0..1 + world.below(5) / 4 {
                let (order, revives) = (world.below(8) * world.below(2), world.below(3) > 0);
                world.add(object, order, revives);
            }
        }
        let count = world.objects.len();
        for _ in 0..count.min(world.below(1200)) {
            let object = world.below(count);
            // What was found dead comes to life again now and then.
            world.objects[object].0 = world.below(8) == 0;
        }
        for _ in 0..world.tickets.len().min(world.below(60)) {
            let number = world.below(world.tickets.len());
            world.take_back(number);
        }
        world.collect(round % 5 == 4);
        let most = match round % 3 {
            0 => usize::MAX,
            _ => world.below(500),
        };
        taken += (0..most).take_while(|_| world.take()).count();
    }
    assert!(taken > 20_000, "{taken}");
    for object in &mut world.objects {
        object.0 = false;
    }
    world.collect(true);
    while world.take() {}
    assert_eq!(world.left(), 0);
    world.collect(true);
    assert_eq!(world.table.listed(), 0, "all segments are free again");
}

#[test]
fn a_table_in_which_few_are_left_is_small_again() {
    let mut world = World::new(1 << 20);
    for number in 0..100_000 {
        let object = world.fresh();
        world.objects[object].0 = number % 100 == 0;
        world.add(object, 0, false);
    }
    world.collect(true);
    while world.take() {}
    assert_eq!(world.left(), 1000);
    world.collect(true);
    assert_eq!(world.table.listed(), 2);
    let segments = world.segments();
    // The memory serves once more.
    for _ in 0..20 {
        for _ in 0..50_000 {
            let object = world.fresh();
            world.objects[object].0 = false;
            world.add(object, 0, false);
        }
        world.collect(false);
        while world.take() {}
    }
    assert_eq!(world.segments(), segments);
}

#[test]
fn a_few_in_each_collection_share_a_segment() {
    let mut world = World::new(1 << 20);
    for round in 0..400 {
        let object = world.fresh();
        world.add(object, 0, true);
        for _ in 0..round % 4 {
            world.collect(false);
        }
    }
    assert_eq!(world.waiting.len(), 400);
    assert_eq!(world.table.listed(), 1);
}

#[test]
fn a_scavenge_looks_at_no_old_ones_and_at_few_beside_new_ones() {
    let mut world = World::new(1 << 20);
    for number in 0..100_000 {
        let object = world.fresh();
        world.objects[object].0 = number % 2 == 0;
        world.add(object, 0, true);
    }
    assert_eq!(world.collect(true), 100_000);
    assert_eq!(world.collect(true), 100_000);
    // Those that wait and those that are ready are old.
    assert_eq!(world.collect(false), 0);
    let object = world.fresh();
    world.add(object, 0, true);
    let looks = world.collect(false);
    assert!((1..=512).contains(&looks), "{looks}");
}

#[test]
fn backlogs_of_all_orders_take_no_more_segments_than_were_set_aside() {
    let mut world = World::new(1 << 20);
    for round in 0..2000 {
        // One that waits on keeps the segment, which mutators fill once more.
        let kept = world.fresh();
        world.add(kept, 0, true);
        for order in 0..ORDERS {
            for _ in 0..world.below(70) {
                let object = world.fresh();
                world.objects[object].0 = false;
                world.add(object, order, true);
            }
        }
        world.collect(round % 2 == 0);
        if round % 50 == 49 {
            while world.take() {}
        }
    }
}

/// One more finalizer, which can be taken back.
fn one_more(table: &FinalizerTable) -> Option<u64> {
    let object = Value::reference(address(0));
    table.add_with_ticket(object, Value::NULL, Condition::new(0, true))
}

#[test]
fn a_ticket_that_was_used_leads_nowhere() {
    let world = World::new(100);
    let tickets: Vec<u64> = (0..1000)
        .map(|_| {
            let ticket = one_more(&world.table).unwrap();
            assert!(world.table.take_back(ticket));
            ticket
        })
        .collect();
    let last = one_more(&world.table).unwrap();
    assert!(!tickets.iter().any(|&ticket| world.table.take_back(ticket)));
    assert!(!world.table.take_back(99), "an identity that was not used");
    assert!(world.table.take_back(last));
}

#[test]
fn it_says_when_it_can_hold_no_more() {
    let world = World::new(1000);
    let tickets: Vec<u64> = (0..1000).map_while(|_| one_more(&world.table)).collect();
    assert_eq!(tickets.len(), 1000);
    let (object, condition) = (Value::reference(address(0)), Condition::new(0, true));
    assert!(!world.table.add(object, Value::NULL, condition));
    assert_eq!(one_more(&world.table), None);
    assert!(world.table.take_back(tickets[500]));
    assert!(world.table.add(object, Value::NULL, condition));
    assert_eq!(one_more(&world.table), None);
}
