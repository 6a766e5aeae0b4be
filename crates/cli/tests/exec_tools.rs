//! `gleaner exec` beside tools that watch a program's memory or replace its `malloc`: the sanitizers of gcc, and the
//! allocators of Debian's packages. What a tool finds on stock libgc it finds here.

#[allow(dead_code)]
mod support;

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use support::*;

/// Allocates, collects and frees, on the collector's heap and on that of `malloc`; then does what its argument names.
const PROGRAM: &str = r#"
#include <gc/gc.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node { struct node *next; long value; };
static struct node *list;
static int finalized;

static void count_finalized(void *object, void *data) { finalized++; }

int main(int count, char **words) {
    const char *fault = count > 1 ? words[1] : "";
    long sum = 0;
    GC_INIT();
    for (long i = 0; i < 100000; i++) {
        struct node *node = GC_MALLOC(sizeof *node);
        char *bytes = malloc(100);
        node->value = i;
        if (i % 100 == 0) { node->next = list; list = node; }
        if (i % 1000 == 1) GC_REGISTER_FINALIZER(node, count_finalized, 0, 0, 0);
        memset(bytes, 1, 100);
        free(bytes);
    }
    for (int i = 0; i < 3; i++) GC_gcollect();
    GC_invoke_finalizers();
    GC_FREE(GC_MALLOC_UNCOLLECTABLE(1000));
    for (struct node *node = list; node; node = node->next) sum += node->value;
    printf("sum %ld, %s, %s\n", sum, GC_get_gc_no() >= 3 ? "collected" : "kept", finalized > 50 ? "finalized" : "not");
    fflush(stdout);
    if (!strcmp(fault, "use-after-free")) { char *volatile p = malloc(10); free(p); return p[3]; }
    if (!strcmp(fault, "leak")) { void *volatile p = malloc(77); p = 0; }
    if (!strcmp(fault, "overflow")) { volatile int x = INT_MAX; x += count; }
    return 0;
}
"#;

/// What it prints.
const PRINTED: &str = "sum 49950000, collected, finalized\n";

/// Four threads allocate, on both heaps, while the main one collects.
const THREADS: &str = r#"
#define GC_THREADS
#include <gc/gc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct node { struct node *next; long value; };

static void *work(void *right) {
    struct node *list = 0;
    long difference = 0;
    for (long i = 0; i < 50000; i++) {
        struct node *node = GC_MALLOC(sizeof *node);
        char *bytes = malloc(100);
        node->value = i;
        if (i % 100 == 0) { node->next = list; list = node; difference += i; }
        memset(bytes, 1, 100);
        free(bytes);
    }
    for (; list; list = list->next) difference -= list->value;
    *(int *)right = difference == 0;
    return 0;
}

int main(void) {
    pthread_t threads[4];
    int right[4];
    alarm(300); /* a program whose threads do not stop does not end */
    GC_INIT();
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, &right[i]);
    for (int i = 0; i < 20; i++) GC_gcollect();
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    printf("%d\n", right[0] + right[1] + right[2] + right[3]);
    return 0;
}
"#;

/// `gleaner exec` of `program`, on Gleaner's library as it is now.
fn exec(program: &PathBuf, words: &[&str]) -> Command {
    let mut command = gleaner();
    command
        .env("GLEANER_LIBGC", library())
        .env_remove(ASAN)
        .args(["exec", "--"])
        .arg(program)
        .args(words);
    command
}

const ASAN: &str = "ASAN_OPTIONS";

fn output(mut command: Command) -> Output {
    command.output().unwrap()
}

/// On stock libgc, to test the test.
fn stock(program: &PathBuf, words: &[&str]) -> Output {
    let mut command = clean(Command::new(program));
    command.env_remove(ASAN).args(words);
    output(command)
}

#[test]
fn programs_built_with_sanitizers_run_and_what_these_find_is_reported() {
    let directory = Directory::new();
    for (sanitizer, fault, finds) in [
        ("address", "use-after-free", "heap-use-after-free"),
        ("address", "leak", "77 byte(s) leaked in 1 allocation(s)"),
        ("leak", "leak", "77 byte(s) leaked in 1 allocation(s)"),
        ("undefined", "overflow", "signed integer overflow"),
        ("thread", "use-after-free", "heap-use-after-free"),
    ] {
        let flag = format!("-fsanitize={sanitizer}");
        let program = directory.compile(sanitizer, PROGRAM, &["-g", &flag, "-lgc"]);
        for run in [stock(&program, &[]), output(exec(&program, &[]))] {
            assert_eq!(assert_succeeds(&run), PRINTED, "{sanitizer}");
            assert_eq!(stderr(&run), "", "{sanitizer}");
        }
        let expected = stock(&program, &[fault]);
        let found = output(exec(&program, &[fault]));
        assert_eq!(found.status, expected.status, "{sanitizer}: {found:?}");
        for run in [expected, found] {
            assert_eq!(stdout(&run), PRINTED, "{sanitizer}");
            let said = stderr(&run);
            assert!(said.contains(finds), "{sanitizer}: {said}");
        }
    }
}

/// What a program starts may be built with a sanitizer, and need not use libgc.
#[test]
fn a_program_built_with_asan_that_another_starts_runs() {
    let directory = Directory::new();
    let flags = ["-fsanitize=address"];
    let program = directory.compile("program", "int main(void) { return 37; }", &flags);
    let run = gleaner()
        .env("GLEANER_LIBGC", library())
        .args(["exec", "--any", "--", "/bin/sh", "-c", "\"$0\"; exit $?"])
        .arg(program)
        .output()
        .unwrap();
    assert_eq!((run.status.code(), &*stderr(&run)), (Some(37), ""));
}

#[test]
fn options_of_asan_are_kept_and_win() {
    let directory = Directory::new();
    let program = directory.compile("program", PROGRAM, &["-fsanitize=address", "-lgc"]);
    let with = |options: &str, words: &[&str]| {
        let mut command = exec(&program, words);
        command.env(ASAN, options);
        output(command)
    };
    assert_eq!(
        with("exitcode=41", &["use-after-free"]).status.code(),
        Some(41)
    );
    assert_succeeds(&with("detect_leaks=0", &["leak"]));
    let strict = with("verify_asan_link_order=1", &[]);
    assert!(
        stderr(&strict).contains("does not come first"),
        "{strict:?}"
    );
}

/// As for a program that is not built with it: what lives in `malloc`'s heap is known then, and no more.
#[test]
fn the_runtime_of_asan_may_be_preloaded() {
    let directory = Directory::new();
    let program = directory.compile("program", PROGRAM, &["-lgc"]);
    let mut which = Command::new("gcc");
    which.arg("-print-file-name=libasan.so");
    let runtime = assert_succeeds(&output(which));
    let mut command = exec(&program, &["leak"]);
    command.env("LD_PRELOAD", runtime.trim());
    let found = output(command);
    assert_eq!(stdout(&found), PRINTED);
    assert!(stderr(&found).contains("77 byte(s) leaked"), "{found:?}");
}

/// ThreadSanitizer delivers signals when the thread next calls a function that it knows: threads that wait for the
/// collector would never stop.
#[test]
fn tsan_with_several_threads_ends_with_the_remedy_which_works() {
    let directory = Directory::new();
    let flags = ["-fsanitize=thread", "-lgc", "-pthread"];
    let program = directory.compile("program", THREADS, &flags);
    let ended = output(exec(&program, &[]));
    assert_eq!(ended.status.signal(), Some(libc::SIGABRT), "{ended:?}");
    let said = stderr(&ended);
    assert!(
        said.contains("ThreadSanitizer") && said.contains("GC_DONT_GC=1"),
        "{said}"
    );
    let mut command = exec(&program, &[]);
    command.env("GC_DONT_GC", "1");
    let run = output(command);
    assert_eq!(assert_succeeds(&run), "4\n");
    assert_eq!(stderr(&run), "");
}

#[test]
fn other_allocators_serve_malloc_preloaded_and_linked() {
    let directory = Directory::new();
    let plain = directory.compile("plain", THREADS, &["-lgc", "-pthread"]);
    for allocator in [
        "libjemalloc.so.2",
        "libmimalloc.so.2",
        "libtcmalloc_minimal.so.4",
        "libtcmalloc_minimal_debug.so.4",
    ] {
        let link = format!("-l:{allocator}");
        let flags = ["-Wl,--no-as-needed", &link, "-lgc", "-pthread"];
        let linked = directory.compile(allocator, THREADS, &flags);
        let mut preloaded = exec(&plain, &[]);
        preloaded.env("LD_PRELOAD", allocator);
        let mut stressed = exec(&linked, &[]);
        stressed.env("GLEANER_OPTIONS", "stress=100,verify=edges,poison=on");
        for command in [preloaded, exec(&linked, &[]), stressed] {
            let run = output(command);
            assert_eq!(assert_succeeds(&run), "4\n", "{allocator}");
            assert_eq!(stderr(&run), "", "{allocator}");
        }
    }
}
