"""Random cases: a policy and a number determine a problem."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.trust import shapes
from benchmarks.trust.case import Case

if TYPE_CHECKING:
    from benchmarks.trust.case import Floats

AGNOSTIC_TOO = 0.2
LEXICOGRAPHIC = {"max_min_fairness", "makespan", "finish_time_fairness"}
COUNTED = {"max_min_fairness", "makespan", "max_total_throughput", "isolated", "nash_welfare"}
COMBINED = {
    "max_min_fairness",
    "makespan",
    "finish_time_fairness",
    "fifo",
    "shortest_job_first",
    "max_total_throughput",
    "min_cost",
    "network_sensitive",
}
SIZED = {"makespan", "max_total_throughput"}
FILLED = {"hierarchical_fairness"}
GROUPED = {"fair_over_time", "cohort"}
# Policies whose oracle takes a program for every job, and the most jobs that it is asked for.
MOST_JOBS = {
    "strategy_proof": 12,
    "hierarchical_fairness": 24,
    "allox": 40,
    "gandiva_packing": 40,
    "nash_welfare": 300,
    "fair_over_time": 300,
    "cohort": 300,
    "min_cost_slos": 300,
}


def draw(policy: str, number: int, seed: int) -> Case:
    """Draw one case of a policy."""
    rng = np.random.default_rng([seed, zlib.crc32(policy.encode()), number])
    options, arguments, shape = _variant(policy, rng)
    jobs = _size(policy, options, shape, rng)
    types = int(rng.choice([1, 2, 3, 3, 3, 4, 5, 8]))
    spread = float(
        rng.choice([0, 1, 2, 4, 6, 6, 9, 12], p=[0.1, 0.2, 0.2, 0.2, 0.1, 0.1, 0.06, 0.04])
    )
    scale = _scale_factors(policy, jobs, shape, rng)
    capacity = _capacity(jobs, types, scale, rng)
    if shape == "tiers" and arguments.get(
        "gang_packing", True
    ):  # whole racks of gangs that do not pack well
        scale = rng.choice(([3, 5], [3, 5, 6], [5, 7, 12], [2, 5])[rng.integers(4)], jobs).astype(
            float
        )
        capacity = np.asarray(32.0 * rng.integers(1, 3, types), dtype=np.float64)
    speed = _speeds(jobs, types, spread, scale, capacity, rng)
    columns = _columns(policy, jobs, spread, speed, rng) | {"scale_factor": scale}
    if (
        policy in COUNTED
        and shape == "plain"
        and not options.get("lexicographic")
        and rng.random() < 0.1
    ):
        columns["count"] = rng.integers(1, 6, jobs).astype(float)
    unused = int(rng.random() < 0.15)
    names = tuple("abcdefgh"[:types]) + ("z",) * unused
    capacity = np.append(capacity, rng.integers(1, 20, unused)).astype(float)
    entity = _entities(jobs, rng) if policy == "hierarchical_fairness" else ()
    if entity:
        options |= _hierarchy(entity, rng)
    if policy in GROUPED:
        entity = tuple(
            str(name) for name in rng.choice(["x", "y", "w", "v"][: rng.integers(1, 5)], jobs)
        )
    options |= _limits(policy, entity, names, capacity, columns, rng)
    base: dict[str, Any] = {
        "policy": policy,
        "number": number,
        "seed": seed,
        "options": options,
        "arguments": arguments,
        "capacity": capacity,
        "types": names,
        "columns": columns,
        "entity": entity,
        "dollars": 10.0 ** rng.uniform(-1, 1, len(names)),
        "order": rng.permutation(len(names)),
        "shape": shape,
        "route": _route(options, arguments, shape, rng),
    }
    if shape == "combinations":
        return Case(**base, **shapes.combinations(speed, scale, rng))
    if shape == "pairs":
        return Case(**base, **shapes.pairs(speed, scale, rng))
    if shape == "tiers":
        return Case(**base, **shapes.tiers(speed, scale, rng))
    if shape == "sizes":
        return Case(**base, **shapes.sizes(speed, capacity, rng))
    own = np.arange(jobs)
    return Case(
        **base,
        speed=speed,
        row=own,
        job=own,
        gpus=np.repeat(scale[:, None], types, axis=1),
        option_type=np.arange(types),
    )


def _variant(policy: str, rng: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Options of the policy, arguments of `solve`, and the shape of the tensor."""
    options: dict[str, Any] = {}
    arguments: dict[str, Any] = {}
    shape = "plain"
    if policy == "gandiva_packing":
        return {"seed": int(rng.integers(5))}, {}, str(rng.choice(["combinations", "pairs"]))
    if rng.random() < AGNOSTIC_TOO:
        options["heterogeneity_aware"] = False
    elif policy in COMBINED and rng.random() < 0.2:
        shape = str(rng.choice(["combinations", "pairs"]))
        options["space_sharing"] = True
    elif policy in SIZED and rng.random() < 0.1:
        shape = "sizes"
    elif policy in COMBINED and rng.random() < 0.12:
        shape = "tiers"
        arguments |= {} if rng.random() < 0.5 else {"gang_packing": False}
    if policy in LEXICOGRAPHIC and shape == "plain" and rng.random() < 0.35:
        options["lexicographic"] = True
    elif rng.random() < 0.25:
        # Without its second stage water filling stops at the first level.
        names = ["group", "second_stage"][: 1 if policy in FILLED else 2]
        arguments[str(rng.choice(names))] = False
    return options, arguments, shape


def _route(
    options: dict[str, Any], arguments: dict[str, Any], shape: str, rng: np.random.Generator
) -> str:
    """Return "session" where nothing speaks against it: some options name entities to come."""
    named = {"weights", "quotas"} & options.keys()
    plain = shape == "plain" and not arguments and not named
    return "session" if plain and rng.random() < 0.08 else "solve"


def _size(policy: str, options: dict[str, Any], shape: str, rng: np.random.Generator) -> int:
    draw_ = rng.random()
    if draw_ < 0.03:
        jobs = 1
    elif draw_ < 0.96:
        jobs = int(np.exp(rng.uniform(np.log(2), np.log(41))))
    elif draw_ < 0.997:
        jobs = int(np.exp(rng.uniform(np.log(41), np.log(700))))
    else:
        jobs = int(np.exp(rng.uniform(np.log(700), np.log(4000))))
    most = MOST_JOBS.get(policy, 4000)
    if options.get("lexicographic"):
        most = 8 if policy == "finish_time_fairness" else 20
    if shape in {"combinations", "pairs"}:
        most = min(most, 12)
    least = 2 if shape in {"combinations", "pairs"} else 1
    return jobs if least <= jobs <= most else int(rng.integers(2, most + 1))


def _scale_factors(policy: str, jobs: int, shape: str, rng: np.random.Generator) -> Floats:
    if policy == "allox" or shape == "sizes" or rng.random() < 0.5:
        return np.ones(jobs)
    sizes = ([1, 1, 1, 2, 4], [1, 2, 3, 5], [1, 1, 2, 4, 8], [2], [8])[rng.integers(5)]
    if shape in {"combinations", "pairs"}:
        sizes = [sizes[-1]]
    return rng.choice(sizes, jobs).astype(float)


def _capacity(jobs: int, types: int, scale: Floats, rng: np.random.Generator) -> Floats:
    """GPUs by type: scarce, balanced or plenty; sometimes none of a type."""
    wanted = scale.sum() * float(rng.choice([0.2, 0.5, 1.0, 3.0])) / types
    capacity = np.maximum(1, np.rint(wanted * rng.uniform(0.3, 2, types)))
    if types > 1 and rng.random() < 0.12:
        capacity[rng.integers(types)] = 0
    if capacity.max() < scale.max():
        capacity[rng.integers(types)] = scale.max() * rng.integers(1, 3)
    return np.asarray(capacity, dtype=float)


def _speeds(
    jobs: int, types: int, spread: float, scale: Floats, capacity: Floats, rng: np.random.Generator
) -> Floats:
    """Steps/s: repeated or all different, over some decades, with zeros."""
    distinct = jobs if rng.random() < 0.6 else max(1, min(jobs, int(rng.integers(1, 8))))
    kinds = 10 ** rng.uniform(-spread / 2, spread / 2, (distinct, 1))
    kinds = kinds * np.exp(rng.normal(0, rng.choice([0.0, 0.5, 1.5]), (distinct, types)))
    if rng.random() < 0.15:
        kinds = np.maximum(1, np.rint(kinds))
    if rng.random() < 0.35:
        kinds = kinds * (rng.random(kinds.shape) > 0.25)
    if types > 1 and rng.random() < 0.07:
        kinds[:, rng.integers(types)] = 0
    speed = kinds if distinct == jobs else kinds[rng.integers(0, distinct, jobs)]
    lost = ~((speed > 0) & (scale[:, None] <= capacity)).any(axis=1)
    speed[lost, int(np.argmax(capacity))] = 1.0 if not spread else 10 ** rng.uniform(0, spread / 2)
    return np.asarray(speed, dtype=float)


def _columns(
    policy: str, jobs: int, spread: float, speed: Floats, rng: np.random.Generator
) -> dict[str, Floats]:
    ones = np.ones(jobs)
    weight = (ones, rng.integers(1, 6, jobs).astype(float), 10 ** rng.uniform(0, spread / 2, jobs))
    columns = {"weight": weight[rng.integers(3)], "count": ones}
    fast = speed.max(axis=1)
    remaining = 10 ** rng.uniform(2, 2 + max(spread, 1) / 2, jobs)
    if rng.random() < 0.7:  # steps that take seconds to weeks on the fastest type
        remaining = fast * 10 ** rng.uniform(2, 6, jobs)
    elapsed = rng.uniform(0, 1, jobs) * 10 ** rng.uniform(1, 5)
    if policy in {
        "makespan",
        "finish_time_fairness",
        "shortest_job_first",
        "least_mean_completion",
        "min_cost_slos",
        "allox",
    }:
        columns["steps_remaining"] = remaining
    if policy in {"finish_time_fairness", "min_cost_slos"}:
        columns["elapsed_s"] = elapsed if rng.random() < 0.8 else 0 * elapsed
    if policy == "finish_time_fairness":
        columns["isolated_elapsed_s"] = elapsed * rng.uniform(0, 1.2, jobs)
    if policy in {"fifo", "hierarchical_fairness"}:
        columns["arrival_s"] = rng.permutation(jobs) * float(rng.choice([1.0, 60.0, 1e-3]))
    if policy == "network_sensitive":
        columns["network_priority"] = rng.choice([0.0, 0.5, 1.0], jobs) * rng.uniform(0, 1.1, jobs)
    if policy == "min_cost_slos":
        share = rng.uniform(0, 1.2, jobs) * float(rng.choice([0.05, 0.3, 1.0]))
        left = remaining / fast / np.maximum(share, 1e-3)
        none = rng.random(jobs) < 0.4
        columns["deadline_s"] = np.where(none, np.nan, columns["elapsed_s"] + left)
    return columns


def _entities(jobs: int, rng: np.random.Generator) -> tuple[str, ...]:
    paths = (["x"], ["x", "y"], ["x", "y", "w"], ["x/p", "x/q", "y"], ["x/p", "x/q", "y/p", "w"])
    return tuple(str(path) for path in rng.choice(paths[rng.integers(5)], jobs))


def _limits(
    policy: str,
    entity: tuple[str, ...],
    types: tuple[str, ...],
    capacity: Floats,
    columns: dict[str, Floats],
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Options of policies about entities and power; enters what entities have used."""
    gpus = float(capacity.sum())
    owners = sorted(set(entity))
    if policy == "fair_over_time":
        window_s = float(rng.choice([3600.0, 21600.0, 1e6]))
        most_s = float(rng.choice([0.0, 0.5, 2.0])) * gpus * window_s
        used_s = {name: rng.uniform(0, most_s) * (rng.random() < 0.7) for name in owners}
        columns["entity_used_s"] = np.array([used_s[name] for name in entity])
        return {"window_s": window_s}
    if policy == "cohort":
        part = gpus * float(rng.choice([0.3, 1.0, 2.0])) / len(owners)
        quotas = {name: float(np.rint(part * rng.uniform(0, 2))) for name in owners}
        some = [name for name in owners if rng.random() < 0.4]
        borrowing = {name: float(np.rint(part * rng.uniform(0, 1))) for name in some}
        return {"quotas": quotas, "borrowing": borrowing}
    if policy == "power_capped":
        watts = {name: float(rng.integers(70, 1001)) for name in types}
        full_w = float(np.array(list(watts.values())) @ capacity)
        return {"watts": watts, "cap_w": full_w * float(rng.choice([0.05, 0.3, 0.6, 0.9, 1.5]))}
    return {}


def _hierarchy(entity: tuple[str, ...], rng: np.random.Generator) -> dict[str, Any]:
    paths = sorted(
        {"/".join(e.split("/")[: k + 1]) for e in entity for k in range(e.count("/") + 1)}
    )
    options: dict[str, Any] = {}
    if rng.random() < 0.5:
        options["weights"] = {path: float(rng.integers(1, 6)) for path in paths}
    if rng.random() < 0.3:
        options["inner"] = "fifo"
    return options
