#!/usr/bin/python3
"""Partitions a data set with Scotch or KaHIP, for scripts/bench partition:

    partitioners.py scotch|kahip DATASET PARTS PART.npy

Writes a number a vertex and prints one JSON object: processor seconds of the library's call alone,
without the making of the graph in both directions, and the process's memory. Status 77, with the
reason on standard error, where the library is not there. Scotch is Debian's libscotch-7.0, by one
thread with a fixed seed; KaHIP its package for Python, mode FASTSOCIAL.
"""

import ctypes
import json
import os
import resource
import sys
import time

import numpy as np

IMBALANCE = 0.03
MISSING = 77
AT_MOST = 180  # processor seconds, after which it is killed
SCOTCH = "libscotch-7.0.so"


def both_directions(dataset):
    """(offsets, neighbours): each pair in both rows once, nobody beside himself."""
    indptr, indices = (
        np.load(os.path.join(dataset, f"{name}.npy"), mmap_mode="r")
        for name in ("indptr", "indices")
    )
    n = len(indptr) - 1
    to, of = np.repeat(np.arange(n), np.diff(indptr)), indices.astype(np.int64)
    pairs = np.unique(np.concatenate([to * n + of, of * n + to])[np.tile(to != of, 2)])
    return np.searchsorted(pairs, np.arange(n + 1) * n), pairs % n


def scotch(offsets, neighbours, n_parts):
    os.environ["SCOTCH_PTHREAD_NUMBER"] = "1"
    try:
        ctypes.CDLL(SCOTCH.replace("scotch", "scotcherr"), ctypes.RTLD_GLOBAL)
        library = ctypes.CDLL(SCOTCH)
    except OSError as error:
        print(error, file=sys.stderr)
        sys.exit(MISSING)
    wide = library.SCOTCH_numSizeof() == 8
    number = ctypes.c_int64 if wide else ctypes.c_int32
    first, other = (array.astype(np.int64 if wide else np.int32) for array in (offsets, neighbours))
    n, part = len(first) - 1, np.empty(len(first) - 1, first.dtype)
    graph, strategy = (ctypes.create_string_buffer(4096) for _ in range(2))
    at = [ctypes.c_void_p(array.ctypes.data) for array in (first, other, part)]
    nothing = ctypes.c_void_p()

    def call(name, *arguments):
        if getattr(library, f"SCOTCH_{name}")(*arguments) != 0:
            sys.exit(f"SCOTCH_{name} failed")

    call("graphInit", graph)
    call(
        "graphBuild", graph, number(0), number(n), at[0], nothing, nothing, nothing,
        number(len(other)), at[1], nothing,
    )
    call("stratInit", strategy)
    call(
        "stratGraphMapBuild", strategy, number(0), number(n_parts), ctypes.c_double(IMBALANCE)
    )
    library.SCOTCH_randomSeed(number(1))
    library.SCOTCH_randomReset()
    begin = time.process_time()
    call("graphPart", graph, number(n_parts), strategy, at[2])
    return part, time.process_time() - begin


def kahip(offsets, neighbours, n_parts):
    try:
        import kahip as library
    except ImportError as error:
        print(error, file=sys.stderr)
        sys.exit(MISSING)
    ones = [1] * (len(offsets) - 1), [1] * len(neighbours)
    lists = offsets.tolist(), neighbours.tolist()
    begin = time.process_time()
    _, part = library.kaffpa(
        ones[0], lists[0], ones[1], lists[1], n_parts, IMBALANCE, True, 1, library.FASTSOCIAL
    )
    return np.asarray(part), time.process_time() - begin


def main(which, dataset, parts, out):
    resource.setrlimit(resource.RLIMIT_CPU, (AT_MOST, AT_MOST))
    partitioner = {"scotch": scotch, "kahip": kahip}[which]
    part, seconds = partitioner(*both_directions(dataset), int(parts))
    np.save(out, part.astype(np.uint16))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"cpu_seconds": seconds, "peak_bytes": peak}))


if __name__ == "__main__":
    main(*sys.argv[1:])
