"""The part `retrieve` of scripts/bench: the 20 nearest of a million rows for 1,000 of them, beside
the products alone at the rate of the library's, and beside reading the rows once."""

import os
import re
import statistics
import time

from benchlib import BIN, QUICK, Jobs, part, row, run

N_ROWS, DIM, N_SOURCES, K = (10**4, 128, 100, 20) if QUICK else (10**6, 128, 1000, 20)
ROUNDS = 3
CORES = len(os.sched_getaffinity(0))


def products_s():
    """Products a second of rows of 128 numbers with 256 others on all cores, by oneDNN."""
    kernels = os.path.join(BIN, "tests", "bench", "kernels")
    text = run(kernels, "gemm", "--threads", str(CORES), quiet=True)
    block = text.split("gemm: forward, input layer, 50000 x 256 x 128 NT", 1)[1]
    return float(re.search(r"dnnl_sgemm +[\d.]+ ms +([\d.]+) GFLOP/s", block)[1]) * 1e9 / (2 * DIM)


@part
def part_retrieve():
    import numpy

    rng = numpy.random.default_rng(3)
    with Jobs() as jobs:
        rows, sources, out = (jobs.path(f"{name}.npy") for name in ("rows", "sources", "out"))
        numpy.save(rows, rng.standard_normal((N_ROWS, DIM), dtype=numpy.float32))
        numpy.save(sources, rng.choice(N_ROWS, N_SOURCES, replace=False).astype(numpy.uint32))
        words = [rows, "--sources", sources, "--k", str(K), "--force", "--out", out, "-q"]
        took, reads, rates = [], [], [products_s()]
        for _ in range(ROUNDS):
            begin = time.monotonic()
            numpy.load(rows, mmap_mode="r").sum()
            reads.append(time.monotonic() - begin)
            begin = time.monotonic()
            run(os.path.join(BIN, "sluice"), "retrieve", *words, quiet=True)
            took.append(time.monotonic() - begin)
        rates.append(products_s())
    seconds, read = statistics.median(took), statistics.median(reads)
    floor = N_ROWS * N_SOURCES / max(rates)
    what = f"the {K} nearest of {N_ROWS:,} rows of {DIM} floats, {N_SOURCES:,} sources"
    row(what, f"{seconds:.2f} s", f"{floor:.2f} s the products alone, by oneDNN", floor / seconds)
    row("  rows a second", f"{N_ROWS / seconds / 1e6:.2f} M", f"{read:.2f} s one pass over them")
