//! Turns of a helper without the lock, on a thread of its own, while the program refills its lists as the libgc door does; and how
//! cycles end in which such a turn has left something.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::thread::{scope, sleep};
use std::time::Duration;

use gleaner_base::faults::{FaultPoint, arm};
use gleaner_base::sync::AtomicU32;
use gleaner_mem::Address;
use gleaner_plans::mark_sweep::collect::Outcome;
use gleaner_plans::mark_sweep::cycle::Next;
use gleaner_spaces::mark_sweep::beside::{Marking, Turn};
use gleaner_spaces::mark_sweep::kinds::{Kind, NORMAL, descriptor};
use gleaner_spaces::mark_sweep::mark::Until;
use gleaner_spaces::mark_sweep::scan::MarkMode;
use gleaner_spaces::mark_sweep::size_classes::class_of;

use crate::harness::rng::Rng;
use crate::{Begun, CALLS, OBJECTS, counted_kind, store};

const OPTIONS: &str = "stress=1000000,markers=1,cycle-helper=on";

pub fn turns_go_on_while_lists_are_refilled() {
    // More threads than processors.
    scope(|scope| {
        for (number, more) in ["poison=on", "poison=off", "sweep=eager"]
            .into_iter()
            .enumerate()
        {
            scope.spawn(move || lists_are_refilled_meanwhile(number, more));
        }
    });
    no_turn_goes_on_where_something_is_due();
    a_turn_without_limit_ends_for_who_waits();
    a_turn_takes_no_link_for_a_type();
    a_step_takes_what_waits();
    a_cycle_is_given_up_in_which_procedures_wait();
    a_cycle_is_ended_in_which_procedures_wait();
    a_child_steps_behind_a_turn();
    a_turn_drops_what_finds_no_room();
}

/// The objects of a table that is reached through the first one, each with its number behind its complement.
struct Table {
    objects: Vec<usize>,
    /// How many collections there had been when each was allocated.
    born: Vec<u64>,
}

/// How many objects a program replaces at random.
const SLOTS: usize = 500;

impl Table {
    fn check(&self, begun: &Begun) {
        for (slot, object) in self.objects.iter().enumerate() {
            let object = Address::new(!object);
            // A shortage may have ended the cycle before the last objects came.
            let is_new = self.born[slot] == begun.bench.heap.collections;
            assert!(
                is_new || begun.bench.is_marked(object),
                "slot {slot} was lost"
            );
            // SAFETY: an object of the test.
            let words = unsafe { [object.add(8).load(), object.add(16).load()] };
            assert_eq!(words, [slot + 1, !(slot + 1)], "slot {slot}");
        }
    }
}

fn lists_are_refilled_meanwhile(number: usize, more: &str) {
    let mut rng = Rng::new(number as u64 + 1);
    let (mut refilled_beside, mut turns) = (0, 0);
    // A helper that lost the processor stays away for longer and longer, so heaps begin anew.
    for _ in 0..4 {
        let Some(mut begun) = Begun::before(&format!("{OPTIONS},{more}")) else {
            return;
        };
        let capacity = begun.bench.heap.space.capacity + (12 << 20);
        begun.bench.heap.grow_to(capacity, "the test");
        let holder = begun.bench.allocate(NORMAL, 8 * SLOTS).unwrap();
        begun.bench.keep(holder);
        let mut table = Table {
            objects: vec![0; SLOTS],
            born: vec![0; SLOTS],
        };
        for slot in 0..SLOTS {
            replace(&mut begun, &mut table, holder, slot, 40);
        }
        let (turn_sender, turn_receiver) = channel::<Turn>();
        scope(|scope| {
            scope.spawn(move || {
                while let Ok(turn) = turn_receiver.recv() {
                    // SAFETY: it was begun for this thread, which marks in it once.
                    unsafe { turn.mark() };
                }
            });
            for _ in 0..12 {
                refilled_beside += a_cycle(&mut begun, &mut table, holder, &turn_sender, &mut rng);
                table.check(&begun);
                assert!(begun.all_live());
            }
            drop(turn_sender);
        });
        turns += begun.bench.heap.totals.helped_turns;
    }
    assert!(turns >= 12, "{turns} turns");
    assert!(
        refilled_beside >= 100,
        "{refilled_beside} lists were refilled meanwhile"
    );
}

/// One cycle, in which the program replaces objects while the helper marks. How many it got while a turn had begun.
fn a_cycle(
    begun: &mut Begun,
    table: &mut Table,
    holder: Address,
    helper: &Sender<Turn>,
    rng: &mut Rng,
) -> usize {
    begun.bench.heap.options.stress = 1_000_000;
    if begun.bench.heap.cycle.is_under_way() {
        begun.bench.collect();
    }
    assert_eq!(begun.bench.begin(), Outcome::Begun);
    // As in a program: under stress no turn goes on.
    begun.bench.heap.options.stress = 0;
    let (waiting, mut beside) = (AtomicU32::new(0), 0);
    while begun.bench.heap.cycle.is_under_way() && !begun.bench.heap.cycle.can_end() {
        match begun.bench.heap.mark_beside_program(&waiting) {
            Next::Mark(turn) => {
                helper.send(turn).unwrap();
                for _ in 0..20 {
                    let goes_on = begun.bench.heap.lets_turn_go_on();
                    beside += usize::from(goes_on);
                    if !goes_on {
                        begun.bench.heap.end_turn_beside();
                    }
                    let bytes = 24 + 16 * rng.below(60);
                    replace(begun, table, holder, rng.below(SLOTS), bytes);
                }
                // Who wants more than cells.
                begun.bench.heap.end_turn_beside();
            }
            Next::GoOn | Next::Rest => {}
            Next::ComeBack(_) => begun.bench.heap.step(),
        }
    }
    begun.bench.heap.options.stress = 1_000_000;
    // A machine that others use puts its last stop off.
    while begun.bench.heap.cycle.is_under_way() {
        begun.mark();
        if begun.bench.collect_new("the end") == Outcome::Done {
            begun.bench.verify_collected();
        }
    }
    beside
}

/// Allocates a new object for a slot. What a turn lets be is done to the heap, and nothing else.
fn replace(begun: &mut Begun, table: &mut Table, holder: Address, slot: usize, bytes: usize) {
    let class = class_of(bytes);
    let found = match begun.bench.heap.beside.has_begun() {
        true => begun.bench.allocate_small(NORMAL, class),
        false => Ok(begun.bench.allocate(NORMAL, bytes).unwrap()),
    };
    let object = found.unwrap_or_else(|_| {
        begun.bench.heap.end_turn_beside();
        begun.bench.allocate(NORMAL, bytes).unwrap()
    });
    // SAFETY: an object of the test.
    unsafe {
        object.add(8).store(slot + 1);
        object.add(16).store(!(slot + 1));
    }
    store(holder, slot, object.word());
    table.objects[slot] = !object.word();
    table.born[slot] = begun.bench.heap.collections;
}

/// A heap in which the helper has left some objects to a step that calls their procedures, which has not come.
fn begun_with_waiting() -> Option<(Begun, Vec<usize>)> {
    let mut begun = Begun::before(OPTIONS)?;
    let capacity = begun.bench.heap.space.capacity + (4 << 20);
    begun.bench.heap.grow_to(capacity, "the test");
    let kind = counted_kind(&mut begun.bench);
    let owned = (0..OBJECTS).step_by(20).map(|number| {
        let object = begun.bench.allocate(kind, 64).unwrap();
        store(begun.object(number), 2, object.word());
        !object.word()
    });
    let owned = owned.collect();
    assert_eq!(begun.bench.begin(), Outcome::Begun);
    let waiting = AtomicU32::new(0);
    while !begun.bench.heap.helper_waits() {
        match begun.bench.heap.mark_beside_program(&waiting) {
            // SAFETY: this thread has begun the turn, and marks in it once.
            Next::Mark(turn) => unsafe { turn.mark() },
            Next::ComeBack(nanoseconds) => sleep(Duration::from_nanos(nanoseconds)),
            Next::GoOn | Next::Rest => {}
        }
    }
    assert!(begun.bench.heap.engine.has_left_procs());
    Some((begun, owned))
}

fn all_marked(begun: &Begun, owned: &[usize]) -> bool {
    let mut owned = owned.iter();
    begun.all_live() && owned.all(|object| begun.bench.is_marked(Address::new(!object)))
}

/// Of the memory that is there until a collection would begin, all is used up at some time; nothing of it before is due.
fn no_turn_goes_on_where_something_is_due() {
    let Some(mut begun) = Begun::new(OPTIONS) else {
        return;
    };
    let waiting = AtomicU32::new(0);
    let heap = &mut begun.bench.heap;
    assert!(!heap.lets_turn_go_on(), "none has begun");
    heap.options.stress = 0;
    let Next::Mark(turn) = heap.mark_beside_program(&waiting) else {
        panic!("there is much to mark");
    };
    assert!(heap.lets_turn_go_on());
    heap.options.stress = 1;
    assert!(!heap.lets_turn_go_on(), "each allocation makes a step");
    heap.options.stress = 0;
    let handed = heap.space.account.handed;
    heap.space.account.handed = handed + (1 << 30);
    assert!(!heap.lets_turn_go_on(), "memory is used up");
    heap.space.account.handed = handed;
    // So that something is left.
    arm(FaultPoint::MarkTimeOver, 20);
    // SAFETY: this thread has begun the turn, and marks in it once.
    unsafe { turn.mark() };
    assert!(!heap.lets_turn_go_on(), "what it did is to be counted");
    let (scanned, mode) = (heap.totals.helped_bytes, heap.context.mode);
    assert_eq!(mode, MarkMode::Beside);
    heap.end_turn_beside();
    assert_eq!(heap.context.mode, MarkMode::Whole);
    assert!(heap.totals.helped_bytes > scanned && !heap.lets_turn_go_on());
    assert!(!heap.cycle.can_end());
    // What it has scanned, no step has to, also where the helper comes no more.
    let steps = heap.totals.steps;
    heap.begin_in_child();
    heap.step_if_due();
    assert_eq!(heap.totals.steps, steps);
    heap.options.stress = 1_000_000;
    begun.end();
    assert!(begun.all_live());
}

/// Where the thread that waits comes late, everything is marked, and it is tried again.
fn a_turn_without_limit_ends_for_who_waits() {
    let mut is_all = true;
    for _ in 0..20 {
        let Some(mut begun) = Begun::new(OPTIONS) else {
            return;
        };
        let heap = &mut begun.bench.heap;
        heap.context.mode = MarkMode::Beside;
        let marking = Marking {
            engine: NonNull::from(&heap.engine),
            space: NonNull::from(&heap.space),
            context: NonNull::from(&*heap.context),
            crew: NonNull::from(heap.crew),
        };
        let (beside, turn) = (&*heap.beside, heap.beside.begin_turn(marking, u64::MAX));
        let done = scope(|scope| {
            let waits = scope.spawn(|| beside.end_turn());
            sleep(Duration::from_millis(20));
            // SAFETY: the turn was begun here, and is marked in once.
            unsafe { turn.mark() };
            waits.join().unwrap()
        });
        heap.context.mode = MarkMode::Whole;
        begun.mark();
        begun.end();
        assert!(begun.all_live());
        is_all = done.is_all;
        if !is_all {
            break;
        }
    }
    assert!(!is_all, "nobody was heard");
}

/// Types that are objects of the same kind as what they are types of: a free cell might look so, and its link is not followed while
/// cells are handed out, in either mode of a turn.
fn a_turn_takes_no_link_for_a_type() {
    const SECOND: usize = 1 << 62 | descriptor::BITMAP;
    let Some(mut begun) = Begun::before(OPTIONS) else {
        return;
    };
    let asked = counted_kind(&mut begun.bench);
    // The descriptor is the third word of the type.
    let kind = Kind {
        descriptor: 0usize.wrapping_sub(descriptor::INDIRECT_BIAS + 16) | descriptor::PER_OBJECT,
        ..*begun.bench.heap.space.kinds.get(asked).unwrap()
    };
    let kind = begun.bench.heap.space.kinds.add(kind).unwrap();
    let outside = [0, 0, SECOND];
    let its_type = begun.bench.allocate(kind, 64).unwrap();
    store(its_type, 0, outside.as_ptr().addr());
    store(its_type, 2, SECOND);
    store(begun.object(0), 3, its_type.word());
    let led_to: Vec<usize> = (0..100)
        .map(|number| {
            let object = begun.bench.allocate(kind, 64).unwrap();
            store(begun.object(number), 2, object.word());
            let next = begun.bench.allocate(NORMAL, 64).unwrap();
            store(object, 0, its_type.word());
            store(object, 1, next.word());
            !next.word()
        })
        .collect();
    assert_eq!(begun.bench.begin(), Outcome::Begun);
    let waiting = AtomicU32::new(0);
    while !begun.bench.heap.cycle.can_end() {
        match begun.bench.heap.mark_beside_program(&waiting) {
            // SAFETY: this thread has begun the turn, and marks in it once.
            Next::Mark(turn) => unsafe { turn.mark() },
            Next::ComeBack(nanoseconds) => sleep(Duration::from_nanos(nanoseconds)),
            Next::GoOn | Next::Rest => {}
        }
    }
    let is_marked = |object: &usize| begun.bench.is_marked(Address::new(!object));
    assert!(begun.all_live() && !led_to.iter().any(is_marked));
    begun.end();
    assert!(all_marked(&begun, &led_to));
}

/// One with the lock leaves it as well. After a step the helper may go on.
fn a_step_takes_what_waits() {
    let Some((mut begun, owned)) = begun_with_waiting() else {
        return;
    };
    let before = CALLS.load(Ordering::Relaxed);
    begun.bench.heap.mark_turn(Until::NOTHING_IS_GREY);
    assert!(!begun.bench.heap.cycle.can_end() && begun.bench.heap.helper_waits());
    assert_eq!(CALLS.load(Ordering::Relaxed), before);
    begun.bench.heap.step();
    assert!(!begun.bench.heap.helper_waits());
    assert!(CALLS.load(Ordering::Relaxed) > before);
    if !begun.bench.heap.cycle.can_end() {
        begun.mark();
    }
    begun.end();
    assert!(all_marked(&begun, &owned));
}

/// What waits is forgotten with the cycle.
fn a_cycle_is_given_up_in_which_procedures_wait() {
    let Some((mut begun, owned)) = begun_with_waiting() else {
        return;
    };
    begun.bench.heap.give_up_cycle();
    assert!(!begun.bench.heap.engine.has_left_procs() && !begun.bench.heap.helper_waits());
    let before = CALLS.load(Ordering::Relaxed);
    begun.bench.collect();
    begun.bench.verify_collected();
    assert!(all_marked(&begun, &owned));
    // Each is called once: nothing was left over.
    assert_eq!(CALLS.load(Ordering::Relaxed) - before, owned.len());
}

/// The last stop calls what waits.
fn a_cycle_is_ended_in_which_procedures_wait() {
    let Some((mut begun, owned)) = begun_with_waiting() else {
        return;
    };
    let before = CALLS.load(Ordering::Relaxed);
    begun.end();
    assert!(all_marked(&begun, &owned));
    assert!(CALLS.load(Ordering::Relaxed) - before >= owned.len());
    assert!(!begun.bench.heap.engine.has_left_procs() && !begun.bench.heap.helper_waits());
}

/// What the helper of its parent has left, its own steps do, with a helper or without.
fn a_child_steps_behind_a_turn() {
    for (waits, helped) in [(false, false), (false, true), (true, false), (true, true)] {
        let made = match waits {
            true => begun_with_waiting(),
            false => Begun::new(OPTIONS).map(|begun| (begun, Vec::new())),
        };
        let Some((mut begun, owned)) = made else {
            return;
        };
        let waiting = AtomicU32::new(0);
        if let Next::Mark(turn) = begun.bench.heap.mark_beside_program(&waiting) {
            // SAFETY: this thread has begun the turn, and marks in it once.
            unsafe { turn.mark() };
        }
        // Who forks has it end.
        begun.bench.heap.end_turn_beside();
        begun.bench.heap.begin_in_child();
        assert!(!begun.bench.heap.beside.has_begun() && !begun.bench.heap.lets_turn_go_on());
        let mut rounds = 0;
        while !begun.bench.heap.cycle.can_end() {
            if helped && let Next::Mark(turn) = begun.bench.heap.mark_beside_program(&waiting) {
                // SAFETY: this thread has begun the turn, and marks in it once.
                unsafe { turn.mark() };
            } else {
                begun.bench.heap.step_if_due();
            }
            rounds += 1;
            assert!(rounds < 20_000, "the cycle does not come to an end");
        }
        begun.end();
        assert!(all_marked(&begun, &owned));
    }
}

/// One object leads to all others, of which few find room on the stack.
fn a_turn_drops_what_finds_no_room() {
    let Some(mut begun) = Begun::before(OPTIONS) else {
        return;
    };
    let wide = begun.bench.allocate(NORMAL, 8 * OBJECTS).unwrap();
    for number in 0..OBJECTS {
        store(begun.object(number), 0, 0);
        store(wide, number, begun.object(number).word());
    }
    begun.bench.replace_kept(wide);
    begun.bench.collect();
    begun.bench.shrink_mark_stacks();
    assert_eq!(begun.bench.begin(), Outcome::Begun);
    let (dropped, waiting) = (begun.bench.heap.totals.dropped_entries, AtomicU32::new(0));
    while !begun.bench.heap.cycle.can_end() {
        match begun.bench.heap.mark_beside_program(&waiting) {
            // SAFETY: this thread has begun the turn, and marks in it once.
            Next::Mark(turn) => unsafe { turn.mark() },
            Next::ComeBack(nanoseconds) => sleep(Duration::from_nanos(nanoseconds)),
            Next::GoOn | Next::Rest => {}
        }
    }
    assert!(begun.bench.heap.totals.dropped_entries > dropped);
    assert!(begun.bench.is_marked(wide) && begun.all_live());
    begun.end();
    assert!(begun.all_live());
}
