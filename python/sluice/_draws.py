"""Batches of given seeds, drawn by this process when they are asked for: no job runs."""

from __future__ import annotations

import ctypes
import threading
import weakref
from typing import Any, Tuple

import numpy as np

from . import _job, _lib
from ._errors import UsageError


class Draws:
    """Draws for the job of a plan, from its data set, which it keeps.

    Used by one thread at a time; a process that is forked from this one has a copy of its own.
    """

    def __init__(self, plan: "_job.Plan", features: bool = False) -> None:
        """features: whether the arrays of a batch have the rows of its vertices."""
        self._library, self._plan = _lib.library(), plan
        self._lock = threading.Lock()
        options = _lib.SamplerOptions(
            job=plan.text.encode("utf-8", "surrogateescape"),
            origin=plan.origin.encode("utf-8", "surrogateescape"),
            features=int(features),
        )
        address = ctypes.c_void_p()
        try:
            self._library.call("sampler_open", ctypes.byref(options), ctypes.byref(address))
        except BaseException:
            if plan.staged:
                plan.staged.close()
            raise
        self._address = address.value
        self._finalizer = weakref.finalize(self, _end, self._library, self._address, plan.staged)

    def draw(self, key: Tuple[int, int], seeds: Any) -> Tuple["_lib.Batch", "_lib.Taken"]:
        """The batch of `seeds` (n), different vertices. It is a function of the job's seed, the
        key (two numbers below 2^32) and the seeds. What the first result points to lasts until the
        next draw. UsageError for what is no vertex."""
        ids = np.ascontiguousarray(seeds, np.int64)
        if ids.ndim != 1 or (len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < 1 << 32):
            raise UsageError("seeds: wanted vertices of the graph, a list of them")
        ids = ids.astype(np.uint32)
        batch, taken = _lib.Batch(), _lib.Taken(self._library)
        with self._lock:
            self._library.call(
                "sampler_draw",
                self._address,
                *key,
                ids.ctypes.data,
                len(ids),
                ctypes.byref(batch),
                ctypes.byref(taken.arrays),
            )
        return batch, taken

    def close(self) -> None:
        self._finalizer()


def _end(library: "_lib.Library", address: int, staged: Any) -> None:
    library.sampler_close(address)  # type: ignore[attr-defined]
    if staged:
        staged.close()
