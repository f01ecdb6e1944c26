"""Where the workloads of an experiment come from, and how load and seed change them.

A source is small: workers make the workload of a run themselves.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from apportion.checks import choice, file_path, mapping
from apportion.errors import InputError, unknown_name, written
from apportion.experiments.fitted_jobs import FITTING, two_ends
from apportion.jobs import RECORDED_TIMES
from apportion.sim import (
    ElasticWorkload,
    Workload,
    generate_communicating_workload,
    generate_contended_workload,
    generate_elastic_workload,
    generate_rack_workload,
    generate_workload,
    read_elastic_workload,
    read_workload,
)
from apportion.sim.fingerprint import content
from apportion.sim.traces.elastic import is_elastic
from apportion.sim.traces.read import TRACE_FORMATS

_OWN_KEYS = ("name", *FITTING)
_TYPES = ("any", "recorded")
_NO_FITTING = {"too_large": None}
_TOO_LARGE = ("drop", "error")
_GENERATORS: Mapping[str, Callable[..., Workload | ElasticWorkload]] = {
    "types": generate_workload,
    "racks": generate_rack_workload,
    "contended": generate_contended_workload,
    "communicating": generate_communicating_workload,
    "elastic": generate_elastic_workload,
}


class Source(Protocol):
    """Makes the workload of any load and seed.

    Attributes
    ----------
    name
        The workload in tables.
    fitting
        How it is made to fit a cluster: arguments of `fitted`.
    """

    @property
    def name(self) -> str:
        """The workload in tables."""
        ...

    @property
    def fitting(self) -> Mapping[str, Any]:
        """How it is made to fit a cluster: arguments of `fitted`."""
        ...

    @property
    def mark(self) -> str:
        """Tell it from others that would make the same workload at load 1 with one seed."""
        ...

    def made(self, load: float, seed: int) -> Workload | ElasticWorkload:
        """Make the workload."""
        ...

    def record(self) -> Mapping[str, Any]:
        """Say where it comes from."""
        ...


@dataclass(frozen=True)
class _Given:
    """A workload that is there already."""

    name: str
    workload: Workload | ElasticWorkload
    fitting: Mapping[str, Any]
    mark: str = "given"

    def made(self, load: float, seed: int) -> Workload | ElasticWorkload:
        return _at_load(self.workload, load)

    def record(self) -> Mapping[str, Any]:
        return {"jobs": len(self.workload.jobs), **_NO_FITTING, **self.fitting}


@dataclass(frozen=True)
class _Trace:
    """A file; `options` are arguments of `read_workload`, or of `read_elastic_workload`."""

    name: str
    options: Mapping[str, Any]
    fitting: Mapping[str, Any]

    @property
    def mark(self) -> str:
        # A format is known by its columns: no name says which of one's own reads the file.
        return f"trace {content(TRACE_FORMATS.added())}"

    def made(self, load: float, seed: int) -> Workload | ElasticWorkload:
        read = _reader(self.options["path"])
        drawn = {} if read is read_elastic_workload else {"seed": seed}
        return _at_load(read(**drawn, **self.options), load)

    def record(self) -> Mapping[str, Any]:
        return {**self.options, **_NO_FITTING, **self.fitting}


@dataclass(frozen=True)
class _Generated:
    """A generated workload; `options` are all arguments of its generator but the seed."""

    name: str
    kind: str
    options: Mapping[str, Any]
    fitting: Mapping[str, Any]

    @property
    def mark(self) -> str:
        # Two demands may draw the same few jobs with the one seed, and others with the next.
        return f"generated {self.record()}"

    def made(self, load: float, seed: int) -> Workload | ElasticWorkload:
        return _GENERATORS[self.kind](seed=seed, **_options_at_load(self.options, load))

    def record(self) -> Mapping[str, Any]:
        return {"kind": self.kind, **self.options, **_NO_FITTING, **self.fitting}


def sources_of(workloads: Any, *, too_large: str | None = None) -> list[Source]:
    """Make sources of what users write.

    Parameters
    ----------
    workloads
        One of these, or several: a `Workload` or an `ElasticWorkload`; the path of a trace; a
        mapping with the key ``path``, arguments of `read_workload`, or, of elastic jobs, of
        `read_elastic_workload`; a mapping without, arguments of `generate_workload`, or of
        `generate_rack_workload` if it holds ``kind="racks"``, of `generate_contended_workload` if
        it holds ``kind="contended"``, of `generate_communicating_workload` if it holds
        ``kind="communicating"``, of `generate_elastic_workload` if it holds
        ``kind="elastic"``. Mappings may also hold ``name``, ``too_large``, ``speed`` and
        ``measure``.
    too_large
        What becomes of jobs of a `Workload` that the cluster cannot hold; see `fitted`.

    Raises
    ------
    InputError
        For anything else, unknown arguments, and two workloads of one name.
    """
    if isinstance(workloads, (str, Path, Mapping)) or _has_jobs(workloads):
        workloads = [workloads]
    if not isinstance(workloads, Iterable) or getattr(workloads, "ndim", 1) == 0:
        raise _no_workload(workloads)
    sources = [_source(workload, too_large) for workload in workloads]
    if not sources:
        raise InputError("There is no workload to sweep over: the list of workloads is empty.")
    names = [source.name for source in sources]
    for name in names:
        if names.count(name) > 1:
            raise InputError(
                f"Two workloads are named {name!r}; give one another name, "
                f"e.g. {{'path': 'trace.csv', 'name': 'morning'}}."
            )
    return sources


def _at_load(workload: Workload | ElasticWorkload, load: float) -> Workload | ElasticWorkload:
    """Divide arrival times by the load: the same jobs in the same order, closer together."""
    if load == 1:
        return workload
    jobs = workload.jobs.drop(columns=[*RECORDED_TIMES], errors="ignore")  # of other arrivals
    arrival_s = jobs["arrival_s"] / load
    notes = (*workload.notes, f"arrival times divided by the load, {load:g}")
    return replace(workload, jobs=jobs.assign(arrival_s=arrival_s), notes=notes)


def _options_at_load(options: Mapping[str, Any], load: float) -> dict[str, Any]:
    """Change how fast jobs arrive; all at once stays all at once."""
    if load != 1 and "scale" in options:
        raise InputError("Jobs of the kind 'contended' arrive as published: give loads=[1].")
    changed = dict(options)
    if load != 1:
        if options.get("jobs_per_hour"):
            changed["jobs_per_hour"] = options["jobs_per_hour"] * load
        for length in ("days", "span_s", "hours"):
            if options.get(length):
                changed[length] = options[length] / load
    return changed


def _has_jobs(given: Any) -> bool:
    """Tell a workload, which is put on clusters, from what one is made of."""
    return hasattr(given, "jobs") and hasattr(given, "on") and not isinstance(given, Mapping)


def _source(given: Any, too_large: str | None) -> Source:
    if _has_jobs(given):
        return _Given(given.name, given, {} if too_large is None else {"too_large": too_large})
    if isinstance(given, (str, Path)):
        given = {"path": given}
    if isinstance(given, Mapping) and any(map(_has_jobs, given.values())):
        raise InputError(
            f"Workloads have their own names: give a list of them, not a mapping by "
            f"{', '.join(map(written, given))}."
        )
    if not isinstance(given, Mapping):
        raise _no_workload(given)
    own: dict[str, Any] = {"name": given["name"]} if given.get("name") is not None else {}
    own["fitting"] = _fitting_of(given)
    options = {key: value for key, value in given.items() if key not in _OWN_KEYS}
    if "path" not in options:
        return _generated(options, own)
    options["path"] = file_path("The path of a workload", options["path"])
    _check_options(_reader(options["path"]), options)
    return _Trace(**{"name": _name_of(options["path"]), **own}, options=_absolute(options))


def _fitting_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `fitted` among the keys of a workload; the cluster checks types."""
    found = {key: given[key] for key in FITTING if given.get(key) is not None}
    if found.get("too_large", "drop") not in _TOO_LARGE:
        raise unknown_name("answer to jobs that are too large", found["too_large"], _TOO_LARGE)
    choice("types", found.get("types", "any"), _TYPES)
    if "measure" in found:
        found["measure"] = two_ends(found["measure"])
    if "speed" in found:
        found["speed"] = mapping("speed", found["speed"], 'a mapping such as {"a100": 2.3}')
    return found


def _generated(options: Mapping[str, Any], own: Mapping[str, Any]) -> Source:
    """Make the source of a workload to be drawn, what is left out of its arguments filled in."""
    kind = options.get("kind", "types")
    if kind not in _GENERATORS:
        raise unknown_name("kind of generated workload", kind, _GENERATORS)
    given = {name: value for name, value in options.items() if name != "kind"}
    _check_options(_GENERATORS[kind], given)
    arguments = inspect.signature(_GENERATORS[kind]).parameters.values()
    defaults = {each.name: each.default for each in arguments if each.name != "seed"}
    return _Generated(**{"name": "generated", **own}, kind=kind, options=defaults | given)


def _reader(path: Path) -> Callable[..., Workload | ElasticWorkload]:
    """Return what reads a file."""
    return read_elastic_workload if is_elastic(path) else read_workload


def _check_options(
    function: Callable[..., Workload | ElasticWorkload], options: Mapping[str, Any]
) -> None:
    """Refuse what the function does not take, and the seed, which the sweep gives."""
    valid = [name for name in inspect.signature(function).parameters if name != "seed"]
    for name in options:
        if name == "seed":
            raise InputError("A workload of a sweep has no seed of its own; give seeds=.")
        if name not in valid:
            raise unknown_name(
                f"argument of {function.__name__}", name, [*valid, "path", "kind", *_OWN_KEYS]
            )


def _absolute(options: Mapping[str, Any]) -> dict[str, Any]:
    """Spell out the paths: a worker may start in another folder."""
    paths = {
        name: Path(options[name]).absolute()
        for name in ("path", "throughputs", "profiles")
        if isinstance(options.get(name), (str, Path))
    }
    return {**options, **paths}


def _name_of(path: Path) -> str:
    """Name a trace by its file, without the endings."""
    return path.name.removesuffix(".gz").rsplit(".", 1)[0] or path.name


def _no_workload(given: object) -> InputError:
    return InputError(
        f"Cannot make a workload of a {type(given).__name__}; give a Workload, the path of a "
        f"trace, or a mapping such as {{'jobs': 100, 'jobs_per_hour': 20.0}}."
    )
