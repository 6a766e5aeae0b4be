"""What pages of docs/results say of their tables is computed from them again.

scripts/check_pages.py compares each ratio with an interval; here are counts, ranges and means over
some of the workloads.
"""

import re
from functools import cache

import pytest
from ruamel.yaml import YAML

from gleaner_lab import statistics
from gleaner_lab.cli import EXPERIMENTS, ROOT

DOCS = ROOT / "docs" / "results"
NUMBER = r"(\d+(?:\.\d+)?)"
WORDS = {
    "one": 1,
    "three": 3,
    "four": 4,
    "five": 5,
    "seven": 7,
    "eight": 8,
    "Eight": 8,
    "quarter": 0.25,
    "ten": 10,
    "nineteen": 19,
    "Thirty": 30,
}


@cache
def text(name):
    return " ".join((DOCS / name).read_text().split())


def said(pattern, name="zeroing.md"):
    """The numbers that a sentence of the page names; the sentence must be there."""
    found = re.search(pattern.replace("#", NUMBER).replace(" ", r"\s"), text(name))
    assert found is not None, f"docs/results/{name} does not say: {pattern}"
    return [WORDS[one] if one in WORDS else float(one) for one in found.groups()]


def table(name, head):
    """The rows of a page's table that begins with these columns, by column."""
    lines = (DOCS / "tables" / name).read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(head))
    columns = cells(lines[first])
    rows = []
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            return rows
        rows.append(dict(zip(columns, cells(line), strict=True)))
    return rows


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def estimate(cell):
    """Value, low and high of a cell."""
    return [float(one) for one in re.findall(NUMBER, cell)]


def bars(name):
    """The bars about single workloads: ratio, low, high, verdict."""
    rows = [row for row in table(name, "| bar | of") if " against " in row["of"]]
    rows = [row for row in rows if not row["of"].startswith("geometric mean")]
    return [(*estimate(row["ratio"]), row["verdict"].split(":")[0]) for row in rows]


def test_how_many_bars_are_met_violated_and_undecided():
    met, of, violated, undecided = said("# of # meet it, (one) violates it, # are undecided")
    verdicts = [row[3] for row in bars("zeroing-amd.md")]
    assert [verdicts.count(word) for word in ("met", "violated", "undecided")] == [
        met,
        violated,
        undecided,
    ]
    assert len(verdicts) == of
    met, of = said("Intel: # of # meet it, none violates it")
    verdicts = [row[3] for row in bars("zeroing.md")]
    assert (verdicts.count("met"), verdicts.count("violated"), len(verdicts)) == (met, 0, of)


def test_how_many_are_slower_and_how_many_chance_would_give():
    of, slower, chance = said(
        r"Of the #, (\w+) have a lower bound above 1, where chance alone would give (\w+):"
    )
    rows = bars("zeroing-amd.md")
    assert (len(rows), sum(low > 1 for _, low, _, _ in rows)) == (of, slower)
    assert round(0.025 * of) == chance
    slower, of, chance = said(r"On Intel (\w+) of # have one, where chance would give (\w+):")
    rows = bars("zeroing.md")
    assert (len(rows), sum(low > 1 for _, low, _, _ in rows)) == (of, slower)
    assert round(0.025 * of) == chance


def ratios(name, configuration, metric="printed.wall_s"):
    rows = table(name, "| workload | configuration")
    return {
        row["workload"]: estimate(row[metric])[0]
        for row in rows
        if row["configuration"] == configuration and estimate(row[metric])
    }


@pytest.mark.parametrize(
    ("name", "designs", "sizes", "pattern", "inverse"),
    [
        (
            "zeroing-nursery-amd.md",
            ["hot-path", "window"],
            r".*",
            "`bulk` takes # to # times as long as `hot-path` and `window` at every size",
            True,
        ),
        (
            "zeroing-nursery.md",
            ["hot-path"],
            r".*-(1|2|4|8|32)m",
            "`hot-path` takes # to # of its time",
            False,
        ),
        (
            "zeroing-nursery.md",
            ["window"],
            r".*-(1|2|4|8|32)m",
            "of its time and `window` # to #, and",
            False,
        ),
    ],
)
def test_ranges_over_sizes_of_eden(name, designs, sizes, pattern, inverse):
    found = [
        1 / ratio if inverse else ratio
        for design in designs
        for workload, ratio in ratios(name, design).items()
        if re.fullmatch(sizes, workload)
    ]
    low, high = said(pattern)
    assert (round(min(found), 2), round(max(found), 2)) == (low, high)


def mean_of_allocating(design, mutators=None):
    """Over the workloads that allocate a thousand MB a second, as the experiment's bar names."""
    experiment = YAML(typ="safe").load(EXPERIMENTS / "zeroing.yaml")
    wanted = experiment["bars"][2]["workloads"]
    found = ratios("zeroing-amd.md", design)
    chosen = [found[name] for name in wanted if mutators is None or name.endswith(f"-{mutators}")]
    return statistics.geometric_mean_of(chosen, 0.95)


def test_means_over_the_workloads_that_allocate_much():
    whole, one, two, low, high = said(
        "`hot-path` takes # of `bulk` there, # with one mutator and # with two "
        r"\(between # and #\)"
    )
    assert mean_of_allocating("hot-path").value == pytest.approx(whole, abs=0.001)
    assert mean_of_allocating("hot-path", 1).value == pytest.approx(one, abs=0.001)
    found = mean_of_allocating("hot-path", 2)
    assert [found.value, found.low, found.high] == pytest.approx([two, low, high], abs=0.001)
    for design in ("auto", "concurrent"):
        one, two = said(f"`{design}` (?:takes )?# and #[,.]")
        assert mean_of_allocating(design, 1).value == pytest.approx(one, abs=0.001)
        assert mean_of_allocating(design, 2).value == pytest.approx(two, abs=0.001)


def test_the_papers_designs_by_condition():
    """Large heaps with an idle processor, the same without one, and all but the first."""
    programs = ("gcbench", "holes", "queue", "refarray", "quads")
    idle, busy = (
        {f"{program}-{heap}-{mutators}" for program in programs for heap in ("3x", "6x")}
        for mutators in (1, 2)
    )
    others = set(ratios("zeroing-amd.md", "auto")) - idle
    assert said("In all # other groups than the first ten") == [len(others)]
    for groups, designs, pattern in (
        (
            idle,
            ("concurrent", "adaptive", "hot-path", "non-temporal"),
            "`concurrent` takes # of `bulk`, `adaptive` #, `hot-path` # and `non-temporal` #[.]",
        ),
        (busy, ("concurrent", "adaptive"), "`concurrent` takes # and `adaptive` takes #[.]"),
        (
            others,
            ("concurrent", "adaptive", "non-temporal"),
            "than the first ten they take # and #, and `non-temporal` #[.]",
        ),
    ):
        for design, stated in zip(designs, said(pattern), strict=True):
            found = ratios("zeroing-amd.md", design)
            mean = statistics.geometric_mean_of([found[group] for group in groups], 0.95)
            assert mean.value == pytest.approx(stated, abs=0.001), (pattern, design)


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "how-fast-beside-libgc.md"])
def test_the_first_figure_is_of_as_many_programs_as_are_named_and_none_is_slower(page):
    words = " ".join(page.read_text().split())
    found = re.search(rf"\*\*(\w+) programs take {NUMBER} \[", words)
    rows = table("libgc-clients-sweep.md", "| bar | of")
    (mean,) = (row for row in rows if row["bar"] == "gleaner: wall_s below 0.72 of the baseline")
    assert WORDS.get(found[1]) == estimate(mean["of"])[0]
    assert float(found[2]) == estimate(mean["ratio or value"])[0]
    assert re.search(r"\bnone (is )?decided to be slower", words)
    assert not [row["of"] for row in rows if row["verdict"].startswith("violated")]


def test_how_far_single_programs_are_from_equal_memory():
    first, second, third, one_marker = said(
        r"guile-threads took # \[[^]]+\] of libgc's memory\*\*, w3m-tables # \[[^]]+\], "
        "and no other more than #[.] With one marker none took more than #[.]",
        "how-fast-beside-libgc.md",
    )
    two = ratios("libgc-clients-sweep.md", "gleaner", "peak memory")
    assert sorted(two.values())[-3:] == [third, second, first]
    assert two["guile-threads, 2 threads"] == first
    assert max(ratios("libgc-clients-one.md", "gleaner", "peak memory").values()) == one_marker


def test_the_worst_programs_of_either_number_of_markers():
    two, ecl, one = said(
        r"with two markers is crystal-fibers, # \[[^]]+\]. "
        r"With one it is ecl-objects, # \[[^]]+\], and then crystal-fibers, #",
        "how-fast-beside-libgc.md",
    )
    assert max(ratios("libgc-clients-sweep.md", "gleaner", "wall time").values()) == two
    worst = sorted(ratios("libgc-clients-one.md", "gleaner", "wall time").values())
    assert worst[-2:] == [one, ecl]


def test_how_many_statements_about_arrays_hold():
    of, *stated = said(
        r"Of \[(nineteen) statements\]\S+ about these runs "
        "(four) hold, (eight) do not, and (seven) are undecided",
        "arrays-in-pieces.md",
    )
    rows = table("arrays-findings.md", "| the paper says")
    verdicts = [row["verdict"].split(":")[0] for row in rows]
    counts = [verdicts.count(word) for word in ("holds", "does not hold", "undecided")]
    assert (counts, len(verdicts)) == (stated, of)


@pytest.mark.parametrize(
    ("column", "pattern"),
    [
        ("lazy percent", r"of the bytes of large arrays \| # % in the mean"),
        ("zero percent", r"of the arraylets \| # % in the mean"),
        ("copy on write percent", r"of what is copied beyond 4 KB \| # % in the mean"),
        ("saved percent", r"of the heap \| # % in the mean"),
    ],
)
def test_means_of_what_cutting_arrays_saves(column, pattern):
    rows = table("array-counts.md", "| benchmark | large percent")
    ours = [row[column].split("; ")[1] for row in rows]
    figures = [float(one) for one in ours if one != "-"]
    assert len(figures) == 11
    (stated,) = said(pattern, "arrays-savings.md")
    assert sum(figures) / len(figures) == pytest.approx(stated, abs=0.051)


def test_the_range_of_young_scans_on_other_nodes():
    fragmented = said("`fragmented` leaves # to # of young scans remote", "numa.md")
    first_touch = said("where `first-touch` leaves # to #[.]", "numa.md")
    for configuration, stated in (("fragmented", fragmented), ("baseline", first_touch)):
        (row,) = (
            row
            for row in table("naps-findings.md", "| figure | of | configuration")
            if (row["of"], row["configuration"]) == ("scanned_young", configuration)
        )
        shares = [float(cell) for cell in list(row.values())[3:]]
        assert [min(shares), max(shares)] == stated


@pytest.mark.parametrize(
    ("head", "metric"),
    [("eden, ", "imbalance.eden"), ("young scans elsewhere, ", "non-locality.scanned_young")],
)
def test_the_tables_by_memory_node_are_those_of_the_runs(head, metric):
    counted = {}
    for row in table("naps-paper.md", "| workload | configuration |"):
        first, ours = row[metric].split(" / ")
        counted[row["workload"], "first-touch"] = first
        counted[row["workload"], row["configuration"]] = ours
    rows = table("../numa.md", f"| workload | {head}`first-touch`")
    assert len(rows) == 10
    for row in rows:
        workload = row.pop("workload").replace("`", "").replace(", one thread", "-1")
        for column, stated in row.items():
            found = float(counted[workload, column.rpartition(", ")[2].strip("`")])
            if stated == "under 0.005":
                assert found < 0.005
            else:
                assert float(stated) == pytest.approx(found, abs=0.0051)


@pytest.mark.parametrize(
    ("page", "pattern"),
    [
        ("placement-startup.md", r"The worst is `(\w+)`, (\d\.\d+); without PMD"),
        ("placement-isolation.md", r"The worst is `(\w+)`, (\d\.\d+)[.] Collectors take"),
    ],
)
def test_the_worst_program_with_a_compiler_elsewhere_is_the_one_that_is_named(page, pattern):
    found = ratios(page, "isolated-compiler", "wall time")
    worst = max(found, key=found.get)
    name, stated = re.search(pattern, text("placement.md")).groups()
    assert (worst.split(" at ")[0], found[worst]) == (name, float(stated))


def test_how_many_programs_take_more_than_twice_as_long_with_half_of_the_time():
    many, of = said("(Eight) of (ten) take more than twice", "placement.md")
    found = ratios("placement-speed.md", "one-slow", "wall time")
    assert (sum(ratio > 2 for ratio in found.values()), len(found)) == (many, of)


@pytest.mark.parametrize("design", ["auto", "hot-path", "non-temporal"])
def test_the_least_and_the_greatest_change_of_a_group(design):
    least, greatest = said(f"under `{design}` from # to #")
    found = ratios("zeroing-amd.md", design)
    assert (min(found.values()), max(found.values())) == (least, greatest)


# A page, what it says, and of which rows: table, configuration, metric, the member left out.
WITHOUT = [
    (
        "arrays-in-pieces.md",
        "without it those of the other six are # under `perf-zray`",
        ("arrays.md", "perf-zray", "printed.cpu_s", "snapshots"),
    ),
    (
        "arrays-in-pieces.md",
        "under `perf-zray` and # under `zray`, above both bars",
        ("arrays.md", "zray", "printed.cpu_s", "snapshots"),
    ),
    (
        "arrays-in-pieces.md",
        "# without the worst, `snapshots`, which takes 24.79",
        ("arrays-optimisations.md", "without-copy-on-write", "printed.cpu_s", "snapshots"),
    ),
    (
        "arrays-in-pieces.md",
        "# without the worst, `strings`, which",
        ("arrays-optimisations.md", "without-fast-copy", "printed.cpu_s", "strings"),
    ),
    (
        "arrays-in-pieces.md",
        "# without the worst, `index`, which",
        ("arrays-optimisations.md", "without-first-n", "printed.cpu_s", "index"),
    ),
    (
        "arrays-in-pieces.md",
        "# without the worst, `snapshots`, which takes 3.30",
        ("arrays-optimisations.md", "without-lazy", "printed.cpu_s", "snapshots"),
    ),
    (
        "arrays-in-pieces.md",
        "# without the worst, `snapshots`, which takes 46.98",
        ("arrays-optimisations.md", "naive", "printed.cpu_s", "snapshots"),
    ),
    (
        "memory.md",
        "Without the worst program the mean is #",
        ("libgc-clients-default-intel.md", "gleaner", "peak memory", "guile22-rewrite"),
    ),
    (
        "incremental.md",
        "and # without gc_bench, which gains",
        ("incremental-after.md", "incremental", "wall time", "gc_bench"),
    ),
    (
        "incremental.md",
        "in the mean of five programs, and # without gc_bench",
        ("incremental-auto.md", "auto", "wall time", "gc_bench"),
    ),
    (
        "heap-size.md",
        "Without crystal-trees the price of 50 takes # of the time",
        ("heap-sizing.md", "price-50", "wall time", "crystal-trees"),
    ),
    (
        "heap-size.md",
        "of the time at # of the memory",
        ("heap-sizing.md", "price-50", "peak memory", "crystal-trees"),
    ),
    (
        "prefetching.md",
        "Without guile-earley, which gains most, `edges` marks in # of",
        ("boehm-table1.md", "edges", "mark phase", "guile-earley"),
    ),
    (
        "prefetching.md",
        "crystal-trees, the worst, and # in the mean without it",
        ("boehm-table1.md", "on-grey+prefetch-hint=nta", "mark phase", "crystal-trees"),
    ),
    (
        "sweeping.md",
        "Without large_heap_gc_bench, the largest, it is #",
        ("boehm-table1.md", "eager", "sweep phase", "large_heap_gc_bench"),
    ),
    (
        "sweeping.md",
        "# without typed_gc_bench, the largest",
        ("boehm-table1-paper.md", "eager", "sweep phase", "typed_gc_bench"),
    ),
    (
        "zeroing.md",
        "the mean is # without it. On `gcbench`",
        ("zeroing-hotspot.md", "buffer", "wall time", "initnone-0"),
    ),
    (
        "placement.md",
        "and # without H2, which gains most",
        ("placement-isolation.md", "isolated-compiler", "wall time", "h2"),
    ),
    (
        "placement.md",
        "without PMD, which gains most, the mean is #",
        ("placement-startup.md", "isolated-compiler", "wall time", "pmd"),
    ),
    (
        "placement.md",
        "Jython carries them, and without it they are # and",
        ("placement-isolation.md", "isolated-collector", "wall time", "jython"),
    ),
    (
        "placement.md",
        "Jython carries them, and without it they are 1.009 and #",
        ("placement-isolation.md", "isolated-nongc", "wall time", "jython"),
    ),
    (
        "placement.md",
        "without it the mean is #",
        ("placement-programs.md", "isolated", "wall time", "render"),
    ),
    (
        "numa.md",
        "the mean is # without `jbb-2`",
        ("naps-host.md", "naps-1", "printed.wall_s", "jbb-2"),
    ),
]


@pytest.mark.parametrize(("page", "pattern", "rows"), WITHOUT)
def test_means_without_the_member_that_carries_them(page, pattern, rows):
    name, configuration, metric, member = rows
    (stated,) = said(pattern, page)
    found = ratios(name, configuration, metric)
    # A workload may be named with its threads or its heap.
    (whole,) = [workload for workload in found if re.split(r", | at ", workload)[0] == member]
    del found[whole]
    mean = statistics.geometric_mean_of(list(found.values()), 0.95)
    assert mean.value == pytest.approx(stated, abs=0.001)


def test_means_of_deciders_without_queue():
    """The table has the rivals' time over ours."""
    always_amd, always_intel, resize_intel, resize_amd = said(
        "Without it they are # and # against `generations=always`, "
        "and # on Intel and # on AMD against `resize=off`",
        "precise-heap.md",
    )
    for name, configuration, stated in (
        ("deciders-amd.md", "generations-always", always_amd),
        ("deciders.md", "generations-always", always_intel),
        ("deciders.md", "resize-off", resize_intel),
        ("deciders-amd.md", "resize-off", resize_amd),
    ):
        found = ratios(name, configuration)
        del found["queue"]
        mean = statistics.geometric_mean_of([1 / one for one in found.values()], 0.95)
        assert mean.value == pytest.approx(stated, abs=0.001), (name, configuration)


def test_techniques_whose_intervals_exclude_1_are_named_and_counted():
    named, of = said("These are # of # intervals", "precise-heap.md")
    (rest,) = said("The other # hold 1", "precise-heap.md")
    rows = table("precise-heap-techniques.md", "| workload | configuration")
    rows = [row for row in rows if row["configuration"] != "A/A"]
    decided = [
        figures
        for figures in (estimate(row["printed.wall_s"]) for row in rows)
        if figures[1] > 1 or figures[2] < 1
    ]
    assert (len(decided), len(rows), len(rows) - len(decided)) == (named, of, rest)
    assert round(0.05 * of) == 2
    stated = [
        estimate(one) for one in re.findall(r"[\d.]+ \[[\d.]+, [\d.]+\]", text("precise-heap.md"))
    ]
    for figures in decided:
        near = [one for one in stated if one == pytest.approx(figures, abs=0.0051)]
        assert near, f"docs/results/precise-heap.md does not name {figures}"


def test_what_a_phase_costs_with_sixteen_threads():
    rows = table("../parallel-phases.md", "| threads | all join: futex")
    micros = {row["threads"]: row for row in rows}
    threads, futex, monitor = said(
        r"With # threads # microseconds, where the paper's baseline, [^,]+, takes #[.]",
        "parallel-phases.md",
    )
    row = micros[f"{threads:.0f}"]
    assert round(float(row["all join: futex"])) == futex
    assert round(float(row["all join: monitor"])) == monitor
    more = []
    for row in rows:
        ratio = float(row["all join: futex"]) / float(row["all join: monitor"])
        assert ratio < 1 and float(row["ratio"]) == pytest.approx(ratio, abs=0.0051)
        if int(row["threads"]) >= threads:
            more.append(round(float(row["any: futex"]) - float(row["any: monitor"]), 1))
    least, most, beginning = said(
        "that nobody is awaited in costs # to # microseconds more from # threads on",
        "parallel-phases.md",
    )
    assert [min(more), max(more), beginning] == [least, most, threads]


def test_how_fast_a_core_zeroes_in_its_second_cache_and_how_the_kernels_compare_beyond_all():
    kernels = "| buffer | threads | memset | immediate | string | vector | movnti | movntdq |"
    intel, amd = (
        {
            (row["buffer"], row["threads"]): {
                name: float(cell) for name, cell in row.items() if name not in ("buffer", "threads")
            }
            for row in table("../zeroing-bandwidth.md", f"{kernels} wide-non-temporal |{last}")
        }
        # The first table with these columns, and the one with a further one.
        for last in ("", " line-zero |")
    )
    first, second = said(
        "One core zeroes # GB/s in its L2 on an Intel Xeon, and # GB/s on an AMD Zen 5",
        "zeroing-bandwidth.md",
    )
    # The largest buffer that both have in the second level: 2 MB a core there, 1 MB here.
    assert [round(one["1 MB", "1"]["memset"]) for one in (intel, amd)] == [first, second]
    (past,) = said(
        "stores that bypass them are # times as fast on Intel with two", "zeroing-bandwidth.md"
    )
    beyond = intel["128 MB", "2"]
    assert round(beyond["movntdq"] / beyond["memset"], 1) == past
    least, most, low, high = said(
        r"On AMD those of 64 bytes are # to # times as fast, .*? \(`movntdq`\) # to # times",
        "zeroing-bandwidth.md",
    )
    for kernel, ends in (("wide-non-temporal", [least, most]), ("movntdq", [low, high])):
        found = [amd["128 MB", one][kernel] / amd["128 MB", one]["memset"] for one in ("1", "2")]
        again = ratios("zeroing-bandwidth.md", kernel, "printed.gb_per_s")
        found += [again[f"128m-{threads}"] for threads in (1, 2)]
        assert [round(min(found), 1), round(max(found), 1)] == ends, kernel


def test_the_least_and_the_most_that_loops_with_cursors_take():
    least, most, scattered = said(
        "With cursors # to # of a loop over an array in one piece; "
        "scattered arraylets take up to # of neighbours",
        "arrays-loops.md",
    )
    bars = table("arrays-cursors.md", "| bar | of")
    near = {row["of"]: estimate(row["ratio or value"])[0] for row in bars}
    assert (min(near.values()), max(near.values())) == (least, most)
    named = re.search(r"The loops are `(\w+)`, [^`]+ and `(\w+)`, ", text("arrays-loops.md"))
    assert named.groups() == (min(near, key=near.get), max(near, key=near.get))
    found = ratios("arrays-cursors.md", "scattered", "printed.ratio")
    assert max(found.values()) == scattered
    add, dot, transform, low, high = said(
        "`add` takes # of its time over neighbours then, `dot` #, `transform` #, "
        "the others # to #[.]",
        "arrays-loops.md",
    )
    assert [found.pop(name) for name in ("add", "dot", "transform")] == [add, dot, transform]
    assert (min(found.values()), max(found.values())) == (low, high)


def test_how_many_times_as_much_young_arrays_of_numbers_cost_a_scavenge():
    (headline,) = said("young arrays of numbers cost # times as much[.]", "arrays-pauses.md")
    (exact,) = said(r"Young arrays of numbers take # \[", "arrays-pauses.md")
    found = ratios("arrays-pauses.md", "zray", "printed.median_s")
    assert (found["young-numbers"], round(found["young-numbers"])) == (exact, headline)
    assert max(found, key=found.get) == "young-numbers"


def test_how_near_the_advisor_comes_to_the_best_and_with_how_many_runs():
    percent, programs, share = said(
        "Its choice is within # % of the best on (three) programs, with a (quarter) of the runs",
        "advise.md",
    )
    names = ["advise-native.md", "advise-guile.md", "advise-java.md"]
    assert len(names) == programs
    shown = table("../advise.md", "| program | cells |")
    for name, own in zip(names, shown, strict=True):
        rows = table(name, "| best for | beside")
        bests = [row for row in rows if row["beside"].startswith("best by ")]
        assert bests and {row["bar"] for row in bests} == {f"{1 + percent / 100:.2f}"}
        for row in bests:
            figures = estimate(row["ratio of the choice to it"])
            assert row["verdict"] == "met", name
            assert not figures or figures[2] <= 1 + percent / 100, name
        (made,) = table(name, "| best for | share of its runs")
        assert made["share of its runs"].replace("%", " %") == own["runs, of the exhaustive"]
        assert estimate(made["share of its runs"])[0] <= 100 * share, name


@pytest.mark.parametrize(
    ("words", "statement"),
    [
        (
            "Slow collectors cost # % [#, #] beside fast ones, and # % [#, #] without ",
            "Slow collectors cost less than 20 %",
        ),
        (
            "A slow compiler costs # % [#, #], and # % [#, #] without ",
            "A slow compiler costs very little",
        ),
    ],
)
def test_what_slow_services_cost_and_the_program_that_carries_it(words, statement):
    signed = r"(-?\d+(?:\.\d+)?)"
    pattern = re.escape(words).replace(re.escape("#"), signed)
    pattern += rf"`?(\w+)`?, the worst, which loses {signed} %"
    found = re.search(pattern, text("placement.md"))
    assert found is not None, words
    *stated, program, worst = found.groups()
    rows = table("placement-findings.md", "| finding | the paper says")
    (row,) = (row for row in rows if row["the paper says"] == statement)
    assert row["the worst"] == f"{program.lower()}: {worst} %"
    carrier, rest = row["without the one that moves it most"].split(": ")
    figures = [float(one) for one in re.findall(signed, f"{row['ours']} {rest}")]
    assert carrier == program.lower()
    assert [float(one) for one in stated] == pytest.approx(figures, abs=0.051)


def test_how_long_the_longest_stop_is_beside_libgcs():
    rows = table("incremental-helped.md", "| bar | of")
    found = {
        row["of"].split(", ")[0]: estimate(row["ratio or value"])[0]
        for row in rows
        if row["bar"] == "incremental: longest_pause_s below 0.25 of each rival"
    }
    ends = said("the longest stop is # to # of libgc's[.]", "incremental.md")
    assert ends == [min(found.values()), max(found.values())]
    nix, guile, score = said(
        r"# \[[^]]+\] on nix-modules, # \[[^]]+\] on guile-earley "
        r"and # \[[^]]+\] on lilypond-score",
        "incremental.md",
    )
    assert found == {"nix-modules": nix, "guile-earley": guile, "lilypond-score": score}
