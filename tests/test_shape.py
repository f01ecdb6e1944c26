"""How the code is laid out, counted: what may only get less stands in lists with its number."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import pytest
from tests.calls import COUNTED, FILE, calls_of, counted, twenty_jobs, versions
from tests.test_layout import FOLDERS, ROOT, parsed, sources

import apportion as ap

SOLVE_FILES, SOLVE_FUNCTIONS = 15, 120
LOOSE = 25
PARAMETERS = 12
MANY_PARAMETERS = {
    "apportion.experiments.comparisons.run.compare": 15,
    "apportion.experiments.sweeps.run.sweep": 15,
    "apportion.policies.labelled.solve": 16,
}
"""Functions that take more than anybody remembers."""


def test_a_solve_can_be_followed() -> None:
    """A reader who wants to know what happens to 20 jobs has so many files to open."""
    tensor = twenty_jobs()
    ap.solve("max_min_fairness", tensor)
    entered = set()
    calls_of(
        lambda: ap.solve("max_min_fairness", tensor),
        lambda frame: entered.add((frame.f_code.co_filename, frame.f_code.co_qualname)),
    )
    home = Path(ap.__file__).parent
    folders = tuple(str(folder.resolve()) for folder in (home, *FOLDERS.values()))
    own = {(file, name) for file, name in entered if str(Path(file).resolve()).startswith(folders)}
    assert len({file for file, _ in own}) <= SOLVE_FILES, sorted({file for file, _ in own})
    assert len(own) <= SOLVE_FUNCTIONS, Counter(file for file, _ in own)


def test_folders_are_taken_in_at_a_glance() -> None:
    files = Counter(
        file.parent.relative_to(ROOT).as_posix()
        for top in (
            "benchmarks",
            "estimators",
            "examples",
            "mechanism",
            "policies",
            "sim",
            "src",
            "tests",
        )
        for file in (ROOT / top).rglob("*.py")
        if not any(link.is_symlink() for link in file.parents)
    )
    assert not {folder: count for folder, count in files.items() if count > LOOSE}


@cache
def modules() -> dict[str, tuple[Path, ast.Module]]:
    """Return every module of the package by name, with its file and what it says."""
    found = {}
    for package, folder in FOLDERS.items():
        for file in sources(package):
            parts = file.relative_to(folder).with_suffix("").parts
            inner = parts[:-1] if parts[-1] == "__init__" else parts
            found[".".join([package, *inner])] = file, parsed(file)
    return found


def test_no_two_neighbours_import_each_other() -> None:
    """Folders inside one another are one thing; of two neighbours one knows the other."""
    known, arrows = modules(), defaultdict(set)
    for file, read in known.values():
        here = file.parent.relative_to(ROOT).as_posix()
        for node in read.body:
            module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
            if module in known:
                arrows[here].add(known[module][0].parent.relative_to(ROOT).as_posix())
    both = {
        (one, other)
        for one in arrows
        for other in arrows[one]
        if one < other and one in arrows[other] and not f"{other}/".startswith(f"{one}/")
    }
    assert not both


def test_functions_take_few_parameters() -> None:
    many = {}
    for module, (_, read) in modules().items():
        for node in ast.walk(read):
            if isinstance(node, ast.FunctionDef):
                taken = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                count = sum(each.arg not in ("self", "cls") for each in taken)
                if count > PARAMETERS:
                    many[f"{module}.{node.name}"] = count
    assert many.keys() <= MANY_PARAMETERS.keys()
    assert not {name: count for name, count in many.items() if count > MANY_PARAMETERS[name]}


LINES, SCREEN = 300, 60
LONG_MODULES = {
    "apportion.mechanism.core": 338,
    "apportion.mechanism.orders": 350,
    "apportion.policies.instance": 442,
    "apportion.policies.labelled": 365,
    "apportion.policies.problem": 381,
    "apportion.policies.sessions.session": 403,
    "apportion.policies.solving.cone": 363,
    "apportion.policies.solving.driver": 345,
    "apportion.policies.solving.rows": 363,
    "apportion.policies.solving.solvers.arrow_active_sets": 326,
    "apportion.sim.engine.fluid": 327,
}
"""Modules of more lines; six of them are entered by every solve, which may enter no more files."""
LONG_FUNCTIONS = {
    "apportion.answers.advising.advise": 96,
    "apportion.answers.audited_runs.audit_run": 77,
    "apportion.answers.fewest.fewest_for_wait": 83,
    "apportion.answers.lies.try_lies": 72,
    "apportion.answers.other_clusters.what_if": 65,
    "apportion.answers.race.recommend": 89,
    "apportion.estimators.estimate.estimate_pairs": 69,
    "apportion.estimators.speeds.completed.estimate_speeds": 81,
    "apportion.experiments.comparisons.run.compare": 114,
    "apportion.experiments.sweeps.run.sweep": 106,
    "apportion.mechanism.batch.scheduler.starts_alone": 69,
    "apportion.policies.instance.of_options": 72,
    "apportion.policies.labelled.solve": 89,
    "apportion.policies.sessions.served.served_at_prices": 62,
    "apportion.policies.solving.canonical.straight": 62,
    "apportion.policies.solving.condition.condition": 67,
    "apportion.policies.solving.driver.solve_instance": 90,
    "apportion.policies.solving.random_partition.solve_in_parts": 68,
    "apportion.policies.solving.solvers.active_set_least_squares._parts": 62,
    "apportion.policies.whole.joint_sizing.joint_sizing": 83,
    "apportion.service.http.application": 68,
    "apportion.sim.drawn.generate.generate_workload": 87,
    "apportion.sim.drawn.rack_workloads.generate_rack_workload": 68,
    "apportion.sim.elastic.lending.lending_value": 66,
    "apportion.sim.engine.loop.run": 81,
    "apportion.sim.inference.cheapest.cheapest_gpus": 76,
    "apportion.sim.inference.generate.generate_requests": 75,
    "apportion.sim.one_round.asked.solve_round": 104,
    "apportion.sim.phases.engine.run_phases": 87,
    "apportion.sim.phases.workload.generate_communicating_workload": 62,
    "apportion.sim.phases.workload.generate_contended_workload": 65,
    "apportion.sim.simulation.simulate": 96,
    "apportion.sim.traces.read.read_workload": 74,
    "apportion.statistics.intervals.bootstrap": 73,
    "apportion.testing.schedule.check_schedule": 77,
    "apportion.testing.scheduler.check_scheduler": 78,
}
"""Functions of more lines with their text, which for most is the longer part."""


def test_modules_and_functions_are_no_longer_than_they_were() -> None:
    modules_now, functions_now = dict[str, int](), dict[str, int]()
    for module, (file, read) in modules().items():
        modules_now[module] = len(file.read_text(encoding="utf-8").splitlines())
        for node in ast.walk(read):
            if isinstance(node, ast.FunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                name = f"{module}.{node.name}"
                functions_now[name] = max(length, functions_now.get(name, 0))
    for now, limit, known in (
        (modules_now, LINES, LONG_MODULES),
        (functions_now, SCREEN, LONG_FUNCTIONS),
    ):
        assert not {name: many for name, many in now.items() if many > known.get(name, limit)}
        assert not {name for name in known if now.get(name, 0) <= limit}, "take them off the list"


KINDS = re.compile(
    r"\b(\w*(Scheduler|Decider|Policy|Network|Workload|Steps|Speeds|Estimates|Mechanism"
    r"|Placement|Rule|Timers|Sharing|Cost)|Rounds|Exact|Leases|Queue|Iterations|Configurations"
    r"|NoWait|DelayScheduling|FullyConsolidated|SkewBased|CompletedPairs|NetworkModel)\b"
)
DOORS = {
    "apportion.policies.registry": 1,  # a policy, or the name of one
    "apportion.sim.network.registry": 1,  # a network has what it needs, or is none
    "apportion.sim.contention.fast": 2,  # the compiled engine knows two laws; the plain one all
}
"""Modules that take what users give, and how often they tell its kind."""


def test_what_users_bring_is_asked_and_not_sorted_by_class() -> None:
    """What the package brings must not be able to do more than a class of one's own."""
    told: Counter[str] = Counter()
    for module, (_, read) in modules().items():
        for node in ast.walk(read):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
                told[module] += bool(KINDS.search(ast.unparse(node.args[1])))
    assert {module: count for module, count in told.items() if count} == DOORS


def test_tolerances_have_their_reasons() -> None:
    """A reader asks of 1e-9 why it is that: a comment or a text beside it says so."""
    bare = []
    for module, (file, read) in modules().items():
        lines = file.read_text(encoding="utf-8").splitlines()
        for node, after in zip(read.body, [*read.body[1:], None], strict=True):
            if isinstance(node, ast.Assign) and len(ast.unparse(node.value)) < 40:
                values = [n.value for n in ast.walk(node.value) if isinstance(n, ast.Constant)]
                if any(isinstance(each, float) and 0 < each <= 1e-3 for each in values):
                    beside = "".join(lines[node.lineno - 2 : node.end_lineno])
                    told = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                    bare += [] if told or "#" in beside else [f"{module}:{node.lineno}"]
    assert not bare


EXPLAINED = ("policies", "mechanism", "sim/contention", "sim/elastic", "sim/engine")
"""Folders in which numbers within functions have their reasons too."""

NO_DIVISION_BY_ZERO = 1e-100
"""Below it a number is no tolerance: it keeps a divisor above 0."""


def test_tolerances_within_functions_have_their_reasons() -> None:
    """A comment on the lines of the statement or just above, or the text of the function."""
    bare = []
    for file, read in modules().values():
        place = file.relative_to(ROOT).as_posix()
        if not place.startswith(EXPLAINED):
            continue
        text = file.read_text(encoding="utf-8")
        lines = text.splitlines()
        for function in (each for each in ast.walk(read) if isinstance(each, ast.FunctionDef)):
            said = ast.get_docstring(function) or ""
            for node in ast.walk(function):
                if not isinstance(node, ast.stmt) or hasattr(node, "body"):
                    continue
                beside = "".join(lines[node.lineno - 3 : node.end_lineno])
                bare += [
                    f"{place}:{each.lineno}"
                    for each in ast.walk(node)
                    if isinstance(each, ast.Constant) and isinstance(each.value, float)
                    if NO_DIVISION_BY_ZERO < each.value <= 1e-3
                    if "#" not in beside and str(ast.get_source_segment(text, each)) not in said
                ]
    assert not bare


LONG = {"round", "solve under leases", "elastic decision"}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.thorough if n in LONG else []) for n in COUNTED]
)
def test_what_is_done_often_takes_no_more_calls(name: str) -> None:
    """Seconds hang on the load of a machine, calls do not; a tenth more of them is a tenth slower.

    Fewer are good news: ``python -m tests.calls`` keeps them.
    """
    kept = json.loads(FILE.read_text(encoding="utf-8"))
    if kept["versions"] != versions():
        pytest.skip(f"counted with {kept['versions']}, here are {versions()}")
    assert counted(name) == pytest.approx(kept["calls"][name], rel=0.03)
