"""Runs say how many of their solves were not certified, and nothing where all were."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.own_policies import Mine

import apportion as ap
from apportion.experiments.run_records import record_of, run_of
from apportion.policies import solve_instance
from apportion.report import summary_html
from apportion.report.tables import human_table

if TYPE_CHECKING:
    import cvxpy as cp

RACKS = ap.Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=4, accelerator="v100")


@dataclass(frozen=True)
class InDoubt(Mine):
    """Reads numbers that are known to a thousandth."""

    name = "in_doubt"

    def objective(self, p: Any) -> cp.Maximize:
        p.inexact = 1e-3
        return super().objective(p)


@pytest.mark.parametrize("mechanism", ["rounds", "exact", "leases"])
def test_runs_count_the_solves_that_were_not_certified(mechanism: Any) -> None:
    workload = ap.generate_workload(jobs=5, seed=3)
    runs = {}
    for policy in (InDoubt(), Mine()):
        network: dict[str, Any] = {"network": "none"} if mechanism == "leases" else {}
        runs[policy.name] = ap.simulate(policy, workload, RACKS, mechanism=mechanism, **network)
    doubtful, sure = runs["in_doubt"], runs["mine"]
    assert doubtful.uncertified == doubtful.summary()["uncertified_solves"] == doubtful.solves > 0
    assert f"{doubtful.solves} of {doubtful.solves} solves not certified" in repr(doubtful)
    assert sure.uncertified == 0
    assert "uncertified_solves" not in sure.summary()
    assert "certified" not in repr(sure)
    again = run_of(record_of(doubtful, {}), doubtful.policy, doubtful.workload, RACKS, {})
    assert again.uncertified == doubtful.uncertified


def test_elastic_runs_count_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "apportion.sim.elastic.choice.solve_instance",
        lambda *at, **how: replace(solve_instance(*at, **how), status="time_limit"),
    )
    run = ap.simulate("pollux", ap.generate_elastic_workload(jobs=3, seed=1), RACKS)
    assert run.uncertified == run.solves > 0


def test_tables_and_reports_name_the_policies_in_doubt() -> None:
    workload, gpus = ap.generate_workload(jobs=4, seed=3), "v100=4,k80=8"
    compared = ap.compare([InDoubt(), Mine()], workload, gpus, n_jobs=1)
    legend = human_table(compared.summary(), brief=True).legend
    assert legend.endswith(
        f"Not certified as optimal, solves: in_doubt {compared['in_doubt'].solves}."
    )
    assert "Not certified as optimal" in summary_html(compared)
    sure = ap.compare([Mine()], workload, gpus, n_jobs=1)
    assert "certified" not in human_table(sure.summary(), brief=True).legend
