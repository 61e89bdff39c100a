"""Memory for the large arrays of batches, used again.

A batch has tens of megabytes. Each 4 KiB of memory that is new to a process costs a page fault, all
together several times what copying the batch takes: so the memory of an array that nobody has any
more goes to one of the next batch.
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

import numpy as np

from . import _lib

LEAST = 1 << 18  # bytes; smaller arrays are the allocator's, which keeps them warm itself
KEPT = 8  # blocks that wait for an array: those of two batches
ALIGNMENT = 64


class Pool:
    """Blocks of memory that are free, by address. No lock: an array may be collected at any
    instruction, also of the thread that is in here, and each step on the dictionary is whole."""

    def __init__(self) -> None:
        self._free: Dict[int, np.ndarray] = {}

    def empty(self, shape: Tuple[int, ...], dtype: Any) -> np.ndarray:
        """An array of any content; its memory comes back when it and all views of it are gone."""
        dtype = np.dtype(dtype)
        n_bytes = dtype.itemsize
        for n in shape:
            n_bytes *= int(n)
        if n_bytes < LEAST:
            return np.empty(shape, dtype)
        block = self._take(n_bytes)
        if block is None:
            block = np.empty(n_bytes + n_bytes // 8 + ALIGNMENT, np.uint8)
        return np.asarray(_Lent(self, block, shape, dtype.str))

    def _take(self, n_bytes: int) -> Optional[np.ndarray]:
        """The smallest block that is large enough, and not far too large."""
        least, most = n_bytes + ALIGNMENT, 2 * n_bytes + ALIGNMENT
        fit = [(b.size, at) for at, b in list(self._free.items()) if least <= b.size <= most]
        return self._free.pop(min(fit)[1], None) if fit else None

    def give_back(self, block: np.ndarray) -> None:
        for longest in list(self._free)[: 1 - KEPT]:
            self._free.pop(longest, None)
        self._free[block.__array_interface__["data"][0]] = block


class _Lent(_lib.Memory):
    """A block that an array is made of."""

    __slots__ = ("_pool", "_block")

    def __init__(self, pool: Pool, block: np.ndarray, shape: Tuple[int, ...], kind: str) -> None:
        self._pool, self._block = pool, block
        address = block.__array_interface__["data"][0]
        super().__init__(address + -address % ALIGNMENT, shape, kind, read_only=False)

    def __del__(self) -> None:
        self._pool.give_back(self._block)
