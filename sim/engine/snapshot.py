"""The state of a run on disk, from which the same run goes on as if it had never stopped."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apportion.errors import InputError
from apportion.resumable import packed, unpacked
from apportion.sim.fingerprint import (
    changed_settings,
    content,
    program,
    settings_text,
    workload_fingerprint,
)
from apportion.whole_files import drop_drafts, replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.cluster import Cluster
    from apportion.mechanism.scheduler import GangProgress, Scheduler
    from apportion.resumable import Resumable
    from apportion.sim.deciders import AnyDecider
    from apportion.sim.elastic_workload import ElasticWorkload
    from apportion.sim.workload import Workload

logger = logging.getLogger(__name__)

_VERSION = 12
"""Of what a file holds; to be raised with any change of what `Resumable` parts return."""


class SnapshotError(InputError):
    """A file from which a run cannot go on: damaged, of another run, or no snapshot at all."""


def call_of(
    policy: AnyDecider,
    workload: Workload | ElasticWorkload,
    cluster: Cluster,
    settings: Mapping[str, Any],
) -> dict[str, str]:
    """Return what a run depends on, by name, in texts that differ where it differs."""
    names = [value for value in settings.values() if isinstance(value, str)]
    return {
        "program": program(),
        "policy": content(policy, names=names),
        "workload": workload_fingerprint(workload),
        "cluster": repr(cluster),
        "settings": settings_text(settings),
        "content of a file": content(names),
    }


class NoStateError(InputError):
    """A scheduler of one's own that cannot say where it is, in a run that is to leave snapshots."""


def check_resumes(scheduler: Scheduler) -> None:
    """Refuse a scheduler that cannot say where it is.

    Raises
    ------
    NoStateError
        If it is one of one's own without state and restore.
    """
    if not getattr(scheduler, "resumes", True):
        raise NoStateError(
            f"{scheduler.name} has no state() and restore(state), by which a run goes on from a "
            f"snapshot; derive it from apportion.resumable.Resumable and name in kept what it "
            f"keeps, or leave snapshot= out."
        )


class Snapshots:
    """Writes the state of a run between two steps of its loop, every so many seconds.

    A file is replaced as a whole, so that whatever stops the run leaves one that is whole. It is a
    line of JSON, in which arrays are text of their bytes, and a line with its SHA-256. What cannot
    be written, as on a full disk, is a warning: the run goes on, and the last state that could be
    written stays.

    Parameters
    ----------
    path
        The file.
    call
        What is run, by name; a file of another call is refused.
    seconds
        Least time between two writings, seconds of the wall clock.
    """

    def __init__(self, path: str | Path, call: Mapping[str, str], seconds: float = 30.0) -> None:
        self.path, self.seconds = Path(path), seconds
        self._call = dict(call)
        self._next = time.monotonic() + seconds

    def note(self, now_s: float, ran: GangProgress | None, parts: Mapping[str, Resumable]) -> None:
        """Write down where the run is, unless that was done too recently."""
        if time.monotonic() >= self._next:
            self.write(now_s, ran, parts)
            self._next = time.monotonic() + self.seconds

    def write(self, now_s: float, ran: GangProgress | None, parts: Mapping[str, Resumable]) -> None:
        """Write down where the run is; if that fails, warn."""
        state = {
            "version": _VERSION,
            "call": self._call,
            "now_s": now_s,
            "ran": packed(ran),
            "parts": {name: part.state() for name, part in parts.items()},
        }
        try:
            replace_file(self.path, _sealed(json.dumps(state)))
        except OSError as error:
            logger.warning(
                "The state of the run at %.0f s cannot be written to %s (%s). The run goes on.",
                *(now_s, self.path, error.strerror or error),
            )

    def resume(self, parts: Mapping[str, Resumable]) -> tuple[float, GangProgress | None] | None:
        """Bring the parts of a run to where the file says; return the time and what ran last.

        ``None`` if there is no file: the run begins.

        Raises
        ------
        SnapshotError
            If it is no snapshot, or one of another call.
        InputError
            If it cannot be read, or its folder cannot be made.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            drop_drafts(self.path)
            if not self.path.exists():
                return None
            content = self.path.read_bytes()
        except OSError as error:
            raise InputError(
                f"The state of the run cannot be kept in {str(self.path)!r}: "
                f"{error.strerror or error}."
            ) from error
        state = self._state_in(content)
        try:
            for name, part in parts.items():
                part.restore(state["parts"][name])
            return float(state["now_s"]), unpacked(state["ran"])
        except InputError:  # the state is whole, and cannot go on here
            raise
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise SnapshotError(
                f"{self.path} is damaged ({error}); delete it to begin anew."
            ) from error

    def _state_in(self, content: bytes) -> dict[str, Any]:
        """Return the state that a file holds, if it is one of this call."""
        try:
            state = json.loads(_unsealed(content))
            version, call = state["version"], dict(state["call"])
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise SnapshotError(
                f"{self.path} is no snapshot of a run, or damaged ({error}); delete it to begin "
                f"anew."
            ) from error
        if version != _VERSION:
            raise SnapshotError(
                f"{self.path} is a snapshot of another version of the program: its layout is "
                f"{version!r} and not {_VERSION}. Delete it to begin anew, or give the path of "
                f"another file."
            )
        if any(self._call.get(name) != call.get(name) for name in self._call | call):
            raise SnapshotError(
                f"{self.path} is the snapshot of another run: {_differences(call, self._call)}. "
                f"Delete it to begin anew, or give the path of another file."
            )
        loaded: dict[str, Any] = state
        return loaded

    def drop(self) -> None:
        """Delete the file: the run is over."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            logger.warning("%s cannot be deleted (%s).", self.path, error.strerror or error)


def _differences(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Say in what two calls differ, settings one by one."""
    other = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    told = [f"the {name} differs" for name in other if name != "settings"]
    if "settings" in other:
        told += changed_settings(before.get("settings", "{}"), now["settings"])
    return "; ".join(told)


def _sealed(text: str) -> bytes:
    """Add a line with the checksum of a text."""
    body = text.encode("ascii")
    return b"%b\n%b\n" % (body, hashlib.sha256(body).hexdigest().encode("ascii"))


def _unsealed(content: bytes) -> bytes:
    """Return what `_sealed` was given.

    Raises
    ------
    ValueError
        If the checksum is not that of the content.
    """
    body, _, seal = content.removesuffix(b"\n").rpartition(b"\n")
    if hashlib.sha256(body).hexdigest().encode("ascii") != seal:
        raise ValueError("its checksum does not fit")
    return body
