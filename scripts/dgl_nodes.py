#!/usr/bin/env python3
"""Loaders of batches on several nodes, as scripts/bench_nodes.py asks, in the environment that has
DGL:

    dgl_nodes.py convert DATASET PARTITION FOLDER   DGL's own files of a partition of sluice's
    dgl_nodes.py run FOLDER IP_CONFIG JOB           DGL's: a server or a trainer, as DGL_ROLE says
    dgl_nodes.py attach NAME JOB                    sluice.dgl's: a trainer of the running job NAME

JOB is JSON: fanout (the hop next to the seeds first), batch, epochs, graphbolt (whether servers
sample with it). A trainer prints a list in JSON: of each epoch when it ended, its batches, edges,
and rows of features. Its step is empty: features and labels have come, and are dropped.
"""

import ctypes
import json
import os
import signal
import sys
import time
from unittest import mock

sys.dont_write_bytecode = True  # no __pycache__ beside the scripts
os.environ.setdefault("DGLBACKEND", "pytorch")  # else DGL writes a file to the home directory
# Samplers import this file too: they end with their trainer, which ends with the bench.
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG

import dgl  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402

NAME, START_S = "graph", 60
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def convert(dataset, partition, folder):
    """DGL takes no partition, but writes what its METIS answers: that is ours here."""
    from peers import arrays

    tensors = arrays(dataset)
    parts = torch.from_numpy(np.load(partition).astype(np.int64))
    graph = dgl.graph(("csc", (tensors["indptr"], tensors["indices"], [])), num_nodes=len(parts))
    graph.ndata["feat"], graph.ndata["label"] = tensors["x"], tensors["y"]
    graph.ndata["train"] = torch.zeros(len(parts), dtype=torch.bool)
    graph.ndata["train"][tensors["train"]] = True
    metis = mock.Mock(return_value=parts)
    with mock.patch("dgl.distributed.partition.metis_partition_assignment", metis):
        order, _ = dgl.distributed.partition_graph(
            graph, NAME, int(parts.max()) + 1, folder, part_method="metis", return_mapping=True,
            graph_formats="csc", use_graphbolt=True,  # also as GraphBolt has it
        )
    with open(os.path.join(folder, NAME + ".json")) as file:
        ranges = json.load(file)["node_map"]["_N"]
    for part, (begin, end) in enumerate(ranges):
        wanted = torch.nonzero(parts == part).reshape(-1)
        assert order[begin:end].sort().values.equal(wanted), f"part {part} has other vertices"


def epoch(loader, take):
    """When an epoch ended on this node, by a clock that nodes of one machine share, and what came;
    take(batch) is its features, labels and blocks."""
    batches = edges = rows = 0
    for batch in loader:
        x, y, blocks = take(batch)
        assert len(x) == blocks[0].num_src_nodes() and len(y) == blocks[-1].num_dst_nodes()
        batches, rows = batches + 1, rows + len(x)
        edges += sum(block.num_edges() for block in blocks)
    return {"end": time.monotonic(), "batches": batches, "edges": edges, "rows": rows}


def run(folder, ip_config, job):
    job, book = json.loads(job), os.path.join(folder, NAME + ".json")
    os.environ.update(DGL_CONF_PATH=book, DGL_IP_CONFIG=ip_config, DGL_DIST_MODE="distributed")
    # A server serves in it, and ends.
    dgl.distributed.initialize(ip_config, use_graphbolt=job["graphbolt"])
    graph = dgl.distributed.DistGraph(NAME, part_config=book)
    seeds = dgl.distributed.node_split(graph.ndata["train"], graph.get_partition_book())
    sampler = dgl.dataloading.NeighborSampler(job["fanout"][::-1])  # DGL names that hop last
    loader = dgl.dataloading.DistNodeDataLoader(
        graph, seeds, sampler, batch_size=job["batch"], shuffle=True
    )

    def take(batch):
        inputs, outputs, blocks = batch
        return graph.ndata["feat"][inputs], graph.ndata["label"][outputs], blocks

    print(json.dumps([epoch(loader, take) for _ in range(job["epochs"])]), flush=True)


def attach(name, job):
    sys.path.insert(0, os.path.join(ROOT, "python"))
    import sluice
    from sluice.dgl import NeighborLoader

    def take(batch):
        _, _, blocks = batch
        return blocks[0].srcdata["feat"], blocks[-1].dstdata["label"], blocks

    until = time.monotonic() + START_S
    while True:
        try:
            loader = NeighborLoader(attach=name, prefetch=False)
            break
        except sluice.Error:  # it does not lend yet
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
    with loader:
        found = [epoch(loader, take) for _ in range(json.loads(job)["epochs"])]
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    {"convert": convert, "run": run, "attach": attach}[sys.argv[1]](*sys.argv[2:])
