"""What is read of a log is what stands in it, or a note names the lines and says why.

Logs are drawn line by line. What each line holds is written down beside it, and summed by pandas.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import ranges_of_seeds

import apportion as ap

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

START = pd.Timestamp("2026-03-28T00:00:00")

LINES = 14


@dataclass
class Drawn:
    """A log, and beside it what each of its lines holds.

    `holds` has a row for each line: GPUs by type (empty: not said), seconds for which they were
    held, seconds of waiting before (NaN: not told), whether a reader may leave it out (`out`), and
    whether a note must name it (`told`).
    """

    lines: list[Any] = field(default_factory=list)
    holds: list[dict[str, Any]] = field(default_factory=list)
    suffix: str = ".csv"
    first: int = 2
    how: dict[str, Any] = field(default_factory=dict)

    def add(
        self,
        line: Any,
        gpus: dict[str, float] | float = 0,
        seconds: float = 0.0,
        wait_s: float = np.nan,
        *,
        out: bool = False,
        told: bool | None = None,
    ) -> None:
        self.lines.append(line)
        by_type = gpus if isinstance(gpus, dict) else {"": gpus}
        row = {"by_type": by_type, "gpus": sum(by_type.values()), "seconds": seconds}
        row |= {"wait_s": wait_s, "out": out, "told": out if told is None else told}
        self.holds.append(row)

    def table(self) -> pd.DataFrame:
        return pd.DataFrame(self.holds, index=range(self.first, self.first + len(self.holds)))


def moment(seconds: float, zone: str = "") -> str:
    """Write a time; `zone` is empty for none, or hours from UTC."""
    time = START + pd.Timedelta(seconds=float(seconds))
    if not zone:
        return time.strftime("%Y-%m-%dT%H:%M:%S")
    local = time + pd.Timedelta(hours=int(zone))
    return local.strftime("%Y-%m-%dT%H:%M:%S") + f"{int(zone):+03d}00"


def length(seconds: float) -> str:
    days, rest = divmod(int(seconds), 86400)
    text = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days}-{text}" if days else text


def times(draw: np.random.Generator) -> tuple[int, int, int]:
    """Draw a submission, a wait and a length, in seconds."""
    submit, wait = int(draw.integers(0, 172_800)), int(draw.integers(0, 20_000))
    return submit, int(draw.choice([0, wait])), int(10 ** draw.uniform(1, 5.3))


def sacct(draw: np.random.Generator) -> Drawn:
    """Draw steps, arrays, requeues, cancellations, mixed types, suspensions and zones."""
    log = Drawn(suffix=".txt")
    told_by = str(draw.choice(["Elapsed", "ElapsedRaw", "End"]))
    names = ["JobID", "User", "State", "Submit", "Start", "End", "AllocTRES", "ReqTRES"]
    names += [] if told_by == "End" else [told_by]
    names = [str(each) for each in draw.permutation(names)]
    log.lines.append("|".join(names))
    zone = str(draw.choice(["", "2", "-5"]))

    def line(job: str, state: str, tres: str, submit: int, start: Any, end: Any, took: int) -> str:
        cells = {"JobID": job, "User": f"u{draw.integers(3)}", "State": state}
        cells |= {"Submit": moment(submit, zone), "AllocTRES": tres, "ReqTRES": tres}
        cells["Start"], cells["End"] = (
            each if isinstance(each, str) else moment(each, zone) for each in (start, end)
        )
        cells |= {"Elapsed": length(took), "ElapsedRaw": str(took)}
        return "|".join(cells[name] for name in names)

    kinds = ["plain", "untyped", "mixed", "step", "cpu", "array", "waits", "cancelled", "zero"]
    kinds += ["requeued", "suspended", "bad", "het", "runs", "no end", "slices", "again"]
    for number in range(LINES):
        kind = "plain" if number == 0 else str(draw.choice(kinds))
        submit, wait, took = times(draw)
        job, gpus = str(100 + number), int(draw.integers(1, 9))
        start, end = submit + wait, submit + wait + took
        name = str(draw.choice(["a100", "h100", "v100"]))
        tres = f"billing=8,cpu=8,gres/gpu:{name}={gpus},gres/gpu={gpus},mem=64G"
        done = str(draw.choice(["COMPLETED", "FAILED", "TIMEOUT", "CANCELLED by 1004"]))
        held: dict[str, Any] = {"gpus": {name: gpus}, "seconds": took, "wait_s": wait}
        if kind in ("plain", "het"):
            job += "+1" if kind == "het" else ""
            log.add(line(job, done, tres, submit, start, end, took), **held)
        elif kind == "untyped":
            tres = f"cpu=8,gres/gpu={gpus}"
            log.add(line(job, done, tres, submit, start, end, took), gpus, took, wait)
        elif kind == "mixed":
            other = "t4" if draw.random() < 0.5 else "p100"
            tres = f"gres/gpu:{other}=1,gres/gpu:{name}={gpus + 1},gres/gpu={gpus + 2}"
            by_type: dict[str, float] = {name: gpus + 1, other: 1}
            log.add(line(job, done, tres, submit, start, end, took), by_type, took, wait, told=True)
        elif kind == "step":
            log.add(line(f"{job}.batch", done, tres, submit, start, end, took), out=True)
        elif kind == "cpu":
            log.add(line(job, done, "cpu=4,mem=1G", submit, start, end, took), out=True)
        elif kind == "array":
            log.add(line(f"{job}_1", done, tres, submit, start, end, took), **held)
        elif kind == "waits":
            own = f"{job}_[1-{gpus}%2]"
            log.add(line(own, "PENDING", tres, submit, "Unknown", "Unknown", 0), out=True)
        elif kind == "cancelled":
            own = line(job, "CANCELLED by 1004", tres, submit, "None", moment(end, zone), 0)
            log.add(own, out=True)
        elif kind == "zero":
            log.add(line(job, "CANCELLED", tres, submit, start, start, 0), out=True)
        elif kind == "requeued":
            again = end + 600
            own = line(job, "REQUEUED", tres, submit, start, end, took)
            log.add(own, {name: gpus}, took, out=True)
            last = line(job, done, tres, end, again, again + 60, 60)
            log.add(last, {name: gpus}, 60, again - submit)
        elif kind == "suspended" and told_by != "End":
            own = line(job, done, tres, submit, start, end + 900, took)
            log.add(own, **held, told=True)
        elif kind == "again":  # its second run never came
            log.add(line(job, "NODE_FAIL", tres, submit, start, end, took), **held)
            log.add(line(job, "CANCELLED", tres, end, "Unknown", "Unknown", 0), out=True)
        elif kind == "slices":
            name, gpus = "a100_1g.5gb", int(draw.integers(1, 3))
            tres = f"gres/gpu:{name}={gpus},gres/gpu={gpus}"
            own = line(job, done, tres, submit, start, end, took)
            log.add(own, *(({name: 1}, took, wait) if gpus == 1 else ()), out=gpus > 1)
        elif kind in ("runs", "no end") and told_by != "End":
            done = "RUNNING" if kind == "runs" else done
            log.add(line(job, done, tres, submit, start, "Unknown", took), **held, told=True)
        elif kind == "bad":
            log.add(line(job, "DONE", tres, submit, start, end, took), out=True)
    return log


def swf(draw: np.random.Generator) -> Drawn:
    """Draw parts of jobs, jobs that never ran, and what is not known."""
    log = Drawn(suffix=".swf", first=2, lines=["; UnixStartTime: 0"])
    for number in range(LINES):
        kinds = ["plain", "part", "zero", "asked", "-1", "twice", "odd"]
        kind = "plain" if number == 0 else str(draw.choice(kinds))
        submit, wait, took = times(draw)
        gpus = int(draw.integers(1, 65))
        cells: list[Any] = [
            number + 1,
            submit,
            wait,
            took,
            gpus,
            -1,
            -1,
            gpus,
            took,
            -1,
            1,
            3,
            1,
            -1,
            1,
            1,
        ]
        cells += [-1, -1]
        if kind == "part":
            cells[10] = 2
        elif kind == "zero":
            cells[3] = 0
        elif kind == "asked":
            cells[4] = -1
        elif kind == "-1":
            cells[2] = -1
        elif kind == "twice":
            cells[0] = 1
        elif kind == "odd":
            cells[1] = "soon"
        out = kind in ("part", "zero", "twice", "odd")
        wait_s = np.nan if kind == "-1" else wait
        log.add(" ".join(map(str, cells)), *((0,) if out else (gpus, took, wait_s)), out=out)
    return log


def helios(draw: np.random.Generator) -> Drawn:
    """Draw jobs of which the duration holds the wait, zones, and jobs that never started."""
    log = Drawn(lines=["job_id,user,gpu_num,type,state,submit_time,start_time,end_time,duration"])
    zone = str(draw.choice(["", "8", "0"]))
    for number in range(LINES):
        kinds = ["plain", "cpu", "never", "pending", "wait", "zero"]
        kind = "plain" if number == 0 else str(draw.choice(kinds))
        submit, wait, took = times(draw)
        gpus = 0 if kind == "cpu" else int(draw.integers(1, 65))
        took = 0 if kind == "zero" else took
        told = [moment(submit + wait, zone), moment(submit + wait + took, zone)]
        duration = took + (wait if kind == "wait" else 0)
        told = ["", ""] if kind in ("never", "pending") else told
        duration = 0 if kind == "never" else duration
        own = [f"j{number}", f"u{number % 3}", gpus, "SFT", "FAILED", moment(submit, zone), *told]
        line = ",".join(map(str, [*own, duration]))
        out = kind in ("cpu", "never", "pending", "zero")
        differs = kind == "wait" and wait > 1
        log.add(line, *((0,) if out else (gpus, took, wait)), out=out, told=out or differs)
    return log


def philly(draw: np.random.Generator) -> Drawn:
    """Draw jobs of no duration, and one twice."""
    log = Drawn(lines=["timestamp,duration,num_gpus,gpu_time,cluster"])
    for number in range(LINES):
        submit, _, took = times(draw)
        took = 0 if number and draw.random() < 0.2 else took
        gpus = int(draw.integers(1, 9))
        line = f"{moment(submit)},{took},{gpus},{gpus * took},vc{number % 2}"
        log.add(line, gpus, took, out=took == 0)
    last = log.holds[0]
    log.add(log.lines[1], last["gpus"], last["seconds"])
    return log


def microsoft_itp(draw: np.random.Generator) -> Drawn:
    """Draw jobs of no duration."""
    log = Drawn(lines=["job_id,submission_time,duration,num_gpu"])
    for number in range(LINES):
        submit, _, took = times(draw)
        took = 0 if number and draw.random() < 0.2 else took
        gpus = int(draw.integers(1, 9))
        log.add(f"j{number},{submit},{took},{gpus}", gpus, took, out=took == 0)
    return log


def openb(draw: np.random.Generator) -> Drawn:
    """Draw pods with parts of GPUs, types that they may have, and rows of several pods."""
    several = draw.random() < 0.5
    head = "name,num_gpu,gpu_milli,gpu_spec,qos,creation_time,deletion_time,scheduled_time"
    log = Drawn(lines=[head + ",num_inst" * several])
    specs = {"": "", "T4": "t4", "V100M16|V100M32": "v100", "T4|P100": "", "A10|T4|V100M16": ""}
    for number in range(LINES):
        kinds = ["plain", "plain", "part", "cpu", "never", "zero", "bad"]
        kind = "plain" if number == 0 else str(draw.choice(kinds))
        submit, wait, took = times(draw)
        spec = str(draw.choice([*specs]))
        gpus, milli = (0, 0) if kind == "cpu" else (int(draw.integers(1, 9)), 1000)
        if kind == "part":
            gpus, milli = 1, int(draw.integers(1, 1000))
        elif kind == "bad":
            milli = 1001
        pods = int(draw.integers(1, 4)) if several else 1
        start, end = submit + wait, submit + wait + (0 if kind == "zero" else took)
        cells = [f"p{number}", gpus, milli, spec, "LS", submit, end, start]
        cells[7] = "" if kind == "never" else start
        line = ",".join(map(str, [*cells, *([pods] * several)]))
        out = kind in ("cpu", "never", "zero", "bad")
        held = ({specs[spec]: gpus * pods * milli / 1000}, took, wait)
        told = out or bool(spec) or kind == "part"
        log.add(line, *((0,) if out else held), out=out, told=told)
    return log


def kueue(draw: np.random.Generator) -> Drawn:
    """Draw sets of pods, of several flavors, pods that were reclaimed, and who never ran."""
    log = Drawn(suffix=".json", first=1)
    for number in range(LINES):
        kinds = ["plain", "plain", "mixed", "cpu", "never", "zero", "fewer", "evicted"]
        kind = "plain" if number == 0 else str(draw.choice(kinds))
        submit, wait, took = times(draw)
        took = 0 if kind == "zero" else took
        sets, assigned, by_type = [], [], {}
        flavors = ["a100", "h100"] if kind == "mixed" else ["a100"]
        for place, flavor in enumerate(flavors):
            gpus = 0 if kind == "cpu" else int(draw.integers(1, 5))
            count = 3 - place  # the first has more, or as many and stands first
            given = count - 1 if kind == "fewer" else count
            asked = {"requests": {"nvidia.com/gpu": str(gpus if place == 0 else 1)}}
            spec = {"containers": [{"name": "c", "resources": asked}]}
            sets.append({"name": f"s{place}", "count": count, "template": {"spec": spec}})
            own = {"name": f"s{place}", "count": given, "flavors": {"nvidia.com/gpu": flavor}}
            assigned.append(own)
            by_type[flavor] = given * (gpus if place == 0 else 1)
        done = [("Admitted", submit + wait), ("Finished", submit + wait + took)]
        conditions = [
            {"type": name, "status": "True", "lastTransitionTime": moment(at) + "Z"}
            for name, at in ([] if kind == "never" else done)
        ]
        if kind == "evicted":
            conditions.append({"type": "Evicted", "status": "False"})
        admission = {"clusterQueue": "cq", "podSetAssignments": assigned}
        item = {
            "apiVersion": "kueue.x-k8s.io/v1beta1",
            "metadata": {"name": f"w{number}", "creationTimestamp": moment(submit) + "Z"},
            "spec": {"queueName": "q", "podSets": sets},
            "status": {"conditions": conditions, "admission": admission},
        }
        out = kind in ("cpu", "never", "zero")
        told = out or kind in ("mixed", "evicted")
        log.add(item, *((0,) if out else (by_type, took, wait)), out=out, told=told)
    log.lines = [json.dumps({"kind": "List", "items": log.lines})]
    return log


def philly_log(draw: np.random.Generator) -> Drawn:
    """Draw several attempts, and jobs without a start, an end and GPUs."""
    log = Drawn(suffix=".json", first=1)

    def attempt(start: float, end: float | None, gpus: int) -> dict[str, Any]:
        ends = None if end is None else moment(end).replace("T", " ")
        detail = [{"ip": "m", "gpus": [f"gpu{each}" for each in range(gpus)]}]
        return {"start_time": moment(start).replace("T", " "), "end_time": ends, "detail": detail}

    for number in range(LINES):
        kinds = ["plain", "plain", "again", "never", "open", "cpu", "zero"]
        kind = "plain" if number == 0 else str(draw.choice(kinds))
        submit, wait, took = times(draw)
        gpus = 0 if kind == "cpu" else int(draw.integers(1, 9))
        start = submit + wait
        if kind == "zero":
            took = 0
        attempts = [attempt(start, None if kind == "open" else start + took, gpus)]
        if kind == "again":
            attempts = [
                attempt(submit, submit + 50, 3),
                attempt(start + 100, start + 100 + took, gpus),
            ]
            wait += 100
        job = {"status": "Pass", "vc": "v", "jobid": f"j{number}", "user": "u"}
        job["submitted_time"] = moment(submit).replace("T", " ")
        out = kind in ("never", "open", "cpu", "zero")
        told = out or kind == "again"
        item = job | {"attempts": [] if kind == "never" else attempts}
        log.add(item, *((0,) if out else (gpus, took, wait)), out=out, told=told)
    log.lines = [json.dumps(log.lines)]
    return log


def columns(draw: np.random.Generator) -> Drawn:
    """Draw a csv of other names, units and separators, with workers and parts of GPUs."""
    between, unit = str(draw.choice([",", ";", "\t"])), str(draw.choice(["s", "min", "h"]))
    names = ["id", "came", "took", "gpus", "gpu", "worker_num", "start", "end"]
    log = Drawn(lines=[between.join(names)])
    meant = {"id": "job", "came": "arrival_s", "took": f"duration_{unit}", "gpus": "scale_factor"}
    meant |= {"gpu": "recorded_on", "start": "recorded_start_s", "end": "recorded_end_s"}
    mapped = draw.random() < 0.5
    log.how = {"columns": meant | ({"worker_num": "workers"} if mapped else {})}
    for number in range(LINES):
        kinds = ["plain", "plain", "part", "cpu", "zero", "differs", "bad", "no length", "early"]
        kind = "plain" if number == 0 else str(draw.choice(kinds))
        submit, wait, took = times(draw)
        took = 3600 * max(took // 3600, 1)
        gpus = round(float(draw.uniform(0.1, 2)), 2) if kind == "part" else int(draw.integers(1, 9))
        gpus, took = 0 if kind == "cpu" else gpus, 0 if kind == "zero" else took
        workers = int(draw.choice([1, 1, 1, 2, 5]))
        name = str(draw.choice(["A100-SXM4-40GB", "v100"]))
        in_unit = took / {"s": 1, "min": 60, "h": 3600}[unit]
        end = submit + wait + took + (500 if kind == "differs" else 0)
        cells = [number, moment(submit), in_unit, "some" if kind == "bad" else gpus, name, workers]
        cells += [moment(submit + wait), moment(end)]
        if kind == "no length":
            cells[2] = ""
        elif kind == "early":
            cells[6] = moment(submit - 60)
        out = kind in ("cpu", "zero", "bad", "no length", "early")
        each = round(gpus * (workers if mapped else 1), 6)
        told = out or kind == "differs" or each % 1 > 0 or (not mapped and workers > 1)
        held = ({"a100" if name.startswith("A") else name: each}, took, wait)
        log.add(between.join(map(str, cells)), *((0,) if out else held), out=out, told=told)
    return log


def jobs(draw: np.random.Generator) -> Drawn:
    """Draw a table of one's own jobs."""
    log = Drawn(lines=["job,arrival_s,job_type,total_steps,scale_factor,duration_s"])
    for number in range(LINES):
        submit, _, took = times(draw)
        gpus = int(draw.choice([1, 2, 4, 8]))
        log.add(f"{number},{submit},ResNet-50 (batch size 64),{2 * took},{gpus},{took}", gpus, took)
    return log


def gavel(draw: np.random.Generator) -> Drawn:
    """Draw the fields of Gavel, or Shockwave's, in some of which the batch size changes."""
    log = Drawn(suffix=".trace", first=1)
    fields = int(draw.choice([7, 10, 12]))
    for _ in range(LINES):
        submit, _, took = times(draw)
        gpus, mode = int(draw.choice([1, 2, 4, 8])), str(draw.choice(["static", "static", "gns"]))
        kind = "ResNet-50 (batch size 64)"
        cells = [kind, "c", "d", "-n", 0, 2 * took, gpus, mode, 1, -1, took, submit]
        if fields == 10:
            cells = [*cells[:7], 1, -1, submit]
        elif fields == 7:
            cells = [kind, "c", "-n", 0, 2 * took, submit, gpus]
        line = "\t".join(map(str, cells))
        log.add(line, gpus, took, told=fields == 12 and mode != "static")
    return log


def elasticflow(draw: np.random.Generator) -> Drawn:
    """Draw iterations, models and deadlines."""
    head = "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration"
    log = Drawn(lines=[head])
    for number in range(LINES):
        submit, _, took = times(draw)
        gpus = int(draw.choice([1, 2, 4, 8]))
        line = f"j{number},{submit},{9 * took},bert,{submit + took},64,{gpus},{took}"
        log.add(line, gpus, took)
    return log


FORMATS = [sacct, swf, helios, philly, microsoft_itp, openb, kueue, philly_log, columns]
FORMATS += [jobs, gavel, elasticflow]

NAMED = re.compile(r"[\d,]+ (?:line|item)s? \(([\d, ]+)\)$")
MALFORMED = re.compile(r"^(?:line|item) (\d+) left out: ")
HOURS = re.compile(r"([\d.,]+) GPU-hours")


def lines_named(notes: tuple[str, ...]) -> set[int]:
    """Return the lines that notes name."""
    named = [found for note in notes if (found := NAMED.search(note) or MALFORMED.match(note))]
    return {int(each) for found in named for each in found[1].split(",")}


def hours_told(notes: tuple[str, ...], words: str) -> float:
    """Return the GPU-hours in the notes that hold some words."""
    found = [HOURS.search(note) for note in notes if words in note]
    return sum(float(each[1].replace(",", "")) for each in found if each is not None)


@pytest.mark.parametrize("draw_log", FORMATS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("seeds", ranges_of_seeds(3, 200, 20))
def test_what_is_read_is_what_stands_there(
    draw_log: Callable[[np.random.Generator], Drawn], seeds: range, tmp_path: Path
) -> None:
    for seed in seeds:
        log = draw_log(np.random.default_rng(seed))
        file = tmp_path / f"log{log.suffix}"
        file.write_text("\n".join(log.lines) + "\n", encoding="utf-8")
        workload = ap.read_workload(file, **log.how)
        read, notes, source = workload.jobs, workload.notes, log.table()
        where = f"seed {seed}\n" + "\n".join([*map(str, log.lines), *notes])
        kept = source[~source["out"]]
        assert len(read) == len(kept), where
        assert lines_named(notes) == {*source.index[source["told"]]}, where

        stands = (kept["gpus"] * kept["seconds"]).sum() / 3600
        more = hours_told(notes, "taken for whole ones")
        took_s = read["duration_s"] if "duration_s" in read else read["total_steps"] / 2
        hours = (read["scale_factor"] * took_s).sum() / 3600
        assert hours == pytest.approx(stands + more, rel=1e-3, abs=0.06), where
        again = hours_told(notes, "requeued")
        left = (source["gpus"] * source["seconds"])[source["out"]].sum() / 3600
        assert again == pytest.approx(left, rel=1e-3, abs=0.06), where

        told = kept["wait_s"].notna()
        if told.any():
            wait_s = read["recorded_start_s"] - read["arrival_s"]
            assert wait_s.count() == told.sum(), where
            assert wait_s.sum() == pytest.approx(kept["wait_s"].sum(), rel=1e-3), where
        else:
            assert "recorded_start_s" not in read, where

        by_type: dict[str, float] = {}
        for gpus_of, seconds in zip(kept["by_type"], kept["seconds"], strict=True):
            for name, gpus in gpus_of.items():
                by_type[name] = by_type.get(name, 0.0) + gpus * seconds / 3600
        on = read.get("recorded_on", pd.Series("", index=read.index))
        own = (read["scale_factor"] * took_s / 3600).groupby(on).sum()
        apart = own.sub(pd.Series(by_type), fill_value=0.0).abs().sum()
        as_another = hours_told(notes, "of several types")
        assert apart == pytest.approx(2 * as_another + more, rel=1e-3, abs=0.2), where
