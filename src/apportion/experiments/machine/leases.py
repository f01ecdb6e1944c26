"""Several drivers, on any machines, that share out the cells of one folder by files in it.

Who carries out a cell holds a lease on it: a file that it has created, and that nobody else can
create as long as it is there. It names host and process, and is renewed every few seconds. The
lease of a process of this machine that is no more is taken over at once, any other one if it has
not been renewed for a minute: by a file of the next number, which again only one can create. No
clock of another machine is trusted, and no lock of the file system is needed.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import re
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote
from uuid import uuid4

from apportion.whole_files import is_alive, this_machine

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

logger = logging.getLogger(__name__)

SECONDS_TO_EXPIRE = 60.0
"""For so long a lease holds that is not renewed."""

_SECONDS_TO_RENEW = 10.0
_SECONDS_BETWEEN_TRIES = 0.02
_NUMBER = re.compile(r"\.(\d+)\Z")
_DRIVER = "driver "


class FileLeases:
    """The leases of a folder, as one driver takes them and sees those of others.

    Where no file can be written there are none, and every lease is had for the asking: what is
    carried out twice has the same result twice.

    Parameters
    ----------
    folder
        Where the files lie; made with the first lease, and removed with the last.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[str, Path] = {}
        self._seen: dict[Path, tuple[float, float]] = {}
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._done.set()

    def take(self, name: str) -> bool:
        """Take a lease if nobody else holds it; return whether it is held now."""
        with self._lock:
            if name in self._held:
                return True
            files = self._files().get(name, [])
            if files and self._holds(files[-1]):
                return False
            number = _number_of(files[-1]) + 1 if files else 0
            file = self._folder / f"{quote(name, safe='')}.{number}"
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                with file.open("x") as stream:
                    stream.write(_signed())
            except OSError as error:
                gone = isinstance(error, FileExistsError | FileNotFoundError)
                if gone and not self._folder.is_file():  # taken, or the folder removed, just now
                    return False
                logger.info("No lease can be written to %s: %s.", file, error.strerror or error)
                return True
            self._held[name] = file
            self._renew_from_now_on()
            return True

    def release(self, name: str) -> None:
        """Give a lease back, with what is left of those that it took over."""
        with self._lock:
            own = self._held.pop(name, None)
            if own is None:
                return
            files = self._files().get(name, []) if _number_of(own) else []
            for file in [*(each for each in files if _number_of(each) < _number_of(own)), own]:
                with suppress(OSError):
                    file.unlink()
            if not self._held:
                self._done.set()
                with suppress(OSError):  # others may hold some
                    self._folder.rmdir()

    @contextmanager
    def held(self, name: str) -> Generator[None]:
        """Hold a lease for the length of a block, as soon as nobody else does."""
        while not self.take(name):
            sleep(_SECONDS_BETWEEN_TRIES)
        try:
            yield
        finally:
            self.release(name)

    @contextmanager
    def at_work(self) -> Generator[None]:
        """Let others see for the length of a block that somebody is at work; give all back then."""
        self.take(f"{_DRIVER}{uuid4().hex}")
        try:
            yield
        finally:
            self._close()

    def free(self, names: Iterable[str]) -> list[str]:
        """Return those of which nobody is seen to hold the lease."""
        files = self._files()
        return [name for name in names if name not in files or not self._holds(files[name][-1])]

    def others(self) -> list[str]:
        """Return process and host of whoever else is at work."""
        own = set(self._held.values())
        drivers = [files[-1] for name, files in self._files().items() if name.startswith(_DRIVER)]
        found = [_holder(file) for file in drivers if file not in own and self._holds(file)]
        return sorted(f"process {each.get('process')} on {each.get('name')}" for each in found)

    def _close(self) -> None:
        """Give all leases back, and remove those of processes that are no more."""
        for name in [*self._held]:
            self.release(name)
        for files in self._files().values():
            for file in files:
                if _is_dead(file):
                    with suppress(OSError):
                        file.unlink()
        with suppress(OSError):  # others may hold some
            self._folder.rmdir()

    def _files(self) -> dict[str, list[Path]]:
        """Return the files of each lease, that of who took it over last at the end."""
        found: dict[str, list[Path]] = {}
        with suppress(OSError):
            for file in self._folder.iterdir():
                found.setdefault(unquote(_NUMBER.sub("", file.name)), []).append(file)
        return {name: sorted(files, key=_number_of) for name, files in found.items()}

    def _holds(self, file: Path) -> bool:
        """Whether a lease holds: its process is not seen dead, and renews it as time goes by here.

        What is seen for the first time holds for a whole period.
        """
        if _is_dead(file):
            return False
        try:
            renewed_s = file.stat().st_mtime
        except OSError:  # given back just now
            return False
        before_s, since_s = self._seen.get(file, (None, 0.0))
        now_s = monotonic()
        if before_s != renewed_s:
            self._seen[file] = (renewed_s, now_s)
            return True
        return now_s - since_s < SECONDS_TO_EXPIRE

    def _renew_from_now_on(self) -> None:
        if self._done.is_set():
            self._done = threading.Event()
            threading.Thread(target=self._renew, args=(self._done,), daemon=True).start()

    def _renew(self, done: threading.Event) -> None:
        """Touch what is held until told to stop."""
        while not done.wait(_SECONDS_TO_RENEW):
            for file in [*self._held.values()]:
                with suppress(OSError):
                    os.utime(file)


def _number_of(file: Path) -> int:
    found = _NUMBER.search(file.name)
    return int(found[1]) if found else -1


def _signed() -> str:
    """Say who holds a lease."""
    process = os.getpid()
    said = {"name": platform.node(), "host": this_machine(), "process": process}
    return json.dumps({**said, "began": _began(process)})


def _holder(file: Path) -> dict[str, object]:
    """Return what a lease says of its holder; nothing where it is just being written."""
    try:
        said = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


def _is_dead(file: Path) -> bool:
    """Whether a lease is of a process of this machine that is no more."""
    said = _holder(file)
    process = said.get("process")
    if said.get("host") != this_machine() or not isinstance(process, int):
        return False
    return not is_alive(process) or said.get("began") != _began(process)


def _began(process: int) -> str:
    """Return when a process was started, where that can be seen: numbers come again."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "ended" if fields[0] == "Z" else fields[19]
