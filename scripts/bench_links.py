"""The part `links` of scripts/bench: bytes that GPUs read at home, of one another and in the
machine's memory under each placement, by whole jobs on emulated GPUs (tests/simt)."""

import os
from unittest import mock

from benchlib import BIN, QUICK, Failed, Jobs, derive, part, read_json, real_graph, row, run

PLUGIN = os.path.join(os.path.dirname(BIN), "lib", "libsluice_cuda_simt.so")
# GPUs -> SLUICE_SIMT_LINKS
MACHINES = {2: "full"} if QUICK else {2: "full", 4: "full", 8: "cube"}
MACHINE_NAMES = {2: "2 linked", 4: "4 fully linked", 8: "8 V100 (cube mesh)"}
PLACEMENTS = ("alone", "solver", "cliques", "one_copy")
SHARE = 0.1  # of all rows, and of all edges, that one GPU has room for
SEEDS = 128 if QUICK else 512  # an epoch
PREFER, PREFER_SHARE = "features", 0.3  # of a sampler's budget, that is for the graph then
FANOUT = [15, 10, 5]


def sampler_bytes(dataset):
    """A budget whose share for the graph has room for the offsets and for SHARE of the edges."""
    offsets, edges = (
        os.path.getsize(os.path.join(dataset, f"{name}.npy")) for name in ("indptr", "indices")
    )
    return int((offsets + SHARE * edges) / PREFER_SHARE)


def links_job(dataset, gpus, placement):
    """Each GPU samples and trains: a device for each of the two."""
    indices = range(gpus)
    budget = sampler_bytes(dataset)
    return {
        "dataset": dataset,
        "model": {"kind": "graphsage", "layers": len(FANOUT), "hidden": 8, "dropout": 0.5},
        "sampler": {"kind": "khop", "fanout": FANOUT, "batch_size": 16},
        "updates": {"batches_per_update": 8},
        "store": {"placement": placement, "prefer": PREFER},
        "cache": {"policy": "expected", "ratio": SHARE},
        "devices": [{"kind": "cuda", "index": i, "memory": budget} for i in indices]
        + [{"kind": "cuda", "index": i, "memory": "128MiB"} for i in indices],
        "allocation": {"samplers": gpus, "trainers": gpus, "switching": False},
        "epochs": 2 if QUICK else 3,
        "seed": 7,
        "digest": True,
        "evaluate": {"every": 0, "fanout": [1, 1, 1], "test": "never"},
    }


# ---- what was read ------------------------------------------------------------------------------


class Reads:
    """Bytes of one kind that a job's GPUs read, by way."""

    def __init__(self, report, kind, gpus):
        self.own = self.memory = 0
        self.links = {}  # (reader's GPU, whose memory) -> bytes
        for link in report["store"]["links"]:
            if link["kind"] != kind:
                continue
            if link["from"] == "memory":
                self.memory += link["bytes"]
                continue
            # Device d samples on GPU d and device d + gpus trains on it.
            pair = (link["reader"] % gpus, int(link["from"]) % gpus)
            if pair[0] == pair[1]:
                self.own += link["bytes"]
            else:
                self.links[pair] = self.links.get(pair, 0) + link["bytes"]

    def peers(self):
        return sum(self.links.values())

    def all(self):
        return self.own + self.peers() + self.memory

    def __str__(self):
        ways = (self.own, self.peers(), self.memory, max(self.links.values(), default=0))
        return "{:.2f} + {:.2f} + {:.2f} MB, {:.2f}".format(*(bytes_ / 1e6 for bytes_ in ways))


def kind_row(name, reads, held, hits, foreseen):
    """held: the share of all that lies on GPUs; hits: of what was read that was read there."""
    expected = foreseen["at_home"] + foreseen["on_peers"]
    row(
        f"{name}, {held:.0%} held", str(reads), f"{hits:.1%} read on GPUs, {expected:.1%} foreseen",
        hits / expected,
    )


def job_rows(jobs, name, dataset, gpus, placement):
    """What all placements have in common: digests of samples and parameters, the graph's bytes."""
    job = links_job(dataset, gpus, placement)
    foreseen = jobs.dry_run(job)["store"]
    report = jobs.finish(jobs.start(job))
    store, size = report["store"], read_json(os.path.join(dataset, "metadata.json"))
    features, edges = (Reads(report, kind, gpus) for kind in ("features", "graph"))
    # Batches that were drawn before there were ranks miss: the last epoch has none of them.
    kind_row(
        f"{name}, {placement}: features", features, store["gpu_rows"] / size["num_nodes"],
        report["epochs"][-1]["cache"]["hit_rate"], foreseen["placements"][placement],
    )
    kind_row(
        f"{name}, {placement}: graph", edges, store["gpu_edges"] / size["num_edges"],
        1 - edges.memory / edges.all(), foreseen["graph"]["placements"][placement],
    )
    return report["samples_digest"], report["params_sha256"], edges.all()


def graph_rows(jobs, graph, dataset):
    reordered = jobs.path(f"{os.path.basename(dataset)}-reads")
    command = [os.path.join(BIN, "sluice"), "reorder", dataset, "--by", "reads", "--quiet"]
    run(*command, "--out", reordered)
    found = {}
    for gpus, links in MACHINES.items():
        settings = {
            "SLUICE_CUDA_PLUGIN": PLUGIN,
            "SLUICE_SIMT_DEVICES": str(gpus),
            "SLUICE_SIMT_LINKS": links,
            "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(gpus))),
        }
        with mock.patch.dict(os.environ, settings):
            name = f"{graph}, {MACHINE_NAMES[gpus]}"
            for placement in PLACEMENTS:
                found[gpus, placement] = job_rows(jobs, name, reordered, gpus, placement)
    results = set(found.values())
    if len(results) != 1:
        raise Failed(f"{graph}: jobs differ in what they sampled, trained or read: {found}")
    ((samples, params, size),) = results
    said = f"{graph}: one result in all, {size} bytes of the graph"
    row(said, f"samples {samples[:12]}", f"parameters {params[:12]}")


def few_seeds(jobs, dataset):
    """The data set with SEEDS training vertices, and few to validate on."""
    import numpy

    chance = numpy.random.default_rng(7)
    kept = {"train_idx": SEEDS, "val_idx": 16}
    lists = {name: numpy.load(os.path.join(dataset, f"{name}.npy")).reshape(-1) for name in kept}
    few = {name: chance.permutation(lists[name])[:n] for name, n in kept.items()}
    return derive(dataset, jobs.path(f"{os.path.basename(dataset)}-few"), few)


@part
def part_links():
    if not os.path.exists(PLUGIN):
        raise Failed(f"{PLUGIN} is not there: `make tests` builds it")
    row("MB at home + of other GPUs + in memory, over the busiest link", "")
    with Jobs() as jobs:
        rmat = "rmat --scale 17 --classes 2 --feat-dim 128"
        graph_rows(jobs, "power law", few_seeds(jobs, jobs.generate("power", rmat)))
        if arxiv := real_graph():
            graph_rows(jobs, "ogbn_arxiv", few_seeds(jobs, arxiv))
