"""The part `typed` of scripts/bench: batches of a graph of several types, and epochs of models of
relations, beside PyTorch Geometric and DGL on the same cores (typed_peers.py).

The graph has the types, relations and numbers of ogbn-mag, with R-MAT edges in each relation and
random features for all types. As in the part `pairs` sluice makes two kinds of hops, those of DGL
and those of PyG, and each stands beside its own.
"""

import os
import statistics

from bench_pairs import copy_bytes_s
from bench_peers import (
    CORES, GATHER, LOADERS, ROUNDS, Figures, Memory, Peers, add_rows, epoch_seconds, found, set_up,
    sluice_batches,
)
from benchlib import QUICK, ROOT, Jobs, Others, derive, import_types, part, row

PROGRAM = os.path.join(ROOT, "scripts", "typed_peers.py")
SHAPE = {"fanout": [15, 10], "batch": 1024, "hidden": 128}
N_BATCHES, N_TRAINED = 200, 50  # of an epoch of batches alone, and of one that trains
SHRINK = 1
if QUICK:
    SHAPE, N_BATCHES, N_TRAINED = {"fanout": [3, 3], "batch": 128, "hidden": 16}, 4, 2
    SHRINK = 500
TYPES = {"paper": 736389, "author": 1134649, "institution": 8740, "field": 59965}
RELATIONS = {
    ("author", "writes", "paper"): 7145660,
    ("paper", "cites", "paper"): 5416271,
    ("author", "affiliated_with", "institution"): 1043998,
    ("paper", "has_topic", "field"): 7505078,
}
WIDTH, CLASSES = 128, 349
OURS, PYG, DGL = "loader_typed", "pyg_typed", "dgl_typed"
MODULES = {OURS: "loader", PYG: "pyg", DGL: "dgl"}
AS_DGL, AS_PYG = "as DGL", "as PyG"
WAYS = {AS_DGL: [], AS_PYG: ["--expand-new"]}
TIMES = {PYG: 8, DGL: 5}  # aims: how many times their batches a second
KINDS = {"rsage": 3, "rgat": 2}  # and epochs a second


# ---- the graph ----------------------------------------------------------------------------------


def rmat(rng, n_sources, n_targets, n_edges):
    """(2, n_edges): R-MAT with Graph500's probabilities. Where one side has more bits than the
    other these are drawn alone."""
    import numpy

    sides = [(n - 1).bit_length() for n in (n_sources, n_targets)]
    parts = []
    for begin in range(0, n_edges, 1 << 20):
        n = min(1 << 20, n_edges - begin)
        ends = numpy.zeros((2, n), numpy.int64)
        for level in range(max(sides)):
            u = rng.random(n, numpy.float32)
            below = u >= 0.76
            bits = below, (u >= 0.57) & ~below | (u >= 0.95)
            if level >= min(sides):
                bits = below, below
            for end, bit, n_bits in zip(ends, bits, sides):
                if level < n_bits:
                    end <<= 1
                    end += bit
        parts.append(ends)
    edges = numpy.concatenate(parts, axis=1)
    for end, n, n_bits in zip(edges, (n_sources, n_targets), sides):
        end *= n
        end >>= n_bits
    return edges


def make_graph(jobs):
    """The path of the data set."""
    import numpy

    rng = numpy.random.default_rng(7)
    n = {name: count // SHRINK for name, count in TYPES.items()}
    # Hubs are the same in all relations.
    places = {name: rng.permutation(count) for name, count in n.items()}
    features = {name: rng.standard_normal((n[name], WIDTH), numpy.float32) for name in n}
    relations = {}
    for (s, name, t), n_edges in RELATIONS.items():
        sources, targets = rmat(rng, n[s], n[t], n_edges // SHRINK)
        relations[s, name, t] = numpy.stack([places[s][sources], places[t][targets]])
    seeds, n_train = rng.permutation(n["paper"]), N_BATCHES * SHAPE["batch"]
    splits = {"train": seeds[:n_train], "val": seeds[n_train : n_train + 4 * SHAPE["batch"]]}
    labels = rng.integers(0, CLASSES, n["paper"])
    return import_types(jobs, "mag-shaped", features, relations, labels, splits)


def fewer_seeds(jobs, dataset):
    """The data set with the training vertices of N_TRAINED batches."""
    import numpy

    train = numpy.load(os.path.join(dataset, "train_idx.npy"))
    few = {"train_idx": train[: N_TRAINED * SHAPE["batch"]]}
    return derive(dataset, jobs.path("mag-few"), few)


# ---- measurements -------------------------------------------------------------------------------


def job_of(dataset, kind, **changes):
    heads = {"heads": 4, "attention_dropout": 0} if kind == "rgat" else {}
    return {
        "dataset": dataset,
        "model": {
            "kind": kind, "layers": 2, "hidden": SHAPE["hidden"], "dropout": 0.5, **heads
        },
        "sampler": {"fanout": SHAPE["fanout"], "batch_size": SHAPE["batch"]},
        "optimizer": {"kind": "adam", "lr": 0.003},
        "precision": "fp32",
        "seed": 7,
        "evaluate": {"every": 0, "fanout": SHAPE["fanout"]},
        "epochs": 4,
        **changes,
    }


def measure_loading(peers, dataset):
    """Epochs of batches, nothing to train; ours also without a queue between those who draw and
    those who gather ("the cores alone")."""
    figures, of = Figures(), {}
    shape = ["--fanout", ",".join(map(str, SHAPE["fanout"])), "--batch", str(SHAPE["batch"])]
    peers.choose(GATHER)
    for _ in range(ROUNDS):
        for way, more in WAYS.items():
            of[way] = sluice_batches(dataset, *shape, "--epochs", "1" if QUICK else "2", *more)
            figures.add(GATHER, way, statistics.median(of[way][GATHER]))
        for name in peers.able(GATHER):
            figures.add(GATHER, name, peers.ask(name, GATHER)["seconds"])
    return figures, of


def add_loading_rows(figures, of, peers):
    seconds, n = figures.medians(GATHER), of[AS_PYG]["batches"]

    def rate(who):
        return f"{n / seconds[who]:.1f} batches/s"

    floor = 2 * of[AS_PYG]["inputs"] * 4 * WIDTH / copy_bytes_s()
    row(
        "types: batches, the cores alone", rate(AS_PYG),
        f"{n / floor:.1f} batches/s: their features copied", floor / seconds[AS_PYG],
    )
    for name, way in {PYG: AS_PYG, DGL: AS_DGL}.items():
        if name in seconds:
            row(
                f"  the cores alone, hops {way}", rate(way), f"{rate(name)} {LOADERS[name]}",
                seconds[name] / seconds[way],
            )
    for name, aim in TIMES.items():
        if name in seconds and OURS in seconds:
            row(
                f"  {LOADERS[OURS]}", rate(OURS), f"{rate(name)} {LOADERS[name]}",
                seconds[name] / seconds[OURS], aim,
            )
    if OURS in seconds:
        row(
            f"  {LOADERS[OURS]}", rate(OURS), f"{rate(AS_PYG)}, the cores alone",
            seconds[AS_PYG] / seconds[OURS],
        )


def measure_training(peers, jobs, dataset, names):
    """Epochs of all kinds, all systems in turn; then the memory of each. The report of a job."""
    epochs, asked = Figures(), {kind: f"epoch fp32 {kind}" for kind in KINDS}
    for what in asked.values():
        peers.choose(what, names)
    for _ in range(ROUNDS):
        for kind, what in asked.items():
            report = jobs.finish(jobs.start(job_of(dataset, kind)))
            epochs.add(what, "sluice", epoch_seconds(report))
            for name in peers.able(what):
                epochs.add(what, name, peers.ask(name, what)["seconds"])
    for kind, aim in KINDS.items():
        title = f"epoch of {kind}, {N_TRAINED} batches, fp32"
        add_rows(epochs, asked[kind], title, aim, "{:.2f} s".format)
    what = asked["rsage"]
    process = jobs.start(job_of(dataset, "rsage", epochs=1))
    with Memory(process.pid) as memory:
        process.wait()
    jobs.finish(process)
    epochs.add("memory", "sluice", memory.peak)
    for name in peers.able(what):
        server = peers.fresh(name, what)
        with Memory(server.process.pid) as memory:
            server.ask(what)
        server.close()
        epochs.add("memory", name, memory.peak)
    title = "  most memory (PSS) of a process that loads and trains one of rsage"
    add_rows(epochs, "memory", title, 0.5, lambda b: f"{b / 2**20:.0f} MiB", True)
    return report


def add_settings(peers, facts, report):
    split = report["allocations"][-1]
    row(
        "settings: sluice", report["isa"],
        f"{len(CORES)} cores, an untouched job: {split['samplers']} sampler(s), "
        f"{split['trainers']} trainer(s)",
    )
    for (name, what), workers in peers.best.items():
        row(f"settings: {LOADERS[name]}, {what}", facts[MODULES[name]], f"{workers} workers")
    for (name, what), why in peers.problems.items():
        row(f"settings: {LOADERS[name]}, {what}", "", f"not measured: {why[:80]}")


@part
def part_typed():
    set_up()
    facts = found()
    if not facts:
        return
    names = [name for name, module in MODULES.items() if module in facts]
    busy = Others()
    with Jobs() as jobs:
        dataset = make_graph(jobs)
        few = fewer_seeds(jobs, dataset)
        with Peers(jobs, dataset, names, SHAPE, PROGRAM) as peers:
            figures, of = measure_loading(peers, dataset)
            add_loading_rows(figures, of, peers)
            best, problems = peers.best, peers.problems
        for name in names:
            os.remove(jobs.path(f"{name}.bin"))
        others = [name for name in names if name != OURS]
        with Peers(jobs, few, others, SHAPE, PROGRAM) as peers:
            report = measure_training(peers, jobs, few, others)
            peers.best |= best
            peers.problems |= problems
            print(busy)
            add_settings(peers, facts, report)
