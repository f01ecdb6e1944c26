"""Every public name, called with arguments of any kind: a result, or an error of the package.

``python -m tests.malformed.every_name FIRST LAST`` makes the calls of these numbers in a process of
its own, which may hold `MEMORY` bytes and spend `SECONDS` on a call, and prints what went wrong.
"""

from __future__ import annotations

import faulthandler
import functools
import importlib
import inspect
import json
import os
import pkgutil
import random
import resource
import signal
import sys
import tempfile
import warnings
from contextlib import redirect_stderr, redirect_stdout
from enum import Enum
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from tests.malformed.calls import jobs, speeds, workload
from tests.malformed.values import bad_table, bad_value

import apportion as ap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MEMORY = 6 * 2**30
"""Bytes of address space, most of which libraries take when they are loaded."""
SECONDS = 20
"""CPU seconds that a call may take."""
INSIDE = (
    "apportion.cli",
    "apportion.experiments.machine",
    "apportion.mechanism.configurations",
    "apportion.mechanism.inference",
    "apportion.mechanism.leases.WaitingJobs",
    "apportion.mechanism.leases.LeaseScheduler",
    "apportion.policies.Instance",
    "apportion.policies.Problem",
    "apportion.policies.core",
    "apportion.sim.links.LinkEngine",
    "apportion.sim.elastic",
    "apportion.sim.engine",
    "apportion.sim.leasing",
)
"""Parts of the loop and of the solvers, and what the loop makes; users do not call them."""


class TooLongError(BaseException):
    """A call went on for more than `SECONDS`."""


def public_modules() -> list[str]:
    """Names of the packages that users import from."""
    found = pkgutil.walk_packages(ap.__path__, "apportion.")
    return ["apportion", *(m.name for m in found if m.ispkg and not m.name.startswith(INSIDE))]


@functools.cache
def public_calls() -> tuple[tuple[str, Callable[..., Any]], ...]:
    """Functions, classes and class methods out of ``__all__`` of the public modules."""
    calls: dict[int, tuple[str, Callable[..., Any]]] = {}
    for module in map(importlib.import_module, public_modules()):
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            plain = inspect.isclass(value) or inspect.isfunction(value)
            error = inspect.isclass(value) and issubclass(value, BaseException)
            abstract = inspect.isabstract(value) or getattr(value, "_is_protocol", False)
            choices = inspect.isclass(value) and issubclass(value, Enum)
            inside = f"{module.__name__}.{name}".startswith(INSIDE)
            if not plain or error or abstract or choices or inside:
                continue
            calls.setdefault(id(value), (f"{module.__name__}.{name}", value))
            for own, made in vars(value).items() if inspect.isclass(value) else ():
                if isinstance(made, classmethod) and not own.startswith("_"):
                    calls.setdefault(
                        id(made), (f"{module.__name__}.{name}.{own}", getattr(value, own))
                    )
    return tuple(sorted(calls.values(), key=lambda each: each[0]))


@functools.cache
def _examples() -> dict[str, list[Any]]:
    """Values by the kind that an annotation names."""
    made = workload()
    run = ap.simulate("fifo", made, "v100=2")
    profile = ap.CommunicationProfile("p", 0.2, [(0.0, 0.1, 10.0)])
    allocation = ap.solve("max_min_fairness", speeds(), workers={"v": 2, "k": 2})
    network = importlib.import_module("apportion.sim.network")
    tree = network.leaf_spine(
        "t", servers=2, gpus_per_server=2, servers_per_leaf=1, server_gbps=9.0
    )
    models = network.model_profiles()
    return {
        "bool": [True, False],
        "int": [1, 2],
        "float": [0.5, 1.0, 2.0],
        "str": ["v100", "fifo", "csv", "ring"],
        "Path": [os.devnull],
        "None": [None],
        "Cluster": [ap.Cluster({"v100": 2}), {"v": 2, "k": 2}, "v100=2"],
        "Workload": [made],
        "ElasticWorkload": [ap.generate_elastic_workload(jobs=2)],
        "Run": [run],
        "Runs": [{"fifo": run}],
        "Policy": ["fifo", ap.MaxMinFairness()],
        "AnyDecider": ["fifo"],
        "Allocation": [allocation],
        "Throughputs": [speeds()],
        "DataFrame": [speeds(), jobs(), run.jobs, made.jobs],
        "Series": [pd.Series([1.0, 2.0])],
        "Mapping": [{"a": 1.0}, allocation.to_dict(), {"fifo": run}],
        "Iterable": [[1, 2], ["fifo"], [profile], ["v100"]],
        "Sequence": [[1, 2], ["fifo"], ["v100"]],
        "ArrayLike": [[1.0, 2.0]],
        "Floats": [np.ones((2, 2))],
        "NDArray": [np.ones(2)],
        "CommunicationProfile": [profile],
        "Topology": [tree],
        "ModelProfile": [next(iter(models.values()))],
        "Dimension": [network.Dimension("rack", "ring", 1e9)],
        "PairThroughputs": [ap.generate_pair_throughputs(accelerators=["v100"])],
        "Any": [1.0, "fifo", [1.0]],
    }


def right_value(rng: random.Random, parameter: inspect.Parameter) -> Any:
    """Draw a value that the parameter may take by its annotation, most often its default."""
    if parameter.default is not inspect.Parameter.empty and rng.random() < 0.8:
        return parameter.default
    words = str(parameter.annotation)
    named = [each for kind, values in _examples().items() if kind in words for each in values]
    return rng.choice(named or [1])


def drawn(number: int) -> tuple[str, Callable[[], Any]]:
    """Draw a call, of which one argument or a few are of any kind."""
    rng = random.Random(f"every name {number}")
    calls = public_calls()
    name, function = calls[number % len(calls)]
    given: dict[str, Any] = {}
    parameters = [
        each
        for each in inspect.signature(function).parameters.values()
        if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD) and each.name != "self"
    ]
    wrong = rng.sample(parameters, min(len(parameters), rng.choice([1, 1, 2])))
    for parameter in parameters:
        value = right_value(rng, parameter)
        if parameter in wrong:
            table = isinstance(value, pd.DataFrame) and value.size and rng.random() < 0.5
            value = bad_table(rng, value) if table else bad_value(rng)
        if value is not parameter.default:
            given[parameter.name] = value
    shown = ", ".join(f"{key}={_shown(value)}" for key, value in given.items())
    return f"{name}({shown})", lambda: function(**given)


def _shown(value: Any) -> str:
    try:
        text = " ".join(repr(value).split())
    except TypeError:  # of a table with cells that have no hash
        text = f"a {type(value).__name__}"
    return text if len(text) < 60 else f"{text[:60]}..."


def _failures(numbers: range) -> Iterator[dict[str, Any]]:
    """Make calls; yield those that end in an error that is none of the package, or do not end."""

    def stop(*_: object) -> None:
        raise TooLongError

    signal.signal(signal.SIGVTALRM, stop)
    for number in numbers:
        name, call = drawn(number)
        faulthandler.dump_traceback_later(20 * SECONDS, exit=True)
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        try:
            with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                call()
        except ap.ApportionError:
            pass
        except AssertionError:
            if not name.startswith("apportion.check_"):  # which are tests, and fail as such
                raise
        except (Exception, TooLongError) as error:
            trace = error.__traceback__
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            where = (
                "" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
            )
            said = f"{type(error).__name__}: {str(error)[:200]}"
            yield {"number": number, "call": name, "error": said, "where": where}
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def main() -> None:
    """Print failures as lines of JSON, and at the end how many calls there were."""
    first, last = map(int, sys.argv[1:3])
    warnings.simplefilter("ignore")
    _examples()
    public_calls()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        for failure in _failures(range(first, last)):
            print(json.dumps(failure), flush=True)
        print(json.dumps({"calls": last - first}), flush=True)
        os.chdir("/")


if __name__ == "__main__":
    main()
