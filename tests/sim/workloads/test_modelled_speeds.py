"""Speeds on GPUs that a workload does not know: within what data sheets say, told, overridden."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.cluster import ACCELERATORS
from apportion.sim.job_types import job_types
from apportion.sim.modelled_speeds import MEASURED_RATIOS, measured_ratio

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

NEW = [name for name in ACCELERATORS if name not in ("v100", "p100", "k80")]


def test_the_table_names_each_type_once_with_figures_in_their_ranges() -> None:
    table = ap.accelerators()
    assert table.index.is_unique
    assert table["year"].is_monotonic_increasing
    figures = table.drop(columns="priced").astype(float)
    always = ["memory_gb", "bandwidth_gb_per_s", "fp16", "year"]
    assert figures[always].gt(0).all(axis=None)
    assert not figures.le(0).any(axis=None)
    # Matrix units in fewer bits are no slower, and a price has a source.
    assert (figures["fp16"] >= figures["tf32"].fillna(0)).all()
    assert (figures["fp8"].fillna(np.inf) >= figures["fp16"]).all()
    assert ((table["priced"] != "") == figures["usd_per_hour"].notna()).all()


@pytest.mark.parametrize("seed", range(10))
def test_modelled_speeds_lie_between_bandwidth_and_arithmetic(seed: int) -> None:
    rng = np.random.default_rng(seed)
    types = rng.choice(NEW, size=int(rng.integers(1, 5)), replace=False).tolist()
    workload = ap.generate_workload(jobs=20, seed=seed, scale_factors="gavel")
    known = workload.on({name: 8 for name in types})
    old, new = workload.throughputs, known.throughputs
    pd.testing.assert_frame_equal(new[old.columns], old)
    for name in types:
        one, other = ACCELERATORS[name], ACCELERATORS["v100"]
        ends = sorted([one.bandwidth_gb_per_s / other.bandwidth_gb_per_s, one.fp16 / other.fp16])
        ratio = (new[name] / old["v100"])[not_published(new.index, name)]
        assert ratio.between(ends[0] * (1 - 1e-12), ends[1] * (1 + 1e-12)).all()
        assert sum(f"speeds on {name} are modelled" in note for note in known.notes) == 1
    # Who gained most from k80 to v100 is closest to arithmetic, be that the faster end or not.
    gained = (job_types()["v100"] / job_types()["k80"]).rank()
    single = new.xs(1, level="scale_factor")
    for name in types:
        one, other = ACCELERATORS[name], ACCELERATORS["v100"]
        by_arithmetic, by_memory = (
            one.fp16 / other.fp16,
            one.bandwidth_gb_per_s / other.bandwidth_gb_per_s,
        )
        ratio = (single[name] / single["v100"]).round(12)[not_published(single.index, name)]
        order = ratio.rank(ascending=by_arithmetic > by_memory)
        np.testing.assert_allclose(order.to_numpy(), gained[ratio.index].rank().to_numpy())
        # The first of them goes half of the way, the last stays with the bandwidths.
        if "ResNet-18 (batch size 256)" in ratio.index:
            halfway = (by_memory * by_arithmetic) ** 0.5
            assert ratio[gained[ratio.index].idxmin()] == pytest.approx(by_memory)
            assert ratio[gained[ratio.index].idxmax()] == pytest.approx(halfway)


PROFILES = {
    # NVIDIA's table: sevenths of the processors, eighths of the memory.
    "a100": {"1g.5gb": (1, 1), "1g.10gb": (1, 2), "2g.10gb": (2, 2), "3g.20gb": (3, 4)},
    "a100_80gb": {"1g.10gb": (1, 1), "4g.40gb": (4, 4), "7g.80gb": (7, 8)},
    "h200": {"1g.18gb": (1, 1), "1g.35gb": (1, 2), "2g.35gb": (2, 2), "3g.71gb": (3, 4)},
}
SLICES = [(gpu, profile) for gpu, profiles in PROFILES.items() for profile in profiles]


@pytest.mark.parametrize(("gpu", "profile"), SLICES)
def test_slices_have_their_parts_of_a_gpu(gpu: str, profile: str) -> None:
    whole, (sevenths, eighths) = ACCELERATORS[gpu], PROFILES[gpu][profile]
    part = ACCELERATORS[f"{gpu}-{profile}"]
    as_slurm_writes_it = ACCELERATORS[f"{gpu}_{profile}"]
    assert part[:-1] == pytest.approx(as_slurm_writes_it[:-1], nan_ok=True)
    assert part.fp16 == pytest.approx(whole.fp16 * sevenths / 7)
    assert part.bandwidth_gb_per_s == pytest.approx(whole.bandwidth_gb_per_s * eighths / 8)
    assert part.watts == pytest.approx(whole.watts * max(sevenths / 7, eighths / 8))
    jobs = ap.generate_workload(jobs=5, seed=1, scale_factors="single").on({f"{gpu}-{profile}": 7})
    ends = [part.bandwidth_gb_per_s / 900, part.fp16 / 125]
    ratio = jobs.throughputs[f"{gpu}-{profile}"] / jobs.throughputs["v100"]
    assert ratio.between(min(ends) * (1 - 1e-12), max(ends) * (1 + 1e-12)).all()


def not_published(rows: pd.Index, name: str) -> NDArray[np.bool_]:
    types = rows.get_level_values("job_type")
    return np.array([measured_ratio(str(each), name, "v100") is None for each in types])


def test_published_ratios_come_first_and_are_told() -> None:
    known = ap.generate_workload(jobs=8, seed=1).on("a100=1,a100_80gb=1,h100=1,v100=1")
    ratios = known.throughputs.div(known.throughputs["v100"], axis=0)
    resnet = ("ResNet-50 (batch size 32)", 1)
    assert ratios.loc[resnet, "a100_80gb"] == pytest.approx(2470 / 1200)
    assert ratios.loc[resnet, "h100"] == pytest.approx(14.4 / 7.8 * 2470 / 1200)
    assert ratios.loc[("Transformer (batch size 64)", 1), "a100"] == pytest.approx(82059 / 39911)
    said = "speeds on h100 over those on v100 as published: ResNet-50 3.8 times"
    assert said in known.notes


def test_ratios_chain_both_ways_and_no_others_do() -> None:
    up = measured_ratio("ResNet-50", "h100", "v100")
    assert up == pytest.approx(14.4 / 7.8 * 2470 / 1200)
    assert measured_ratio("ResNet-50", "v100", "h100") == pytest.approx(7.8 / 14.4 * 1200 / 2470)
    assert measured_ratio("ResNet-50", "a100_80gb", "h100") == pytest.approx(7.8 / 14.4)
    assert measured_ratio("ResNet-50", "h100", "h100") == 1
    assert measured_ratio("ResNet-50", "a100", "v100") is None
    assert measured_ratio("dlrm", "h100", "v100") is None
    assert measured_ratio("mine", "h100", "v100") is None


def test_published_ratios_are_near_those_of_the_bandwidths() -> None:
    """What the model of other jobs rests on, as its text says."""
    over = [
        ratio * ACCELERATORS[old].bandwidth_gb_per_s / ACCELERATORS[new].bandwidth_gb_per_s
        for each in MEASURED_RATIOS.values()
        for (new, old), ratio in each.items()
    ]
    assert len(over) == 9
    assert (round(min(over), 2), round(max(over), 2)) == (0.88, 1.19)
    assert np.exp(np.log(over).mean()) == pytest.approx(1.01, abs=0.005)


def test_one_type_by_way_of_another_is_as_fast() -> None:
    workload = ap.generate_workload(jobs=5, seed=0)
    for first, then in (("h100", "a10g"), ("a10g", "b200"), ("l4", "mi300x")):
        straight = workload.on({then: 4}).throughputs[then]
        around = workload.on({first: 4}).on({then: 4}).throughputs[then]
        none = not_published(around.index, then) & not_published(around.index, first)
        np.testing.assert_allclose(around[none], straight[none], rtol=1e-12)


def test_a_factor_of_ones_own_stands_in_place_of_the_model() -> None:
    workload = ap.generate_workload(jobs=5, seed=0)
    known = workload.on("a100=4,mine=4", speed={"a100": 2.5, "mine": 0.5})
    for name, factor in (("a100", 2.5), ("mine", 0.5)):
        np.testing.assert_allclose(known.throughputs[name], factor * known.throughputs["v100"])
    assert "speeds on mine: 0.5 times those on v100, as given" in known.notes
    for wrong in ({"a100": 0.0}, {"a100": -1.0}, {"a100": float("nan")}, {"b200": 2.0}):
        with pytest.raises(ap.InputError):
            workload.on("a100=4", speed=wrong)
    with pytest.raises(ap.InputError, match=r"of 'v100' is 2\.0; speeds are times that of a v100"):
        workload.on("v100=4", speed={"v100": 2.0})
    assert workload.on("v100=4", speed={"v100": 1.0}).throughputs.equals(workload.throughputs)


def test_a_factor_is_times_a_v100_though_no_throughput_is_of_one(tmp_path: Path) -> None:
    jobs = "job,arrival_s,job_type,scale_factor,total_steps\n1,0,mine,1,90\n2,0,large,1,90\n"
    (tmp_path / "jobs.csv").write_text(jobs)
    for speeds, on_v100, said in (
        # By the bandwidths of a v100 and an a100, 900 and 1555 GB/s.
        ("a100,t4\nmine,1,30,10\nlarge,1,20,0", [30 * 900 / 1555, 20 * 900 / 1555], True),
        ("a100,v100\nmine,1,30,14\nlarge,1,20,0", [14.0, 20 * 900 / 1555], False),
    ):
        (tmp_path / "speeds.csv").write_text(f"job_type,scale_factor,{speeds}\n")
        workload = ap.read_workload(tmp_path / "jobs.csv", throughputs=tmp_path / "speeds.csv")
        known = workload.on("h100=1,new=1", speed={"h100": 2.0, "new": 5.0})
        of = known.throughputs.loc[["mine", "large"]]
        np.testing.assert_allclose(of["h100"], np.multiply(2, on_v100))
        np.testing.assert_allclose(of["new"], np.multiply(5, on_v100))
        assert any(each.startswith("speeds on v100 are modelled") for each in known.notes) == said


def test_jobs_that_share_slow_each_other_down_as_on_what_was_measured() -> None:
    workload = ap.generate_workload(jobs=5, seed=0)
    pairs = workload.on("h100=4").pairs
    assert pairs is not None
    old, new = (pairs.accelerators.index(name) for name in ("v100", "h100"))
    alone = pairs.alone
    np.testing.assert_allclose(
        pairs.own[:, :, new] / alone[:, None, new], pairs.own[:, :, old] / alone[:, None, old]
    )


def test_runs_are_those_of_the_table_that_is_modelled(tmp_path: Path) -> None:
    """A comparison on new GPUs is one with the modelled columns given, and says so."""
    workload = ap.generate_workload(jobs=12, seed=3, jobs_per_hour=20)
    cluster = "a100=4,h100=2"
    given = ap.Workload("given", workload.jobs, workload.on(cluster).throughputs)
    plain = ap.compare(["max_min_fairness", "fifo"], workload, cluster, n_jobs=1)
    told = ap.compare(["max_min_fairness", "fifo"], given, cluster, n_jobs=1)
    pd.testing.assert_frame_equal(plain.jobs(), told.jobs())
    assert sum("are modelled, not measured" in note for note in plain.notes) == 2
    run = ap.simulate("max_min_fairness", workload, cluster)
    ap.check_schedule(run, workload, cluster)
