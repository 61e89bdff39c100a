#!/bin/sh
# METIS (in pymetis 2025.2.2) seeds the C library's rand() of the whole process: whatever a program
# seeded before, after a partition it draws the same numbers each time.
# Seen: after srand(42) and after srand(7) the next three numbers differ; with a partition between
# they are equal.
exec "$(dirname "$0")/with" pymetis==2025.2.2 <<'PYTHON'
import ctypes

import pymetis

libc = ctypes.CDLL(None)


def numbers(seed, partition):
    libc.srand(seed)
    if partition:
        pymetis.part_graph(2, adjacency=[[1, 2], [0, 2], [0, 1, 3], [2]])
    return [libc.rand() for _ in range(3)]


print("seeded with 42 and 7:", numbers(42, False), numbers(7, False))
print("with a partition between:", numbers(42, True), numbers(7, True))
assert numbers(42, False) != numbers(7, False)
assert numbers(42, True) == numbers(7, True)
PYTHON
