"""On what GPUs the jobs of a log ran: durations hold there, and nothing unknown is compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.sim.traces.assemble import accelerator_of

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "JobID|User|State|Submit|Start|End|ElapsedRaw|AllocTRES"
HOUR_S = 3600


def log(folder: Path, *rows: tuple[str, int, int, int], gpus: int = 1) -> Path:
    """Write what sacct prints of jobs: type, arrival, wait and length, each in minutes."""
    first = pd.Timestamp("2026-03-01")
    lines = [HEADER]
    for number, (kind, arrival, wait, length) in enumerate(rows):
        minutes = (arrival, arrival + wait, arrival + wait + length)
        times = [f"{first + pd.Timedelta(minutes=each):%Y-%m-%dT%H:%M:%S}" for each in minutes]
        tres = f"gres/gpu:{kind}={gpus}" if kind else f"gres/gpu={gpus}"
        cells = (number, "ana", "COMPLETED", *times, 60 * length, tres)
        lines.append("|".join(map(str, cells)))
    path = folder / "log.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def seconds_on(workload: ap.Workload, cluster: str) -> pd.DataFrame:
    """How long each job takes on each type of a cluster, in seconds."""
    speeds = workload.throughput_of(cluster)
    return speeds.rdiv(workload.jobs["total_steps"], axis=0)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("NVIDIA-A100-SXM4-80GB", "a100_80gb"),
        ("NVIDIA-A100-PCIE-40GB", "a100"),
        ("a100-80g", "a100_80gb"),
        ("Standard_NC4as_T4_v3", "t4"),
        ("nvidia-h100-80gb", "h100"),
        ("NVIDIA_H100_PCIe", "h100_pcie"),
        ("NVIDIA H100 NVL", "h100_nvl"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("nvidia-h200-141gb", "h200"),
        ("nvidia-tesla-t4", "t4"),
        ("Tesla-T4-SHARED", "t4"),
        ("Tesla-V100-SXM2-32GB", "v100"),
        ("V100M16", "v100"),
        ("V100M32", "v100"),
        ("Tesla_K40m", "k40"),
        ("rtx_a6000", "a6000"),
        ("RTXA6000", "a6000"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx_6000_ada"),
        ("Quadro_RTX_6000", "rtx_6000"),
        ("rtx8000", "rtx_8000"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "rtx_pro_6000"),
        ("nvidia_geforce_rtx_2080_ti", "rtx_2080_ti"),
        ("2080ti", "rtx_2080_ti"),
        ("gtx1080ti", "gtx_1080_ti"),
        ("rtx3090", "rtx_3090"),
        ("4090", "rtx_4090"),
        ("TITAN RTX", "titan_rtx"),
        ("GB200", "gb200"),
        ("NVIDIA-GH200-480GB", "gh200"),
        ("AMD_Instinct_MI300X", "mi300x"),
        ("AMD-Instinct-MI355X-OAM", "mi355x"),
        ("Intel Data Center GPU Max 1550", "max_1550"),
        ("gaudi3", "gaudi3"),
        # What no data sheet here is of keeps its name: another card than its neighbour.
        ("G2", "G2"),
        ("gb1000", "gb1000"),
        ("a2-highgpu-8g", "a2-highgpu-8g"),
        ("RTX 3090 Ti", "RTX 3090 Ti"),
        ("RTX 4000 Ada", "RTX 4000 Ada"),
        ("2080 super", "2080 super"),
        ("a100_1g.5gb", "a100_1g.5gb"),
    ],
)
def test_types_are_known_as_clusters_write_them(written: str, name: str) -> None:
    assert accelerator_of(written) == name
    assert (name in ap.accelerators().index) == (name != written or name == "gaudi3")


def test_types_of_the_years_are_known_by_their_data_sheets() -> None:
    known = ap.accelerators()
    assert len(known) >= 40
    figures = ["memory_gb", "bandwidth_gb_per_s", "fp16", "year"]
    sheets = {
        "p40": (24, 346, 12, 2016),
        "rtx_3090": (24, 936, 71.2, 2020),
        "mi100": (32, 1229, 184.6, 2020),
        "a40": (48, 696, 149.7, 2020),
        "a10": (24, 600, 125, 2021),
        "a30": (24, 933, 165, 2021),
        "a800": (80, 2039, 312, 2022),
        "h20": (96, 4000, 148, 2024),
        "mi325x": (256, 6000, 1307, 2024),
        "gaudi3": (128, 3700, 1678, 2024),
        "b200": (180, 7700, 2250, 2024),
        "gb200": (186, 8000, 2500, 2025),
        "b300": (270, 7700, 2250, 2025),
        "rtx_pro_6000": (96, 1597, 500, 2025),
    }
    for name, sheet in sheets.items():
        assert tuple(known.loc[name, figures]) == sheet


@pytest.mark.parametrize("seed", range(20))
def test_recorded_durations_hold_whatever_speeds_are_told(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    named = ["h100", "v100", "a100", "k80", "rtx_3090", "gb200", "gb1000", "G2"]
    there = rng.choice(named, int(rng.integers(1, 5)), replace=False).tolist()
    kinds = rng.choice(there, 12).tolist()
    minutes = rng.integers(1, 5000, 12).tolist()
    workload = ap.read_workload(
        log(tmp_path, *((kind, 10 * place, 1, minutes[place]) for place, kind in enumerate(kinds)))
    )
    also = rng.choice(["h100", "a100", "v100", "t4", "gb1000"], 2, replace=False).tolist()
    cluster = ",".join(f"{name}={rng.integers(1, 9)}" for name in also)
    told = rng.choice([*dict.fromkeys([*kinds, *also])], int(rng.integers(0, 4))).tolist()
    must = {name for name in [*kinds, *also] if name in ("gb1000", "G2")}
    speed = {name: float(rng.choice([0.3, 1.0, 2.0, 12.0])) for name in {*told, *must} - {"v100"}}
    known = workload.on(cluster, speed)
    again = known.on(cluster)
    for made in (known, again):
        everywhere = seconds_on(made, ",".join(f"{name}=1" for name in dict.fromkeys(kinds)))
        held = [everywhere.loc[job, kind] for job, kind in zip(made.jobs.index, kinds, strict=True)]
        np.testing.assert_allclose(held, 60 * np.array(minutes), rtol=1e-12)
    # Speeds of others are those told, times a v100, as a note says.
    for name in speed:
        (note,) = [each for each in known.notes if each.startswith(f"speeds on {name}: ")]
        assert note.endswith(f"{speed[name]:g} times those on v100, as given")
        expected = speed[name] * workload.throughputs["v100"]
        np.testing.assert_allclose(known.throughputs[name], expected)
    assert sum("as given" in each for each in known.notes) == len(speed)


def test_a_speed_of_the_type_of_the_log_carries_its_durations_to_others(tmp_path: Path) -> None:
    workload = ap.read_workload(log(tmp_path, ("gb1000", 0, 0, 600), ("gb1000", 0, 0, 60)))
    known = workload.on("h100=2", {"gb1000": 12.0})
    h100 = known.throughputs["h100"] / known.throughputs["v100"]
    rows = pd.MultiIndex.from_frame(known.jobs[["job_type", "scale_factor"]])
    expected = [600 * 60, 60 * 60] * (12 / h100.loc[rows].to_numpy())
    np.testing.assert_allclose(seconds_on(known, "h100=2")["h100"], expected)
    run = ap.simulate("fcfs", known, "h100=2")
    np.testing.assert_allclose(run.jobs["jct_s"], expected)


@pytest.mark.parametrize("others", [["v100"], ["h100"], ["b200", "k80"], ["a100", "h100", "t4"]])
def test_a_speed_means_the_same_whatever_types_a_log_has(others: list[str], tmp_path: Path) -> None:
    rows = [(kind, 0, 0, 60) for kind in ("gb1000", *others)]
    known = ap.read_workload(log(tmp_path, *rows)).on("gb1000=1,v100=1", {"gb1000": 12.0})
    took = seconds_on(known, "gb1000=1,v100=1")
    np.testing.assert_allclose(took["v100"] / took["gb1000"], 12.0)
    assert took.loc[known.jobs["recorded_on"] == "gb1000", "gb1000"].tolist() == [HOUR_S]


def test_a_speed_of_the_type_on_which_a_job_runs_changes_nothing(tmp_path: Path) -> None:
    workload = ap.read_workload(log(tmp_path, ("h100", 0, 0, 600)))
    for speed in ({}, {"h100": 2.0}, {"h100": 0.1}):
        run = ap.simulate("fcfs", workload.on("h100=1", speed), "h100=1")
        assert run.summary()["mean_jct_s"] == pytest.approx(10 * HOUR_S)
    with pytest.raises(ap.InputError, match="accelerator in speed"):
        workload.on("h100=1", {"v100": 2.0})


def test_a_type_that_nobody_knows_is_not_compared(tmp_path: Path) -> None:
    rows = [("gb1000", 0, 0, 600), ("gb1000", 0, 0, 60), ("h100", 0, 0, 60), ("G2", 0, 0, 60)]
    workload = ap.read_workload(log(tmp_path, *rows))
    assert "no speed is known of gb1000, G2" in workload.notes[-1]
    assert workload.describe().loc["jobs", "value"] == 4
    words = r"gb1000 \(2 jobs\), G2 \(1 jobs\).*how many times as fast as a v100 each is: "
    words += r"--speed gb1000=12,G2=12.*speed=\{'gb1000': 12.0"
    for cluster in ("h100=2", "gb1000=2", "gb1000=1,h100=1"):
        with pytest.raises(ap.InputError, match=words):
            ap.simulate("fcfs", workload, cluster)
    path, _ = workload.save(tmp_path / "kept.csv")
    with pytest.raises(ap.InputError, match="nobody knows how fast"):
        ap.compare(["fcfs"], ap.read_workload(path), "h100=2", n_jobs=1)
    told = workload.on("gb1000=2,h100=2", {"gb1000": 12.0, "G2": 1.0})
    assert len(ap.simulate("fcfs", told, "gb1000=2,h100=2").jobs) == 4


def test_a_type_that_nobody_knows_runs_alone(tmp_path: Path) -> None:
    rows = [("gb1000", 0, 0, 600), ("gb1000", 0, 0, 60)]
    workload = ap.read_workload(log(tmp_path, *rows))
    for cluster in ("gb1000=2", "gb1000=2,h100=0"):
        run = ap.simulate("fcfs", workload, cluster)
        np.testing.assert_allclose(run.jobs["jct_s"], [600 * 60, 60 * 60])
    # Having run there makes nobody know how fast it is.
    with pytest.raises(ap.InputError, match="nobody knows how fast"):
        workload.on("gb1000=2").on("h100=2")
    path, _ = workload.on("gb1000=2").save(tmp_path / "kept.csv")
    kept = ap.read_workload(path)
    with pytest.raises(ap.InputError, match="nobody knows how fast"):
        kept.on("gb1000=2,h100=2")
    np.testing.assert_allclose(ap.simulate("fcfs", kept, "gb1000=2").jobs["jct_s"], [36e3, 3600])
    # Beside others, too, as long as nobody moves between them.
    two = ap.read_workload(log(tmp_path, *rows, ("h100", 0, 0, 60)))
    pinned = ap.Workload("own", two.jobs.assign(runs_on=two.jobs["recorded_on"]), two.throughputs)
    run = ap.simulate("fcfs", pinned, "gb1000=2,h100=2")
    np.testing.assert_allclose(run.jobs["jct_s"], [600 * 60, 60 * 60, 60 * 60])


def test_a_log_without_types_ran_on_the_type_of_the_cluster(tmp_path: Path) -> None:
    workload = ap.read_workload(log(tmp_path, ("", 0, 0, 600), ("", 5, 0, 60)))
    for cluster in ("h100=2", "k80=2", "v100=2", "G2=2", "h100=2,k80=0"):
        name = cluster.partition("=")[0]
        known = workload.on(cluster, {"G2": 3.0} if name == "G2" else None)
        assert known.jobs["recorded_on"].tolist() == [name, name]
        assert f"jobs that name no type ran on {name}, the only one" in "".join(known.notes)
        np.testing.assert_allclose(ap.simulate("fcfs", known, cluster).jobs["jct_s"], [36e3, 3600])
    run = ap.simulate("as_recorded", workload, "h100=2")
    assert run.summary()["mean_jct_s"] == pytest.approx((36e3 + 3600) / 2)


@pytest.mark.parametrize("kinds", [("", ""), ("a100", "")])
def test_a_log_without_types_is_not_set_beside_others_on_several(
    kinds: tuple[str, str], tmp_path: Path
) -> None:
    path = log(tmp_path, (kinds[0], 0, 0, 600), (kinds[1], 5, 0, 60))
    workload, cluster = ap.read_workload(path), "h100=2,a100=2"
    first = workload.on(cluster).notes[0]
    assert first.startswith(f"{kinds.count('')} of 2 jobs name no type of GPU, and the cluster has")
    assert first.endswith("they count as run on v100")
    assert len(workload.on(cluster).on(cluster).notes) == len(workload.on(cluster).notes)
    with pytest.raises(ap.InputError, match=r"jobs name no type of GPU.*reference="):
        ap.compare(["as_recorded", "fcfs"], workload, cluster, n_jobs=1)
    with pytest.raises(ap.InputError, match="jobs name no type of GPU"):
        ap.simulate("as_recorded", workload, cluster)
    told = ap.read_workload(path, reference="h100")
    assert told.jobs["recorded_on"].tolist() == [kind or "h100" for kind in kinds]
    found = ap.compare(["as_recorded", "fcfs"], told, cluster, n_jobs=1)
    assert not any("name no type" in note for note in found.notes)
    np.testing.assert_allclose(seconds_on(told, cluster)["h100"].iloc[1], 3600)
    # The usual reference, once it is told, is no assumption.
    assert ap.read_workload(path, reference="v100").jobs["recorded_on"].iloc[1] == "v100"


@pytest.mark.parametrize("seed", range(6))
def test_no_wait_is_saved_that_the_log_did_not_have(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    rows = [
        ("", int(rng.integers(0, 600)), int(rng.integers(0, 90)), int(rng.integers(1, 900)))
        for _ in range(30)
    ]
    workload = ap.read_workload(log(tmp_path, *rows))
    waited_s = 60 * np.mean([wait for _, _, wait, _ in rows])
    took_s = 60 * np.mean([wait + length for _, _, wait, length in rows])
    cluster = f"{['h100', 'k80', 'mi300x'][seed % 3]}=80"
    found = ap.compare(["as_recorded", "fcfs"], workload, cluster, n_jobs=1).summary()
    mean_s = found.set_index("policy")["mean_jct_s"]
    assert mean_s["as_recorded"] == pytest.approx(took_s)
    assert mean_s["as_recorded"] - mean_s["fcfs"] == pytest.approx(waited_s)


@pytest.mark.thorough
def test_jobs_without_a_type_ran_on_one_whatever_clusters_are_compared(tmp_path: Path) -> None:
    path = log(tmp_path, ("", 0, 0, 600), ("", 5, 0, 60))
    mean_s: dict[Any, Any] = {}
    for clusters in (["h100=2", "h100=4", "a100=2"], ["a100=2,h100=2", "h100=2"]):
        swept = ap.sweep(["fcfs"], [str(path)], clusters, n_jobs=1).table()
        mean_s = swept.set_index("cluster")["mean_jct_s"].to_dict()
        if clusters[0] == "h100=2":
            assert mean_s["h100=2"] == mean_s["h100=4"] == pytest.approx((36e3 + 3600) / 2)
            assert mean_s["a100=2"] > 1.5 * mean_s["h100=2"]
    # Of two types in the first nobody knows which: as on v100 in both.
    as_on_v100 = ap.read_workload(path, reference="v100")
    expected = seconds_on(as_on_v100, "h100=2")["h100"].mean()
    assert mean_s["h100=2"] == pytest.approx(expected)


@pytest.mark.thorough
def test_speeds_of_sweeps_are_of_types_of_clusters_or_of_the_log(tmp_path: Path) -> None:
    path = str(log(tmp_path, ("gb1000", 0, 0, 600)))
    clusters = ["h100=2", "gb1000=2"]
    given = {"path": path, "speed": {"gb1000": 12.0}}
    swept = ap.sweep(["fcfs"], [given], clusters, n_jobs=1).table().set_index("cluster")
    assert swept.loc["gb1000=2", "mean_jct_s"] == pytest.approx(36e3)
    assert swept["mean_jct_s"].to_dict()["h100=2"] > 2 * 36e3
    with pytest.raises(ap.InputError, match="accelerator in speed 't4'"):
        ap.sweep(["fcfs"], [{"path": path, "speed": {"t4": 1.0}}], clusters, n_jobs=1)
