//! What is slow, by hand, and what always holds on machines of all shapes.

use proptest::prelude::*;

use super::*;
use crate::{Habit, Machine, Plan, Settings, Thread, decide};

fn slow(items: &str) -> Slow {
    let mut settings = Settings::default();
    items
        .split(',')
        .for_each(|item| settings.set(item).unwrap());
    settings.check().unwrap();
    settings.slow
}

fn seen(number: u32, role: Role, processors: &str) -> Seen {
    Seen {
        id: ThreadId { number, started: 1 },
        role,
        processors: processors.parse().unwrap(),
        runs: false,
    }
}

fn domain(processors: &str) -> Domain {
    Domain {
        processors: processors.parse().unwrap(),
        lowest: 800,
        highest: 3000,
        full: 2800,
    }
}

/// The maximum of each domain of 0-1 and 2-3 that is slow, and what is said of those that are not.
fn frequencies_of(threads: &[Seen], items: &str, seconds: u64) -> (Vec<(usize, u64)>, String) {
    let domains = [domain("0-1"), domain("2-3")];
    let elapsed = Duration::from_secs(seconds);
    let usable = "0-3".parse().unwrap();
    let answer = frequencies(threads, &domains, &usable, &slow(items), elapsed);
    let slow = answer.slow.iter().map(|(&number, (khz, _))| (number, *khz));
    (slow.collect(), answer.kept)
}

#[test]
fn processors_of_slow_roles_alone_are_slow() {
    let mut threads = vec![
        seen(1, Role::Application, "0-1"),
        seen(2, Role::Collector, "2"),
        seen(3, Role::Compiler, "3"),
    ];
    let all = "slow=collector+compiler";
    assert_eq!(
        frequencies_of(&threads, all, 0),
        (vec![(1, 1500)], String::new())
    );
    // The compiler shares the frequency of the collector.
    let (none, kept) = frequencies_of(&threads, "slow=collector", 0);
    assert!(
        none.is_empty() && kept.contains("2-3") && kept.contains("compiler"),
        "{kept}"
    );
    // Neither below the lowest, nor above what was set before.
    for (percent, khz) in [(1, vec![(1, 800)]), (90, vec![(1, 2700)]), (99, vec![])] {
        let (slow, _) = frequencies_of(&threads, &format!("{all},speed={percent}"), 0);
        assert_eq!(slow, khz, "{percent}");
    }
    let warm = format!("{all},slow-when=warm,warm-after=5");
    assert!(frequencies_of(&threads, &warm, 4).0.is_empty());
    assert_eq!(frequencies_of(&threads, &warm, 5).0, [(1, 1500)]);
    let idle = format!("{all},slow-when=idle");
    assert_eq!(frequencies_of(&threads, &idle, 0).0, [(1, 1500)]);
    threads[1].runs = true;
    assert!(frequencies_of(&threads, &idle, 0).0.is_empty());
    assert_eq!(frequencies_of(&threads, all, 0).0, [(1, 1500)]);
}

#[test]
fn processors_of_others_are_not_slowed() {
    let threads = [seen(1, Role::Collector, "1")];
    let usable = "1".parse().unwrap();
    let answer = frequencies(
        &threads,
        &[domain("0-1")],
        &usable,
        &slow("slow=jvm"),
        Duration::ZERO,
    );
    assert!(
        answer.slow.is_empty() && answer.kept.contains("0 are not"),
        "{}",
        answer.kept
    );
}

#[test]
fn a_share_is_of_the_processors_that_threads_can_use_at_a_time() {
    let threads = [
        seen(1, Role::Application, "0-3"),
        seen(2, Role::Collector, "2"),
        seen(3, Role::Collector, "3"),
        seen(4, Role::Compiler, "2-3"),
    ];
    for (items, expected) in [
        ("slow=collector", (2, 10_000, 10_000)),
        ("slow=collector+compiler,speed=25", (3, 5_000, 10_000)),
        ("slow=compiler,speed=1", (1, 1_000, 100_000)),
        ("slow=jvm,speed=100", (3, 20_000, 10_000)),
    ] {
        let share = share(&threads, &slow(items), Duration::ZERO).unwrap();
        assert_eq!(
            (share.threads.len(), share.quota, share.period),
            expected,
            "{items}"
        );
    }
    for items in [
        "slow=timer",
        "slow=jvm,slow-when=warm",
        "slow=jvm,slow-when=idle",
    ] {
        assert_eq!(
            share(&threads, &slow(items), Duration::ZERO),
            None,
            "{items}"
        );
    }
}

/// A machine cut into domains of `size` processors, with the threads as a policy places them.
fn placed(
    shape: usize,
    size: usize,
    policy: &str,
    roles: &[usize],
) -> (Vec<Seen>, Vec<Domain>, Processors) {
    let machine = ["1x2", "1x4", "2x4", "1x4x2", "1x2+1x4@512"][shape];
    let machine = Machine::synthetic(machine).unwrap();
    let threads: Vec<_> = (1..)
        .zip(roles)
        .map(|(number, &role)| Thread {
            id: ThreadId {
                number,
                started: number.into(),
            },
            role: Role::ALL[role],
            is_recognised: true,
            habit: Habit::default(),
        })
        .collect();
    let mut settings = Settings::default();
    settings.set(&format!("placement={policy}")).unwrap();
    let plan = decide(&machine, &threads, &settings, &Plan::new());
    let seen = threads.iter().map(|thread| Seen {
        id: thread.id,
        role: thread.role,
        processors: plan[&thread.id].processors.clone(),
        runs: thread.id.number % 2 == 0,
    });
    let numbers: Vec<_> = machine.numbers().iter().collect();
    let domains = numbers.chunks(size).map(|part| Domain {
        processors: part.iter().copied().collect(),
        ..domain("0")
    });
    (seen.collect(), domains.collect(), machine.numbers())
}

proptest! {
    #[test]
    fn only_slow_threads_are_slowed(
        shape in 0..5_usize,
        size in 1..5_usize,
        policy in prop::sample::select(vec!["none", "paper", "pinned", "isolated", "paired"]),
        roles in prop::collection::vec(0..10_usize, 0..12),
        percent in 1..=100_u64,
        when in prop::sample::select(vec!["always", "warm", "idle"]),
        seconds in 0..20_u64,
    ) {
        let (threads, domains, usable) = placed(shape, size, policy, &roles);
        let slow = slow(&format!("slow=collector+compiler,speed={percent},slow-when={when}"));
        let elapsed = Duration::from_secs(seconds);
        let answer = frequencies(&threads, &domains, &usable, &slow, elapsed);
        let is_time = when != "warm" || seconds >= 10;
        for (number, domain) in domains.iter().enumerate() {
            let on = threads.iter().filter(|it| !it.processors.intersection(&domain.processors).is_empty());
            let (mine, others): (Vec<_>, Vec<_>) = on.partition(|it| slow.is_slow(it.role));
            let rests = when != "idle" || !mine.iter().any(|it| it.runs);
            let khz = (3000 * percent / 100).max(800);
            let expected = is_time && rests && !mine.is_empty() && others.is_empty() && khz < 2800;
            prop_assert_eq!(answer.slow.get(&number).map(|it| it.0), expected.then_some(khz));
        }
        let slow_ones = threads.iter().filter(|it| slow.is_slow(it.role)).count() as u64;
        match share(&threads, &slow, elapsed) {
            None => prop_assert!(slow_ones == 0 || !is_time || when == "idle"),
            Some(share) => {
                prop_assert_eq!(share.threads.len() as u64, slow_ones);
                prop_assert!((1_000..=1_000_000).contains(&share.period) && share.quota >= 1_000);
                let least = share.period * percent / 100;
                prop_assert!(share.quota >= least && share.quota <= (least + 1) * slow_ones);
            }
        }
    }
}
