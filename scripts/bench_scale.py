"""The part `scale` of scripts/bench: time and memory by the size of the graph, and by workers.

R-MAT graphs of 16 edges a vertex and as many mini-batches whatever the size, so that what grows is
the graph alone. One core samples and one trains; then 1 to 16 devices share all cores there are.
"""

import glob
import os
import re
import shutil
import time
from statistics import median

from bench_scheduling import AUTO
from benchlib import (
    OPTIONS, QUICK, Failed, Jobs, Others, cpu_devices, epoch_job, epoch_times, machine, part,
    processor_seconds, row,
)
from charts import curves, drawn, page, save, sheet, table

MILLIONS = (0.05, 0.2) if QUICK else (1, 4, 16, 64, 200, 2300)  # of edges
WORKERS = (1, 2, 4) if QUICK else (1, 2, 3, 4, 6, 8, 12, 16)
WORKERS_AT = 0.2 if QUICK else 4  # million edges
SEEDS, BATCHES, DIM, EDGE_FACTOR = (64, 4, 16, 16) if QUICK else (1024, 16, 16, 16)
HIDDEN = 16 if QUICK else 256
EPOCHS = 2 if QUICK else 5
STAGES = ("sample", "extract", "train")


def size(value):
    return f"{value / 2**30:.1f} GiB" if value >= 2**30 else f"{value / 2**20:.1f} MiB"


def bytes_of(millions):
    """(topology, features): 4 bytes an edge, 8 a vertex; a float each feature."""
    vertices = millions * 1e6 / EDGE_FACTOR
    return 4e6 * millions + 8 * vertices, 4 * DIM * vertices


def room_for(millions, folder):
    """Why a graph cannot be made, in words; None where it can. Sorting spills its edges. Draws are
    reads of the topology anywhere, so that has to fit the memory; features may stay on the drive.
    """
    topology, features = bytes_of(millions)
    needed = topology + features
    free = shutil.disk_usage(folder).free
    if free < 2 * needed:
        return f"{size(2 * needed)} on disk wanted, {size(free)} free"
    with open("/proc/meminfo") as file:
        available = int(re.search(r"MemAvailable: +(\d+)", file.read())[1]) * 1024
    if available < 1.5 * topology:
        return f"{size(1.5 * topology)} of memory wanted, {size(available)} available"
    return None


def measure(jobs, dataset, **changes):
    """A job's figures: its epochs after the first, its start and its memory."""
    job = epoch_job(
        dataset, model={"kind": "graphsage", "layers": 3, "hidden": HIDDEN, "dropout": 0.5},
        sampler={"kind": "khop", "fanout": [15, 10, 5], "batch_size": SEEDS},
        evaluate={"every": 0, "fanout": [1, 1, 1], "test": "never"},
        **{"epochs": EPOCHS, **changes},
    )
    begin, used = time.monotonic(), processor_seconds()
    report = jobs.finish(jobs.start(job))
    outside = max(time.monotonic() - begin - report["wall_seconds"], 0)
    used = processor_seconds() - used
    last, shape = report["epochs"][-1], report["allocations"][-1]
    return {
        "start": report["first_update_seconds"] + outside,
        "epoch": median(epoch_times(report) or [last["seconds"]]),
        "processor": used,
        "memory": report["peak_memory"],
        "split": f"{shape['samplers']}S {shape['trainers']}T",
        "edges": last["sampled_edges"] / last["batches"],
        "inputs": last["input_nodes"] / last["batches"],
        **{stage: last["stages"][stage]["p50"] for stage in STAGES},
    }


def measure_epochs(jobs, dataset, **changes):
    """The same, and what an epoch takes of the processor: one run less another with one epoch."""
    once = measure(jobs, dataset, **{**changes, "epochs": 1})
    found = measure(jobs, dataset, **changes)
    found["processor"] = max(found["processor"] - once["processor"], 0) / (EPOCHS - 1)
    return found


def graph(jobs, millions):
    vertices = round(millions * 1e6 / EDGE_FACTOR)
    ratio = SEEDS * BATCHES / vertices
    return jobs.generate(
        f"edges-{millions}",
        f"rmat --nodes {vertices} --edges {round(millions * 1e6)} --feat-dim {DIM} --classes 16"
        f" --train-ratio {min(ratio, 0.9):.6f} --val-ratio {min(1 / vertices, 0.1):.9f}",
    )


def by_size(jobs):
    found = {}
    for millions in MILLIONS:
        why = room_for(millions, jobs.folder)
        if why:
            print(f"SKIP: {millions} M edges: {why}")
            continue
        dataset = graph(jobs, millions)
        two = {"devices": cpu_devices(2), "allocation": {"samplers": 1, "trainers": 1,
                                                         "switching": False}}  # fmt: skip
        first = measure(jobs, dataset, epochs=1, **two)
        found[millions] = {**measure_epochs(jobs, dataset, **two), "first_start": first["start"]}
        shutil.rmtree(dataset)
    return found


def by_workers(jobs):
    dataset = graph(jobs, WORKERS_AT)
    cores = sorted(os.sched_getaffinity(0))
    found = {}
    for n in WORKERS:
        devices = [{"kind": "cpu", "cores": str(cores[i % len(cores)])} for i in range(n)]
        updates = {"mode": "ordered", "batches_per_update": BATCHES}
        found[n] = measure_epochs(
            jobs, dataset, devices=devices, allocation=AUTO, updates=updates
        )
    shutil.rmtree(dataset)
    return found


# ---- why curves bend ----------------------------------------------------------------------------


def reaches():
    """{name: bytes} that this machine's caches hold and its TLB covers, as far as it says so."""
    found = {}
    for index in sorted(glob.glob("/sys/devices/system/cpu/cpu0/cache/index*")):
        with open(f"{index}/level") as level, open(f"{index}/size") as cache:
            name = int(level.read())
            if name > 1:
                found[f"L{name}"] = int(cache.read().strip().rstrip("K")) * 1024
    with open("/proc/cpuinfo") as file:
        match = re.search(r"TLB size\s*: (\d+) 4K pages", file.read())
    if match:
        found["TLB"] = int(match[1]) * 4096
    return found


def rules(which):
    """Places on an axis of edges where topology (0) or features (1) grow out of a cache."""
    edges = [1e6 * m for m in MILLIONS]
    each = bytes_of(1)[which] / 1e6
    found = [(room / each, f"{name}, {size(room)}") for name, room in reaches().items()]
    return [rule for rule in found if min(edges) <= rule[0] <= max(edges)]


def reasons(sizes, workers, others):
    """Sentences: what was measured at the ends of the curves, and what is known of the machine."""
    cores = len(os.sched_getaffinity(0))
    said = []
    if len(sizes) > 1:
        small, large = sizes[min(sizes)], sizes[max(sizes)]
        for stage, per, what in (
            ("sample", "edges", "ns an edge: reads of the topology are random"),
            ("extract", "inputs", "ns a row: rows of features lie anywhere"),
            ("train", "edges", "ns an edge: it works on a batch, whose size is what grows"),
        ):
            ends = [1e9 * f[stage] / f[per] for f in (small, large)]
            said.append(f"{stage}: from {ends[0]:.1f} to {ends[1]:.1f} {what}.")
        said.append(
            f"A batch grows from {small['edges']:,.0f} edges to"
            f" {large['edges']:,.0f}: in a larger graph fewer neighbours are the"
            " same vertex. Dashed lines are where the topology (sampling) or the features"
            " (extraction) outgrow a cache of this machine or what its TLB covers in 4 KiB pages."
            " The first start of a data set checks all of it, later ones do not; mapped pages that"
            " were touched count as memory."
        )
    work = [f["processor"] for f in workers.values()]
    said.append(
        f"An epoch is {min(work):.2f} to {max(work):.2f} processor seconds with any number of"
        f" devices, and there are {cores} cores: more devices than cores take turns, a batch then"
        " takes one of them longer by the clock, and each has memory of its own. Where an epoch"
        " gets shorter all the same, more processes have won more of the cores from other programs."
        f" With 1 to {max(workers)} devices an update is of {BATCHES} batches, so the first comes"
        f" later. {others}"
    )
    return said


# ---- the page -----------------------------------------------------------------------------------


def draw(sizes, workers, folder):
    at = {1e6 * millions: found for millions, found in sizes.items()}

    def series(found, scale, **keys):
        """{name: curve}; logarithms leave out what is zero, less than the clock could tell."""
        curves = {
            name: [(x, scale * f[key]) for x, f in found.items() if f[key] > 0]
            for name, key in keys.items()
        }
        return {name: points for name, points in curves.items() if points}

    epochs = {"by the clock": "epoch", "of the processor": "processor"}
    stages = dict(zip(STAGES, STAGES))
    by_size = {"x": "edges", "log": "xy"}
    by_n = {"x": "devices", "ticks": list(workers)}
    figure, charts = sheet(3, 3)
    for chart, title, y, lines, options in zip(
        charts,
        (*("Sampling", "Extracting", "Training"), "An epoch", "Command to first update", "Memory",
         f"An epoch, {WORKERS_AT:g} M edges", "A batch, by one worker", "Memory"),
        ("ms a batch",) * 3 + ("seconds", "seconds", "MiB", "seconds", "ms", "MiB"),
        (*(series(at, 1e3, **{stage: stage}) for stage in STAGES), series(at, 1, **epochs),
         series(at, 1, first="first_start", again="start"), series(at, 2**-20, memory="memory"),
         series(workers, 1, **epochs), series(workers, 1e3, **stages),
         series(workers, 2**-20, memory="memory")),
        (by_size | {"rules": rules(0)}, by_size | {"rules": rules(1)}, *[by_size] * 4, by_n,
         by_n | {"log": "y"}, by_n),
    ):  # fmt: skip
        curves(chart, lines, title, y=y, **options)
    return [save(figure, os.path.join(folder, "scale.svg"))]


def rows_of(sizes, workers):
    named = [(f"{m:g} M edges", f) for m, f in sizes.items()]
    named += [(f"{n} device{'s' * (n > 1)}", f) for n, f in workers.items()]
    return [
        [
            name,
            f["split"],
            f"{f['epoch']:.2f} s",
            f"{f['processor']:.2f} s",
            *(f"{1e3 * f[stage]:.2f} ms" for stage in STAGES),
            f"{f['start']:.2f} s",
            f"{f['first_start']:.2f} s" if "first_start" in f else "",
            size(f["memory"]),
        ]
        for name, f in named
    ]


@part
def part_scale():
    os.makedirs(OPTIONS.out, exist_ok=True)
    others = Others()
    with Jobs() as jobs:
        sizes = by_size(jobs)
        if not sizes:
            raise Failed("no room for any graph")
        workers = by_workers(jobs)
    why = reasons(sizes, workers, str(others))
    for name, _, epoch, work, *stages, start, first, memory in rows_of(sizes, workers):
        started = f"start {start}" + f", first {first}" * bool(first)
        row(f"{name}: epoch", epoch, f"processor {work}, {started}")
        row("  sample, extract, train a batch", ", ".join(stages), memory)
    for text in why:
        print(f"  {text}")
    tiny = " BENCH_QUICK: the figures mean nothing." if QUICK else ""
    about = (
        f"GraphSAGE 3 x {HIDDEN}, fanout 15,10,5, {BATCHES} batches of {SEEDS} an epoch, R-MAT of"
        f" {EDGE_FACTOR} edges a vertex, {DIM} features; {machine()}.{tiny}"
    )
    path = os.path.join(OPTIONS.out, "scale.html")
    title = "sluice by size of the graph and by number of workers"
    heading = ["", "split", "epoch", "processor", *STAGES, "start", "first start", "memory"]
    charts = drawn(draw, sizes, workers, OPTIONS.out)
    page(path, title, [about, *charts, table(heading, rows_of(sizes, workers)), *why])
    print(f"  {path}")
