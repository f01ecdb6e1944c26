"""Rounds asked for and told by hand are those of a simulation, devices included."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.seeds import each_seed
from tests.sim.workloads.generated import draw

import apportion as ap
from apportion.mechanism import RoundScheduler

if TYPE_CHECKING:
    import pandas as pd

POLICIES = ("max_min_fairness", "max_min_fairness_agnostic", "fifo", "isolated", "proportional")


class ByHand:
    """A user who knows the public `RoundScheduler` and `solve`, and keeps the books alone."""

    def __init__(
        self, policy: str, load: ap.Workload, cluster: ap.Cluster, settings: dict[str, Any]
    ) -> None:
        self.policy, self.load, self.cluster, self.settings = policy, load, cluster, settings
        self.aware = not policy.endswith("_agnostic") and policy != "fifo_agnostic"
        names = ("round_seconds", "placement", "carry_over")
        self.scheduler = RoundScheduler(cluster, **{name: settings[name] for name in names})
        self.speeds = load.throughput_of(cluster)
        self.left = load.jobs["total_steps"].to_dict()
        self.stays: list[tuple[Any, str, tuple[int, ...], float]] = []
        self.completion_s: dict[Any, float] = {}
        self.preemptions = dict.fromkeys(self.left, 0)

    def run(self) -> None:
        coming, here, now = list(self.load.jobs.index), list[Any](), 0.0
        arrival_s, changed = self.load.jobs["arrival_s"], False
        while coming or here:
            if not here:
                now = max(now, arrival_s[coming[0]])
            new = [job for job in coming if arrival_s[job] <= now]
            coming = coming[len(new) :]
            if new:
                self.scheduler.add(new, self.gpus(new), can_run=self.told(new))
            here += new
            if new or changed:
                self.aim(here, now)
            passed, done = self.one_round(now)
            self.scheduler.remove(done)
            here = [job for job in here if job not in done]
            now, changed = now + passed, bool(done)
            if len(self.stays) % 3 == 0:  # anyone may stop here and go on from a file
                state = json.loads(json.dumps(self.scheduler.state()))
                self.scheduler = RoundScheduler.from_state(state)

    def gpus(self, jobs: list[Any]) -> dict[Any, int]:
        return {job: int(self.load.jobs["scale_factor"][job]) for job in jobs}

    def told(self, jobs: list[Any]) -> pd.DataFrame:
        """Speeds, as far as the policy knows of them."""
        speeds = self.speeds.loc[jobs]
        return speeds if self.aware else (speeds > 0).astype(float)

    def aim(self, here: list[Any], now: float) -> None:
        table = self.load.jobs.loc[here, ["scale_factor", "arrival_s", "weight"]]
        steps = self.load.jobs.loc[here, "total_steps"]
        table = table.assign(
            steps_remaining=[self.left[job] for job in here],
            total_steps=steps,
            elapsed_s=now - table["arrival_s"],
        )
        X = ap.solve(self.policy, self.speeds.loc[here], workers=self.cluster, jobs=table).X
        self.scheduler.set_target(X, self.gpus(here), can_run=self.told(here))

    def one_round(self, now: float) -> tuple[float, list[Any]]:
        length = self.settings["round_seconds"]
        plan = self.scheduler.ask()
        new = {*plan.started, *plan.moved}
        for job in (*plan.preempted, *plan.moved):
            self.preemptions[job] += 1
        ran, done = {}, []
        for gang in plan.assignments:
            (job,) = gang.jobs
            lost = self.settings["preemption_overhead_seconds"] if job in new else 0.0
            speed = float(self.speeds[gang.accelerator].to_dict()[job])
            needed = lost + self.left[job] / speed
            ran[job] = min(needed, length)
            self.left[job] -= speed * max(ran[job] - lost, 0.0)
            if job in new:
                self.stays.append((job, gang.accelerator, tuple(gang.devices), now))
            if needed <= length * (1 + 1e-9):
                self.completion_s[job] = now + needed
                done.append(job)
        self.scheduler.tell(plan, ran)
        return max(ran.values(), default=length), done


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", each_seed(1, 4))
def test_by_hand_it_is_the_same_run(policy: str, seed: int) -> None:
    case = draw(policy, np.random.default_rng([seed, *policy.encode()]), most_jobs=9)
    settings = case.settings | {"leases": True, "resolve_seconds": 0.0}
    jobs = case.workload.jobs.rename(lambda job: f"{job[4:]:0>2}").sort_index()
    jobs = jobs.sort_values("arrival_s", kind="stable")
    load = ap.Workload("drawn", jobs, case.workload.throughputs)
    names = sorted(case.cluster.gpus)
    cluster = ap.Cluster(
        {name: case.cluster.gpus[name] for name in names},
        gpus_per_machine=case.cluster.gpus_per_machine,
    )
    run = ap.simulate(policy, load, cluster, **settings)
    by_hand = ByHand(policy, load, cluster, settings)
    by_hand.run()
    for name in ("completion_s", "preemptions"):
        expected = [getattr(by_hand, name)[job] for job in run.jobs.index]
        np.testing.assert_allclose(run.jobs[name], expected, rtol=1e-9, err_msg=name)
    columns = run.schedule[["job", "accelerator", "devices", "start_s"]]
    stays = [tuple(row) for row in columns.itertuples(index=False)]
    assert [stay[:3] for stay in stays] == [stay[:3] for stay in by_hand.stays]
    starts = [stay[3] for stay in by_hand.stays]
    np.testing.assert_allclose([stay[3] for stay in stays], starts, rtol=1e-9)
