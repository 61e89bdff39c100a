"""Batches of given seeds, drawn by this process when they are asked for: no job runs."""

from __future__ import annotations

import ctypes
import threading
import weakref
from typing import Any, Tuple, Union

import numpy as np

from . import _batch, _job, _lib, _typed
from ._errors import Error, UsageError


class Draws:
    """Draws for the job of a plan, from its data set, which it keeps.

    Used by one thread at a time; a process that is forked from this one has a copy of its own.
    """

    def __init__(
        self,
        plan: "_job.Plan",
        features: bool = False,
        known: "Union[_batch.Known, _typed.Known, None]" = None,
    ) -> None:
        """features: whether the arrays of a batch have the rows of its vertices. known: of
        the data set; None: the plan's numbers of edges alone."""
        self._library, self._known = _lib.library(), known or _batch.Known(plan.edge_map)
        self._lock = threading.Lock()
        options = _lib.SamplerOptions(
            job=plan.text.encode("utf-8", "surrogateescape"),
            origin=plan.origin.encode("utf-8", "surrogateescape"),
            features=int(features),
        )
        address = ctypes.c_void_p()
        try:
            self._library.call("sampler_open", ctypes.byref(options), ctypes.byref(address))
            self.info = _lib.Info()
            self._library.call("sampler_get_info", address, ctypes.byref(self.info))
        except BaseException:
            if plan.staged:
                plan.staged.close()
            raise
        self._address = address.value
        self._finalizer = weakref.finalize(self, _end, self._library, address, plan.staged)

    def draw(self, key: Tuple[int, int], seeds: Any, finish: "_batch.Finish") -> Any:
        """The batch of `seeds` (n), different vertices, as fields() of what is known has it: a
        function of the job's seed, the key (two numbers below 2^32) and the seeds. UsageError for
        what is no vertex, and for one that is there twice."""
        ids = np.ascontiguousarray(seeds, np.int64)
        if ids.ndim != 1 or (len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < 1 << 32):
            raise UsageError("seeds: wanted vertices of the graph, a list of them")
        ids = ids.astype(np.uint32)
        batch, taken = _lib.Batch(), _lib.Taken(self._library)
        to = ctypes.byref(batch), ctypes.byref(taken.arrays)
        # `batch` has views of what the next draw writes to. Never waited for: in a process that
        # was forked while another thread drew, the lock stays taken.
        if not self._lock.acquire(blocking=False):
            raise Error("another thread is in this sampler: one at a time may use it")
        try:
            self._library.call("sampler_draw", self._address, *key, ids.ctypes.data, len(ids), *to)
            return self._known.fields(batch, self.info, taken, finish)
        finally:
            self._lock.release()

    def close(self) -> None:
        self._address = None
        self._finalizer()


def _end(library: "_lib.Library", address: Any, staged: Any) -> None:
    library.sampler_close(address)  # type: ignore[attr-defined]
    if staged:
        staged.close()
