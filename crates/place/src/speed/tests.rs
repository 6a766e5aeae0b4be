//! Likenesses of the kernel's files: what is in them before, during and after, and after a crash.

use std::fs;

use super::*;
use crate::likeness::Tree;
use crate::{Role, Settings, ThreadId};

/// The names of files that say what is to be put back.
fn states(tree: &Tree) -> Vec<String> {
    tree.files().names("/run")
}

fn start(tree: &Tree, items: &str, writer: Writer) -> Speed {
    let mut settings = Settings::default();
    items
        .split(',')
        .for_each(|item| settings.set(item).unwrap());
    Speed::start(settings.slow, tree.files(), writer, 4711)
}

fn seen(number: u32, role: Role, processors: &str) -> Seen {
    Seen {
        id: ThreadId { number, started: 1 },
        role,
        processors: processors.parse().unwrap(),
        runs: false,
    }
}

/// This process.
fn alive() -> Writer {
    Writer::of(std::process::id()).unwrap()
}

/// One with the number of this process, which started at another time.
fn gone() -> Writer {
    Writer::parse(&format!("gleaner-place-{}-1", std::process::id())).unwrap()
}

const SECOND: Duration = Duration::from_secs(1);
const MAXIMA: [&str; 2] = [
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq",
    "sys/devices/system/cpu/cpu2/cpufreq/scaling_max_freq",
];

/// Processors 0-1 and 2-3 have a frequency each; 3 is offline.
fn frequencies_tree() -> Tree {
    let tree = Tree::new(&[("sys/devices/system/cpu/online", "0-2\n")]);
    for (number, related) in [(0, "0 1\n"), (1, "0 1\n"), (2, "2 3\n")] {
        for (name, text) in [
            ("related_cpus", related),
            ("cpuinfo_min_freq", "800000\n"),
            ("cpuinfo_max_freq", "3000000\n"),
            ("scaling_max_freq", "2800000\n"),
        ] {
            tree.write(
                &format!("sys/devices/system/cpu/cpu{number}/cpufreq/{name}"),
                text,
            );
        }
    }
    tree
}

fn apart() -> Vec<Seen> {
    vec![
        seen(1, Role::Application, "0-1"),
        seen(2, Role::Collector, "2"),
    ]
}

#[test]
fn frequencies_are_set_and_put_back() {
    let tree = frequencies_tree();
    let usable = "0-2".parse().unwrap();
    let mut speed = start(&tree, "slow=collector,speed=40,slow-when=idle", alive());
    assert!(states(&tree).is_empty());
    speed.update(SECOND, &apart(), &usable);
    assert_eq!(MAXIMA.map(|it| tree.text(it)), ["2800000\n", "1200000"]);
    assert_eq!(states(&tree), [format!("{}.state", alive().name())]);
    let mut running = apart();
    running[1].runs = true;
    speed.update(2 * SECOND, &running, &usable);
    assert_eq!(tree.text(MAXIMA[1]), "2800000");
    speed.update(3 * SECOND, &apart(), &usable);
    assert_eq!(tree.text(MAXIMA[1]), "1200000");
    // A start of another one leaves it alone.
    assert!(put_back_left(&tree.files()).is_empty());
    assert_eq!(tree.text(MAXIMA[1]), "1200000");
    speed.end(5 * SECOND);
    assert_eq!(MAXIMA.map(|it| tree.text(it)), ["2800000\n", "2800000"]);
    assert!(states(&tree).is_empty());
    let values: Vec<_> = speed
        .take_changes()
        .into_iter()
        .map(|it| it.value)
        .collect();
    assert_eq!(
        values,
        ["1200000 kHz", "2800000 kHz", "1200000 kHz", "full speed"]
    );
    let summary = speed.summary();
    assert!(
        summary.contains("40 % by frequency, 3.00 s on processors 2"),
        "{summary}"
    );
}

#[test]
fn what_a_crash_left_is_put_back() {
    let usable = "0-2".parse().unwrap();
    // By the guard, of any writer; by the next start, only of one that is gone.
    for (writer, by_guard) in [(alive(), true), (gone(), false)] {
        let tree = frequencies_tree();
        start(&tree, "slow=collector", writer).update(SECOND, &apart(), &usable);
        assert_eq!(tree.text(MAXIMA[1]), "1500000");
        match by_guard {
            true => assert!(put_back(&tree.files(), writer).is_empty()),
            false => assert_eq!(put_back_left(&tree.files()).len(), 1),
        }
        assert_eq!(tree.text(MAXIMA[1]), "2800000");
        assert!(states(&tree).is_empty());
    }
    // What others have set in the meantime stays, if it is not slower.
    let tree = frequencies_tree();
    let mut speed = start(&tree, "slow=collector", alive());
    speed.update(SECOND, &apart(), &usable);
    tree.write(MAXIMA[1], "2900000");
    speed.end(SECOND);
    assert_eq!(tree.text(MAXIMA[1]), "2900000");
}

#[test]
fn all_that_a_crash_left_is_put_back() {
    let tree = frequencies_tree();
    let mut threads = apart();
    threads[0].role = Role::Compiler;
    start(&tree, "slow=collector+compiler", gone()).update(
        SECOND,
        &threads,
        &"0-2".parse().unwrap(),
    );
    assert_eq!(MAXIMA.map(|it| tree.text(it)), ["1500000", "1500000"]);
    put_back_left(&tree.files());
    assert_eq!(MAXIMA.map(|it| tree.text(it)), ["2800000", "2800000"]);
}

#[test]
fn a_maximum_that_is_lower_stays() {
    // 95 % of 3000000 are more than the maximum that was found.
    let tree = frequencies_tree();
    let mut speed = start(&tree, "slow=collector,speed=95", alive());
    speed.update(SECOND, &apart(), &"0-2".parse().unwrap());
    assert_eq!(tree.text(MAXIMA[1]), "2800000\n");
    speed.end(SECOND);
}

#[test]
fn a_state_is_not_believed_of_everybody() {
    let name = format!("run/{}.state", gone().name());
    for (path, mode) in [
        (MAXIMA[1], 0o666),
        ("etc/passwd", 0o600),
        (
            "sys/devices/system/cpu/cpu2/../x/cpufreq/scaling_max_freq",
            0o600,
        ),
    ] {
        let tree = frequencies_tree();
        tree.write("etc/passwd", "1");
        tree.write(&name, &format!("maximum 9000000 /{path}\n"));
        let mode = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(mode);
        fs::set_permissions(tree.0.join(&name), mode).unwrap();
        put_back_left(&tree.files());
        assert_eq!(
            (tree.text(MAXIMA[1]), tree.text("etc/passwd")),
            ("2800000\n".into(), "1".into())
        );
    }
    // A link leads to what is not a state.
    let tree = frequencies_tree();
    tree.write("elsewhere", &format!("maximum 9000000 /{}\n", MAXIMA[1]));
    std::os::unix::fs::symlink(tree.0.join("elsewhere"), tree.0.join(&name)).unwrap();
    put_back_left(&tree.files());
    assert_eq!(tree.text(MAXIMA[1]), "2800000\n");
}

#[test]
fn what_is_missing_is_said() {
    let usable = "0-2".parse().unwrap();
    let mut mixed = apart();
    mixed.push(seen(3, Role::Main, "0-2"));
    let tree = frequencies_tree();
    let mut speed = start(&tree, "slow=collector", alive());
    speed.update(Duration::ZERO, &mixed, &usable);
    assert!(speed.take_messages().is_empty());
    speed.update(SECOND, &mixed, &usable);
    let said = speed.take_messages().join("");
    assert!(
        said.contains("run main threads, too; placement=isolated"),
        "{said}"
    );
    speed.update(2 * SECOND, &mixed, &usable);
    speed.end(SECOND);
    assert!(speed.take_messages().is_empty());
    for (items, remedy) in [
        ("slow=collector,slow-by=frequency", "slow-by=bandwidth"),
        ("slow=collector,slow-when=idle", "slow-by=frequency"),
        ("slow=collector", "/proc/4711/cgroup"),
    ] {
        let said = start(&Tree::new(&[]), items, alive())
            .take_messages()
            .join("");
        assert!(
            said.contains("full speed") && said.contains(remedy),
            "{said}"
        );
    }
    // What is to be put back cannot be written down: nothing is changed.
    let tree = frequencies_tree();
    fs::remove_dir_all(tree.0.join("run")).unwrap();
    let mut speed = start(&tree, "slow=collector", alive());
    speed.update(SECOND, &apart(), &usable);
    assert_eq!(tree.text(MAXIMA[1]), "2800000\n");
    let said = speed.take_messages().join("");
    assert!(said.contains("cannot be written down"), "{said}");
}

#[test]
fn what_was_slowed_before_a_failure_is_put_back_at_once() {
    let tree = frequencies_tree();
    let usable = "0-2".parse().unwrap();
    let mut speed = start(&tree, "slow=collector,speed=40", alive());
    // The second maximum can no longer be written.
    fs::remove_file(tree.0.join(MAXIMA[1])).unwrap();
    fs::create_dir(tree.0.join(MAXIMA[1])).unwrap();
    let both = [seen(1, Role::Collector, "0"), seen(2, Role::Collector, "2")];
    speed.update(SECOND, &both, &usable);
    let said = speed.take_messages().join("");
    assert!(said.contains("all threads run at full speed"), "{said}");
    assert!(
        speed.take_changes().iter().any(|it| it.by == "frequency"),
        "the first was slowed"
    );
    assert_eq!(tree.text(MAXIMA[0]).trim(), "2800000");
}

const HOME: &str = "sys/fs/cgroup/user/app";

/// cgroup v2, with the program 4711 in a group, and a thread of it in another one.
fn groups_tree(controllers: &str) -> Tree {
    let tree = Tree::new(&[
        (
            "proc/self/mountinfo",
            "30 23 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n",
        ),
        ("proc/4711/cgroup", "0::/user/app\n"),
        ("proc/4712/cgroup", "0::/user/app\n"),
        ("proc/4713/cgroup", "0::/user/app\n"),
        ("proc/4714/cgroup", "0::/user/other\n"),
    ]);
    for (name, text) in [
        ("cgroup.controllers", controllers),
        ("cgroup.subtree_control", ""),
        ("cgroup.threads", ""),
    ] {
        tree.write(&format!("{HOME}/{name}"), text);
    }
    tree
}

#[test]
fn threads_are_grouped_and_go_back() {
    let tree = groups_tree("memory cpu\n");
    let usable = "0-1".parse().unwrap();
    let mut speed = start(&tree, "slow=collector,speed=30", alive());
    let group = format!("{HOME}/{}", alive().name());
    let of = |name: &str| tree.text(&format!("{group}/{name}"));
    let mut threads = vec![
        seen(4711, Role::Main, "0-1"),
        seen(4712, Role::Collector, "0-1"),
    ];
    speed.update(SECOND, &threads[..1], &usable);
    assert!(!tree.0.join(&group).exists());
    speed.update(SECOND, &threads, &usable);
    assert_eq!(
        (of("cgroup.type"), of("cpu.max")),
        ("threaded".into(), "3000 10000".into())
    );
    assert_eq!(of("cgroup.threads"), "4712\n");
    assert_eq!(tree.text(&format!("{HOME}/cgroup.subtree_control")), "+cpu");
    // One more, and one of another group, which stays there.
    threads.extend([
        seen(4713, Role::Collector, "0-1"),
        seen(4714, Role::Collector, "0-1"),
    ]);
    speed.update(2 * SECOND, &threads, &usable);
    assert_eq!(
        (of("cgroup.threads"), of("cpu.max")),
        ("4712\n4713\n".into(), "6000 10000".into())
    );
    speed.update(3 * SECOND, &threads, &usable);
    let said = speed.take_messages().join("");
    assert!(
        said.contains("stands in") && said.contains("1 threads are in another group"),
        "{said}"
    );
    // One whose role is another one now.
    threads[1].role = Role::Application;
    assert_eq!(tree.text(&format!("{HOME}/cgroup.threads")), "");
    speed.update(4 * SECOND, &threads, &usable);
    assert_eq!(tree.text(&format!("{HOME}/cgroup.threads")), "4712\n");
    tree.write(
        &format!("{group}/cpu.stat"),
        "nr_periods 9\nnr_throttled 7\nthrottled_usec 2500000\n",
    );
    speed.end(5 * SECOND);
    assert!(!tree.0.join(&group).exists() && states(&tree).is_empty());
    assert!(
        tree.text(&format!("{HOME}/cgroup.threads"))
            .contains("4713\n")
    );
    assert_eq!(tree.text(&format!("{HOME}/cgroup.subtree_control")), "-cpu");
    let summary = speed.summary();
    assert!(
        summary.contains("stands in for a slower core, 4.00 s"),
        "{summary}"
    );
    assert!(summary.contains("throttled 7 times, 2.50 s"), "{summary}");
}

#[test]
fn groups_that_a_crash_left_are_removed() {
    let usable = "0-1".parse().unwrap();
    let threads = [seen(4712, Role::Collector, "0-1")];
    for is_written in [true, false] {
        let tree = groups_tree("cpu\n");
        start(&tree, "slow=collector", gone()).update(SECOND, &threads, &usable);
        let group = tree.0.join(format!("{HOME}/{}", gone().name()));
        assert!(group.join("cpu.max").exists());
        if is_written {
            assert_eq!(put_back_left(&tree.files()).len(), 1);
            assert_eq!(tree.text(&format!("{HOME}/cgroup.subtree_control")), "-cpu");
        } else {
            // What said so is gone: the directory is found by its name.
            fs::remove_dir_all(tree.0.join("run")).unwrap();
            start(&tree, "slow=collector", alive());
        }
        assert!(!group.exists());
        assert_eq!(tree.text(&format!("{HOME}/cgroup.threads")), "4712\n");
    }
}

#[test]
fn a_group_without_the_controller_is_named() {
    let said = start(&groups_tree("memory\n"), "slow=collector", alive())
        .take_messages()
        .join("");
    assert!(
        said.contains("/sys/fs/cgroup/user/app has no cpu controller")
            && said.contains("Delegate=yes"),
        "{said}"
    );
    let tree = groups_tree("cpu\n");
    tree.write("proc/4711/cgroup", "0::/../x\n");
    let said = start(&tree, "slow=collector", alive())
        .take_messages()
        .join("");
    assert!(said.contains("outside of what is mounted"), "{said}");
}
