"""The parts `wire` and `nodes_scaling` of scripts/bench: jobs on four nodes of this machine.

Bytes do not depend on the cable, so the nodes are processes side by side (tests/e2e/nodes.py).
"""

import os
import re
from statistics import median

from bench_nodes import MPI, WAIT_S, widened, world
from bench_scheduling import sleeping_job, split
from benchlib import (
    BIN, QUICK, Failed, Jobs, cpu_devices, epoch_job, epoch_times, found_by, part, read_json,
    real_graph, row, run,
)
from figures_lab import PA_BATCHES, PA_EPOCH

NODES = 4
SLUICE = os.path.join(BIN, "sluice")


def run_on(jobs, nodes, job):
    """The report of a job on so many nodes."""
    from nodes import Ranks  # bench_nodes has its path

    path, _ = jobs.write(job)
    with world(jobs, lambda box: Ranks(box, MPI, nodes)) as ranks:
        ranks.start("run", path, "--report", f"{path}.report", "--quiet").wait(WAIT_S).ok()
    return read_json(f"{path}.report")


# ---- bytes --------------------------------------------------------------------------------------

DIM = 512
# Small batches, as for the part `window`: of large ones these graphs have few.
BATCH, FANOUT, EPOCHS, SEED = 64, [10, 5], 2, 7
CACHED, AHEAD = 0.5 if QUICK else 0.1, 16  # slots, of all rows; batches that the cache knows
METRIC = "expected"  # of the hot rows: what a job over shards takes by itself
AIM = 1 / 3  # of what random shards without a cache ask for, on the graph of communities
MB = 1e6


def graphs(jobs):
    nodes, scale = ("5000", "12") if QUICK else ("100k", "16")
    if dataset := real_graph():
        yield "ogbn_arxiv", widened(jobs, dataset, DIM)
    tight = f"--degree 20 --classes 64 --homophily 0.95 --feat-dim {DIM}"
    yield "communities", jobs.generate("communities", f"planted --nodes {nodes} {tight}")
    yield "R-MAT", jobs.generate("rmat", f"rmat --scale {scale} --classes 8 --feat-dim {DIM}")


def shards_of(jobs, dataset, method):
    path = f"{dataset}-{method}"
    run(
        *(SLUICE, "partition", dataset, "--parts", str(NODES), "--method", method),
        *("--out", path, "--quiet"), quiet=True,
    )
    return path


class Trace:
    """What all nodes' batches of an epoch have of other nodes' rows (tests/bench/window)."""

    def __init__(self, shards, order):
        settings = {
            "order": order, "per-update": NODES, "fanout": ",".join(map(str, FANOUT)),
            "batch": BATCH, "epochs": EPOCHS, "seed": SEED, "ratios": CACHED,
        }
        words = [str(word) for name, value in settings.items() for word in (f"--{name}", value)]
        of_node = [
            found_by("window", os.path.join(shards, str(node)), *words, quiet=True)
            for node in range(NODES)
        ]
        later = EPOCHS - 1  # the first one fills the caches
        self.rows = sum(found["rows"] for found in of_node) / later
        self.least = sum(found["rows"] * (1 - found["belady"][0]) for found in of_node) / later
        self.most = max(found["most"] for found in of_node)  # of a batch


def wire_job(shards, order, size, slots, cached):
    """With a cache of so many rows: with all that it does, or nothing but what it must."""
    devices = cpu_devices(2)
    store = 8 * size["num_nodes"] + (4 * DIM + 8) * slots  # words of each vertex, and slots
    return epoch_job(
        shards, model={"kind": "graphsage", "layers": len(FANOUT), "hidden": 8, "dropout": 0},
        sampler={"kind": "khop", "fanout": FANOUT, "batch_size": BATCH}, order={"kind": order},
        updates={"batches_per_update": NODES}, epochs=EPOCHS, seed=SEED, nodes="auto",
        devices=devices, allocation=split(1, 1, False), checkpoint={"every_seconds": 0},
        store={"window": AHEAD if cached else 0, "cache": store},
        cache={"policy": METRIC if cached else "none"},
        evaluate={"every": 0, "fanout": [1] * len(FANOUT), "test": "never"},
    )


class Measured:
    """What a job's last epoch brought over the wire."""

    def __init__(self, report, slots):
        self.slots = slots
        store, wires = report["epochs"][-1]["store"], report["wires"]
        self.rows, self.bytes = store["remote_rows"], store["remote_bytes"]
        # Questions, answers' heads and updates: of the whole job, which also evaluates once.
        self.others = sum(wire["bytes"] - wire["row_bytes"] for wire in wires) / EPOCHS
        self.share = self.rows / report["epochs"][-1]["input_nodes"]
        self.params = report["params_sha256"]

    def __str__(self):
        rows = f"{self.bytes / MB:.1f} MB, {self.share:.1%} of all rows"
        return f"{rows}; {self.others / MB:.1f} of else"


REFUSED = re.compile(r"rows fit in it, wanted (\d+) at least")


def fewest_that_work(jobs, shards, order, size, slots):
    """A job is refused where the rows of a batch that it measures with do not fit, and says how
    many there are: the report of one that is not, and its slots."""
    for _ in range(8):
        try:
            return run_on(jobs, NODES, wire_job(shards, order, size, slots, False)), slots
        except Failed as why:
            wanted = [int(number) for number in REFUSED.findall(str(why))]
            if not wanted or max(wanted) <= slots:
                raise
            slots = max(wanted)
    raise Failed(f"{shards}: {slots} slots are still too few")


def measure(jobs, shards, order, trace, size, cached):
    if cached:
        slots = int(CACHED * size["num_nodes"])
        report = run_on(jobs, NODES, wire_job(shards, order, size, slots, True))
    else:
        report, slots = fewest_that_work(jobs, shards, order, size, trace.most)
    made = Measured(report, slots)
    print(f"  {os.path.basename(shards)}, {slots} slots: {made}", flush=True)
    least = trace.least if cached else 0
    if not least <= made.rows <= trace.rows:
        raise Failed(
            f"{shards}: an epoch took {made.rows} rows of other nodes; its batches have"
            f" {trace.rows:.0f}, and {least:.0f} is the least that a cache can take"
        )
    return made


def wire_rows(jobs, name, dataset):
    size = read_json(os.path.join(dataset, "metadata.json"))
    ways = {"random": "shuffled", "auto": "parts"}  # method: order of an epoch
    shards = {method: shards_of(jobs, dataset, method) for method in ways}
    traces = {method: Trace(shards[method], order) for method, order in ways.items()}
    random, bare, cached = (
        measure(jobs, shards[method], ways[method], traces[method], size, with_cache)
        for method, with_cache in (("random", False), ("auto", False), ("auto", True))
    )
    if bare.params != cached.params:
        raise Failed(f"{name}: parameters {bare.params} without a cache, {cached.params} with it")
    least = traces["auto"].least * 4 * DIM
    base = random.bytes + random.others
    row(f"{name}: random shards", str(random), f"{random.slots} slots, the fewest that work")
    beside = f"{base / MB:.1f} MB of random shards"
    row("  partition, without a cache", str(bare), beside, (bare.bytes + bare.others) / base)
    row(
        f"  partition, cache of {CACHED:.0%}", str(cached), beside,
        (cached.bytes + cached.others) / base, AIM if name == "communities" else None, True,
    )
    row(
        "  the least with as many slots", f"{least / MB:.1f} MB of rows",
        f"{cached.bytes / MB:.1f} MB taken", cached.bytes / least if least else None,
    )


@part
def part_wire():
    with Jobs() as jobs:
        for name, dataset in graphs(jobs):
            wire_rows(jobs, name, dataset)


# ---- throughput ---------------------------------------------------------------------------------

SIZES = (1, 2, 4)
LINEAR = 0.9
PER_UPDATE = 8


@part
def part_nodes_scaling():
    """Stage times are the paper's for GCN on OGB-Papers, made by sleeping."""
    sample, train = (1e3 * seconds / PA_BATCHES for seconds in PA_EPOCH["GCN"])
    nodes = 2 * 16 * (32 if QUICK else PA_BATCHES)
    with Jobs() as jobs:
        small = f"planted --nodes {nodes} --degree 6 --feat-dim 4 --classes 4"
        dataset = jobs.generate("sleeping", small)
        job = sleeping_job(
            dataset, sample, train, devices=cpu_devices(2), allocation=split(1, 1, False),
            updates={"batches_per_update": PER_UPDATE}, nodes="auto", epochs=2 if QUICK else 4,
            checkpoint={"every_seconds": 0},
        )
        alone = None
        for size in SIZES:
            report = run_on(jobs, size, job)
            rate = report["epochs"][-1]["batches"] / median(epoch_times(report))
            alone = alone or rate
            row(
                f"{size} node(s), {sample:.1f} ms to sample and {train:.1f} to train",
                f"{rate:.1f} batches/s", f"{size} x {alone:.1f}", rate / alone / size, LINEAR,
            )
