//! A stop that is to end a cycle finds its time over, at each of the moments at which it looks: nothing is lost, and what
//! was decided about dead objects holds.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use gleaner_base::events::Phase;
use gleaner_base::events::reasons::PROCESSOR_LOST;
use gleaner_base::faults::{FaultPoint, arm, left};
use gleaner_mem::Address;
use gleaner_plans::mark_sweep::collect::Outcome;
use gleaner_plans::mark_sweep::weak::{Finalizer, Order};
use gleaner_spaces::mark_sweep::kinds::NORMAL;

use crate::{Begun, OBJECTS, WAITS_MS, counted_kind, store};

/// Has the end of a cycle, in a stop with time enough, find its time over at the visits in turn, until there are no more or
/// `after` says so. `prepare` is done before the cycle begins, `between` in the middle; `after` gets what both made and how
/// the stop ended.
fn with_time_over_at_each_visit<A, B>(
    prepare: impl Fn(&mut Begun) -> A,
    between: impl Fn(&mut Begun, &A) -> B,
    mut after: impl FnMut(&mut Begun, A, B, Outcome) -> ControlFlow<()>,
) {
    for visit in 1.. {
        let Some(mut begun) = Begun::before("stress=1000000") else {
            return;
        };
        // Where there are mark procedures, nobody knows how long a stop takes: each has a limit.
        counted_kind(&mut begun.bench);
        begun.bench.heap.settings.time_limit_ns = Some(u64::MAX / 4);
        let made = prepare(&mut begun);
        // There is room enough that no shortage ends the cycle.
        let capacity = begun.bench.heap.space.capacity + (4 << 20);
        begun.bench.heap.grow_to(capacity, "the test");
        assert_eq!(begun.bench.begin(), Outcome::Begun);
        begun.mark();
        let changed = between(&mut begun, &made);
        arm(FaultPoint::MarkTimeOver, visit);
        let outcome = begun.bench.collect_new("time is over");
        let met = left(FaultPoint::MarkTimeOver) == 0;
        arm(FaultPoint::MarkTimeOver, 0);
        if after(&mut begun, made, changed, outcome).is_break() {
            return;
        }
        if !met {
            assert!(visit > 3);
            return;
        }
    }
}

pub fn no_block_is_lost() {
    with_time_over_at_each_visit(
        |_| (),
        |begun, ()| {
            // On as many pages as there are.
            let written: Vec<usize> = (0..OBJECTS).step_by(OBJECTS / 60).collect();
            let hang = |number: &usize| {
                let object = begun.bench.allocate(NORMAL, 48).unwrap();
                store(begun.object(*number), 1, object.word());
                !object.word()
            };
            written.iter().map(hang).collect::<Vec<usize>>()
        },
        |begun, (), hung, outcome| {
            if outcome == Outcome::Begun {
                begun.mark();
                begun.end();
            }
            assert!(begun.bench.was_stepped() && begun.all_live());
            let is_marked = |hidden: &usize| begun.bench.is_marked(Address::new(!hidden));
            assert!(hung.iter().all(is_marked));
            ControlFlow::Continue(())
        },
    );
}

/// Objects that die, some with finalizers, and links to them.
struct Dying {
    finalized: Vec<usize>,
    children: Vec<usize>,
    plain: usize,
    links: Box<[usize; 4]>,
}

impl Dying {
    const FINALIZED: usize = 300;

    fn new(begun: &mut Begun, long: Long) -> Dying {
        let mut dying = Dying {
            finalized: Vec::new(),
            children: Vec::new(),
            plain: !begun.bench.allocate(NORMAL, 48).unwrap().word(),
            links: Box::new([1; 4]),
        };
        let finalizer = Finalizer {
            proc: 1,
            data: Address::NULL,
            order: Order::NoOrder,
        };
        for _ in 0..Dying::FINALIZED {
            let object = begun.bench.allocate(NORMAL, 48).unwrap();
            let child = begun.bench.allocate(NORMAL, 48).unwrap();
            store(object, 0, child.word());
            let finalizers = &mut begun.bench.heap.weak.finalizers;
            finalizers.register(object, finalizer).unwrap();
            dying.finalized.push(!object.word());
            dying.children.push(!child.word());
        }
        let weak = &mut begun.bench.heap.weak;
        let link = |number: usize| Address::of(&raw const dying.links[number]);
        let object = |hidden: usize| Address::new(!hidden);
        let first = object(dying.finalized[0]);
        weak.short_links.register(link(0), first).unwrap();
        let plain = object(dying.plain);
        if long != Long::None {
            weak.long_links.register(link(1), first).unwrap();
            weak.toggle_refs.add(first, false).unwrap();
        }
        match long {
            Long::ToDead => drop(weak.long_links.register(link(2), plain).unwrap()),
            Long::ToggledDead => weak.toggle_refs.add(plain, false).unwrap(),
            Long::None | Long::ToLiving => {}
        }
        // A link in what only a finalizer leads to.
        let kept = begun.object(9);
        let weak = &mut begun.bench.heap.weak;
        if long == Long::ToLiving {
            weak.long_links.register(link(3), kept).unwrap();
            weak.toggle_refs.add(kept, false).unwrap();
        }
        weak.short_links.register(dying.inner_link(), kept).unwrap();
        dying
    }

    fn inner_link(&self) -> Address {
        Address::new(!self.children[Dying::FINALIZED - 1]).add(16)
    }

    /// A short link to what is dead to the program, and long ones to that, to what no finalizer leads to either, and to what
    /// lives.
    fn links(&self) -> [usize; 4] {
        // SAFETY: a reference; the collector writes through the address, which is read anew.
        core::array::from_fn(|number| unsafe { (&raw const self.links[number]).read_volatile() })
    }
}

/// What has long links and toggle references.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Long {
    None,
    /// An object whose finalizer becomes ready, and one that lives.
    ToLiving,
    /// An object whose finalizer becomes ready; and a long link leads to one that is dead.
    ToDead,
    /// The same with a toggle reference.
    ToggledDead,
}

/// What is ready is ready from that stop on; the rest waits for the last. Where a long link or a toggle reference leads to what is
/// dead, nothing is put off, or the program would come to it.
pub fn what_finalizers_need_is_marked_in_steps() {
    assert!(stops_with_finalizers(Long::None) > 0);
    assert!(stops_with_finalizers(Long::ToLiving) > 0);
    assert_eq!(stops_with_finalizers(Long::ToDead), 0);
    assert_eq!(stops_with_finalizers(Long::ToggledDead), 0);
}

/// How many stops in which finalizers became ready put marking off.
fn stops_with_finalizers(long: Long) -> usize {
    let mut put_off = 0;
    with_time_over_at_each_visit(
        |begun| Dying::new(begun, long),
        |_, _| (),
        |begun, dying, (), outcome| {
            let ready = begun.bench.heap.weak.finalizers.ready_count();
            let is_marked =
                |begun: &Begun, hidden: &usize| begun.bench.is_marked(Address::new(!hidden));
            if outcome == Outcome::Begun && ready > 0 {
                put_off += 1;
                assert_eq!(dying.links()[0], 0);
                assert!(
                    dying
                        .finalized
                        .iter()
                        .all(|hidden| is_marked(begun, hidden))
                );
                // One is run meanwhile: its object is cut off from the child, to which the program leads instead.
                let taken = begun.bench.heap.weak.finalizers.take_ready().unwrap();
                // SAFETY: an object of the test.
                let child = unsafe { taken.object.load() };
                store(taken.object, 0, 0);
                store(begun.object(7), 3, child);
            }
            if outcome == Outcome::Begun {
                begun.mark();
                begun.end();
            }
            let dead = usize::from(long != Long::ToDead);
            assert_eq!(dying.links(), [0, 1, dead, 1]);
            let weak = &begun.bench.heap.weak;
            let inner = weak.short_links.object_of(dying.inner_link());
            assert_eq!(inner, Some(begun.object(9)));
            let toggles = match long {
                Long::None => 0,
                Long::ToDead | Long::ToggledDead => 1,
                Long::ToLiving => 2,
            };
            assert_eq!(weak.toggle_refs.len(), toggles);
            assert!(dying.children.iter().all(|hidden| is_marked(begun, hidden)));
            assert!(!is_marked(begun, &dying.plain));
            let finalizers = &mut begun.bench.heap.weak.finalizers;
            let left = core::iter::from_fn(|| finalizers.take_ready()).count();
            let taken = usize::from(outcome == Outcome::Begun && ready > 0);
            assert_eq!(left, Dying::FINALIZED - taken);
            assert!(begun.bench.was_stepped() && begun.all_live());
            ControlFlow::Continue(())
        },
    );
    put_off
}

/// A list that only a finalizer leads to is grey when a second stop finds its time over. Steps mark it while less is allocated
/// than it has bytes: they expect what is left of the whole, not what is new. Mark procedures that sleep make many steps of
/// it on any machine.
pub fn steps_keep_pace_with_what_a_second_stop_has_left() {
    let mut was_left = false;
    with_time_over_at_each_visit(
        |begun| {
            begun.bench.collect();
            let kind = counted_kind(&mut begun.bench);
            for number in (0..OBJECTS).step_by(OBJECTS / 20) {
                let sleeper = begun.bench.allocate(kind, 64).unwrap();
                store(begun.object(number), 1, sleeper.word());
            }
            let finalizer = Finalizer {
                proc: 1,
                data: Address::NULL,
                order: Order::NoOrder,
            };
            let head = begun.object(OBJECTS - 1);
            let finalizers = &mut begun.bench.heap.weak.finalizers;
            finalizers.register(head, finalizer).unwrap();
            let other = begun.bench.allocate(NORMAL, 48).unwrap();
            begun.bench.replace_kept(other);
            // The list is not kept for its marks.
            let context = &begun.bench.heap.context;
            context.disturbed.store(true, Ordering::Relaxed);
        },
        |_, ()| (),
        |begun, (), (), outcome| {
            let ready = begun.bench.heap.weak.finalizers.ready_count();
            if outcome != Outcome::Begun || ready == 0 {
                return ControlFlow::Continue(());
            }
            was_left = true;
            // Steps are short, and are made when they are due.
            begun.bench.heap.settings.time_limit_ns = Some(0);
            begun.bench.heap.options.stress = 0;
            WAITS_MS.store(1, Ordering::Relaxed);
            let (before, mut allocated) = (begun.bench.heap.totals.steps, 0);
            while !begun.bench.heap.step_if_due() {
                begun.bench.allocate(NORMAL, 100).unwrap();
                allocated += 100;
                assert!(allocated < OBJECTS * 100, "steps are too slow");
            }
            WAITS_MS.store(0, Ordering::Relaxed);
            let steps = begun.bench.heap.totals.steps - before;
            assert!(steps > 10, "{steps} steps");
            begun.bench.heap.settings.time_limit_ns = Some(u64::MAX / 4);
            assert!(begun.all_live());
            begun.end();
            ControlFlow::Break(())
        },
    );
    assert!(was_left);
}

/// A step in which a mark procedure sleeps, beyond the time of the step, uses next to nothing of the processor's.
pub fn a_step_knows_that_it_lost_the_processor() {
    for waits_ms in [0, 400] {
        let Some(mut begun) = Begun::before("") else {
            return;
        };
        let kind = counted_kind(&mut begun.bench);
        let owner = begun.bench.allocate(kind, 64).unwrap();
        store(begun.object(0), 1, owner.word());
        // A step takes a quarter of a second, which all of this needs a twentieth of.
        begun.bench.heap.settings.time_limit_ns = Some(4_000_000_000);
        assert_eq!(begun.bench.begin(), Outcome::Begun);
        WAITS_MS.store(waits_ms, Ordering::Relaxed);
        begun.mark();
        WAITS_MS.store(0, Ordering::Relaxed);
        let lost = u64::from(waits_ms > 0);
        assert_eq!(begun.bench.heap.totals.steps_lost, lost);
        let steps = begun.bench.events(Phase::MarkStep);
        let told = steps.iter().filter(|step| step.reason == PROCESSOR_LOST);
        assert_eq!(told.count() as u64, lost);
        begun.end();
    }
}

/// What finalizers lead to takes half a second, since mark procedures sleep. What of it is left when a part of the limit has passed
/// waits for steps.
pub fn what_finalizers_need_is_put_off_in_time() {
    const SLEEPERS: usize = 500;
    for (limit_ns, waits_ms) in [(u64::MAX / 4, 0), (40_000_000, 1)] {
        let Some(mut begun) = Begun::before("stress=1000000") else {
            return;
        };
        // Where there are mark procedures, each stop has a limit.
        let kind = counted_kind(&mut begun.bench);
        let mut needed = Vec::new();
        for _ in 0..SLEEPERS {
            let object = begun.bench.allocate(NORMAL, 48).unwrap();
            let finalizer = Finalizer {
                proc: 1,
                data: Address::NULL,
                order: Order::NoOrder,
            };
            let finalizers = &mut begun.bench.heap.weak.finalizers;
            finalizers.register(object, finalizer).unwrap();
            begun.bench.roots[0] = object.word();
            let sleeper = begun.bench.allocate(kind, 64).unwrap();
            store(object, 0, sleeper.word());
            needed.push(!sleeper.word());
        }
        begun.bench.roots[0] = 0;
        let capacity = begun.bench.heap.space.capacity + (4 << 20);
        begun.bench.heap.grow_to(capacity, "the test");
        begun.bench.heap.settings.time_limit_ns = Some(u64::MAX / 4);
        assert_eq!(begun.bench.begin(), Outcome::Begun);
        begun.mark();
        begun.bench.heap.settings.time_limit_ns = Some(limit_ns);
        WAITS_MS.store(waits_ms, Ordering::Relaxed);
        let outcome = begun.bench.collect_new("the end");
        WAITS_MS.store(0, Ordering::Relaxed);
        let ready = begun.bench.heap.weak.finalizers.ready_count();
        assert_eq!(ready, SLEEPERS);
        let is_marked =
            |begun: &Begun, hidden: &usize| begun.bench.is_marked(Address::new(!hidden));
        begun.bench.heap.settings.time_limit_ns = Some(u64::MAX / 4);
        if outcome == Outcome::Begun {
            begun.mark();
            begun.end();
        }
        assert_eq!(outcome == Outcome::Begun, waits_ms > 0);
        assert!(needed.iter().all(|hidden| is_marked(&begun, hidden)));
        assert!(begun.all_live());
    }
}
