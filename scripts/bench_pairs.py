"""The part `pairs` of scripts/bench: batches of positive and negative pairs, and epochs of a model
of links, beside PyTorch Geometric and DGL on the same cores (pair_peers.py).

All read one data set: the graph, and for training pairs some of its edges, so that an epoch of the
slowest is short. sluice makes two kinds of hops, those of DGL, which draw neighbours of every
vertex again, and those of PyG, which draw those of new ones; each stands beside its own. Its
negatives are never edges, and a batch is drawn without the edges to predict and their reverses.
"""

import os
import re
import statistics

from bench_peers import (
    CORES, GATHER, LOADERS, ROUNDS, SAMPLE, Figures, Peers, add_rows, epoch_seconds, found,
    measure_epochs, set_up, sluice_batches,
)
from benchlib import BIN, QUICK, ROOT, Failed, Jobs, Others, derive, epoch_dataset, part, row, run

PROGRAM = os.path.join(ROOT, "scripts", "pair_peers.py")
SHAPE = {"fanout": [15, 10], "batch": 1024, "hidden": 128}
N_BATCHES = 200
LARGE = "--scale 22 --edges 120M --feat-dim 64 --classes 8"
if QUICK:
    SHAPE, N_BATCHES = {"fanout": [3, 3], "batch": 256, "hidden": 16}, 4
    LARGE = "--scale 12 --edges 50k --feat-dim 8 --classes 8"
OURS, PYG, DGL = "loader_pairs", "pyg_pairs", "dgl_pairs"
MODULES = {OURS: "loader", PYG: "pyg", DGL: "dgl"}
EPOCH, QUEUE = "epoch fp32", "queue"
# sluice's own: hops as DGL's or PyG's, and the former with no edge hidden.
AS_DGL, AS_PYG, SEEN = "as DGL", "as PyG", "nothing hidden"
WAYS = {AS_DGL: [], AS_PYG: ["--expand-new"], SEEN: ["--exclude", "none"]}
TIMES = {PYG: 8, DGL: 4}  # aims: how many times their batches a second


def with_pairs(jobs, dataset):
    """The data set with some of its edges to train on."""
    import numpy

    indptr = numpy.load(os.path.join(dataset, "indptr.npy")).astype(numpy.int64)
    indices = numpy.load(os.path.join(dataset, "indices.npy"), mmap_mode="r")
    n = min(N_BATCHES * SHAPE["batch"], len(indices))
    places = numpy.random.default_rng(7).choice(len(indices), n, replace=False)
    targets = numpy.searchsorted(indptr, places, side="right") - 1
    pairs = numpy.stack([indices[places].astype(numpy.int64), targets], axis=1)
    return derive(dataset, jobs.path("pairs"), {"train_edges": pairs})


def job_of(dataset, hidden):
    """Evaluated once, behind the last epoch."""
    return {
        "dataset": dataset,
        "task": {"kind": "link"},
        "model": {"kind": "graphsage", "layers": 2, "hidden": hidden, "dropout": 0.5},
        "sampler": {"fanout": SHAPE["fanout"], "batch_size": SHAPE["batch"]},
        "optimizer": {"kind": "adam", "lr": 0.003},
        "seed": 7,
        "evaluate": {"every": 0},
        "epochs": 4,
    }


def row_bytes(dataset):
    import numpy

    features = numpy.load(os.path.join(dataset, "node_feat.npy"), mmap_mode="r")
    return features.shape[1] * features.itemsize


def copy_bytes_s():
    """Bytes that all cores read and write a second."""
    kernels = os.path.join(BIN, "tests", "bench", "kernels")
    text = run(kernels, "gather_rows", "--threads", str(len(CORES)), quiet=True)
    return 1e9 * statistics.median(map(float, re.findall(r"^  copy .* ([\d.]+) GB/s", text, re.M)))


class Loading:
    """Epochs of batches, nothing to train."""

    def __init__(self, jobs, peers, dataset):
        self.jobs, self.peers, self.dataset = jobs, peers, dataset
        self.figures, self.of, self.report = Figures(), {}, None

    def alone(self):
        """All cores, without a queue between those who draw and those who gather."""
        shape = ["--links", "uniform", "--fanout", ",".join(map(str, SHAPE["fanout"]))]
        shape += ["--batch", str(SHAPE["batch"]), "--threads", str(len(CORES)), "--epochs", "3"]
        for way, more in WAYS.items():
            self.of[way] = sluice_batches(self.dataset, *shape, *more)
            for what in (SAMPLE, GATHER):
                self.figures.add(what, way, statistics.median(self.of[way][what]))

    def measure(self):
        self.peers.choose(GATHER)
        queue = job_of(self.dataset, 1)
        for _ in range(ROUNDS):
            self.alone()
            self.report = self.jobs.finish(self.jobs.start(queue))
            self.figures.add(GATHER, QUEUE, epoch_seconds(self.report))
            for name in self.peers.able(GATHER):
                self.figures.add(GATHER, name, self.peers.ask(name, GATHER)["seconds"])

    def add_rows(self, graph):
        seconds, drawn = self.figures.medians(GATHER), self.figures.medians(SAMPLE)
        n = self.of[AS_DGL]["batches"]

        def rate(who):
            return f"{n / seconds[who]:.1f} batches/s"

        floor = 2 * self.of[AS_DGL]["inputs"] * row_bytes(self.dataset) / copy_bytes_s()
        row(
            f"{graph}: pairs, the cores alone", rate(AS_DGL),
            f"{n / floor:.1f} batches/s: their features copied", floor / seconds[AS_DGL],
        )
        row(
            "  in a job whose model has width 1", rate(QUEUE), f"{rate(AS_DGL)}, the cores alone",
            seconds[AS_DGL] / seconds[QUEUE],
        )
        own = {PYG: AS_PYG, DGL: AS_DGL}
        for name in self.peers.able(GATHER):
            if name in own:
                row(
                    f"  the cores alone, hops {own[name]}", rate(own[name]),
                    f"{rate(name)} {LOADERS[name]}", seconds[name] / seconds[own[name]],
                )
        # What a user has of a batch: through the package's loader, else through a job's queue.
        mine = OURS if OURS in seconds else QUEUE
        for name, aim in TIMES.items():
            if name in seconds:
                row(
                    f"  {LOADERS.get(mine, 'in that job')}", rate(mine),
                    f"{rate(name)} {LOADERS[name]}", seconds[name] / seconds[mine], aim,
                )
        row(
            "  drawn without the edges to predict", f"{n / drawn[AS_DGL]:.1f} batches/s",
            f"{n / drawn[SEEN]:.1f} batches/s: with them", drawn[AS_DGL] / drawn[SEEN], 1.1, True,
        )


def add_settings(peers, others, facts, report):
    split = report["allocations"][-1]
    row(
        "settings: sluice", report["isa"],
        f"{len(CORES)} cores, an untouched job: {split['samplers']} sampler(s), "
        f"{split['trainers']} trainer(s)",
    )
    for name in (OURS, *others):
        of = MODULES[name]
        best = {what: peers.best[key, what] for key, what in peers.best if key == name}
        why = facts["absent"].get(of) or peers.problems.get((name, GATHER))
        row(
            f"settings: {LOADERS[name]}", facts.get(of, ""),
            f"torch {facts['torch']}, {facts['threads']} threads, workers "
            + "/".join(map(str, best.values())) + f" for {'/'.join(best)}"
            if best else f"not measured: {why[:80]}",
        )


def compare(jobs, dataset, graph, facts, others):
    """Of the data set with pairs; each program loads it, so that few at a time need less memory."""
    names = [OURS, *(peer for peer in others if MODULES[peer] in facts)]
    busy = Others()
    with Peers(jobs, dataset, names, SHAPE, PROGRAM) as peers:
        loading, epochs = Loading(jobs, peers, dataset), Figures()
        loading.measure()
        report = loading.report
        if DGL in names:
            job = job_of(dataset, SHAPE["hidden"])
            report = measure_epochs(epochs, peers, jobs, job, EPOCH, [DGL])
        print(busy)
        loading.add_rows(graph)
        add_rows(epochs, EPOCH, "epoch of links, GraphSAGE, fp32", 2.5, "{:.2f} s".format)
        add_settings(peers, others, facts, report)


@part
def part_pairs():
    dataset, name = epoch_dataset()
    if dataset is None:
        return
    set_up()
    facts = found()
    if facts:
        with Jobs() as jobs:
            compare(jobs, with_pairs(jobs, dataset), name, facts, [PYG, DGL])


@part
def part_pairs_large():
    set_up()
    facts = found()
    if not facts:
        return
    with Jobs() as jobs:
        path = jobs.path("rmat")
        sluice = os.path.join(BIN, "sluice")
        run(sluice, "generate", "rmat", *LARGE.split(), "--seed", "3", "--out", path, quiet=True)
        dataset = with_pairs(jobs, path)
        for peer in (DGL, PYG):
            with Jobs() as own:
                compare(own, dataset, "R-MAT of 120 M edges", facts, [peer])
