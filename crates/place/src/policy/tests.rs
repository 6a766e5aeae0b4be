//! The deciders on machines of all shapes: what they answer by hand, and what always holds.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::{Processors, Role};

/// Threads as `application:2+collector:1` says, aged in this order.
fn threads(text: &str) -> Vec<Thread> {
    let roles = text.split('+').flat_map(|part| {
        let (role, count) = part.split_once(':').unwrap();
        std::iter::repeat_n(role.parse::<Role>().unwrap(), count.parse().unwrap())
    });
    roles
        .enumerate()
        .map(|(number, role)| thread(number, role))
        .collect()
}

fn thread(number: usize, role: Role) -> Thread {
    let id = ThreadId {
        number: number as u32,
        started: number as u64,
    };
    Thread {
        id,
        role,
        is_recognised: true,
        habit: Habit::default(),
    }
}

fn settings(items: &str) -> Settings {
    let mut settings = Settings::default();
    let items = items.split(',').filter(|item| !item.is_empty());
    items.for_each(|item| settings.set(item).unwrap());
    settings
}

/// The processors of each thread, in the order of age.
fn decided(machine: &str, items: &str, them: &str) -> Vec<String> {
    let machine = Machine::synthetic(machine).unwrap();
    let plan = decide(&machine, &threads(them), &settings(items), &Plan::new());
    plan.values().map(|it| it.processors.to_string()).collect()
}

#[test]
fn hardware_threads_of_a_core_are_levelled_when_threads_go() {
    let machine = Machine::synthetic("1x1x2").unwrap();
    let settings = settings("placement=pinned");
    let all = threads("application:4");
    let before = decide(&machine, &all, &settings, &Plan::new());
    let left: Vec<_> = [0, 2].map(|number| all[number]).into();
    for it in &left {
        assert_eq!(before[&it.id].processors.to_string(), "0");
    }
    let after = decide(&machine, &left, &settings, &before);
    let processors: Vec<_> = after.values().map(|it| it.processors.to_string()).collect();
    assert_eq!(processors, ["0", "1"]);
}

#[test]
fn there_is_room_on_the_cores_that_the_settings_leave() {
    for (items, machine, most) in [
        ("placement=auto", "2x4", 8),
        ("placement=auto,processors=0-1", "2x4", 2),
        ("placement=auto,sockets=1", "2x4", 4),
        ("placement=auto,processors=0+4", "1x4x2", 1),
    ] {
        let machine = Machine::synthetic(machine).unwrap();
        let settings = settings(items);
        assert!(has_room(&machine, &settings, most), "{items}");
        assert!(!has_room(&machine, &settings, most + 1), "{items}");
    }
}

#[test]
fn answers_are_those_written_by_hand() {
    let both = "application:4+collector:4";
    for (machine, items, them, expected) in [
        // The paper's machine and baseline: a core for each of either kind, on one socket; others are free on it.
        ("2x4", "", both, "0 1 2 3 0 1 2 3"),
        (
            "2x4",
            "",
            "main:1+application:1+collector:1+vm:1",
            "0-3 0 1 0-3",
        ),
        ("1x2", "", "application:2+collector:2", "0 1 0 1"),
        // Threads of one role work at the same time, so each role is spread by itself, in any order of age.
        ("1x2", "", "collector:1+application:4", "0 1 0 1 0"),
        (
            "1x2",
            "placement=none",
            "application:1+collector:1",
            "0-1 0-1",
        ),
        // Four of either on two sockets: half of the pairs on each (Figure 20).
        ("2x4", "placement=paired", both, "0 4 1 5 2 6 3 7"),
        (
            "2x4",
            "placement=paired",
            "application:1+collector:2+main:1",
            "0 1 4 0-7",
        ),
        (
            "8x6",
            "placement=paired",
            "application:3+collector:1",
            "0 6 12 1",
        ),
        // Figures 3 to 6.
        ("2x4", "placement=isolated", both, "0 1 2 3 4 5 6 7"),
        (
            "2x4",
            "placement=isolated,isolate=compiler",
            "application:1+collector:1+compiler:1",
            "0 1 4-7",
        ),
        (
            "2x4",
            "placement=isolated,isolate=nongc",
            "main:1+application:1+collector:1+vm:1",
            "4-7 0 1 4-7",
        ),
        (
            "2x4",
            "placement=isolated,isolate=jvm,pin=none",
            "main:1+application:1+collector:1",
            "4-7 0-3 4-7",
        ),
        (
            "8x6",
            "placement=isolated",
            "application:1+collector:7",
            "0 42 43 44 45 46 47 42",
        ),
        // Where nothing is set apart, nobody has to keep off.
        (
            "2x4",
            "placement=isolated",
            "application:5+main:1",
            "0 1 2 3 4 0-7",
        ),
        (
            "2x4",
            "placement=isolated,isolate=none,pin=none",
            "application:1+collector:1",
            "0-7 0-7",
        ),
        // Where there is one socket: half of the cores; where there is one core, nothing.
        (
            "1x4",
            "placement=isolated",
            "application:2+collector:2",
            "0 1 2 3",
        ),
        (
            "1x5",
            "placement=isolated,pin=none",
            "application:1+collector:1",
            "0-2 3-4",
        ),
        (
            "1x2",
            "placement=isolated,isolate-on=socket",
            "application:1+collector:1",
            "0 1",
        ),
        (
            "1x1",
            "placement=isolated",
            "application:1+collector:1",
            "0 0",
        ),
        // Section 4.5: either kind alone, and another first core.
        (
            "2x4",
            "placement=pinned",
            "application:5+collector:4",
            "0 1 2 3 4 5 6 7 0",
        ),
        (
            "1x4",
            "placement=pinned,pin=collector",
            "application:1+collector:2",
            "0-3 0 1",
        ),
        (
            "1x4",
            "placement=pinned,pin=application,first-core=1",
            "application:4+collector:1",
            "1 2 3 0 0-3",
        ),
        ("1x4", "placement=pinned,first-core=6", "application:1", "2"),
        // Hardware threads: cores first, then their other threads.
        ("1x2x2", "placement=pinned", "application:5", "0 1 2 3 0"),
        (
            "1x4x2",
            "placement=isolated,pin=none",
            "application:1+collector:1",
            "0-1,4-5 2-3,6-7",
        ),
        // Application threads get the fast cores, also where collectors came before, and isolated ones the slow cores.
        (
            "1x2+1x2@512",
            "placement=pinned",
            "collector:2+application:2",
            "2 3 0 1",
        ),
        (
            "1x2@512+1x2",
            "placement=isolated",
            "application:1+collector:1",
            "2 0",
        ),
        // Holes.
        (
            "1x8",
            "placement=pinned,processors=1+4-5",
            "application:4",
            "1 4 5 1",
        ),
        ("2x4", "processors=2-7", "application:3", "2 3 2"),
        ("2x4", "processors=4-7+9", "application:1+main:1", "4 4-7"),
        (
            "2x4",
            "placement=pinned,sockets=1",
            "application:5",
            "0 1 2 3 0",
        ),
        ("4x2", "sockets=2", "application:3+main:1", "0 1 2 0-3"),
        ("1x4+1x4@512", "placement=pinned", "application:2", "0 1"),
        ("1x2@512+1x2", "placement=pinned,pin=main", "main:1", "2"),
        (
            "2x4",
            "placement=paired,pin=application+collector+main",
            "main:1+application:1",
            "1 0",
        ),
        (
            "1x4",
            "placement=paired,pin=application+collector+main",
            "application:1+collector:1+main:2+vm:1",
            "0 1 2 3 0-3",
        ),
    ] {
        let found = decided(machine, items, them).join(" ");
        assert_eq!(found, expected, "{machine}, {items}, {them}");
    }
}

#[test]
fn no_processor_is_no_plan() {
    assert!(decided("1x2", "processors=5", "application:1").is_empty());
    let nothing = Machine::synthetic("1x1")
        .unwrap()
        .restricted(&Processors::default());
    for placement in ["none", "paper", "pinned", "isolated", "paired", "auto"] {
        let settings = settings(&format!("placement={placement}"));
        assert!(decide(&nothing, &threads("application:1"), &settings, &Plan::new()).is_empty());
    }
}

/// What is decided for those threads that stay of those that came.
fn left_over(items: &str, them: &str, stay: &[u32]) -> Vec<String> {
    let machine = Machine::synthetic("2x4").unwrap();
    let (settings, all) = (settings(items), threads(them));
    let before = decide(&machine, &all, &settings, &Plan::new());
    let stays = |thread: &&Thread| stay.contains(&thread.id.number);
    let rest: Vec<_> = all.iter().filter(stays).copied().collect();
    let after = decide(&machine, &rest, &settings, &before);
    after.values().map(|it| it.processors.to_string()).collect()
}

#[test]
fn those_that_stay_are_spread_again() {
    // Two on core 0 and none on others: the younger one moves.
    assert_eq!(left_over("", "application:8", &[0, 4]), ["0", "1"]);
    assert_eq!(left_over("", "application:8", &[2, 3, 5]), ["2", "3", "1"]);
    // The collector of socket 0 has gone, and its application thread is alone: the other collector comes.
    assert_eq!(
        left_over("placement=paired", "application:1+collector:2", &[0, 2]),
        ["0", "1"]
    );
    // Both application threads are on socket 0: the younger one moves.
    assert_eq!(
        left_over("placement=paired", "application:4", &[0, 2]),
        ["0", "4"]
    );
}

#[test]
fn auto_pins_those_that_are_moved() {
    let machine = Machine::synthetic("1x4").unwrap();
    let mut all = threads("application:3+collector:1+main:1");
    for (thread, habit) in all.iter_mut().zip([
        Habit::Moved,
        Habit::Settled,
        Habit::Waited,
        Habit::Moved,
        Habit::Moved,
    ]) {
        thread.habit = habit;
    }
    let plan = decide(&machine, &all, &settings("placement=auto"), &Plan::new());
    let found: Vec<_> = plan.values().map(|it| it.processors.to_string()).collect();
    assert_eq!(found, ["0", "0-3", "0-3", "1", "0-3"], "main is not in pin");
    let reasons: Vec<_> = plan.values().map(|it| it.reason.as_str()).collect();
    assert!(reasons[0].contains("moved it often"), "{reasons:?}");
    assert!(reasons[1].starts_with("free, "), "{reasons:?}");
    assert!(reasons[2].contains("waited"), "{reasons:?}");
    for thread in &mut all {
        thread.habit = Habit::Settled;
    }
    let plan = decide(&machine, &all, &settings("placement=auto"), &plan);
    assert!(plan.values().all(|it| it.processors.to_string() == "0-3"));
}

#[test]
fn what_is_not_recognised_keeps_all_that_the_limits_leave() {
    let machine = Machine::synthetic("2x4").unwrap();
    let mut all = threads("application:2+collector:1");
    all[1].is_recognised = false;
    all[2].is_recognised = false;
    for (items, expected) in [
        ("", ["0", "0-7", "0-7"]),
        ("placement=isolated,pin=none", ["0-7", "0-7", "0-7"]),
        ("placement=pinned", ["0", "0-7", "0-7"]),
        ("placement=paired,sockets=1", ["0", "0-3", "0-3"]),
        ("placement=none,processors=1-2", ["1-2", "1-2", "1-2"]),
    ] {
        let plan = decide(&machine, &all, &settings(items), &Plan::new());
        let found: Vec<_> = plan.values().map(|it| it.processors.to_string()).collect();
        assert_eq!(found, expected, "{items}");
    }
}

#[test]
fn reasons_say_what_was_done() {
    let machine = Machine::synthetic("2x4").unwrap();
    let reason = |items: &str, them: &str| {
        let plan = decide(&machine, &threads(them), &settings(items), &Plan::new());
        plan.values().last().unwrap().reason.clone()
    };
    assert_eq!(
        reason("", "application:1"),
        "application thread, pinned, on socket 0"
    );
    assert_eq!(
        reason("placement=isolated", "collector:1"),
        "collector thread, pinned, isolated on socket 1"
    );
    assert_eq!(reason("placement=paired", "vm:1"), "free, in no pair");
}

/// Machines with hardware threads, slow cores and holes.
fn machines() -> impl Strategy<Value = Machine> {
    let shapes = [
        "1x1",
        "1x2",
        "1x8",
        "2x4",
        "2x2x2",
        "8x6",
        "1x4+1x4@512",
        "1x2x2+1x4@300",
        "3x3",
    ];
    (
        prop::sample::select(shapes.to_vec()),
        any::<u64>(),
        any::<bool>(),
    )
        .prop_map(|(shape, holes, has_holes)| {
            let machine = Machine::synthetic(shape).unwrap();
            let stays =
                |number: &usize| *number == 0 || !has_holes || holes >> (number % 64) & 1 == 1;
            machine.restricted(&machine.numbers().iter().filter(stays).collect())
        })
}

fn any_settings() -> impl Strategy<Value = Settings> {
    (
        prop::sample::select(vec!["none", "paper", "pinned", "isolated", "paired", "auto"]),
        prop::sample::select(vec!["application+collector", "collector", "main+vm+application", "none"]),
        prop::sample::select(vec!["collector", "jvm", "nongc", "none", "compiler"]),
        prop::sample::select(vec!["auto", "socket", "cluster", "cores"]),
        0..4usize,
        0..10usize,
    )
        .prop_map(|(placement, pin, isolate, unit, sockets, first)| {
            settings(&format!(
                "placement={placement},pin={pin},isolate={isolate},isolate-on={unit},sockets={sockets},first-core={first}"
            ))
        })
}

fn any_threads() -> impl Strategy<Value = Vec<Thread>> {
    let roles = vec![
        Role::Application,
        Role::Application,
        Role::Collector,
        Role::Collector,
        Role::Main,
        Role::Vm,
    ];
    let habits = vec![Habit::Settled, Habit::Moved, Habit::Waited];
    let is_recognised = prop::bool::weighted(0.9);
    let some = (
        prop::sample::select(roles),
        prop::sample::select(habits),
        is_recognised,
    );
    prop::collection::vec(some, 0..40).prop_map(|threads| {
        (0..)
            .zip(threads)
            .map(|(number, (role, habit, is_recognised))| Thread {
                habit,
                is_recognised,
                ..thread(number, role)
            })
            .collect()
    })
}

/// How many pinned threads of a group each of its cores has.
fn on_cores(machine: &Machine, plan: &Plan) -> BTreeMap<(usize, usize), usize> {
    let mut counts = BTreeMap::new();
    for (decision, number) in plan.values().filter_map(|it| Some((it, it.pinned?))) {
        let core = machine.processor(number).unwrap().core;
        *counts.entry((decision.group, core)).or_insert(0) += 1;
    }
    counts
}

/// Checks what holds of each plan.
fn check(machine: &Machine, threads: &[Thread], settings: &Settings, plan: &Plan) {
    let limits = within_limits(machine, settings);
    assert_eq!(plan.len(), threads.len());
    for thread in threads.iter().filter(|thread| !thread.is_recognised) {
        assert_eq!(plan[&thread.id].processors, limits.numbers());
        assert!(!plan[&thread.id].is_pinned());
    }
    let threads: Vec<_> = threads
        .iter()
        .filter(|thread| thread.is_recognised)
        .copied()
        .collect();
    let threads = &threads[..];
    let limits = one_socket(&limits, settings);
    for thread in threads {
        let decision = &plan[&thread.id];
        assert!(!decision.processors.is_empty());
        assert!(decision.processors.difference(&limits.numbers()).is_empty());
        assert_eq!(decision.is_pinned(), is_pinned(thread, settings));
        assert_eq!(
            decision.is_pinned(),
            decision
                .pinned
                .is_some_and(|it| decision.processors.contains(it))
        );
        assert!(!decision.is_pinned() || decision.processors.count() == 1);
    }
    // No core of a group has two pinned threads more than another.
    let counts = on_cores(&limits, plan);
    let cut = groups::cut(&limits, threads, settings);
    // Threads in no pair are where the pairs have left room, which need not be as even.
    let sockets = cut.len() - usize::from(settings.placement == Placement::Paired);
    for group in &cut[..sockets] {
        let of = |core: usize| counts.get(&(group.id, core)).copied().unwrap_or(0);
        let loads: Vec<_> = group
            .machine
            .processors()
            .iter()
            .map(|it| of(it.core))
            .collect();
        let (most, least) = (loads.iter().max().unwrap(), loads.iter().min().unwrap());
        assert!(most - least <= 1, "{loads:?} in {}", group.label);
    }
    check_free_cores(&limits, &cut, plan);
    for role in [Role::Application, Role::Collector] {
        let mine = |id: &ThreadId| threads.iter().any(|it| it.id == *id && it.role == role);
        let some: Plan = plan
            .iter()
            .filter(|(id, _)| mine(id))
            .map(|(&id, it)| (id, it.clone()))
            .collect();
        let counts = on_cores(&limits, &some);
        for group in groups::cut(&limits, threads, settings) {
            let of = |core: usize| counts.get(&(group.id, core)).copied().unwrap_or(0);
            let loads = || group.machine.processors().iter().map(|it| of(it.core));
            assert!(
                loads().max().unwrap() - loads().min().unwrap() <= 1,
                "{role} in {}",
                group.label
            );
        }
    }
    if settings.placement == Placement::Paired {
        check_pairs(threads, plan);
    }
}

/// No two pinned threads, of whatever groups, share a core while one of them could have a core that has none.
fn check_free_cores(machine: &Machine, groups: &[groups::Group], plan: &Plan) {
    let core = |number| machine.processor(number).unwrap().core;
    let mut loads = BTreeMap::new();
    for number in plan.values().filter_map(|it| it.pinned) {
        *loads.entry(core(number)).or_insert(0) += 1;
    }
    for decision in plan.values() {
        let Some(number) = decision.pinned.filter(|&number| loads[&core(number)] > 1) else {
            continue;
        };
        let group = groups.iter().find(|it| it.id == decision.group).unwrap();
        let processors = group.machine.processors();
        let free = processors.iter().find(|it| !loads.contains_key(&it.core));
        assert!(free.is_none(), "{number} is shared, {free:?} is free");
    }
}

/// As many pairs share a socket as there can be, and either role is spread evenly.
fn check_pairs(threads: &[Thread], plan: &Plan) {
    let mut sockets = BTreeMap::<usize, [usize; 2]>::new();
    for thread in threads {
        let half = match thread.role {
            Role::Application => 0,
            Role::Collector => 1,
            _ => continue,
        };
        sockets.entry(plan[&thread.id].group).or_default()[half] += 1;
    }
    let pairs: usize = sockets
        .values()
        .map(|halves| halves[0].min(halves[1]))
        .sum();
    let all = |half: usize| sockets.values().map(|halves| halves[half]).sum::<usize>();
    assert_eq!(pairs, all(0).min(all(1)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_holds_of_every_plan(machine in machines(), threads in any_threads(), settings in any_settings()) {
        let plan = decide(&machine, &threads, &settings, &Plan::new());
        check(&machine, &threads, &settings, &plan);
        prop_assert_eq!(&decide(&machine, &threads, &settings, &plan), &plan, "asked again");
    }

    #[test]
    fn threads_come_and_go(
        machine in machines(),
        settings in any_settings(),
        crowds in prop::collection::vec(any_threads(), 1..5),
        keep in any::<u64>(),
    ) {
        let mut plan = Plan::new();
        for (step, crowd) in crowds.iter().enumerate() {
            let stays = |thread: &&Thread| keep.rotate_left(step as u32) >> (thread.id.number % 64) & 1 == 1;
            let some: Vec<_> = crowd.iter().filter(stays).copied().collect();
            plan = decide(&machine, &some, &settings, &plan);
            check(&machine, &some, &settings, &plan);
        }
    }

    #[test]
    fn a_core_that_goes_moves_its_own_threads_alone(
        machine in machines(),
        threads in any_threads(),
        placement in prop::sample::select(vec!["paper", "pinned"]),
        which in any::<prop::sample::Index>(),
    ) {
        let settings = settings(&format!("placement={placement}"));
        let before = decide(&machine, &threads, &settings, &Plan::new());
        let limits = one_socket(&machine, &settings);
        let gone = limits.processors()[which.index(limits.processors().len())].core;
        let rest = limits.processors().iter().filter(|it| it.core != gone).map(|it| it.number);
        let left = machine.restricted(&rest.collect());
        prop_assume!(!left.processors().is_empty());
        let after = decide(&left, &threads, &settings, &before);
        check(&left, &threads, &settings, &after);
        for (id, decision) in before.iter().filter(|(_, it)| it.is_pinned()) {
            let core = machine.processor(decision.pinned.unwrap()).unwrap().core;
            prop_assert!(core == gone || after[id].pinned == decision.pinned);
        }
    }
}
