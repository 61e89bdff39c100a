"""The parts of scripts/bench about data sets on disk: `import` and `reorder`."""

import os
import resource
import shutil
import subprocess
import sys
import time

from benchlib import BIN, QUICK, Failed, Jobs, cpu_devices, epoch_job, part, row

EDGES, VERTICES = (200_000, 20_000) if QUICK else (20_000_000, 2_000_000)

# The same work by others: text to sorted columns, offsets and neighbours on disk.
OTHERS = {
    "numpy.fromfile": """
import sys, numpy
e = numpy.fromfile(sys.argv[1], dtype=numpy.int64, sep=" ").reshape(-1, 2)
""",
    "pandas.read_csv": """
import sys, numpy, pandas
e = pandas.read_csv(sys.argv[1], sep="\\t", header=None, dtype=numpy.int64).to_numpy()
""",
}
TO_COLUMNS = """
key = e[:, 1] << 32 | e[:, 0]
del e
key.sort()
n = int(sys.argv[2])
counts = numpy.bincount(key >> 32, minlength=n)
numpy.save(sys.argv[3] + "-indptr.npy", numpy.concatenate([[0], numpy.cumsum(counts)]))
numpy.save(sys.argv[3] + "-indices.npy", (key & 0xFFFFFFFF).astype(numpy.int32))
"""


def write_edges(path):
    """Text as SNAP writes it, with hubs."""
    import random

    draw, chunk = random.Random(1).random, 1_000_000
    with open(path, "w") as file:
        for begin in range(0, EDGES, chunk):
            n = min(chunk, EDGES - begin)
            file.write(
                "".join(
                    f"{int(draw() * VERTICES)}\t{int(draw() ** 3 * VERTICES)}\n" for _ in range(n)
                )
            )


def measured(command):
    """(seconds, processor seconds, peak bytes) of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    peak = 0
    while process.poll() is None:  # ru_maxrss would be the largest of all children so far
        try:
            with open(f"/proc/{process.pid}/status") as file:
                for line in file:
                    if line.startswith("VmHWM"):
                        peak = int(line.split()[1]) * 1024
        except OSError:
            pass
        time.sleep(0.005)
    seconds = time.monotonic() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode != 0:
        raise Failed(process.stderr.read().decode(errors="replace").strip()[-300:])
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, peak


@part
def part_import():
    with Jobs() as jobs:
        text = jobs.path("edges.txt")
        write_edges(text)
        size = os.path.getsize(text)
        own = None
        for memory in ("4GiB", "64MiB"):
            out = jobs.path("imported")
            shutil.rmtree(out, ignore_errors=True)
            sluice = [os.path.join(BIN, "sluice"), "import", "edgelist", text, "--out", out]
            seconds, busy, peak = measured([*sluice, "--memory", memory, "--quiet"])
            own = own or seconds
            row(
                f"import of {EDGES / 1e6:g} M edges of text, --memory {memory}",
                f"{size / seconds / 1e6:.0f} MB/s",
                f"{seconds:.1f} s, {busy:.1f} s of processors, {peak / 2**20:.0f} MiB",
            )
        for name, program in OTHERS.items():
            command = [sys.executable, "-c", program + TO_COLUMNS, text, str(VERTICES)]
            try:
                seconds, busy, peak = measured([*command, jobs.path("other")])
            except Failed as why:
                print(why, file=sys.stderr)
                print(f"SKIP: {name} is not here or failed")
                continue
            row(
                f"  the same by {name}", f"{size / seconds / 1e6:.0f} MB/s",
                f"{seconds:.1f} s, {busy:.1f} s of processors, {peak / 2**20:.0f} MiB",
                own / seconds,
            )


REORDER_GRAPHS = {
    "R-MAT": "rmat --scale {scale} --edge-factor 16 --feat-dim 128 --classes 8 --train-ratio 0.1",
    "citation": "citation --nodes {nodes} --feat-dim 128",
}


def stage_seconds(jobs, dataset):
    """Seconds of sampling and of extraction in the second epoch."""
    job = epoch_job(
        dataset, model={"kind": "graphsage", "layers": 3, "hidden": 16}, epochs=2,
        devices=cpu_devices(2), allocation={"samplers": 1, "trainers": 1},
    )
    stages = jobs.finish(jobs.start(job))["epochs"][-1]["stages"]
    return stages["sample"]["seconds"], stages["extract"]["seconds"]


@part
def part_reorder():
    sizes = {"scale": 14, "nodes": "20k"} if QUICK else {"scale": 20, "nodes": "1M"}
    with Jobs() as jobs:
        for graph, arguments in REORDER_GRAPHS.items():
            path = jobs.generate(graph.lower(), arguments.format(**sizes))
            before = None
            for by in (None, "degree", "hotness", "reads", "bfs"):
                made = path
                if by:
                    made = jobs.path(by)
                    command = [os.path.join(BIN, "sluice"), "reorder", path, "--by", by]
                    measured([*command, "--out", made, "--quiet"])
                sample, extract = stage_seconds(jobs, made)
                before = before or (sample, extract)
                row(
                    f"{graph}, {f'by {by}' if by else 'as generated'}: sample + extract",
                    f"{sample:.2f} + {extract:.2f} s",
                    f"{before[0]:.2f} + {before[1]:.2f} s as generated",
                    (sample + extract) / sum(before),
                )
                if by:
                    shutil.rmtree(made)
            shutil.rmtree(path)
