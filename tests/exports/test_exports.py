"""Allocations in the words of other schedulers: sums, names, and the way back."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.cli import main
from apportion.errors import InputError
from apportion.exports import (
    gpus_by,
    kai_queues,
    kueue_objects,
    kueue_quotas,
    placement_groups,
    slurm_commands,
    volcano_queues,
    whole_gpus,
)

if TYPE_CHECKING:
    from pathlib import Path

JOBS = pd.DataFrame(
    {"entity": ["Vision Lab", "speech", "Vision Lab", "nlp"], "scale_factor": [1, 2, 1, 4]},
    index=list("abcd"),
)
SPEEDS = pd.DataFrame({"v100": [4.0, 3.0, 2.0, 5.0], "k80": [1.0, 2.0, 1.0, 1.0]}, index=JOBS.index)


def solved() -> ap.Allocation:
    return ap.solve("max_min_fairness", SPEEDS, workers="v100=4,k80=4", jobs=JOBS)


def test_groups_have_what_their_jobs_hold() -> None:
    allocation = solved()
    gpus = gpus_by(allocation.X, JOBS)
    for group, kind in ((g, k) for g in gpus.index for k in gpus.columns):
        mine = (JOBS["entity"] == group).to_numpy()
        held = JOBS["scale_factor"].to_numpy()[mine] @ allocation.X[kind].to_numpy()[mine]
        assert gpus[kind][group] == pytest.approx(held, abs=1e-12)


def test_whole_gpus_are_near_and_add_up() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        parts = pd.DataFrame(rng.exponential(2.0, size=(rng.integers(1, 9), 2)), columns=["x", "y"])
        parts["x"] *= rng.random() < 0.9
        whole = whole_gpus(parts)
        assert (whole.sum() == np.floor(parts.sum() + 1e-6)).all()
        assert ((whole - parts).abs() <= 1).all(axis=None)
        order = rng.permutation(len(parts))
        shuffled = whole_gpus(parts.iloc[order])
        if len(set(parts["x"])) == len(parts):
            pd.testing.assert_frame_equal(shuffled.sort_index(), whole.sort_index())
        filled = whole_gpus(parts, ap.Cluster({"x": 7, "y": 9}))
        assert filled["y"].sum() == 9
        assert filled["x"].sum() == (7 if parts["x"].sum() else 0)


def test_kueue_there_and_back() -> None:
    gpus = whole_gpus(gpus_by(solved().X, JOBS))
    weights = {"Vision Lab": 2.0, "speech": 1.0, "nlp": 0.5}
    objects = kueue_objects(gpus, weights=weights)
    kinds = [each["kind"] for each in objects]
    counts = {kind: kinds.count(kind) for kind in ("ResourceFlavor", "ClusterQueue", "LocalQueue")}
    assert counts == {"ResourceFlavor": 2, "ClusterQueue": 3, "LocalQueue": 3}
    back = kueue_quotas(json.loads(json.dumps(objects)))
    assert back.to_numpy().tolist() == gpus[["v100", "k80"]].to_numpy().tolist()
    assert list(back.index) == ["vision-lab", "nlp", "speech"] or set(back.index) == {
        "nlp",
        "speech",
        "vision-lab",
    }


def test_quotas_of_kai_and_volcano_are_of_all_types_together() -> None:
    gpus = whole_gpus(gpus_by(solved().X, JOBS))
    kai = {each["metadata"]["name"]: each["spec"] for each in kai_queues(gpus, limit=True)}
    volcano = {each["metadata"]["name"]: each["spec"] for each in volcano_queues(gpus)}
    assert kai["apportion"]["resources"]["gpu"]["quota"] == -1
    for group, name in (("Vision Lab", "vision-lab"), ("nlp", "nlp")):
        has = int(gpus.T[group].sum())
        assert kai[name]["resources"]["gpu"]["quota"] == has
        assert kai[name]["resources"]["gpu"]["limit"] == has
        assert kai[name]["parentQueue"] == "apportion"
        assert volcano[name]["deserved"] == {"nvidia.com/gpu": str(has)}


def test_slurm_has_shares_weights_and_an_order() -> None:
    gpus = pd.DataFrame({"v100": [3.0, 1.0], "k80": [0.0, 4.0]}, index=["a", "b"])
    lines = slurm_commands(gpus, speeds={"v100": 4.0, "k80": 1.0}, order=[17, "18_2"])
    assert lines[0] == "# PartitionName=gpu TRESBillingWeights=GRES/gpu:v100=1,GRES/gpu:k80=0.25"
    shares = {shlex.split(line)[5]: line.split("fairshare=")[1] for line in lines[1:3]}
    assert shares == {"name=a": "600", "name=b": "400"}  # 3 of a V100's worth, and 2
    assert lines[3:] == [
        "scontrol update JobId=17 Priority=1000000",
        "scontrol update JobId=18_2 Priority=999999",
    ]


def test_bundles_are_the_machines_of_a_gang() -> None:
    jobs = pd.DataFrame({"scale_factor": [6, 2], "total_steps": 100.0}, index=["big", "small"])
    speeds = pd.DataFrame({"v100": [1.0, 1.0]}, index=jobs.index)
    decided = ap.solve_round("fcfs", speeds, ap.Cluster({"v100": 8}, 4), jobs=jobs)
    groups = placement_groups(decided, 4)
    sizes = {job: [each["GPU"] for each in group["bundles"]] for job, group in groups.items()}
    assert {job: sum(each) for job, each in sizes.items()} == {"big": 6, "small": 2}
    assert groups["big"]["strategy"] == "STRICT_SPREAD"
    assert groups["small"]["strategy"] == "STRICT_PACK"
    assert groups["small"]["bundle_label_selector"] == [{"ray.io/accelerator-type": "v100"}]


def test_what_cannot_be_exported_is_refused_in_words() -> None:
    allocation, whole = solved(), whole_gpus(gpus_by(solved().X, JOBS))
    for call, said in (
        (lambda: gpus_by(allocation.X, JOBS, "team"), "team"),
        (lambda: gpus_by(allocation.X, JOBS.drop(index="c")), "'c'"),
        (lambda: kueue_objects(whole + 0.5), "whole_gpus"),
        (lambda: kueue_objects(whole.rename(index={"nlp": "SPEECH"})), "speech"),
        (lambda: kai_queues(whole.rename(index={"nlp": "apportion"})), "apportion"),
        (lambda: volcano_queues(whole.rename(index={"nlp": "..."})), "..."),
        (lambda: kueue_objects(whole, weights={}), "weight"),
        (lambda: kueue_quotas([{"kind": "Pod"}]), "ClusterQueue"),
        (lambda: slurm_commands(whole), "Vision Lab"),
        (lambda: slurm_commands(order=["1; rm -r x"]), "rm -r"),
    ):
        with pytest.raises(InputError, match=said.replace(".", r"\.")):
            call()


@pytest.mark.parametrize("system", ["kueue", "kai", "volcano", "slurm"])
def test_from_the_shell(system: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    SPEEDS.to_csv(tmp_path / "speeds.csv")
    named = JOBS.assign(entity=JOBS["entity"].str.replace(" ", "-"))
    named.rename_axis("job").to_csv(tmp_path / "jobs.csv")
    solve = ["solve", str(tmp_path / "speeds.csv"), "--workers", "v100=4,k80=4"]
    assert main([*solve, "--out", str(tmp_path / "x.json")]) in (0, None)
    capsys.readouterr()
    words = ["export", system, str(tmp_path / "x.json"), "--jobs-table", str(tmp_path / "jobs.csv")]
    assert main(words) in (0, None)
    told = capsys.readouterr().out
    assert "fairshare=" in told if system == "slurm" else json.loads(told)["items"]
