"""Drawn runs: any decider by any mechanism with any settings, on jobs that have every column.

``python -m tests.combinations.cases KIND FIRST LAST`` runs cases one after the other and writes a
line of JSON for each: its number, what came of it, and what was asked for. A case that takes longer
than `LIMIT_S` ends with ``endless``.
"""

from __future__ import annotations

import json
import logging
import math
import signal
import sys
import traceback
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pandas as pd

import apportion as ap
from apportion.elastic import DiurnalRate, generate_requests
from apportion.errors import InputError, SolveError
from apportion.mechanism.deciders import DECIDERS
from apportion.mechanism.elastic import ElasticRule
from apportion.mechanism.gates import GATES
from apportion.mechanism.orders import ORDERS
from apportion.mechanism.placements import PLACEMENTS, Strategy
from apportion.mechanisms import MECHANISMS
from apportion.pairs import PairThroughputs
from apportion.policies.registry import POLICIES, get_policy
from apportion.sim.deciders import get_decider
from apportion.sim.network.registry import NETWORKS
from apportion.sim.network.topology.named import TOPOLOGY_PRESETS
from apportion.sim.settings import settings_for

if TYPE_CHECKING:
    from collections.abc import Iterable

LIMIT_S = 150
"""Seconds of the processor after which a case is endless: all have a few short jobs."""

NOTHING_HAPPENS = ("gets ahead", "would wait for ever", "stand still", "puts off", "ever happen")
"""What an error of a run says in which nothing can happen any more."""


class Nowhere(Strategy):
    """Declines every gang."""

    name = "nowhere"

    def choose(self, gang: Any, devices: Any) -> None:
        return None


class InTurn(ap.QueueScheduler):
    """Serves jobs in the order of their names; the package brings no queue of its own."""

    name = "in_turn"

    def queue(self, jobs: Any, now_s: float) -> Iterable[Any]:
        for job in jobs.active:
            yield job, np.argsort(-jobs.speed[job], kind="stable")


class Nobody(ap.QueueScheduler):
    """Serves nobody."""

    name = "nobody_in_a_queue"

    def queue(self, jobs: Any, now_s: float) -> Iterable[Any]:
        return iter(())


class Standing:
    """Gangs in several machines come to a stop."""

    name = "standing"

    def overhead(self, job_type: str, shape: Any) -> float:
        return 1e9


class Never:
    """A gate that lets no transfer pass."""

    name = "never"

    def decide(self, now_s: float, flow: Any, links: Any) -> float:
        return math.inf


@dataclass(frozen=True, repr=False)
class NoElasticJob(ElasticRule):
    """Gives no job a GPU."""

    name = "no_elastic_job"

    def choose(self, jobs: Any) -> Any:
        return np.full(len(jobs.speed), -1, dtype=np.intp)


@dataclass(frozen=True)
class Least(ap.Policy):
    """Gives jobs as little as it can."""

    name = "least"

    heterogeneity_aware: bool = True

    def objective(self, p: Any) -> cp.Minimize:
        return cp.Minimize(p.total(p.throughput))


def register_possible() -> None:
    """Put parts into registries that are empty otherwise."""
    DECIDERS["in_turn"] = InTurn()


def register_impossible() -> None:
    """Put parts into the registries under which nothing may ever happen."""
    PLACEMENTS["nowhere"] = Nowhere
    DECIDERS["nobody_in_a_queue"] = Nobody()
    NETWORKS["standing"] = lambda _profiles: Standing()
    GATES["never"] = Never()
    DECIDERS["no_elastic_job"] = NoElasticJob()
    POLICIES["least"] = Least


def deciders() -> list[str]:
    """Return every name under which a simulation can be asked for, endings included."""
    policies = []
    for name in [f"{each}{end}" for each in POLICIES for end in ENDINGS]:
        try:
            get_policy(name)
        except InputError:
            continue
        policies.append(name)
    return [*policies, *DECIDERS]


ENDINGS = ("", "_agnostic", "_space_sharing", "_agnostic_space_sharing")
KNOWN_TO = {
    "rack": ("table1", "alpha_beta", "table1_model"),
    "communicating": ("cassini", "cassini_unshifted", "phases", "phases_unshifted"),
    "contended": ("contention", "contention_expected"),
}
"""Networks that know the models which jobs train; the others are tried as well, but less often."""


PACKED = ["packed", "cassini", "cassini_by_gang"]
"""Placements of elastic jobs."""


def jobs_with_every_column(rng: np.random.Generator) -> tuple[Any, ap.Cluster, list[str]]:
    """Draw a few short jobs, racks of two types for them, and networks that know them."""
    kind, seed = list(KNOWN_TO)[rng.integers(3)], int(rng.integers(99))
    if kind == "rack":
        drawn = ap.generate_rack_workload(jobs=12, max_scale_factor=4, seed=seed)
    elif kind == "communicating":
        drawn = ap.generate_communicating_workload(12, gpus=[2, 3, 4], seed=seed)
    else:
        drawn = ap.generate_contended_workload(seed=seed, scale=0.1)
    drawn = replace(drawn, jobs=drawn.jobs[drawn.jobs["scale_factor"] <= 4][:4])
    table = drawn.throughputs[drawn.throughputs.index.get_level_values(1) <= 4]
    speed = table.iloc[:, 0]
    ratio = rng.uniform(0.2, 2.0, len(speed))
    ratio[rng.random(len(speed)) < 0.2] = 0.0
    count = len(drawn.jobs)
    jobs = drawn.jobs.assign(
        weight=rng.choice([0.5, 1.0, 4.0], count),
        entity=rng.choice(["a", "b/c", "b/d"], count),
        arrival_s=rng.choice([0.0, 30.0, 900.0], count),
    )
    keys = pd.MultiIndex.from_frame(jobs[["job_type", "scale_factor"]])
    seconds = rng.choice([1.0, 200.0, 2000.0], count)
    jobs["total_steps"] = np.maximum(speed.loc[keys].to_numpy() * seconds, 1.0)
    jobs["deadline_s"] = seconds * rng.choice([0.5, 3.0, 30.0], count)
    speeds = pd.DataFrame({"v100": speed, "k80": speed * ratio})
    pairs = _pairs(speeds, rng) if rng.random() < 0.7 else None
    workload = replace(drawn, jobs=jobs, throughputs=speeds, pairs=pairs)
    size = int(rng.choice([1, 2, 4]))
    racks = {"v100": 2, "k80": int(rng.integers(1, 3))}
    cluster = ap.Cluster.of_racks(racks, machines_per_rack=4 // size, gpus_per_machine=size)
    return workload, cluster, ["none", *KNOWN_TO[kind]]


def _pairs(speeds: pd.DataFrame, rng: np.random.Generator) -> PairThroughputs:
    """Draw what gangs of one size make beside each other."""
    gpus, alone = speeds.index.get_level_values(1).to_numpy(), speeds.to_numpy()
    part = rng.choice([0.0, 0.4, 0.9], (len(gpus), len(gpus), 1))
    part = np.minimum(part, part.transpose(1, 0, 2))
    both = (gpus[:, None] == gpus)[:, :, None] & (alone[:, None, :] > 0) & (alone > 0)
    beside = np.where(both, part * alone[:, None, :], 0.0)
    keys = pd.MultiIndex.from_tuples(speeds.index.tolist(), names=speeds.index.names)
    return PairThroughputs(beside, alone, keys, tuple(speeds.columns))


def elastic_jobs(rng: np.random.Generator) -> tuple[Any, ap.Cluster]:
    """Draw short elastic jobs, some of them rigid, and machines."""
    drawn = ap.generate_elastic_workload(3, hours=0.05, seed=int(rng.integers(99)))
    jobs = drawn.jobs.assign(
        weight=rng.choice([0.5, 1.0, 4.0], len(drawn.jobs)),
        rigid=rng.random(len(drawn.jobs)) < 0.3,
        application=["small_vision"] * len(drawn.jobs),
        gpus=rng.integers(1, 3, len(drawn.jobs)),
        batch=128,
    )
    counts = {"v100": int(rng.integers(2, 9))}
    if rng.random() < 0.4:
        counts["k80"] = int(rng.integers(1, 9))
    cluster = ap.Cluster(counts, gpus_per_machine=int(rng.choice([1, 2, 4])))
    return replace(drawn, jobs=jobs), cluster


def requests(rng: np.random.Generator, cluster: ap.Cluster) -> Any:
    """Draw what serves requests, often in the way of everything else."""
    count = sum(cluster.gpus.values())
    return ap.Serving(
        generate_requests(
            DiurnalRate(mean=float(rng.choice([0.02, 0.2, 2.0]))),
            length_s=300.0,
            services=int(rng.integers(1, 4)),
            mean_duration_s=float(rng.choice([1.0, 30.0])),
            seed=int(rng.integers(99)),
        ),
        gpus=int(rng.choice([count, max(count - 1, 1), max(count // 2, 1)])),
        lending=bool(rng.random() < 0.5),
        yield_seconds=[None, 0.0, 1e4][rng.integers(3)],
        cold_start_s=float(rng.choice([0.0, 6.0, 1e4])),
    )


def setting(field: Any, rng: np.random.Generator, cluster: ap.Cluster, networks: list[str]) -> Any:
    """Draw a value of a setting by its name or kind; None leaves it as it is."""
    named = {
        "placement": PACKED if field.default == "packed" else list(PLACEMENTS),
        "network": networks,
        "topology": list(TOPOLOGY_PRESETS),
        "timers": ["none", "manual", "tuned", "0,0", "1e9,1e9"],
        "gate": list(GATES),
        "order": list(ORDERS),
        "gang_restart": ["stop_resume", "afe", "edl"],
        "gang_sizes": ["every", "whole_nodes"],
        "goodputs": ["told", "fitted"],
        "counted_over": ["task", "cluster"],
    }
    if field.name == "serving":
        return requests(rng, cluster)
    if field.name in named:
        return named[field.name][rng.integers(len(named[field.name]))]
    kind = field.kind
    if "bool" in kind:
        return bool(rng.random() < 0.5)
    if "float" in kind:
        return float(rng.choice([0.0, 5.0, 59.0, 600.0, 1e5]))
    return None


def draw(seed: int, *, impossible: bool) -> tuple[str, Any, ap.Cluster, dict[str, Any]]:
    """Draw a decider, jobs, a cluster, and settings of a mechanism, now and then the wrong one."""
    rng = np.random.default_rng([seed, impossible])
    names, mechanisms = deciders(), list(MECHANISMS)
    turn, mechanism = seed // len(mechanisms), mechanisms[seed % len(mechanisms)]
    if rng.random() < 0.1:
        decider = str(rng.choice(names))
    else:
        own = [name for name in names if works_by(name, mechanism)]
        decider = own[turn % len(own)]
    if mechanism == "configurations":
        workload, cluster = elastic_jobs(rng)
        networks = list(NETWORKS)
    else:
        workload, cluster, networks = jobs_with_every_column(rng)
    networks = list(NETWORKS) if rng.random() < 0.1 else networks
    settings: dict[str, Any] = {"mechanism": mechanism, "seed": int(rng.integers(99))}
    for each in MECHANISMS[mechanism].settings():
        named = each.name in ("placement", "network", "gang_restart")
        if each.name == "network" and mechanism == "leases":
            settings["network"] = str(rng.choice(networks))
        elif (named or impossible) and rng.random() < (0.4 if named else 0.2):
            settings[each.name] = setting(each, rng, cluster, networks)
    given = {name: value for name, value in settings.items() if value is not None}
    return decider, workload, cluster, given


def works_by(decider: str, mechanism: str) -> bool:
    """Tell whether a decider is of a kind that works by a mechanism."""
    try:
        settings_for([get_decider(decider, elastic=mechanism == "configurations")], mechanism, {})
    except InputError:
        return False
    return True


def outcome(seed: int, *, impossible: bool) -> dict[str, Any]:
    """Run a case and tell what came of it."""
    decider, workload, cluster, settings = draw(seed, impossible=impossible)
    asked = f"{decider} on {cluster}, {workload!r}: {settings}"
    told = {"seed": seed, "asked": asked, "decider": decider, "mechanism": settings["mechanism"]}
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    try:
        run = ap.simulate(decider, workload, cluster, **settings)
        whole = bool(np.isfinite(run.jobs["completion_s"].to_numpy(dtype=float)).all())
        return told | {"became": "ran" if whole else "left jobs", "text": ""}
    except TimeoutError:
        return told | {"became": "endless", "text": traceback.format_exc()[-600:]}
    except InputError as error:
        return told | {"became": "refused", "text": str(error)}
    except SolveError as error:
        said = any(word in str(error) for word in NOTHING_HAPPENS)
        return told | {"became": "stopped" if said else "unsolved", "text": str(error)}
    except Exception:
        return told | {"became": "raw", "text": traceback.format_exc()[-900:]}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _endless(number: int, frame: Any) -> None:
    raise TimeoutError


def main() -> None:
    """Run the cases that the command line names."""
    kind, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    register_possible()
    if kind == "impossible":
        register_impossible()
    signal.signal(signal.SIGPROF, _endless)
    for seed in range(first, last):
        told = outcome(seed, impossible=kind == "impossible")
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
