"""What the figures of scripts/bench are made of: graphs, simulated caches, jobs; each run once.

Every number comes from a run of sluice's own programs. The paper's four graphs do not fit a small
machine, so each has a stand-in of the same kind:

  PR  OGB-Products  ->  ogbn_arxiv, of the same collection
  TW  Twitter       ->  R-MAT, power-law degrees like a social network's
  PA  OGB-Papers    ->  citation, generated: papers that cite earlier ones, few to train on
  UK  UK-2006       ->  cnr_2000, a web crawl; features, labels and training set are random
"""

import functools
import os
from statistics import mean, median

from bench_cache import CACHE_KINDS
from bench_scheduling import AUTO, sleeping_job, split
from benchlib import (
    QUICK, Jobs, cpu_devices, derive, epoch_job, epoch_times, found_by, real_graph, two_cores,
    year_weights,
)

DIM = 128  # features of a vertex, in all graphs
GRAPHS = {"ogbn_arxiv": "PR", "R-MAT": "TW", "citation": "PA", "cnr_2000": "UK"}
GENERATED = {
    # 1.1 % of the vertices to train on, as PA has.
    "citation": f"citation --nodes {'20k --topics 20' if QUICK else '1M --topics 400'}"
    f" --train-topics {4 if QUICK else 8} --train-ratio 0.56 --weights",
    "R-MAT": f"rmat --scale {13 if QUICK else 20} --classes 16 --train-ratio 0.02 --val-ratio 0"
    " --weights",
}
KINDS = {"3-hop random": 0, "Random walk": 2, "3-hop weighted": 1}  # of CACHE_KINDS
RATIOS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.25, 0.3)
LATER_EPOCHS = 1 if QUICK else 4  # that policies are judged on

# 7.1; the numbers of neighbours next to the seeds come first.
WALK = {"kind": "walk", "fanout": [5, 5, 5], "paths": 4, "length": 3}
MODELS = {
    "GCN": ({"kind": "gcn", "layers": 3}, {"kind": "khop", "fanout": [15, 10, 5]}),
    "GraphSAGE": ({"kind": "graphsage", "layers": 2}, {"kind": "khop", "fanout": [25, 10]}),
    "PinSAGE": ({"kind": "pinsage", "layers": 3}, WALK),
}
HIDDEN, SEEDS, BATCHES = (16, 64, 4) if QUICK else (256, 1024, 8)  # of an epoch that computes
# Table 5: the shares of the vertices that the paper's cache holds.
CACHED = {
    "GCN": {"PR": 1, "TW": 0.25, "PA": 0.21, "UK": 0.14},
    "GraphSAGE": {"PR": 1, "TW": 0.32, "PA": 0.25, "UK": 0.18},
    "PinSAGE": {"PR": 1, "TW": 0.26, "PA": 0.22, "UK": 0.13},
}
# Table 5, PA: seconds of an epoch that one GPU samples or trains, in 151 batches of 8000.
PA_EPOCH = {"GCN": (0.96, 3.81), "PinSAGE": (0.61, 5.97)}
PA_BATCHES = 151
SLEEPING_BATCHES = 12 if QUICK else PA_BATCHES


def modes_of(x, y):
    """name: the devices and their split, of two cores."""
    one, both, other = ([{"kind": "cpu", "cores": cores}] for cores in (x, f"{x},{y}", y))
    return {"space": (one + other, split(1, 1)), "shared": (both, AUTO), "one": (one, AUTO)}


class Lab(Jobs):
    """Measures what it is asked for, at most once; what is not there is in `skipped`."""

    def __enter__(self):
        self.skipped = []
        return super().__enter__()

    def graphs(self):
        return [name for name in GRAPHS if self.graph(name)]

    @functools.cache
    def graph(self, name):
        """The path of a graph with features, labels, weights and a training set; or None."""
        if name in GENERATED:
            return self.generate(name.lower(), f"{GENERATED[name]} --feat-dim {DIM}")
        source = real_graph(name)
        if not source:
            self.skipped.append(name)
            return None
        import numpy

        arrays, changes = {"edge_weight": year_weights(source)}, {}
        if not os.path.exists(os.path.join(source, "train_idx.npy")):
            rng = numpy.random.default_rng(7)
            n = numpy.load(os.path.join(source, "indptr.npy"), mmap_mode="r").size - 1
            arrays |= {
                "node_feat": rng.random((n, DIM), dtype=numpy.float32),
                "node_label": rng.integers(0, 16, n, dtype=numpy.int32),
                "train_idx": numpy.sort(rng.permutation(n)[: n // 25]),
            }
            changes = {"feat_dim": DIM, "num_classes": 16, "task": "multiclass"}
        return derive(source, self.path(name), arrays, **changes)

    @functools.cache
    def few(self, name):
        """The same graph with so few vertices to train on that an epoch has BATCHES batches."""
        import numpy

        train = numpy.load(os.path.join(self.graph(name), "train_idx.npy"))
        chosen = numpy.random.default_rng(7).permutation(train)[: SEEDS * BATCHES]
        arrays = {"train_idx": numpy.sort(chosen), "val_idx": train[:1], "test_idx": train[:1]}
        # Nothing is found out about the model: which vertices it is judged by does not matter.
        return derive(self.graph(name), self.path(f"{name}-few"), arrays, splits="overlap")

    @functools.cache
    def hits(self, graph, kind, ratios=RATIOS, presample=1):
        """What tests/bench/cache found of a graph and a sampling algorithm."""
        return found_by(
            "cache", self.graph(graph), *CACHE_KINDS[KINDS[kind]],
            *("--ratios", ",".join(f"{ratio:.6f}" for ratio in ratios)),
            *("--presample", str(presample), "--epochs", str(max(2, presample + LATER_EPOCHS))),
            quiet=True,
        )

    @functools.cache
    def trained(self, model, graph, mode):
        """A job that computes: seconds of an epoch, its stages, the cache, the split."""
        kind, sampler = MODELS[model]
        job = epoch_job(
            self.few(graph), model={**kind, "hidden": HIDDEN, "dropout": 0.5},
            sampler={**sampler, "batch_size": SEEDS},
            cache={"policy": "presc", "ratio": CACHED[model][GRAPHS[graph]]},
            epochs=2 if QUICK else 3,
            evaluate={"every": 0, "fanout": [1] * kind["layers"], "test": "never"},
        )
        if mode != "free":
            x, y = (str(core) for core in (two_cores() * 2)[:2])
            job["devices"], job["allocation"] = modes_of(x, y)[mode]
        report = self.finish(self.start(job))
        later, last = report["epochs"][1:], report["allocations"][-1]
        stages = later[0]["stages"]
        found = {
            "seconds": median(epoch_times(report)),
            "split": f"{last['samplers']}S {last['trainers']}T",
            "k": last["k"],
            "hit_rate": mean(e["cache"]["hit_rate"] for e in later),
            **{stage: mean(e["stages"][stage]["seconds"] for e in later) for stage in stages},
        }
        print(f"  {model}, {graph}, {mode}: {found['seconds']:.2f} s an epoch", flush=True)
        return found

    @functools.cache
    def slept(self, model, switching=False):
        """{(samplers, trainers): seconds of an epoch and its stages}; stage times are sleeps."""
        seconds = [1e3 * s / PA_BATCHES for s in PA_EPOCH[model]]
        dataset = self.sleeping_graph()
        n_devices = 4 if QUICK else 8
        most = 1 if switching else 3
        splits = [(s, t) for s in range(1, most + 1) for t in range(1, n_devices + 1 - s)]
        reports = self.run(
            [
                sleeping_job(
                    dataset, *seconds, devices=cpu_devices(s + t),
                    allocation=split(s, t, switching), epochs=2 if QUICK else 3,
                )
                for s, t in splits
            ],
            at_once=4,
        )
        found = {}
        for (s, t), report in zip(splits, reports):
            later = report["epochs"][1:]
            found[s, t] = {
                "seconds": mean(epoch_times(report)),
                "sample": mean(e["stages"]["sample"]["seconds"] for e in later) / s,
                "extract": mean(e["stages"]["extract"]["seconds"] for e in later) / t,
                "train": mean(e["stages"]["train"]["seconds"] for e in later) / t,
                "helped": mean(e["switching"]["batches"] for e in later),
            }
        return found

    @functools.cache
    def sleeping_graph(self):
        nodes = 2 * 16 * SLEEPING_BATCHES  # half of them to train on, in batches of 16
        return self.generate(
            "sleeping", f"planted --nodes {nodes} --degree 6 --feat-dim 4 --classes 4"
        )
