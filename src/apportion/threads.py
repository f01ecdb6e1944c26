"""One thread for linear algebra, so that numbers do not depend on how many a machine has."""

from __future__ import annotations

import importlib
import threading
from contextlib import ContextDecorator
from functools import cache

from threadpoolctl import ThreadpoolController


class _OneThread(ContextDecorator):
    """Keeps the native thread pools of this process at one thread while anybody is inside.

    A sum over several threads is rounded otherwise than over one, and among equal optima the last
    digit decides. The problems here are small besides: several threads cost time.

    The limit belongs to the process, so calls inside calls and calls of several Python threads
    are counted: the first sets it, the last gives back what was there before. Calls further in
    cost less than a microsecond, the outermost ten.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._limit = _pools().limit(limits=1)
                _give_up_control()
            self._inside += 1

    def __exit__(self, *raised: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._limit.restore_original_limits()
                _give_up_control()


@cache
def _pools() -> ThreadpoolController:
    """Find the thread pools, once: that takes a millisecond."""
    for library in ("numpy", "scipy.linalg"):  # whose pools are found only when they are loaded
        importlib.import_module(library)
    return ThreadpoolController()


def _give_up_control() -> None:
    """Let any Python thread change the limit from now on.

    From its version 3.8 on threadpoolctl heeds the Python thread alone that has changed it first;
    here it may be another one that is the last to leave.
    """
    for pool in _pools().lib_controllers:
        release = getattr(pool, "clear_controlling_thread", None)
        if release is not None:
            release()


one_thread = _OneThread()
"""Decorates the public calls that compute, ``@one_thread``."""
