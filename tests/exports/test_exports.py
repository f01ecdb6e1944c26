"""Allocations in the words of other schedulers: sums, names, and the way back."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from shutil import which

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
    kueue_weights,
    placement_groups,
    slurm_commands,
    slurm_reservations,
    volcano_queues,
    whole_gpus,
)

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


@pytest.mark.thorough
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
    told = json.loads(json.dumps(objects))
    back = kueue_quotas(told)
    pd.testing.assert_frame_equal(back, gpus.astype(float).rename_axis("queue"))
    assert kueue_weights(told).to_dict() == weights
    without = [{**each, "metadata": {"name": each["metadata"]["name"]}} for each in told]
    queues = [each for each in without if each["kind"] == "ClusterQueue"]
    assert sorted(kueue_quotas(queues).index) == ["nlp", "speech", "vision-lab"]
    (flavor,) = queues[0]["spec"]["resourceGroups"][0]["flavors"][:1]
    flavor["resources"][0]["nominalQuota"] = "1500m"
    assert kueue_quotas(queues).iloc[0, 0] == 1.5
    assert kueue_weights(queues[:1]).tolist() == [2.0]


def test_drawn_tables_come_back_from_kueue() -> None:
    rng = np.random.default_rng(4)
    for draw in range(200):
        groups = [f"Team {k} of {draw}" for k in rng.permutation(9)[: rng.integers(1, 7)]]
        kinds = ["v100", "A100_80GB", "k80", "h100.nvl"][: rng.integers(1, 5)]
        gpus = pd.DataFrame(rng.integers(0, 90, (len(groups), len(kinds))), groups, kinds)
        back = kueue_quotas(json.loads(json.dumps(kueue_objects(gpus))))
        pd.testing.assert_frame_equal(back, gpus.astype(float).rename_axis("queue"))


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


def reservations() -> tuple[pd.DataFrame, list[str]]:
    gpus = pd.DataFrame({"v100": [9.0, 4.0], "k80": [0.0, 3.5]}, index=["nlp", "vision"])
    return gpus, slurm_reservations(gpus, 4, 90)


def test_fair_shares_of_users_are_those_of_users(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gpus = pd.DataFrame({"v100": [3.0, 1.0]}, index=["ann", "bob"])
    assert [shlex.split(line) for line in slurm_commands(gpus, owners="users")] == [
        ["sacctmgr", "-i", "modify", "user", "where", f"name={name}", "set", f"fairshare={shares}"]
        for name, shares in (("ann", 750), ("bob", 250))
    ]
    shares = {"shares": {"ana-1": {"v100": 1.0}}}
    (tmp_path / "x.json").write_text(json.dumps(shares))
    (tmp_path / "jobs.csv").write_text("job,user,scale_factor\nana-1,ann,1\n")
    words = ["export", "slurm", str(tmp_path / "x.json"), "--by", "user", "--jobs-table"]
    assert main([*words, str(tmp_path / "jobs.csv")]) in (0, None)
    assert capsys.readouterr().out == "sacctmgr -i modify user where name=ann set fairshare=1000\n"
    answer = {"shares": {"ana-1": {"time": {"v100": 1.0}, "steps_per_s": 3.0}}}  # as decide tells
    (tmp_path / "x.json").write_text(json.dumps(answer))
    assert main([*words, str(tmp_path / "jobs.csv")]) in (0, None)
    assert capsys.readouterr().out == "sacctmgr -i modify user where name=ann set fairshare=1000\n"
    (tmp_path / "x.json").write_text(json.dumps({"shares": {"ana-1": {"v100": "all"}}}))
    assert main([*words, str(tmp_path / "jobs.csv")]) == 2
    assert "'ana-1' must be numbers by accelerator" in capsys.readouterr().err


def test_slurm_reserves_whole_nodes() -> None:
    _, lines = reservations()
    words = "StartTime=now Duration=90 PartitionName=gpu"
    assert lines == [
        "scontrol create reservation ReservationName=apportion_nlp_v100 Accounts=nlp "
        f"{words} NodeCnt=2 Features=v100",
        "scontrol create reservation ReservationName=apportion_vision_v100 Accounts=vision "
        f"{words} NodeCnt=1 Features=v100",
        "# nlp: 1 GPUs of v100 fill no node",
        "# vision: 3.5 GPUs of k80 fill no node",
    ]


@pytest.mark.thorough
@pytest.mark.skipif(
    which("slurmctld") is None or which("munged") is None or os.geteuid() != 0,
    reason="needs slurmctld and munged, and root for a network namespace",
)
def test_a_real_slurm_takes_the_reservations(tmp_path: Path) -> None:
    _, lines = reservations()
    (tmp_path / "lines").write_text("\n".join(lines))
    script = Path(__file__).parents[2] / "benchmarks" / "service" / "slurm_reservations.sh"
    words = ["unshare", "-n", "bash", str(script), str(tmp_path), str(tmp_path / "lines")]
    found = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    told = [
        dict(word.split("=", 1) for word in line.split() if "=" in word)
        for line in found.stdout.splitlines()
        if line.startswith("ReservationName=")
    ]
    said = [(each["Accounts"], each["Features"], each["NodeCnt"], each["Nodes"]) for each in told]
    assert said == [("nlp", "v100", "2", "v100-[1-2]"), ("vision", "v100", "1", "v100-3")]
    assert {each["Duration"] for each in told} == {"01:30:00"}


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
        (lambda: slurm_reservations(whole, 1, 5), "Vision Lab"),
        (lambda: slurm_reservations(whole.loc[["nlp"]], 400, 5), "whole node"),
        (lambda: slurm_commands(order=["1; rm -r x"]), "rm -r"),
    ):
        with pytest.raises(InputError, match=said.replace(".", r"\.")):
            call()


@pytest.mark.parametrize("system", ["kueue", "kai", "volcano", "slurm"])
def test_from_the_shell(system: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    SPEEDS.to_csv(tmp_path / "speeds.csv")
    named = JOBS.assign(entity=JOBS["entity"].str.replace(" ", "-"))
    named.rename_axis("job").to_csv(tmp_path / "jobs.csv")
    solve = ["solve", str(tmp_path / "speeds.csv"), "--cluster", "v100=4,k80=4"]
    assert main([*solve, "--out", str(tmp_path / "x.json")]) in (0, None)
    capsys.readouterr()
    words = ["export", system, str(tmp_path / "x.json"), "--jobs-table", str(tmp_path / "jobs.csv")]
    assert main(words) in (0, None)
    told = capsys.readouterr().out
    assert "fairshare=" in told if system == "slurm" else json.loads(told)["items"]
