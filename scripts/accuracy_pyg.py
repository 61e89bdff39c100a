"""PyTorch Geometric's models under the settings of a job, for `scripts/accuracy --pyg`.

The classes are those of torch_geometric.nn.models, built from the job's resolved configuration.
Mini-batches are what NeighborLoader gives: for each seed `fanout[0]` different neighbours, for
those that are new `fanout[1]` and so on, and the model runs over all edges that were drawn. That
is a few lines of numpy here, since NeighborLoader itself needs pyg-lib or torch-sparse.
Evaluations are over the whole graph, the test is of the best validation epoch, and training ends
as the job's does.

Needs torch and torch_geometric, which sluice itself does not (see check_pyg.py).
"""

import os
import warnings

import numpy as np
import torch
from check_pyg import Graph, build
from torch.nn import functional


warnings.filterwarnings("ignore", message="Sparse CSR")  # which torch calls new


def draw_without_replacement(rng, degrees, fanout):
    """(rows, fanout) different numbers below each degree (Floyd); -1 where there are no more."""
    chosen = np.full((len(degrees), fanout), -1, np.int64)
    for slot in range(fanout):
        # Of rows that are cut all slots are filled; the others take what they have.
        top = degrees - fanout + slot
        cut = top >= slot
        drawn = (rng.random(len(degrees)) * (top + 1)).astype(np.int64)
        taken = (chosen[:, :slot] == drawn[:, None]).any(axis=1)
        chosen[:, slot] = np.where(
            cut, np.where(taken, top, drawn), np.where(slot < degrees, slot, -1)
        )
    return chosen


class Sampler:
    def __init__(self, indptr, indices):
        self.indptr, self.indices = indptr, indices
        self.local = np.full(len(indptr) - 1, -1, np.int64)

    def batch(self, rng, seeds, fanouts):
        """The vertices, seeds first, and the edges among them, as (source, target)."""
        nodes, edges, frontier = [seeds], [], seeds
        self.local[seeds] = np.arange(len(seeds))
        count = len(seeds)
        for fanout in fanouts:
            begin = self.indptr[frontier]
            degrees = self.indptr[frontier + 1] - begin
            at = draw_without_replacement(rng, degrees, fanout if fanout > 0 else degrees.max())
            row, slot = np.nonzero(at >= 0)
            source = self.indices[begin[row] + at[row, slot]]
            new = np.unique(source[self.local[source] < 0])
            self.local[new] = np.arange(count, count + len(new))
            edges.append(np.stack([self.local[source], self.local[frontier[row]]]))
            nodes.append(new)
            count += len(new)
            frontier = new
        nodes = np.concatenate(nodes)
        self.local[nodes] = -1
        return nodes, torch.from_numpy(np.concatenate(edges, axis=1))


# Kinds whose sums torch's sparse products do: the same to rounding, several times as fast on cores.
SPARSE = ("graphsage", "gcn", "gin")


def as_edges(kind, edges, n):
    """What the layers of a kind take for (source, target) edges among n vertices."""
    if kind not in SPARSE:
        return edges
    source, target = edges[:, torch.argsort(edges[1] * n + edges[0])]
    begin = torch.zeros(n + 1, dtype=torch.int64)
    begin[1:] = torch.bincount(target, minlength=n).cumsum(0)
    return torch.sparse_csr_tensor(begin, source, torch.ones(len(source)), (n, n))


def roc_auc(scores, labels):
    """Of a task of two classes; ties count half."""
    _, group, sizes = np.unique(scores, return_inverse=True, return_counts=True)
    rank = (np.cumsum(sizes) - (sizes - 1) / 2)[group]
    positive = labels == 1
    n, m = positive.sum(), (~positive).sum()
    return float((rank[positive].sum() - n * (n + 1) / 2) / (n * m))


def measure(metric, logits, labels, rows):
    logits, labels = logits[rows], labels[rows]
    if metric == "roc_auc":
        return roc_auc((logits[:, 1] - logits[:, 0]).numpy(), labels.numpy())
    return float((logits.argmax(dim=1) == labels).double().mean())


def train(config, metric, seed):
    """The metric on the test vertices in the best validation epoch."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    path, model = config["dataset"], config["model"]
    graph = Graph(path)
    x = graph.x.float()
    labels = torch.from_numpy(np.load(os.path.join(path, "node_label.npy")).astype(np.int64))
    split = {
        name: np.load(os.path.join(path, f"{name}_idx.npy")).astype(np.int64)
        for name in ("train", "val", "test")
    }
    sampler = Sampler(
        np.load(os.path.join(path, "indptr.npy")).astype(np.int64), graph.edge_index[0].numpy()
    )
    net = build(model, x.size(1), graph.outputs)
    net.dropout = torch.nn.Dropout(model["dropout"])
    for conv in net.convs:
        if "attention_dropout" in model:
            conv.dropout = model["attention_dropout"]
    whole = as_edges(model["kind"], graph.edge_index, len(x))
    optimizer = torch.optim.Adam(net.parameters(), lr=config["optimizer"]["lr"])
    patience = config["early_stopping"]["patience"]
    best, test, waited = -1.0, 0.0, 0
    for _ in range(config["epochs"]):
        net.train()
        order = rng.permutation(split["train"])
        for begin in range(0, len(order), config["sampler"]["batch_size"]):
            seeds = order[begin : begin + config["sampler"]["batch_size"]]
            nodes, edges = sampler.batch(rng, seeds, config["sampler"]["fanout"])
            optimizer.zero_grad()
            edges = as_edges(model["kind"], edges, len(nodes))
            out = net(x[nodes], edges)[: len(seeds)]
            functional.cross_entropy(out, labels[seeds]).backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            logits = net(x, whole)
        found = measure(metric, logits, labels, split["val"])
        waited += 1
        if found > best:
            best, test, waited = found, measure(metric, logits, labels, split["test"]), 0
        if 0 < patience <= waited:
            break
    return test
