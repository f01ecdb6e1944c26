"""Elastic workloads from files: of `ElasticWorkload.save`, or of Pollux's simulator."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apportion.checks import file_path, label, whole
from apportion.errors import InputError, written
from apportion.sim.elastic_files import APPLICATIONS, FILE_COLUMNS, application_of
from apportion.sim.elastic_tables import JOBS_OF_TABLE, SPEEDS_HEADER, elastic_from_table
from apportion.sim.traces.pollux import read_pollux_workload
from apportion.sim.traces.table import separator_of
from apportion.text_files import read_text
from apportion.whole_files import beside

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.sim.elastic_workload import ElasticWorkload


def is_elastic(path: str | Path) -> bool:
    """Whether a path is a folder of profiles, or a csv with the columns of elastic jobs."""
    file = Path(path)
    if file.is_dir():
        return any(file.glob("*/placements.csv*"))
    if not file.is_file():
        return False
    text = read_text(file)
    present = {name.strip().strip('"') for name in text.head.split(separator_of(text))}
    told = {*JOBS_OF_TABLE} <= present and "job_type" not in present
    return told or {"name", *FILE_COLUMNS.values()} <= present


def read_elastic_workload(
    path: str | Path, profiles: str | Path | None = None, limit: int | None = None
) -> ElasticWorkload:
    """Read elastic jobs, with what was measured of their applications.

    Parameters
    ----------
    path
        A csv with columns name, time (s from the start), application, num_replicas, batch_size and,
        if there are any, weight, rigid (yes or no) and those of one's own; plain or gzipped. Or a
        folder with one csv of these columns, and a folder for each application. With a table of
        speeds, columns arrival_s, application, total_steps, see `ElasticWorkload.from_table`.
    profiles
        A folder with a folder for each application, see
        `apportion.sim.traces.pollux.read_pollux_profile`; or a csv of steps/s by application and
        GPUs, whose header is application, gpus and the accelerator types. By default what
        `ElasticWorkload.save` wrote next to `path`; that also says what restarts cost and how fast
        types are.
    limit
        Keep only so many jobs, the first to arrive.

    Raises
    ------
    InputError
        For a file that is missing or malformed, and an application without a profile.
    """
    workload = _read(file_path("The file", path), profiles)
    if limit is None:
        return workload
    return replace(workload, jobs=workload.jobs.head(whole("limit", limit, 1)))


def _read(file: Path, profiles: str | Path | None) -> ElasticWorkload:
    if file.is_dir():
        return read_pollux_workload(_only_csv(file), profiles or file)
    if profiles is not None and Path(profiles).is_file():
        return elastic_from_table(file, profiles)
    if profiles is not None:
        return read_pollux_workload(file, profiles)
    own = beside(file, APPLICATIONS)
    if own is None or not own.exists():
        raise InputError(
            f"There are no profiles of the applications of {str(file)!r}: give profiles=, a folder "
            f"with a folder for each, or a csv of steps/s whose header is {SPEEDS_HEADER}; or save "
            f"the workload with its own {str(own)!r}."
        )
    facts = _facts(own)
    read = read_pollux_workload(file, facts["applications"], kinds=facts["columns"])
    comments = read_text(file).comments
    speeds, restart_s = facts["relative_speed"], facts["restart_s"]
    told = {"measured_on": facts["measured_on"], "notes": comments}
    return replace(read, relative_speed=speeds, restart_s=restart_s, **told)


def _only_csv(folder: Path) -> Path:
    found = sorted(each for each in folder.glob("*.csv*") if each.is_file())
    if len(found) != 1:
        names = ", ".join(each.name for each in found) or "none"
        raise InputError(
            f"The folder {str(folder)!r} must have one csv of jobs; it has {names}. Give the path "
            f"of the csv, and the folder of the applications as profiles."
        )
    return found[0]


def _facts(file: Path) -> Mapping[str, Any]:
    """Read applications, speeds and restarts as `ElasticWorkload.save` wrote them."""
    content = read_text(file).json()
    try:
        both = {name: (float(a), float(b)) for name, (a, b) in content["restart_s"].items()}
        speeds = {name: float(each) for name, each in content["relative_speed"].items()}
        columns = {name: str(kind) for name, kind in content.get("columns", {}).items()}
        plain, on = content["applications"], content.get("measured_on")
        applications = {name: application_of(name, each) for name, each in plain.items()}
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{str(file)!r} holds no applications as ElasticWorkload.save writes them: "
            f"{written(str(error))}."
        ) from error
    told = {"restart_s": both, "relative_speed": speeds, "columns": columns}
    told["measured_on"] = None if on is None else label("measured_on", on)
    return {"applications": applications, **told}
