//! `gleaner place --opt placement=auto`: a thread that is moved often is pinned, and one that waits is let go.

#[allow(dead_code)]
mod support;

use support::*;

/// A thread moves itself again and again, then may run anywhere and works on until it is pinned (status 3 if it was not
/// in half a minute, and may have been pinned between two moves of its own). Then another thread works on the same
/// processor until the first may run anywhere again.
const MOVED: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static cpu_set_t all;
static pthread_t worker;
static volatile int at = -1, is_free;

static int pinned(pthread_t thread) {
    cpu_set_t mine;
    pthread_getaffinity_np(thread, sizeof mine, &mine);
    if (CPU_COUNT(&mine) != 1) return -1;
    for (int number = 0;; number++)
        if (CPU_ISSET(number, &mine)) return number;
}

static void only(int number) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(number, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static void *works(void *unused) {
    time_t end = time(NULL) + 30;
    (void)unused;
    /* Half a second of work, so that the first look finds a busy thread. */
    for (clock_t until = clock() + CLOCKS_PER_SEC / 2; clock() < until;) ;
    for (int move = 0; move < 16; move++) only(move % 2);
    sched_setaffinity(0, sizeof all, &all);
    while ((at = pinned(worker)) < 0)
        if (time(NULL) > end) exit(3);
    while (pinned(worker) >= 0) ;
    is_free = 1;
    return NULL;
}

int main(void) {
    sched_getaffinity(0, sizeof all, &all);
    pthread_create(&worker, NULL, works, NULL);
    pthread_setname_np(worker, "works");
    while (at < 0) {
        struct timespec pause = {0, 1000000};
        nanosleep(&pause, NULL);
    }
    puts("pinned");
    only(at);
    while (!is_free) ;
    puts("free");
    return 0;
}
"#;

#[test]
fn moved_threads_are_pinned_and_waiting_ones_let_go() {
    let allowed = numbers(&affinity("/proc/thread-self"));
    if !allowed.starts_with(&[0, 1]) {
        println!("processors 0 and 1 are wanted, and there are {allowed:?}: nothing is tested");
        return;
    }
    if std::fs::metadata("/proc/thread-self/schedstat").is_err() {
        println!("the kernel does not say how long threads wait: nothing is tested");
        return;
    }
    let directory = Directory::new();
    let moved = directory.compile("moved", MOVED, &["-pthread"]);
    let log = directory.path("place.jsonl");
    let run = || {
        let role = ["--role", "works=application"];
        place()
            .args(["--opt", "placement=auto"])
            .args(role)
            .arg("--log")
            .arg(&log)
            .arg("--")
            .arg(&moved)
            .output()
            .unwrap()
    };
    // The look that finds the moves may lie between two of them.
    let outputs = (0..3).map(|_| run());
    let output = outputs
        .into_iter()
        .find(|output| output.status.code() != Some(3));
    let output = output.expect("never pinned");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), "pinned\nfree\n");
    let log = std::fs::read_to_string(log).unwrap();
    assert!(
        log.contains("pinned since the kernel moved it often"),
        "{log}"
    );
    assert!(
        log.contains("free again since it waited for its processor"),
        "{log}"
    );
}
