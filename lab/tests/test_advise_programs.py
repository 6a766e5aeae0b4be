"""The advisor's space, what runs a program and how it is asked, and one run."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from gleaner_lab.advise import advisor, files, measure, options, page, refuse, runtime, space
from gleaner_lab.advise.race import Race, Rules
from gleaner_lab.advise.runtime import Program, java_options, program_of
from gleaner_lab.advise.space import REFERENCE, Cell, Machine
from gleaner_lab.failure import Failure
from gleaner_lab.store import ResultSet
from gleaner_lab.workload import ROOT

ONE_SOCKET, TWO_SOCKETS = Machine(((0, 1),)), Machine(((0, 1, 2, 3), (4, 5, 6, 7)))


def test_the_space_has_what_differs_on_the_machine():
    assert space.placements(Machine(((0,),)), True) == [""]
    one = space.placements(ONE_SOCKET, False)
    assert one == ["", "none,processors=0", "pinned", "isolated", "auto"]
    two = space.placements(TWO_SOCKETS, True)
    assert {"none,sockets=1", "paired", "paper", "isolated,isolate=jvm"} <= set(two)
    assert TWO_SOCKETS.idle == "1 of 2 sockets"
    assert space.thread_counts(ONE_SOCKET, True) == [0, 1]
    assert space.thread_counts(TWO_SOCKETS, False) == [0, 1, 4, 8]
    cells = space.cells_of(["", "auto"], ["", "Serial"], [0, 2], ["", "8m"])
    assert cells[0] == REFERENCE
    assert Cell("", "Serial", 2, "") not in cells
    assert len(cells) == 12


def program(kind, *words):
    return Program(words, kind, Path("/opt/gleaner"))


def test_half_of_a_machine_is_half_of_its_cores(tmp_path):
    for processor in range(8):
        topology = tmp_path / f"cpu{processor}" / "topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text("0\n")
        first = processor % 4
        (topology / "thread_siblings_list").write_text(f"{first},{first + 4}\n")
    machine = Machine.of(list(range(8)), tmp_path)
    assert machine.half == "none,processors=0+1+4+5"
    assert machine.idle == "2 of 4 cores"
    # One thread of each core alone may be used.
    assert Machine.of([0, 1, 2, 3], tmp_path).half == "none,processors=0+1"
    # One core: no half of it is idle.
    one = Machine.of([0, 4], tmp_path)
    assert one.half == "" and space.placements(one, False).count("") == 1


def test_a_jvm_is_asked_in_its_own_words_which_replace_the_old_ones():
    java = program("java", "java", "-Xmx4g", "-XX:+UseSerialGC", "-cp", "x", "Main", "-Xmx9")
    assert java.shown(Cell("pinned,pin=collector", "G1", 2, "64m")) == (
        "gleaner place --opt placement=pinned,pin=collector -- java -cp x "
        "-XX:+UseG1GC -XX:ParallelGCThreads=2 -Xmx64m Main -Xmx9"
    )
    assert java.shown(Cell(threads=1)) == (
        "java -Xmx4g -XX:+UseSerialGC -cp x -XX:ParallelGCThreads=1 Main -Xmx9"
    )
    assert java.shown(REFERENCE) == "java -Xmx4g -XX:+UseSerialGC -cp x Main -Xmx9"
    assert java_options(["-cp", "x", "-jar", "-Xmx1"]) == ["-cp", "x"]
    script = program("java", "./start.sh", "a b")
    assert script.shown(Cell(heap="1g")) == "env JAVA_TOOL_OPTIONS=-Xmx1g ./start.sh 'a b'"


def test_a_jvm_under_a_placement_keeps_the_collector_that_it_takes_without():
    java = replace(program("java", "java", "Main"), own_collector="G1")
    # Where it is told of one processor it would take Serial by itself.
    assert java.shown(Cell("none,processors=0")) == (
        "gleaner place --opt placement=none,processors=0 -- java -XX:+UseG1GC Main"
    )
    assert java.shown(Cell("none,processors=0", "Serial")).endswith("java -XX:+UseSerialGC Main")
    assert java.shown(REFERENCE) == "java Main"
    assert java.shown(Cell(threads=1)) == "java -XX:ParallelGCThreads=1 Main"
    said = replace(program("java", "java", "-XX:+UseG1GC", "Main"), own_collector="G1")
    assert said.shown(Cell("auto")).endswith("-- java -XX:+UseG1GC Main")
    script = replace(program("java", "./start.sh"), own_collector="Parallel")
    assert script.shown(Cell("auto")) == (
        "env JAVA_TOOL_OPTIONS=-XX:+UseParallelGC gleaner place --opt placement=auto -- ./start.sh"
    )


@pytest.mark.parametrize(("said", "kept"), [("G1", "G1"), ("Z", "Z"), ("Concurrent", "")])
def test_the_collector_that_a_jvm_takes_is_read_from_its_first_run(tmp_path, said, kept):
    record = {"values": {"wall_s": 2.0, "peak_kb": 1 << 14}, "collector": said}

    class Bench:
        limit_s = 0.0

        def run(self, cell):
            return dict(record)

    results = ResultSet.create(tmp_path / "out", "{}")
    told = []
    whole = advisor.Advisor(
        program("java", "java", "Main"),
        Bench(),
        results,
        advisor.Wishes(heaps=[""]),
        ONE_SOCKET,
        Rules(),
        lambda *_: None,
        tell=told.append,
    )
    cells = whole.cells()
    assert told == [2.0]
    assert whole.program.own_collector == whole.bench.program.own_collector == kept
    assert said not in {cell.collector for cell in cells}


@pytest.mark.parametrize(
    "option",
    [
        *("-cp", "-classpath", "--class-path", "-p", "--module-path", "--upgrade-module-path"),
        *("--add-modules", "--limit-modules", "--add-exports", "--add-opens", "--add-reads"),
        *("--patch-module", "--enable-native-access", "--source"),
    ],
)
def test_an_option_of_java_keeps_its_value(option):
    java = program("java", "java", option, "a=b", "-Xss1m", "Main", option)
    assert java.shown(Cell(threads=1)) == (
        f"java {option} a=b -Xss1m -XX:ParallelGCThreads=1 Main {option}"
    )


def test_java_may_have_its_words_in_a_file_and_a_module_may_be_named_in_one_word(tmp_path):
    words = tmp_path / "words"
    words.write_text("-Xmx4g -cp 'a b' # ours\nMain @x")
    java = program("java", "java", "-Xms2g", f"@{words}", "-Xmx9")
    assert java.shown(Cell(heap="64m")) == "java -cp 'a b' -Xmx64m Main @x -Xmx9"
    module = program("java", "java", "--module=m/C", "-Xmx9")
    assert module.shown(Cell(heap="64m")) == "java -Xmx64m --module=m/C -Xmx9"
    with pytest.raises(Failure, match="this file of java's arguments"):
        program("java", "java", "@/none/such").shown(REFERENCE)


def test_what_the_environment_says_is_measured_and_pasted(tmp_path, monkeypatch):
    for name in ("libgc-program", "gleaner"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    path, gleaner = str(tmp_path / "libgc-program"), tmp_path / "gleaner"
    for name, value in (("GLEANER_OPTIONS", "stats=on,huge-pages=off"), ("GC_NPROCS", "2")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xss2m")
    libgc = program_of([path], None, gleaner)
    assert libgc.shown(Cell("auto", threads=2)) == (
        "env GC_NPROCS=2 GLEANER_OPTIONS=stats=on,huge-pages=off "
        f"gleaner place --opt placement=auto -- gleaner exec --opt markers=2 -- {path}"
    )
    bench = measure.Bench(Path("/opt/bench"), libgc, tmp_path, 7)
    words = " ".join(bench.command(Cell(threads=2), tmp_path / "log"))
    assert "--opt stats=on --opt huge-pages=off --opt markers=2 --" in words
    own = program_of([path], "gleaner", gleaner)
    assert own.shown(REFERENCE) == f"env GLEANER_OPTIONS=stats=on,huge-pages=off {path}"
    assert own.shown(Cell(threads=1)) == (
        f"env GLEANER_OPTIONS=stats=on,huge-pages=off,workers=1 {path}"
    )
    script = program_of([path], "java", gleaner)
    assert script.shown(REFERENCE) == f"env JAVA_TOOL_OPTIONS=-Xss2m {path}"
    assert script.shown(Cell(heap="1g")) == f"env 'JAVA_TOOL_OPTIONS=-Xss2m -Xmx1g' {path}"
    monkeypatch.setenv("_JAVA_OPTIONS", "-Xss2m -Xmx1g")
    with pytest.raises(Failure, match="_JAVA_OPTIONS says -Xmx1g"):
        program_of([path], "java", gleaner)


def test_words_of_the_environment_that_a_cell_replaces_are_left_out():
    said = (("JAVA_TOOL_OPTIONS", "-XX:+UseSerialGC -Xms1g -Xss2m"), ("JDK_JAVA_OPTIONS", "-Xmx2g"))
    java = Program(("java", "Main"), "java", Path("gleaner"), said)
    assert java.shown(Cell(collector="G1", heap="64m")) == (
        "env JAVA_TOOL_OPTIONS=-Xss2m JDK_JAVA_OPTIONS= java -XX:+UseG1GC -Xmx64m Main"
    )
    words = java.command(Cell(collector="G1"))
    assert words[:3] == ["env", "JAVA_TOOL_OPTIONS=-Xms1g -Xss2m", "java"]
    assert java.command(Cell(threads=1))[0] == "java"
    script = Program(("./start.sh",), "java", Path("gleaner"), said[:1])
    assert script.shown(Cell(collector="G1")) == (
        "env 'JAVA_TOOL_OPTIONS=-Xms1g -Xss2m -XX:+UseG1GC' ./start.sh"
    )


def test_before_the_first_run_as_many_cells_are_expected_as_there_will_be():
    wishes = advisor.Wishes()
    for words, own in ((["Main"], "G1"), (["-XX:+UseSerialGC", "Main"], "Serial")):
        java = program("java", "java", *words)
        expected = refuse.expected(java, wishes, ONE_SOCKET)
        found = advisor.space_of(java, wishes, ONE_SOCKET, own, ["", "8m", "16m"])
        assert [one.levels[:3] for one in expected] == [one.levels[:3] for one in found]
    for kind, heaps in (("libgc", 5), ("gleaner", 6)):
        expected = refuse.expected(program(kind, "x"), wishes, ONE_SOCKET)
        assert len({one.heap for one in expected}) == heaps


def test_a_collector_that_java_has_not_is_refused(tmp_path):
    java = tmp_path / "java"
    java.write_text(
        "#!/bin/sh\n"
        'case "$*" in *-agent*|*Xmx*) exit 1 ;; *Unlock*|*UseG1GC*) exit ;; esac\n'
        'echo "Unrecognized VM option" >&2; exit 1\n'
    )
    java.chmod(0o755)
    runtime.check_collector("G1", program("java", str(java), "-agentlib:x", "-Xmx4g", "Main"))
    with pytest.raises(Failure, match="--collector Foo: Unrecognized VM option"):
        runtime.check_collector("Foo", program("java", str(java), "Main"))
    unlocked = program("java", str(java), "-XX:+UnlockExperimentalVMOptions", "Main")
    runtime.check_collector("Epsilon", unlocked)
    runtime.check_collector("Foo", program("java", "./start.sh"))


def test_options_are_those_that_gleaner_lists():
    page = (ROOT / "docs" / "options.md").read_text()
    documented = re.findall(r"^\| `([a-z0-9-]+)` \|", page, re.MULTILINE)
    assert set(options.ASIDE) < set(documented)
    gleaner = ROOT / "target" / "release" / "gleaner"
    if gleaner.exists():
        found = options.listed(gleaner)
        assert [one.name for one in found] == documented
        assert {one.group for one in found} == {"user", "tuning", options.TESTING}
        assert {one.heap for one in found} == {"libgc", "precise", "both"}
        assert next(one for one in found if one.name == "stress").default == "0"


def test_the_files_of_a_command_are_those_that_make_another_program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    named = {"a.jar", "b/C.class", "lib/d.jar", "agent.jar", "words", "e.conf"}
    for name in [*named, "b/note.txt", "D.class"]:
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("-Xss1m")
    words = ["java", "-cp", "a.jar:b:lib/*", "-javaagent:agent.jar=x", "@words", "Main"]
    words.append("--conf=e.conf")
    found = files.digests(program("java", *words))
    assert {name for name in found if not name.startswith("/")} == named
    # Without a class path it is the directory, or what CLASSPATH says.
    assert "D.class" in files.digests(program("java", "java", "D"))
    assert "D.class" not in files.digests(program("java", "java", "-jar", "a.jar"))
    said = Program(("java", "D"), "java", Path("gleaner"), (("CLASSPATH", "a.jar"),))
    assert {"a.jar"} == {name for name in files.digests(said) if not name.startswith("/")}
    script = Path("run")
    script.write_text("#!/usr/bin/env sh\n")
    script.chmod(0o755)
    found = files.digests(program("libgc", "./run", "x" * 5000))
    assert {"run", "/usr/bin/env"} < set(found)
    assert any(name.endswith("/sh") for name in found)
    before = files.digests(program("java", *words))
    Path("b/C.class").write_text("other")
    after = files.digests(program("java", *words))
    assert {name for name in after if after[name] != before[name]} == {"b/C.class"}


def test_gleaner_is_asked_by_options():
    libgc, own = program("libgc", "guile", "x.scm"), program("gleaner", "./own")
    cell = Cell(threads=2, heap="free-space-divisor=1+initial-heap=64m")
    options = ["markers=2", "free-space-divisor=1", "initial-heap=64m"]
    assert libgc.options(cell) == options
    assert libgc.shown(Cell(heap="64m")) == "gleaner exec --opt heap-limit=64m -- guile x.scm"
    assert own.shown(Cell("auto", "", 2)) == (
        "env GLEANER_OPTIONS=workers=2 gleaner place --opt placement=auto -- ./own"
    )
    assert own.shown(REFERENCE) == "./own"


def test_pauses_of_a_jvm_are_all_its_stops():
    new = '[0.1s][info] Safepoint "G1", Total: 2000000 ns\n[0.2s] Safepoint "x", Total: 500000 ns\n'
    assert measure.pauses(new)["longest_pause_s"] == pytest.approx(0.002)
    old = "Total time for which application threads were stopped: 0.0123 seconds, Stopping"
    assert measure.pauses(old)["total_pause_s"] == pytest.approx(0.0123)
    assert measure.pauses("")["longest_pause_s"] == 0


LOG = """\
[0.008s][info][gc] Using {}
[0.010s][info][gc,init] CPUs: 2 total, {} available
"""


def test_what_a_jvm_decides_by_itself_is_read():
    log = LOG.format("G1", 2) + "[info][gc,init] Parallel Workers: 2\n[gc] Concurrent Workers: 1\n"
    assert measure.decided(log) == (
        "G1, told of 2 processors, 2 parallel workers, 1 concurrent worker"
    )
    assert measure.decided(LOG.format("Serial", 1)) == "Serial, told of 1 processor"
    assert measure.decided("") == ""


def test_what_a_placement_made_a_jvm_decide_is_said():
    runs = [
        (Cell(), "G1, told of 2 processors"),
        (Cell(collector="Serial"), "Serial, told of 2 processors"),
        (Cell("pinned"), "G1, told of 2 processors"),
        (Cell("none,processors=0"), "Serial, told of 1 processor"),
        (Cell("none,processors=0", "Serial"), "Serial, told of 1 processor"),
        (Cell("pinned", "Serial"), "Serial, told of 2 processors"),
        # Nobody knows what it does without.
        (Cell("pinned", "Parallel"), "Parallel, told of 1 processor"),
        (Cell("auto"), ""),
    ]
    made = [(cell, 0, {"decided": said}) for cell, said in runs]
    said = page._decided(Race([cell for cell, _ in runs], Rules(), made))
    assert said == [
        "Under the placement none,processors=0 the JVM itself decided otherwise: Serial, told of 1 "
        "processor, in place of G1, told of 2 processors. What such cells gain or lose is not the "
        "placement's alone."
    ]


def test_energy_is_that_of_the_packages_and_may_wrap(tmp_path):
    zones = (
        ("intel-rapl:0", "package-0", 900),
        ("intel-rapl:1", "package-1", 5),
        ("intel-rapl:0:0", "core", 7),
        ("intel-rapl:2", "psys", 8),
        ("intel-rapl-mmio:0", "package-0", 9),
    )
    for name, what, value in zones:
        (tmp_path / name).mkdir()
        (tmp_path / name / "name").write_text(f"{what}\n")
        (tmp_path / name / "energy_uj").write_text(f"{value}\n")
        (tmp_path / name / "max_energy_range_uj").write_text("1000\n")
    energy = measure.Energy.here(tmp_path)
    before = energy.read()
    assert sorted(before) in ([5, 9], [5, 900])
    (tmp_path / "intel-rapl-mmio:0" / "energy_uj").write_text("209\n")
    (tmp_path / "intel-rapl:0" / "energy_uj").write_text("100\n")
    (tmp_path / "intel-rapl:1" / "energy_uj").write_text("25\n")
    assert energy.since(before) == pytest.approx(220e-6)
    assert measure.Energy.here(tmp_path / "none").read() == []


def test_the_environment_of_a_run_is_in_no_command(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET", "it's hidden")
    bench = measure.Bench(Path("/opt/bench"), program("libgc", "guile"), tmp_path, 7)
    words = bench.command(Cell(threads=2), tmp_path / "log")
    assert not any("hidden" in word for word in words)
    script = tmp_path / "environment"
    assert script.stat().st_mode & 0o077 == 0
    shown = subprocess.run([script, "sh", "-c", "echo $SECRET"], capture_output=True, text=True)
    assert shown.stdout == "it's hidden\n"
