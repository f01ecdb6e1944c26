from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

import apportion as ap
from apportion.cli import main
from apportion.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

GPU = "nvidia.com/gpu"


def at(seconds: float) -> str:
    return pd.Timestamp(1_760_000_000 + seconds, unit="s").strftime("%FT%TZ")


def condition(name: str, seconds: float, status: str = "True", **others: Any) -> dict[str, Any]:
    return {"type": name, "status": status, "lastTransitionTime": at(seconds), **others}


def pods(name: str, count: int, gpus: Any, **others: Any) -> dict[str, Any]:
    requests = {"cpu": "2"} if gpus is None else {"cpu": "2", GPU: gpus}
    containers = [{"name": "c", "resources": {"requests": requests}}]
    return {
        "name": name,
        "count": count,
        "template": {"spec": {"containers": containers, **others}},
    }


def workload(
    name: str,
    created: float,
    times: tuple[float | None, float | None],
    *sets: dict[str, Any],
    flavor: str = "a100",
    spec: dict[str, Any] | None = None,
    **status: Any,
) -> dict[str, Any]:
    start, end = times
    conditions = [] if start is None else [condition("Admitted", start)]
    if end is not None:
        conditions += [condition("Finished", end, reason="Succeeded")]
    assigned = [{"name": each["name"], "flavors": {GPU: flavor}} for each in sets]
    admission = {"clusterQueue": "cq", "podSetAssignments": assigned}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "ml", "creationTimestamp": at(created)},
        "spec": {"queueName": "q", "priority": 5, "podSets": list(sets), **(spec or {})},
        "status": {"conditions": conditions, "admission": admission, **status},
    }


def written(folder: Path, *items: Any, **how: Any) -> Path:
    file = folder / "workloads.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*items]}, **how))
    return file


def test_workloads_run_from_their_admission_to_their_end(tmp_path: Path) -> None:
    again = [condition("Admitted", 40), condition("Evicted", 30, "False")]
    again += [condition("Finished", 100, reason="Failed")]
    fewer = {"clusterQueue": "other"}
    fewer["podSetAssignments"] = [{"name": "w", "count": 3, "flavors": {GPU: "spot"}}]  # type: ignore[assignment]
    node = {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4", "zone": "b"}
    first = pods("w", 1, None, initContainers=[{"resources": {"limits": {GPU: 2}}}])
    items = (
        workload("a", 0, (10, 3610), pods("driver", 1, None), pods("w", 4, "2")),
        workload("b", 5, (0, 0), pods("w", 1, "1"), conditions=again, flavor="nvidia-h100-80gb"),
        workload("c", 20, (30, 130), pods("w", 8, 1, nodeSelector=node), admission=fewer),
        workload("d", 20, (30, None), first, spec={"maximumExecutionTimeSeconds": 900}),
        workload("e", 20, (None, None), pods("w", 1, "1")),
        workload("f", 20, (30, 40), pods("w", 1, None)),
        workload("g", 20, (30, 30), pods("w", 1, "1")),
    )
    read = ap.read_workload(written(tmp_path, *items))
    jobs = read.jobs
    assert jobs.index.tolist() == ["ml/a", "ml/b", "ml/c", "ml/d"]
    assert jobs["scale_factor"].tolist() == [8, 1, 3, 2]
    assert jobs["arrival_s"].tolist() == [0, 5, 20, 20]
    assert jobs["recorded_start_s"].tolist() == [10, 40, 30, 30]
    assert jobs["recorded_end_s"].tolist() == [3610, 100, 130, 3610]
    assert jobs["recorded_on"].tolist() == ["a100", "h100", "t4", "a100"]
    assert jobs["entity"].tolist() == ["cq", "cq", "other", "cq"]
    assert jobs["queue"].tolist() == ["q"] * 4
    assert jobs["state"].tolist() == ["Succeeded", "Failed", "Succeeded", ""]
    assert jobs["priority"].tolist() == [5] * 4
    assert jobs["time_limit_s"].fillna(-1).tolist() == [-1, -1, -1, 900]
    assert read.notes[:5] == (
        "7 items read, 4 jobs",
        "left out because they asked for no GPU: 1 item (6)",
        "left out because they are not admitted: 1 item (5)",
        "still running, taken to end when the log was made: 1 item (4)",
        "left out because they never ran: 1 item (7)",
    )
    run = ap.simulate("as_recorded", read, "a100=16,h100=1,t4=4")
    assert run.summary()["queueing_s"] == pytest.approx((10 + 35 + 10 + 10) / 4)


GOOD = workload("a", 0, (10, 20), pods("w", 1, "1"))


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (None, "it is None; it must be an object"),
        (GOOD, "job is 'ml/a'; it must be an id of its own"),
        (workload("b", 0, (1, 2), pods("w", 1, "many")), "nvidia.com/gpu is 'many'; it must be a"),
        (workload("b", 0, (1, 2), pods("w", -1, "1")), "count is -1; it must be a whole number"),
        (workload("b", 9, (1, 2), pods("w", 1, "1")), "admitted is '2025-10-09T08:53:21Z'; it mus"),
        (workload("b", 0, (3, 2), pods("w", 1, "1")), "finished is '2025-10-09T08:53:22Z'; it mus"),
        (workload("b", 0, (1, 2), spec={"podSets": 3}), "podSets is 3; it must be a list of obj"),
        ({**GOOD, "metadata": "x"}, "metadata is 'x'; it must be an object"),
        ({**GOOD, "metadata": {"name": "z"}}, "created is blank; it must be a date-time"),
        (
            workload("b", 0, (1, 2), pods("w", 1, 1), spec={"priority": "high"}),
            "priority is 'high'",
        ),
        (workload("b", 0, (1, 2), pods("w", 1, 1), conditions={"a": 1}), "conditions is {'a': 1}"),
    ],
)
def test_a_malformed_item_is_a_line_of_workload_describe(
    tmp_path: Path, bad: Any, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, GOOD, bad)
    assert main(["workload", "describe", str(file)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert sum(line.startswith(f"Note: item 2 left out: {said}") for line in printed) == 1, printed
    assert "Note: 2 items read, 1 job" in printed


def test_a_list_without_workloads_that_ran_is_one_error(tmp_path: Path) -> None:
    waits = workload("b", 0, (None, None), pods("w", 1, "1"))
    with pytest.raises(InputError, match="0 jobs; left out because they are not admitted: 1 item"):
        ap.read_workload(written(tmp_path, waits))
    for text in ("[1]", "{}", '{"items": []}', '{"items": 3}'):
        (tmp_path / "no.json").write_text(text)
        with pytest.raises(InputError, match="holds no list of items under 'items'"):
            ap.read_workload(tmp_path / "no.json", format="kueue")
