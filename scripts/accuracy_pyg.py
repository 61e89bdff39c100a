"""PyTorch Geometric's models under the settings of a job, for `scripts/accuracy --pyg`.

The classes are those of torch_geometric.nn.models, built from the job's resolved configuration.
Mini-batches are what NeighborLoader gives: for each seed `fanout[0]` different neighbours, for
those that are new `fanout[1]` and so on, and the model runs over all edges that were drawn. That
is a few lines of numpy here, since NeighborLoader itself needs pyg-lib or torch-sparse.
Evaluations are over the whole graph, the test is of the best validation epoch, and training ends
as the job's does.

Of a job of links the batches are edges and, for each, a pair from the same source to any vertex
that it has no edge to; their ends are the seeds. PyTorch Geometric's own loader of links draws both
ends of a negative, which may be an edge.

Needs torch and torch_geometric, which sluice itself does not (see check_pyg.py).
"""

import os
import warnings

import numpy as np
import peers
import torch
from check_pyg import Graph, build
from pyg_typed import TypedModel
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


def draw(rng, indptr, indices, frontier, fanout):
    """Neighbours of the rows `frontier`: (places in it, sources)."""
    begin = indptr[frontier]
    degrees = indptr[frontier + 1] - begin
    if fanout > 0:
        at = draw_without_replacement(rng, degrees, fanout)
    else:
        at = np.arange(degrees.max(initial=0))
        at = np.where(at < degrees[:, None], at, -1)
    row, slot = np.nonzero(at >= 0)
    return row, indices[begin[row] + at[row, slot]]


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
            row, source = draw(rng, self.indptr, self.indices, frontier, fanout)
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


# ---- links --------------------------------------------------------------------------------------


class Edges:
    """Of a graph: whether pairs are among them."""

    def __init__(self, edge_index, n):
        self.n, (self.source, self.target) = n, edge_index
        self.keys = np.sort(self.source * n + self.target)

    def has(self, source, target):
        keys = source * self.n + target
        at = np.searchsorted(self.keys, keys)
        return self.keys[np.minimum(at, len(self.keys) - 1)] == keys

    def negatives(self, rng, source):
        """A target for each that is no edge's and not itself."""
        target = rng.integers(0, self.n, len(source))
        while True:
            again = np.flatnonzero(self.has(source, target) | (source == target))
            if not len(again):
                return target
            target[again] = rng.integers(0, self.n, len(again))


def scores(rows, source, target):
    return (rows[source] * rows[target]).sum(dim=1)


def measure_links(evaluate, rows, positive, negative):
    found = [scores(rows, *pairs.T).numpy() for pairs in (positive, negative)]
    if evaluate["metric"] == "roc_auc":
        labels = np.repeat([1, 0], [len(positive), len(negative)])
        return roc_auc(np.concatenate(found), labels)
    return float((found[0] > np.partition(found[1], -evaluate["k"])[-evaluate["k"]]).mean())


def train_links_epoch(rng, net, optimizer, config, x, edges, sampler):
    order = rng.permutation(len(edges.source))
    for begin in range(0, len(order), config["sampler"]["batch_size"]):
        chosen = order[begin : begin + config["sampler"]["batch_size"]]
        source, target = edges.source[chosen], edges.target[chosen]
        ends = np.stack(
            [np.tile(source, 2), np.concatenate([target, edges.negatives(rng, source)])]
        )
        seeds, pairs = np.unique(ends, return_inverse=True)
        nodes, drawn = sampler.batch(rng, seeds, config["sampler"]["fanout"])
        optimizer.zero_grad()
        out = net(x[nodes], as_edges(config["model"]["kind"], drawn, len(nodes)))
        labels = torch.tensor([1.0, 0.0]).repeat_interleave(len(chosen))
        found = scores(out, *pairs.reshape(ends.shape))
        functional.binary_cross_entropy_with_logits(found, labels).backward()
        optimizer.step()


def train_links(config, seed):
    """The metric of the test pairs in the best validation epoch: of the product of embeddings,
    with cross-entropy, the only ones there are here."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    path, model, evaluate = config["dataset"], config["model"], config["evaluate"]
    graph = Graph(path)
    x, n = graph.x.float(), len(graph.x)
    edges = Edges(graph.edge_index.numpy(), n)
    indptr = np.load(os.path.join(path, "indptr.npy")).astype(np.int64)
    sampler = Sampler(indptr, edges.source)
    pairs = {
        split: [
            np.load(os.path.join(path, f"{split}_{kind}.npy")).astype(np.int64)
            for kind in ("edges", "neg")
        ]
        for split in ("val", "test")
    }
    net = build(model, x.size(1), config["task"]["dim"])
    net.dropout = torch.nn.Dropout(model["dropout"])
    whole = as_edges(model["kind"], graph.edge_index, n)
    optimizer = torch.optim.Adam(net.parameters(), lr=config["optimizer"]["lr"])
    best, test = -1.0, 0.0
    for _ in range(config["epochs"]):
        net.train()
        train_links_epoch(rng, net, optimizer, config, x, edges, sampler)
        net.eval()
        with torch.no_grad():
            rows = net(x, whole)
        found = measure_links(evaluate, rows, *pairs["val"])
        if found > best:
            best, test = found, measure_links(evaluate, rows, *pairs["test"])
    return test


# ---- several types ------------------------------------------------------------------------------


class TypedSampler:
    """A Sampler of graphs of several types. Vertices are numbers in their types; a batch has
    vertices by type, and for each layer of a model edges by relation: those of the hops that it
    needs."""

    def __init__(self, dataset):
        arrays, schema = dataset.arrays, dataset.schema
        self.first, self.csc = schema.first, {}
        self.local = {t.name: np.full(t.n, -1, np.int64) for t in schema.types}
        for r in schema.relations:
            indptr = arrays["indptr"][r.first_row : r.first_row + r.target.n + 1].astype(np.int64)
            edges = arrays["indices"][r.first_edge : r.first_edge + r.n_edges].astype(np.int64)
            self.csc[r.key] = indptr - r.first_edge, edges - r.source.first

    def add(self, nodes, name, new):
        count = sum(map(len, nodes[name]))
        self.local[name][new] = np.arange(count, count + len(new))
        nodes[name].append(new)

    def batch(self, rng, seeds, fanouts):
        def all_of(parts):
            return np.concatenate([np.zeros(0, np.int64), *parts])

        nodes, edges = {name: [] for name in self.local}, {key: [] for key in self.csc}
        drawn = dict.fromkeys(nodes, 0)
        self.add(nodes, self.first, seeds)
        for fanout in fanouts:
            frontier = {name: all_of(parts[drawn[name] :]) for name, parts in nodes.items()}
            drawn = {name: len(parts) for name, parts in nodes.items()}
            for key, csc in self.csc.items():
                local, targets = self.local[key[0]], frontier[key[2]]
                row, source = draw(rng, *csc, targets, fanout)
                self.add(nodes, key[0], np.unique(source[local[source] < 0]))
                edges[key].append(np.stack([local[source], self.local[key[2]][targets[row]]]))
        nodes = {name: all_of(parts) for name, parts in nodes.items()}
        for name, part in nodes.items():
            self.local[name][part] = -1

        def first(n):
            joined = {key: np.concatenate(parts[:n], axis=1) for key, parts in edges.items()}
            return {key: torch.from_numpy(pairs) for key, pairs in joined.items()}

        return nodes, [first(n) for n in range(len(fanouts), 0, -1)]


class ByLayer(TypedModel):
    """Of the edges that each layer needs, with dropout between layers."""

    def __init__(self, model, *of_graph):
        super().__init__(model, *of_graph)
        self.dropout = torch.nn.Dropout(model["dropout"])

    def convolve(self, conv, x, edges, edge_attr):
        i = list(self.convs).index(conv)
        x = {name: self.dropout(rows) if i else rows for name, rows in x.items()}
        return super().convolve(conv, x, edges[i], edge_attr)


def train_typed(config, seed):
    """The accuracy on the test vertices in the best validation epoch."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    dataset = peers.package().open(config["dataset"])
    data, labels = dataset.to_pyg(), torch.from_numpy(dataset.labels())
    splits = ("train", "val", "test")
    split = {name: np.asarray(dataset.arrays[f"{name}_idx"]).astype(np.int64) for name in splits}
    masked = dict.fromkeys(data.x_dict, config["model"]["input_dropout"])
    for name in set(data.node_types) - set(data.x_dict):  # as sluice has it
        data[name].x = torch.ones(data[name].num_nodes, 1)
    sampler, widths = TypedSampler(dataset), {name: x.size(1) for name, x in data.x_dict.items()}
    net = ByLayer(config["model"], widths, data.edge_types, dataset.metadata["num_classes"])
    optimizer = torch.optim.Adam(net.parameters(), lr=config["optimizer"]["lr"])
    best, test = -1.0, 0.0
    for _ in range(config["epochs"]):
        net.train()
        order = rng.permutation(split["train"])
        for begin in range(0, len(order), config["sampler"]["batch_size"]):
            seeds = order[begin : begin + config["sampler"]["batch_size"]]
            nodes, layers = sampler.batch(rng, seeds, config["sampler"]["fanout"])
            x = {
                name: functional.dropout(data[name].x[part], masked.get(name, 0))
                for name, part in nodes.items()
            }
            optimizer.zero_grad()
            functional.cross_entropy(net(x, layers)[: len(seeds)], labels[seeds]).backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            found = net(data.x_dict, [data.edge_index_dict] * net.layers)
        right = measure("accuracy", found, labels, split["val"])
        if right > best:
            best, test = right, measure("accuracy", found, labels, split["test"])
    return test
