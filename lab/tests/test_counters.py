import bench
import pytest

from gleaner_lab import cli, counters
from gleaner_lab.store import ResultSet


def run(tmp_path, kind):
    path = bench.experiment(tmp_path, "steady", repetitions=2)
    path.write_text(path.read_text() + f"counters: {kind}\n")
    tool, out = bench.make(tmp_path), tmp_path / "results"
    cli.main(["run", str(path), "--out", str(out), "--bench", str(tool)])
    results = ResultSet.open(out)
    counted = [record for record in results.records() if record["counted"]]
    assert [record["variant"] for record in counted] == ["libgc", "gleaner"]
    return counted, (out / "report.html").read_text()


def test_cachegrind_counts_and_says_what_it_cannot_see(tmp_path):
    counted, page = run(tmp_path, "cachegrind")
    for record in counted:
        assert record["counters"]["instructions"] > 10_000
        assert record["counters"]["last-level read misses"] > 0
    assert "no prefetch" in page
    assert "bus traffic and what prefetching saves are not measurable here" in page
    file = tmp_path / "tables.md"
    assert cli.main(["report", str(tmp_path / "results"), "--markdown", str(file)]) == 0
    head, _, _, row = file.read_text().split("not measurable here.\n\n")[1].splitlines()[:4]
    column = head.split(" | ").index("instructions")
    assert row.split(" | ")[1] == "gleaner"
    assert row.split(" | ")[column] == f"{counted[1]['counters']['instructions']:,.0f}"


def test_where_the_kernel_has_no_counters_the_report_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(counters.machine, "has_hardware_counters", lambda: False)
    counted, page = run(tmp_path, "hardware")
    assert all("the kernel offers no counters" in record["uncounted"] for record in counted)
    assert "not measurable here: the kernel offers no counters of the processor" in page


@pytest.mark.parametrize(
    ("kind", "text", "found"),
    [
        (
            "hardware",
            "# started on x\n\n123;;instructions:u;1;100.00;;\n<not supported>;;cycles:u;0;;;\n",
            {"instructions": 123},
        ),
        (
            "cachegrind",
            "events: Ir D1mr\nfn=x\nsummary: 10 2\n",
            {"instructions": 10, "L1 read misses": 2},
        ),
        ("cachegrind", "cut off", {}),
    ],
)
def test_what_the_programs_write_is_read(kind, text, found):
    assert counters.read(kind, text) == found
