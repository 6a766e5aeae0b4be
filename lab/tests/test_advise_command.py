"""The command `gleaner-lab advise` on a stand-in for gleaner-bench."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time

import pytest

from gleaner_lab import cli, start
from gleaner_lab.advise import advisor
from gleaner_lab.advise.space import Machine
from gleaner_lab.store import ResultSet

BENCH = """#!/bin/sh
case "$*" in *--check*) ;; *) echo "$*" >> "$ADVISE_RUNS" ;; esac
[ -z "$ADVISE_PAUSE" ] || sleep "$ADVISE_PAUSE"
case "$*$ADVISE_FAILS" in
    *--check*heap-limit=*q*|*--check*no-such*|*--check*markers=1000*)
        echo "gleaner-bench: that is wrong" >&2; exit 2 ;;
    *--check*) exit ;;
    *initial-heap=20m*|*GC_INITIAL_HEAP_SIZE=20m*|*fails)
        printf '{"problem": "exit status: 1: Out of memory!"}\\n'; exit ;;
esac
wall=$((1000 + $$ % 10))
case "$*" in *divisor=8*) wall=$((wall + 200)) ;; *divisor=1*) wall=$((wall - 300)) ;; esac
case "$*" in *place*) wall=$((wall + 100)) ;; esac
printf '{"wall_s": %d.%03d, "cpu_s": 0.%03d, "peak_kb": 10240, ' \\
    $((wall / 1000)) $((wall % 1000)) $((999 - wall / 3))
printf '"collector": {"longest_pause_s": 0.0%d, "total_pause_s": 0.02}}\\n' $wall
"""
GLEANER = """#!/bin/sh
case "$*" in
    "options --all") cat "$0.options" ;;
    *placement=wrong*) echo "gleaner: --opt: placement=wrong: none is wanted" >&2; exit 2 ;;
    *--plan*|*/libgc-program) ;;
    *) exit 125 ;;
esac
"""

OPTIONS = """\
user options
  heap-limit=0
      accepted: 1m..64t or 0
      heaps: both
  markers=0
      What it does.
      accepted: 0..64
      heaps: libgc
  workers=0
      What it does.
      accepted: 0..64
      heaps: precise
  free-space-divisor=3
      What it does.
      accepted: 1..1000
      heaps: libgc
  log=none
      What it does.
      accepted: none|PATH of at most 255 bytes
      heaps: both
  stats=off
      What it does.
      accepted: off|on
      heaps: libgc
  snapshot=none
      What it does.
      accepted: none|PATH of at most 255 bytes
      heaps: libgc

tuning options
  prefetch=edges
      What it does.
      accepted: none|on-grey|fifo|edges|auto
      heaps: libgc
  prefetch=edges
      What it does.
      accepted: none|edges
      heaps: precise
  topology=host
      What it does.
      accepted: host|node:N
      heaps: precise

testing options
  verify=off
      What it does.
      accepted: off|edges
      heaps: both
  stress=0
      What it does.
      accepted: 0..4294967295 (0: off)
      heaps: both
  poison=off
      What it does.
      accepted: off|on
      heaps: both
  quarantine=0
      What it does.
      accepted: 0..64 (0: off)
      heaps: precise
  fault=none
      What it does.
      accepted: none|NAME@VISIT+...
      heaps: both
"""


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A stand-in for gleaner-bench and gleaner, and a program that uses libgc."""
    for name, text in (("bench", BENCH), ("gleaner", GLEANER), ("libgc-program", "#!/bin/sh\n")):
        path = tmp_path / name
        path.write_text(text)
        path.chmod(0o755)
    (tmp_path / "gleaner.options").write_text(OPTIONS)
    monkeypatch.setenv("ADVISE_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(Machine, "here", classmethod(lambda _: Machine(((0, 1),))))
    return tmp_path


def advise(tools, *words, program="libgc-program"):
    path = str(tools / program)
    return cli.main(["advise", "--bench", str(tools / "bench"), *words, "--", path, "--size", "2"])


def runs(tools):
    return (tools / "runs").read_text().splitlines()


def test_from_a_program_to_its_answer(tools, capsys):
    words = ["--check", "--repetitions", "3", "--threads", "default,1"]
    words += ["--markdown", str(tools / "page.md")]
    assert advise(tools, "--out", str(tools / "out"), *words) == 0
    assert "| best for |" in (tools / "page.md").read_text()
    text = capsys.readouterr().out
    assert "55 cells on 2 processors on 1 socket" in text
    assert "--opt free-space-divisor=1 -- " in text
    assert "best for time" in text and "best for pauses" in text and "best for core-seconds" in text
    assert "Not measured here: energy" in text
    assert "leave 1 of 2 processors idle" in text
    assert "One socket" in text
    assert "no run with initial-heap=20m worked" in text and "Out of memory!" in text
    assert text.count("The bar for time is ") == 1 and "above the best of 55 cells" in text
    assert "Beside an exhaustive measurement" in text
    answer = (tools / "out" / "advice.html").read_text()
    assert "All cells" in answer
    plan = json.loads((tools / "out" / "experiment.yaml").read_text())
    assert plan["runtime"] == "libgc"
    first = runs(tools)[0]
    limits = [int(one.split("--limit ")[1].split()[0]) for one in runs(tools)]
    assert limits[0] == advisor.FIRST_LIMIT and set(limits[1:]) <= {10, 11, 12, 13}
    assert "--library gleaner --log" in first and first.endswith("libgc-program --size 2")


def test_the_same_command_makes_no_run_again_and_a_larger_budget_more(tools, capsys):
    few = ["--threads", "default", "--goal", "core-seconds", "--margin", "0.001"]
    assert advise(tools, *few, "--budget", "20") == 0
    made = len(runs(tools))
    assert advise(tools, *few, "--budget", "20") == 0
    assert len(runs(tools)) == made
    assert advise(tools, *few, "--budget", "30") == 0
    assert made < len(runs(tools)) <= 31
    few = ["--threads", "1", "--goal", "time"]
    assert advise(tools, *few, "--budget", "20") == 2
    message = capsys.readouterr().err
    assert "space" in message and "--fresh" in message
    assert advise(tools, *few, "--budget", "20", "--fresh") == 0


def test_a_script_that_changed_is_another_program(tools, capsys):
    script = tools / "script"
    script.write_text("one")
    few = ["--threads", "default", "--goal", "time", "--budget", "15"]
    asked = ["advise", "--bench", str(tools / "bench"), *few]
    asked += ["--", str(tools / "libgc-program"), str(script)]
    assert cli.main(asked) == 0
    made = len(runs(tools))
    assert cli.main(asked) == 0
    assert len(runs(tools)) == made
    script.write_text("two")
    assert cli.main(asked) == 2
    assert f"files {script}:" in capsys.readouterr().err
    assert len(runs(tools)) == made
    script.write_text("one")
    assert cli.main(asked) == 0


def test_the_environment_and_the_build_are_those_of_the_runs(tools, capsys, monkeypatch):
    few = ["--threads", "default", "--goal", "time", "--budget", "15"]
    assert advise(tools, *few) == 0
    monkeypatch.setenv("GC_NPROCS", "2")
    assert advise(tools, *few) == 2
    assert "environment GC_NPROCS: None, and now 2" in capsys.readouterr().err
    monkeypatch.delenv("GC_NPROCS")
    (tools / "gleaner").write_text(GLEANER + "# newer\n")
    assert advise(tools, *few) == 2
    assert "tools gleaner:" in capsys.readouterr().err


def test_a_file_that_the_program_writes_does_not_make_it_another_one(tools):
    written = tools / "written"
    bench = (
        (tools / "bench").read_text().replace("wall=$((1000", f"date +%N > {written}; wall=$((1000")
    )
    (tools / "bench").write_text(bench)
    few = ["--threads", "default", "--goal", "time", "--budget", "15"]
    asked = ["advise", "--bench", str(tools / "bench"), *few]
    asked += ["--", str(tools / "libgc-program"), str(written)]
    assert cli.main(asked) == 0
    assert cli.main(asked) == 0


def test_what_is_wrong_is_named_before_anything_runs(tools, capsys):
    for words, message in (
        (["--goal", "tme"], "did you mean time?"),
        (["--threads", "two"], "two is no number of threads"),
        (["--heap", ","], "the list is empty"),
    ):
        assert advise(tools, *words) == 2
        assert message in capsys.readouterr().err
    assert not (tools / "runs").exists()
    assert advise(tools, "--placement", "wrong") == 2
    assert "--placement wrong" in capsys.readouterr().err
    assert advise(tools, "--collector", "G1") == 2
    assert (
        "--collector G1: only a JVM has several; a program that uses libgc may be"
        in capsys.readouterr().err
    )
    assert advise(tools, "--runtime", "java", "--heap", "64,big") == 2
    assert "big is no size for a JVM" in capsys.readouterr().err
    assert not (tools / "runs").exists() and not (tools / "cache" / "gleaner-lab").exists()
    assert advise(tools, program="missing") == 2
    assert "there is no such program" in capsys.readouterr().err
    assert advise(tools, "--markdown", str(tools / "none" / "page.md")) == 2
    assert "there is no such directory" in capsys.readouterr().err
    assert cli.main(["advise", "--bench", sys.executable, "--", "true"]) == 2
    assert "gleaner is not there: run make build" in capsys.readouterr().err
    assert not (tools / "runs").exists()
    other = tools / "other"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    assert advise(tools, program="other") == 2
    assert "--runtime java, libgc or gleaner" in capsys.readouterr().err


def test_a_program_that_fails_as_it_is_ends_it_with_what_it_said(tools, capsys, monkeypatch):
    monkeypatch.setenv("ADVISE_FAILS", "fails")
    assert advise(tools) == 2
    error = capsys.readouterr().err
    assert "the program fails as it is" in error and "Out of memory!" in error
    # Another command may take the directory, for nothing was measured there, and this one may work.
    assert advise(tools, "--threads", "1") == 2
    monkeypatch.setenv("ADVISE_FAILS", "")
    assert advise(tools, "--goal", "time", "--threads", "default", "--budget", "15") == 0


@pytest.mark.parametrize("fresh", [[], ["--fresh"]])
def test_a_directory_of_something_else_is_refused(tools, capsys, fresh):
    ResultSet.create(tools / "out", "name: small\n")
    assert advise(tools, *fresh, "--out", str(tools / "out")) == 2
    assert "holds no advice" in capsys.readouterr().err
    assert (tools / "out" / "form").exists()
    (tools / "notes").mkdir()
    (tools / "notes" / "mine").write_text("")
    assert advise(tools, *fresh, "--out", str(tools / "notes")) == 2
    assert "holds no advice: name another directory" in capsys.readouterr().err
    assert not (tools / "runs").exists()
    # An empty one is no obstacle.
    (tools / "empty").mkdir()
    words = ["--threads", "default", "--goal", "time", "--budget", "15"]
    assert advise(tools, *fresh, *words, "--out", str(tools / "empty")) == 0


def test_the_directory_where_one_is_is_not_dropped(tools, capsys, monkeypatch):
    words = ["--threads", "default", "--goal", "time", "--budget", "15"]
    assert advise(tools, *words, "--out", str(tools / "out")) == 0
    monkeypatch.chdir(tools / "out")
    assert advise(tools, *words, "--fresh", "--out", ".") == 2
    assert "is where you are: leave it" in capsys.readouterr().err
    assert (tools / "out" / "form").exists()


def test_what_lies_beside_a_dropped_directory_stays(tools):
    words = ["--threads", "default", "--goal", "time", "--budget", "15"]
    (tools / "out.dropped").mkdir()
    (tools / "out.dropped" / "mine").write_text("")
    for fresh in ([], ["--fresh"]):
        assert advise(tools, *words, *fresh, "--out", str(tools / "out")) == 0
    assert (tools / "out.dropped" / "mine").exists()
    assert sorted(one.name for one in tools.glob("out*")) == ["out", "out.dropped"]


def test_where_the_disk_is_full_it_says_how_to_go_on(tools, capsys, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gleaner_lab.store.os.fsync", full)
    assert advise(tools, "--out", str(tools / "out")) == 2
    said = capsys.readouterr().err
    assert "make room and give the same command again" in said and "resume" not in said


def test_stopped_it_tells_what_it_knows_and_goes_on(tools):
    words = ["advise", "--bench", str(tools / "bench"), "--out", str(tools / "out")]
    words += ["--threads", "default", "--goal", "time", "--budget", "30"]
    words += ["--", str(tools / "libgc-program")]
    environment = {**os.environ, "ADVISE_PAUSE": "0.3"}
    child = subprocess.Popen(
        [sys.executable, "-m", "gleaner_lab.cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    journal = tools / "out" / "runs.jsonl"
    while child.poll() is None and not (journal.exists() and len(journal.open().readlines()) > 4):
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 130, err
    assert "stopped; to go on: gleaner-lab advise" in err
    assert "this is what is known so far" in out
    kept = journal.read_text().splitlines()
    assert 4 < len(kept) < 31
    assert cli.main(words) == 0
    assert journal.read_text().splitlines()[: len(kept)] == kept


def test_stopped_while_it_begins_it_says_so(tools, monkeypatch, capsys):
    def interrupted(*_):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(advisor, "plan_of", interrupted)
    assert advise(tools, "--out", str(tools / "out")) == 130
    said = capsys.readouterr().err
    assert "stopped; the same command goes on from there" in said and "resume" not in said

    def mistaken(*_):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt as error:
            # As a module does that is being imported.
            raise ImportError("half of it") from error

    monkeypatch.setattr(advisor, "plan_of", mistaken)
    assert advise(tools, "--out", str(tools / "out")) == 130
    monkeypatch.setattr(advisor, "plan_of", lambda *_: {}["an error of its own"])
    with pytest.raises(KeyError):
        advise(tools, "--out", str(tools / "out"))


def test_heaps_that_cannot_be_had_are_refused_before_anything_runs(tools, capsys):
    for wrong in ("no-such=1", "heap-limit=1q", "default,free-space-divisor=2+no-such=2"):
        assert advise(tools, "--heap", wrong) == 2
        said = capsys.readouterr().err
        assert f"--heap {wrong.split(',')[-1]}: that is wrong" in said
    assert advise(tools, "--heap", "default,10x") == 2
    assert "--heap 10x: 10x is neither a size such as 64m nor NAME=VALUE" in capsys.readouterr().err
    assert advise(tools, "--heap", "64m+markers=1") == 2
    assert (
        "64m is a size, and beside options it is written heap-limit=64m" in capsys.readouterr().err
    )
    assert advise(tools, "--threads", "default,1000") == 2
    assert "--threads 1000: that is wrong" in capsys.readouterr().err
    assert not (tools / "runs").exists()


def test_the_page_has_the_command_that_was_given(tools):
    asked = ["--goal", "core-seconds", "--goal", "time", "--placement", "default"]
    asked += ["--placement", "isolated,isolate=gc", "--threads", "default,1"]
    asked += ["--heap", "default,free-space-divisor=1+huge-pages=off", "--budget", "20"]
    asked += ["--margin", "2", "--seed", "3", "--repetitions", "7"]
    page, bench = tools / "page.md", ["--bench", str(tools / "bench")]
    assert advise(tools, *asked, "--markdown", str(page)) == 0
    program = [str(tools / "libgc-program"), "--size", "2"]
    assert shlex.join(["gleaner-lab", "advise", *asked, *bench, "--", *program]) in page.read_text()
    told = ["--goal", "pauses", "--goal", "time", "--goal", "core-seconds", "--goal", "energy"]
    told += ["--runtime", "libgc", "--threads", "default", "--budget", "20"]
    assert advise(tools, "--fresh", *told, "--markdown", str(page)) == 0
    assert shlex.join(["gleaner-lab", "advise", *told, *bench, "--", *program]) in page.read_text()
    # The usual space of a program has no words.
    assert advise(tools, "--fresh", "--budget", "40", "--markdown", str(page)) == 0
    short = shlex.join(["gleaner-lab", "advise", "--budget", "40", *bench, "--", *program])
    assert short in page.read_text()


def test_the_command_to_repeat_is_whole_and_quoted(tools, monkeypatch):
    out, page = tools / "a place's own", tools / "page.md"
    asked = ["--goal", "time", "--threads", "default", "--budget", "15", "--out", str(out)]
    asked += ["--bench", str(tools / "bench")]
    monkeypatch.setenv("GC_NPROCS", "2")
    program = [str(tools / "libgc-program"), "--fresh", "two words", "it's", "--", "x"]
    words = ["advise", *asked, "--markdown", str(page), "--", *program]
    assert cli.main(words) == 0
    (shown,) = [line[4:] for line in page.read_text().splitlines() if line.startswith("    env")]
    assert shlex.split(shown) == [
        "env",
        "GC_NPROCS=2",
        "gleaner-lab",
        "advise",
        *asked,
        "--",
        *program,
    ]
    made = len(runs(tools))
    assert cli.main(shlex.split(shown)[3:]) == 0
    assert len(runs(tools)) == made
    # Of a check it says how often it measured.
    checked = ["--check", "--rounds", "3", "--repetitions", "2"]
    assert cli.main(["advise", *checked, *words[1:]]) == 0
    assert f"--repetitions 2 --rounds 3 --check --out '{tools}" in page.read_text().replace(
        "'\"'\"'", ""
    )


def test_stopped_it_says_the_whole_command(tools, monkeypatch, capsys):
    def interrupted(*_):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(advisor.Advisor, "race", interrupted)
    monkeypatch.setattr(sys, "argv", ["gleaner-lab", "something", "else"])
    out = tools / "a place"
    given = ["--bench", str(tools / "bench"), "--out", str(out), "--fresh", "--markdown", "y.md"]
    given += ["--margin", "2", "--", str(tools / "libgc-program"), "--fresh"]
    assert cli.main(["advise", *given]) == 130
    (shown,) = [
        line.partition("to go on: ")[2]
        for line in capsys.readouterr().err.splitlines()
        if "to go on" in line
    ]
    told = ["--margin", "2", "--out", str(out), "--bench", str(tools / "bench")]
    told += ["--markdown", "y.md", "--", str(tools / "libgc-program"), "--fresh"]
    assert shlex.split(shown) == ["gleaner-lab", "advise", *told]


def test_a_program_beside_one_is_looked_at_there(tools, monkeypatch, capsys):
    monkeypatch.chdir(tools)
    words = ["advise", "--bench", str(tools / "bench"), "--threads", "default", "--budget", "20"]
    assert cli.main([*words, "--goal", "time", "--", "./libgc-program"]) == 0
    assert "-- ./libgc-program" in capsys.readouterr().out


def test_what_is_loaded_first_may_be_stopped_too(monkeypatch, capsys):
    def interrupted(name, *_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("builtins.__import__", interrupted)
        status = start.main()
    assert status == 130
    assert "gleaner-lab: stopped" in capsys.readouterr().err


def test_what_takes_longest_to_load_may_be_stopped():
    program = """
import builtins
load = builtins.__import__
def stopped(name, *words):
    if name == "scipy.linalg":
        raise KeyboardInterrupt
    return load(name, *words)
builtins.__import__ = stopped
import gleaner_lab.start
"""
    asked = [sys.executable, "-c", program]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "\ngleaner-lab: stopped\n")


def test_a_goal_that_is_named_twice_is_one(tools, capsys):
    words = ["--threads", "default", "--budget", "20", "--goal", "time", "--goal", "time"]
    assert advise(tools, *words) == 0
    assert capsys.readouterr().out.count("best for time") == 1


def test_a_list_of_the_command_line():
    assert advisor.levels("default, 64m,") == ["", "64m"]


def test_a_limit_is_one_heap_however_it_is_named(tools, capsys):
    words = ["--goal", "time", "--threads", "default", "--placement", "default"]
    heaps = "default,64m,heap-limit=64m,initial-heap=8m,initial-heap=8m+heap-limit=64m"
    assert advise(tools, *words, "--heap", heaps) == 0
    # On Gleaner's libgc and on the installed one.
    assert "8 cells on" in capsys.readouterr().out


def test_the_installed_libgc_is_among_the_cells(tools, capsys, monkeypatch):
    monkeypatch.setenv("GLEANER_OPTIONS", "huge-pages=off")
    fast = BENCH.replace('case "$*" in *place*', 'case "$*" in *stock*) wall=450 ;; *place*')
    (tools / "bench").write_text(fast)
    words = ["--threads", "default", "--placement", "default", "--goal", "time"]
    assert advise(tools, *words, "--budget", "40", "--out", str(tools / "out")) == 0
    text = capsys.readouterr().out
    assert "placement default, collector threads stock default" in text
    assert "On the installed libgc (stock) it takes, of that: time 0.4" in text
    pasted = [line for line in text.splitlines() if line.endswith("libgc-program --size 2")]
    assert pasted and "gleaner exec" not in pasted[0] and "GLEANER_OPTIONS" not in pasted[0]
    stock = [one for one in runs(tools) if "--library stock" in one]
    assert stock and not any("--opt" in one for one in stock)
    heaps = {word for one in stock for word in one.split() if word.startswith("GC_")}
    assert heaps == {f"GC_FREE_SPACE_DIVISOR={one}" for one in (1, 2, 8)} | {
        "GC_INITIAL_HEAP_SIZE=20m"
    }


def test_the_installed_libgc_has_no_cell_that_it_has_no_word_for(tools, capsys):
    words = ["--placement", "default", "--threads", "default,1", "--collector", "default,stock"]
    words += ["--heap", "default,free-space-divisor=1+huge-pages=off", "--goal", "time"]
    assert advise(tools, *words) == 0
    assert "6 cells on" in capsys.readouterr().out
    assert any("GC_MARKERS=1" in one for one in runs(tools))


def test_it_says_at_once_how_long_it_will_take(tools, capsys):
    words = ["--threads", "default", "--placement", "default", "--goal", "time", "--budget", "15"]
    assert advise(tools, *words) == 0
    said = capsys.readouterr().err
    assert "at most 15 runs; the first one tells how long they take" in said
    assert "s as it is: at most 15 runs more, about 15 s" in said
    assert advise(tools, *words, "--quiet", "--fresh") == 0
    assert capsys.readouterr().err == ""
    checked = ["--check", "--repetitions", "2", "--rounds", "3"]
    assert advise(tools, *words, *checked, "--fresh") == 0
    assert "at most 47 runs;" in capsys.readouterr().err


def test_what_the_advisor_ran_is_no_experiment(tools, capsys):
    out = tools / "out"
    words = ["--goal", "time", "--threads", "default", "--placement", "default", "--heap"]
    assert advise(tools, *words, "default,64m", "--out", str(out)) == 0
    for command in (["report", str(out)], ["resume", str(out)], ["compare", str(out), str(out)]):
        assert cli.main(command) == 2
        said = capsys.readouterr().err
        assert f"{out} holds what gleaner-lab advise has run" in said
        assert f"its answer is {out / 'advice.html'}" in said


ONE_PLACE = ("--placement=default", "--budget=1")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        # Two values of one setting in a cell, however they are said.
        (
            ["--threads", "default,2", "--heap", "markers=1"],
            "--threads 2 and --heap markers=1 contradict each other: list the numbers to try in "
            "--threads alone",
        ),
        (["--heap", "default,markers=1"], "--threads 2, which is tried unless --threads says"),
        (
            ["--placement", "isolated,collectors=1", "--threads", "2"],
            "--placement isolated,collectors=1 and --threads 2 contradict each other",
        ),
        (
            ["--heap", "free-space-divisor=1+free-space-divisor=2"],
            "--heap free-space-divisor=1 and --heap free-space-divisor=2 contradict each other: "
            "try one value at a time",
        ),
        # What is no candidate.
        (["--heap", "log=x"], "--heap: log=x is no candidate: the advisor has a log written"),
        (["--heap", "default,stats=on"], "--heap: stats=on is no candidate: it has something"),
        (["--heap", "free-space-divisor=2+snapshot=x"], "--heap: snapshot=x is no candidate"),
        (["--heap", "fault=allocation@1"], "--heap: fault=allocation@1 is no candidate: it is for"),
        (["--heap", "stress=100"], "--heap: stress=100 is no candidate: it is for people who look"),
        (["--heap", "verify=edges"], "--heap: verify=edges is no candidate"),
        (["--heap", "poison=on"], "--heap: poison=on is no candidate"),
        # Options of the other heap.
        (["--heap", "workers=1"], "--heap: workers belongs to the precise heap, and this program"),
        (
            ["--runtime", "gleaner", "--heap", "free-space-divisor=1"],
            "--heap: free-space-divisor belongs to the libgc heap, and this program has the "
            "precise heap",
        ),
        (["--runtime", "gleaner", "--heap", "prefetch=fifo"], "prefetch=fifo belongs to the libgc"),
        (["--runtime", "gleaner", "--heap", "topology=node:2"], "it makes up another one"),
        # Budgets, and spaces of one cell.
        (["--rounds", "3"], "--rounds 3 is about --check: add that, or leave it out"),
        (["--budget", "5"], "--budget 5 is too small for 80 cells: give at least 40"),
        (["--repetitions", "1"], "--repetitions 1 allow 20 runs, which are too few for 80 cells"),
        (["--runtime", "java", "--budget", "5"], "--budget 5 is too small for"),
        (["--runtime", "gleaner", "--budget", "5"], "--budget 5 is too small for"),
        (
            ["--collector=default,stock", "--threads=default", "--heap=default", *ONE_PLACE],
            "--budget 1 is too small for 2 cells: give at least 2",
        ),
        (
            ["--threads", "default", "--heap", "default", "--collector", "default", *ONE_PLACE[:1]],
            "there is one cell",
        ),
    ],
)
def test_what_says_nothing_is_refused_before_anything_runs(tools, capsys, words, message):
    assert advise(tools, *words) == 2
    assert message in capsys.readouterr().err
    assert not (tools / "runs").exists() and not (tools / "cache" / "gleaner-lab").exists()


def test_settings_that_agree_are_no_contradiction(tools):
    words = ["--threads", "default,1", "--heap", "default,markers=1", "--goal", "time"]
    assert advise(tools, *words, "--budget", "20") == 0


def test_options_that_look_for_a_bug_in_the_environment_are_refused(tools, capsys, monkeypatch):
    monkeypatch.setenv("GLEANER_OPTIONS", "huge-pages=off,stress=100")
    assert advise(tools) == 2
    assert "GLEANER_OPTIONS has stress=100, which is for people who" in capsys.readouterr().err
    assert not (tools / "runs").exists()
    # One that serves the other heap, and one that is off, do nothing.
    monkeypatch.setenv("GLEANER_OPTIONS", "quarantine=8,stress=0")
    assert advise(tools, "--threads", "default", "--goal", "time", "--budget", "15") == 0


def test_one_run_of_each_cell_names_nothing_best(tools, capsys):
    words = ["--threads", "default", "--placement", "default", "--goal", "time"]
    words += ["--collector", "default"]
    words += ["--heap", "default,free-space-divisor=1,free-space-divisor=8,free-space-divisor=2"]
    assert advise(tools, *words, "--budget", "2") == 0
    text = capsys.readouterr().out
    assert "How far one run scatters is not known: no cell ran twice." in text
    assert "best for time: nothing is named yet" in text
    assert "no cell ran twice, and one run may have been lucky; --budget 4 makes it surer" in text
    assert "--budget 4 goes on" in text and "to paste" not in text
    assert "more than 99 %" not in text and "surely" not in text
    page = next((tools / "cache").glob("**/advice.html")).read_text()
    assert "gleaner exec" not in page and "of the program as it is" not in page
    # With the budget that it names, and more, it does become surer.
    assert advise(tools, *words, "--budget", "40") == 0
    text = capsys.readouterr().out
    assert "sure: very" in text and "] of the program as it is" in text


def test_a_run_that_is_short_or_never_collects_says_little(tools, capsys):
    words = ["--threads", "default", "--goal", "pauses", "--budget", "25"]
    assert advise(tools, *words) == 0
    text = capsys.readouterr().out
    assert "No run stopped to collect" not in text and "Take a larger input" not in text
    bench = BENCH.replace('0.0%d, "total_pause_s": 0.02', '0.0, "total_pause_s": 0.0')
    bench = bench.replace("}}\\\\n' $wall", "}}\\\\n'").replace('"wall_s": %d.', '"wall_s": %d.0')
    assert bench != BENCH
    (tools / "bench").write_text(bench.replace("$((wall / 1000)) $(", "0 $("))
    assert advise(tools, "--fresh", *words) == 0
    text = capsys.readouterr().out
    assert "No run stopped to collect" in text and "A run takes 0.0" in text
    assert "best for pauses: at most 0.1 ms" in text


def test_a_program_that_fails_as_it_is_now_and_then_is_told_so(tools, capsys):
    words = ["--threads", "default", "--placement", "default", "--goal", "time", "--budget", "12"]
    words += [
        "--collector",
        "default",
        "--heap",
        "default,free-space-divisor=1,free-space-divisor=8",
    ]
    fails = """case "$*" in *--check*|*divisor*) ;; *)
    [ "$(wc -l < "$ADVISE_RUNS")" = 1 ] || { echo '{"problem": "exit status: 3"}'; exit; }
esac
wall="""
    (tools / "bench").write_text(BENCH.replace("wall=", fails, 1))
    assert advise(tools, *words) == 0
    text = capsys.readouterr().out
    assert "The program as it is failed in 2 of its 2 runs: mend that first" in text
    assert "1 cell is out, for runs failed" in text
    assert "the program as it is failed, and is out" in text
