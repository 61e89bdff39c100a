"""Several training processes of one machine: which of them this one is, and how the others learn of
the job that the first one starts."""

from __future__ import annotations

import operator
import sys
from typing import Any, Callable, NamedTuple, Optional

from ._errors import Error, UsageError


class World(NamedTuple):
    rank: int
    size: int
    distributed: bool  # torch.distributed carries messages between the ranks


def find(rank: Optional[int], size: Optional[int]) -> World:
    """The rank and world that are given, else torch.distributed's, else 0 of 1."""
    if (rank is None) != (size is None):
        raise UsageError("rank, world: wanted both or none of them")
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    running = bool(distributed and distributed.is_available() and distributed.is_initialized())
    if rank is None or size is None:
        if not running:
            return World(0, 1, False)
        return World(distributed.get_rank(), distributed.get_world_size(), True)
    try:
        rank, size = operator.index(rank), operator.index(size)
    except TypeError:
        raise UsageError(f"rank={rank!r}, world={size!r}: wanted whole numbers") from None
    if not 0 <= rank < size:
        raise UsageError(f"rank={rank}, world={size}: wanted a rank from 0 to {size - 1}")
    return World(rank, size, running and distributed.get_world_size() == size)


def machine() -> str:
    """What tells this machine, as long as it runs, from others."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def started_by_the_first(world: World, start: Callable[[], Any]) -> Any:
    """What start() returns in rank 0: there it is called, others are told, errors too."""
    from torch import distributed

    told: Any = [None]
    failure: Optional[Error] = None
    if world.rank == 0:
        try:
            told = [(start(), machine(), None)]
        except Error as error:
            failure = error
            told = [(None, machine(), error)]
    distributed.broadcast_object_list(told, src=0)
    found, where, error = told[0]
    if failure or error:
        raise failure or error
    if where != machine():
        raise UsageError(
            f"rank {world.rank}: is on another machine than rank 0: the ranks of one loader share "
            "a machine's memory: give each machine a loader of its own, with rank and world"
        )
    return found
