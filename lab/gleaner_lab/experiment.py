"""Experiments as data: what a file may say, checked before anything runs.

An experiment is one YAML file. Its configurations, thread counts and heap sizes multiply with its
workloads into cells (see `cells`); everything that the statistics need (confidence, baseline,
measured iteration, declared outliers) is part of the file, so that a report can be made again from
the file and its runs alone. Errors name the file, the line and the field.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from gleaner_lab import metrics, papers, sequential, yaml12
from gleaner_lab.failure import Failure, nearest

#: How often an experiment makes each run at most.
MOST_REPETITIONS = 10000

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$")]
#: A configuration with its lists multiplied out (see `Experiment.variants`).
Variant = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+=-]*$")]
Scalar = str | int | float | bool
Threads = Annotated[int, Field(ge=1, le=1024)] | Literal["default"]


class Part(BaseModel):
    """A part of an experiment: unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Workload(Part):
    """A process that is run once for each measurement."""

    name: Name
    #: The command of a program that is in no catalogue. It prints one JSON line, or, with
    #: `measure: process`, nothing in particular: then only what the kernel knows is recorded.
    #: In it and in a configuration's words, "{bench}" stands for gleaner-bench, "{gleaner}" for the
    #: program beside it, and "{rivals}" for the directory of the rivals' programs.
    command: list[str] | None = None
    measure: Literal["json", "process"] = "json"
    #: The program of the catalogue that it is, unless its name says so: one program may be several
    #: workloads that differ in their environment.
    program: Name | None = None
    env: dict[str, str] = {}
    #: How much a program of the catalogue does; the experiment's size unless given.
    size: Literal["tiny", "ci", "full"] | None = None
    #: Its own, in place of the experiment's.
    prepare: list[str] | None = None
    cleanup: list[str] | None = None

    @model_validator(mode="before")
    @classmethod
    def from_name(cls, value: Any) -> Any:
        """A bare name is a program of the catalogue."""
        return {"name": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def one_program(self) -> Workload:
        """It is of the catalogue, or brings its own command."""
        if self.program is not None and self.command is not None:
            raise ValueError("a workload has a program of the catalogue, or a command")
        return self

    @property
    def catalogued(self) -> str:
        """The name in the catalogue of what has no command."""
        return self.program or self.name


class Configuration(Part):
    """One way to run a workload: a library with options, or a rival's command."""

    #: `stock` is the installed libgc, `gleaner` ours under it, `none` neither.
    library: Literal["stock", "gleaner", "none"] = "gleaner"
    #: The directory of another build of Gleaner (see `make before`), from the project's own: its
    #: gleaner-bench and its library are run instead.
    build: str | None = None
    options: dict[Name, Scalar | list[Scalar]] = {}
    env: dict[str, str] = {}
    #: Put before the workload's command, for example a rival's launcher; before a program of the
    #: catalogue, too.
    prefix: list[str] = []
    #: Put after it. In both, "{heap}" stands for the heap's size in MB, where the mode sets one.
    arguments: list[str] = []
    #: The configuration whose peak it is to have in mode `equal-peak`; the baseline unless given.
    peak_of: Variant | None = None
    #: Workloads that it does not have, and is not run with.
    lacks: list[Name] = []

    @model_validator(mode="after")
    def options_belong_to_gleaner(self) -> Configuration:
        """Only Gleaner knows Gleaner's options."""
        if self.options and self.library != "gleaner":
            raise ValueError(f"options are Gleaner's, but the library is {self.library}")
        return self


class Heap(Part):
    """Which heap sizes are compared."""

    #: `times-minimum`: limits in multiples of each workload's measured minimum heap.
    #: `equal-peak`: limits that give every configuration the measured peak of the baseline, or of
    #: the one it names. A program that uses neither library needs "{heap}" in its words for that,
    #: and keeps its own heap without.
    #: `default`: whatever each collector does by itself.
    mode: Literal["default", "times-minimum", "equal-peak"] = "default"
    multiples: list[Annotated[float, Field(ge=1.0)]] = []
    #: How near peaks must be, as a share.
    within: Annotated[float, Field(gt=0, lt=1)] = 0.03

    @model_validator(mode="after")
    def multiples_fit_the_mode(self) -> Heap:
        """Multiples say something for one mode only."""
        if (self.mode == "times-minimum") != bool(self.multiples):
            raise ValueError("multiples are needed by mode times-minimum, and by it alone")
        return self


class Statistics(Part):
    """How runs become figures."""

    baseline: Variant
    metric: str = "cpu_s"
    #: Further metrics whose ratios are shown.
    also: list[str] = []
    #: Metrics of `metrics.DISTRIBUTION` whose medians are shown: they are on request alone.
    shown: list[str] = []
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.95
    #: Ratios whose interval is wider than this share and holds 1 are grey (z-rays, Table 3).
    grey_above: Annotated[float, Field(gt=0)] | None = 0.2
    #: Workloads left out of means, each with its reason.
    outliers: dict[Name, str] = {}
    #: Only rounds with equal numbers of this count are paired (ISMM 2000: collections). Another
    #: library than the baseline's decides by itself when to collect: all its rounds count.
    equal: str | None = None

    @property
    def metrics(self) -> list[str]:
        """All metrics whose ratios are shown, the one that counts first."""
        return list(dict.fromkeys([self.metric, *self.also]))


class Bar(Part):
    """What the experiment is to show: it passes when the bound of the interval meets it.

    Either `below` (the upper bound counts) or `above` (the lower bound counts), as a ratio to the
    baseline, or to each of the rivals that it is `against`. A rival that does not finish is left
    out.
    """

    configuration: Variant
    below: Annotated[float, Field(ge=0)] | None = None
    above: Annotated[float, Field(ge=0)] | None = None
    metric: str = "cpu_s"
    #: `value`: the metric itself, its mean over rounds, beside no other configuration.
    figure: Literal["ratio", "value"] = "ratio"
    #: How many processors it is about: a machine with fewer neither decides nor violates it.
    processors: Annotated[int, Field(ge=1)] | None = None
    #: Each workload by itself, or the geometric mean over all: of `mean`, the interval says what
    #: other workloads of the kind might show; of `set`, what more rounds of these might.
    of: Literal["each", "mean", "set"] = "each"
    against: list[Variant] = []
    #: The workloads that it is about; all of them unless given.
    workloads: list[Name] = []
    #: The number of collecting threads that it is about; all that the experiment has unless given.
    threads: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def one_side(self) -> Bar:
        """A bar has one side."""
        if (self.below is None) == (self.above is None):
            raise ValueError("a bar needs either below or above")
        if self.figure == "value" and (self.against or self.of != "each"):
            raise ValueError("a value is of each workload by itself, and against nothing")
        if self.figure == "ratio" and 0 in (self.below, self.above):
            raise ValueError("a ratio is never 0; figure: value compares the metric itself")
        return self

    @property
    def shown(self) -> str:
        """The bar in words."""
        is_below = self.below is not None
        bound = self.below if is_below else self.above
        if self.figure == "value":
            side = f"at most {bound:g}" if is_below else f"{bound:g} or more"
            return f"{self.configuration}: {self.metric} {side}"
        side = f"below {bound:g}" if is_below else f"above {bound:g}"
        whose = "each rival" if self.against else "the baseline"
        return f"{self.configuration}: {self.metric} {side} of {whose}"


class Column(Part):
    """A column of a paper's table, as our runs give it."""

    configuration: Variant
    #: In percent. `share`: what the metric is of `of`. `slowdown`: how much more than the baseline,
    #: over rounds. `speedup`: how much less, which is what the papers call a speedup or an
    #: improvement: percentages of the baseline's time. As it is: `median`, divided by `per`;
    #: `relative`, the median in parts of the mean of all workloads' medians.
    figure: Literal["share", "slowdown", "speedup", "median", "relative"]
    metric: str = "cpu_s"
    of: str = "cpu_s"
    per: Annotated[float, Field(gt=0)] = 1


class Paper(Part):
    """A table of a paper (see `papers`) that stands beside ours."""

    table: Name
    columns: dict[str, Column] = {}
    #: For benchmarks of the paper that we do not have, by their names: our workload that stands in.
    stand_ins: dict[str, Name] = {}
    #: Whether workloads that are none of the paper's benchmarks stand in the table, too.
    others: bool = True


class Experiment(Part):
    """A whole experiment."""

    name: Name
    title: str
    question: str
    size: Literal["tiny", "ci", "full"] = "full"
    workloads: Annotated[list[Workload], Field(min_length=1)]
    configurations: Annotated[dict[Name, Configuration], Field(min_length=1)]
    #: How many threads collect; `default` leaves it to the library.
    threads: Annotated[list[Threads], Field(min_length=1)] = [1]
    heap: Heap = Heap()
    repetitions: Annotated[int, Field(ge=1, le=MOST_REPETITIONS)] = 10
    #: The iteration of a process that counts: 1 measures start-up, a later one the steady state.
    #: A later one is asked for in the environment variable ITERATIONS.
    iteration: Annotated[int, Field(ge=1)] = 1
    #: Commands before and after each run, which no figure counts; "{bench}" and the others stand
    #: for programs here, too.
    prepare: list[str] = []
    cleanup: list[str] = []
    #: How often each cell is run, and not recorded, before its first run that counts.
    warm_up: Annotated[int, Field(ge=0, le=MOST_REPETITIONS)] = 0
    #: Stops before all repetitions are made: when `all` bars are decided, or the `first`, which
    #: answers the question. Intervals are then wider (see `sequential`).
    until: Literal["all", "first"] | None = None
    seed: int = 2000
    #: Seconds after which a process is ended and counts as hung.
    limit_s: Annotated[float, Field(gt=0)] = 900
    #: Asks the libraries for their logs in each run: collections, pauses and phases are known then.
    log: bool = True
    #: Processors to pin processes to; all of them unless given.
    pin: list[Annotated[int, Field(ge=0)]] | None = None
    #: The baseline of the first workload is run again after this many runs, to show drift.
    canary_every: Annotated[int, Field(ge=2)] | None = 25
    #: `hardware`: counters of the kernel; `cachegrind`: a simulation of a further run.
    counters: Literal["none", "hardware", "cachegrind"] = "none"
    statistics: Statistics
    bars: list[Bar] = []
    papers: list[Paper] = []

    @model_validator(mode="after")
    def names_are_known(self) -> Experiment:
        """Baseline, bars and outliers name what the experiment has."""
        variants = set(self.variants())
        names = [workload.name for workload in self.workloads]
        _known(("statistics", "baseline"), self.statistics.baseline, variants)
        for variant, configuration in self.configurations.items():
            for name in configuration.lacks:
                _known(("configurations", variant, "lacks"), name, set(names))
            if configuration.peak_of is not None:
                _known(("configurations", variant, "peak_of"), configuration.peak_of, variants)
                if self.heap.mode != "equal-peak":
                    where = ("configurations", variant, "peak_of")
                    raise _at(where, "only heap.mode equal-peak gives it the peak of another")
        if lacks := self.variants()[self.statistics.baseline].lacks:
            where = ("statistics", "baseline")
            raise _at(where, f"{self.statistics.baseline} lacks {', '.join(lacks)}")
        for number, bar in enumerate(self.bars):
            _known(("bars", number, "configuration"), bar.configuration, variants)
            for rival in bar.against:
                _known(("bars", number, "against"), rival, variants)
            for name in bar.workloads:
                _known(("bars", number, "workloads"), name, set(names))
            if bar.threads is not None:
                numbers = {str(threads) for threads in self.threads}
                _known(("bars", number, "threads"), str(bar.threads), numbers)
        for number, paper in enumerate(self.papers):
            _known(("papers", number, "table"), paper.table, papers.index())
            benchmarks, printed = papers.names(paper.table)
            for benchmark, name in paper.stand_ins.items():
                where = ("papers", number, "stand_ins", benchmark)
                _known(where, benchmark, benchmarks)
                _known(where, name, set(names))
            for column, part in paper.columns.items():
                where = ("papers", number, "columns", column)
                _known(where, column, printed)
                _known((*where, "configuration"), part.configuration, variants)
        for outlier in self.statistics.outliers:
            _known(("statistics", "outliers", outlier), outlier, set(names))
        for number, name in enumerate(names):
            if name in names[:number]:
                raise _at(("workloads", number), f"a second workload is named {name}")
        for where, metric in self._named_metrics():
            if not metrics.is_known(metric, self.iteration):
                known = [*metrics.known(), f"{metrics.PRINTED}NAME"]
                raise _at(where, f"no metric {metric}{nearest(metric, known)}")
        if self.until is not None and not sequential.awaited(self):
            which = "the first bar is no bar" if self.until == "first" else "there is no bar"
            raise _at(("until",), f"{which} that rounds decide: one that is not of: mean")
        baseline = self.statistics.baseline
        for number, bar in enumerate(self.bars):
            if bar.configuration == baseline and bar.figure == "ratio" and not bar.against:
                where = ("bars", number, "configuration")
                raise _at(where, f"{baseline} is the baseline: say what the bar is against")
        return self

    def _named_metrics(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Each metric that the experiment names, and where."""
        yield ("statistics", "metric"), self.statistics.metric
        for number, metric in enumerate(self.statistics.also):
            yield ("statistics", "also", number), metric
        for number, metric in enumerate(self.statistics.shown):
            yield ("statistics", "shown", number), metric
        if self.statistics.equal is not None:
            yield ("statistics", "equal"), self.statistics.equal
        for number, bar in enumerate(self.bars):
            if "metric" in bar.model_fields_set:
                yield ("bars", number, "metric"), bar.metric
        for number, paper in enumerate(self.papers):
            for column, rule in paper.columns.items():
                where = ("papers", number, "columns", column)
                yield (*where, "metric"), rule.metric
                if rule.figure == "share":
                    yield (*where, "of"), rule.of

    @property
    def named_metrics(self) -> list[str]:
        """All metrics that the experiment names."""
        return list(dict.fromkeys(metric for _, metric in self._named_metrics()))

    def with_baseline(self, variant: str) -> Experiment:
        """The same experiment with ratios to another configuration."""
        rules = self.statistics.model_copy(update={"baseline": variant})
        return self.model_copy(update={"statistics": rules})

    def is_of_baselines_library(self, variant: str) -> bool:
        """Whether a configuration runs on the library that the baseline runs on."""
        variants = self.variants()
        return variants[variant].library == variants[self.statistics.baseline].library

    def variants(self) -> dict[str, Configuration]:
        """The configurations with each list of option values multiplied out.

        `prefetch: [none, fifo]` in configuration `lazy` gives `lazy+prefetch=none` and
        `lazy+prefetch=fifo`.
        """
        found: dict[str, Configuration] = {}
        for name, configuration in self.configurations.items():
            found.update(_multiply(name, configuration))
        return found


def _known(where: tuple[str | int, ...], name: str, names: Collection[str]) -> None:
    if name not in names:
        raise _at(where, f"no {name} among {', '.join(sorted(names))}{nearest(name, names)}")


def _at(where: tuple[str | int, ...], text: str) -> PydanticCustomError:
    """An error of the whole that is shown at one of its fields."""
    return PydanticCustomError("reference", "{text}", {"text": text, "where": where})


def _multiply(name: str, configuration: Configuration) -> dict[str, Configuration]:
    lists = [key for key, value in configuration.options.items() if isinstance(value, list)]
    if not lists:
        return {name: configuration}
    key, found = lists[0], {}
    for value in configuration.options[key]:
        options = {**configuration.options, key: value}
        one = configuration.model_copy(update={"options": options})
        found.update(_multiply(f"{name}+{key}={shown(value)}", one))
    return found


def shown(value: Scalar) -> str:
    """An option's value as Gleaner reads it: on and off for YAML's booleans."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def read(path: Path) -> Experiment:
    """Reads and checks a file."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Failure(f"{path}: it is not text in UTF-8") from error
    return parse(text, path)


@lru_cache(maxsize=64)
def parse(text: str, path: Path) -> Experiment:
    """Checks the text of an experiment; `path` is for messages."""
    with contextlib.suppress(Failure, yaml12.Wrong):
        return check(yaml12.load(text), path)
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError

    # Something is wrong, and this knows in which line.
    try:
        document = YAML().load(text)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise Failure(f"{path}:{line}: {error.problem}") from error
    return check(document, path)


def check(document: Any, path: Path) -> Experiment:
    """Checks an experiment that was read; `path` is for messages."""
    if not isinstance(document, dict):
        raise Failure(f"{path}:1: an experiment is a mapping of fields, like name: and workloads:")
    try:
        return sequential.adjusted(Experiment.model_validate(document))
    except ValidationError as error:
        lines = [_message(path, document, problem) for problem in error.errors()]
        raise Failure("\n".join(lines)) from error


def _message(path: Path, document: Any, problem: Any) -> str:
    steps = problem.get("ctx", {}).get("where", problem["loc"])
    where = ".".join(str(step) for step in steps)
    text = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        fields = _fields(steps)
        meant = nearest(str(steps[-1]), fields)
        text = f"no such field; this part has {', '.join(fields)}{meant}"
    return f"{path}:{_line(document, steps)}: {where or 'experiment'}: {text}"


def _line(document: Any, steps: tuple[Any, ...]) -> int:
    """The line of the innermost place on the way to a field that the file has."""
    line = 1
    for step in steps:
        if not hasattr(document, "lc"):
            break
        try:
            position = document.lc.item(step) if isinstance(step, int) else document.lc.key(step)
            line, document = position[0] + 1, document[step]
        except (KeyError, IndexError, TypeError):
            break
    return line


def _fields(steps: tuple[Any, ...]) -> list[str]:
    part: Any = Experiment
    for step in steps[:-1]:
        field = getattr(part, "model_fields", {}).get(step)
        if field is not None:
            part = _model(field.annotation)
    return list(getattr(part, "model_fields", {}))


def _model(annotation: Any) -> Any:
    """The model inside an annotation such as list[Model], or the annotation."""
    if isinstance(annotation, type) and issubclass(annotation, Part):
        return annotation
    for inner in getattr(annotation, "__args__", ()):
        found = _model(inner)
        if found is not None and isinstance(found, type) and issubclass(found, Part):
            return found
    return annotation
