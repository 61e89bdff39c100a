#!/usr/bin/env python3
"""Loaders and epochs on graphs of several types, of other systems, as scripts/bench_typed.py asks.

Commands and lines are those of peers.py; `epoch` has the model's kind behind the precision. PEER is
pyg_typed (NeighborLoader on a HeteroData), dgl_typed (NeighborSampler on a heterograph) or
loader_typed (NeighborLoader of python/sluice, PyG's models). The fanout is each relation's.

The models are those of sluice's kinds: `rsage` has a SAGEConv for each relation, `rgat` a GATConv
of four heads, relations are summed, ReLU and dropout between layers, a linear layer behind them.
PyG has them by HeteroConv, DGL by HeteroGraphConv. The last layer has the relations that end in the
seeds' type alone, and each layer reads no more than its hops.
"""

import os
import sys

import peers
import torch
from torch import nn

HEADS = 4


class Typed:
    """Of a peer: `data` is the graph in its own format, `first` the seeds' type, `widths` the
    features of each type, `relations` triples of names."""

    def __init__(self, saved, job):
        peers.Peer.__init__(self, {"x": None, "val": None, **saved}, job)
        self.data, self.first, self.widths = saved["data"], saved["first"], saved["widths"]
        self.relations, self.classes = saved["relations"], saved["classes"]

    @classmethod
    def convert(cls, tensors, path):
        dataset = peers.package().open(tensors["path"])
        facts = {
            "path": tensors["path"],
            "first": dataset.schema.first,
            "relations": [relation.key for relation in dataset.schema.relations],
            "widths": {t["name"]: t["feat_dim"] for t in dataset.metadata["types"]},
            "classes": dataset.metadata["num_classes"],
            "train": torch.from_numpy(dataset.arrays["train_idx"].astype("int64")),
        }
        data = dataset.to_pyg()
        facts["y"] = data[facts["first"]].y
        for split in ("train", "val", "test"):
            data[facts["first"]].pop(f"{split}_mask", None)
        cls.save(data, facts, path)


class Layers(nn.Module):
    """`conv(widths, out, heads)` makes a relation's layer (heads 0: of rsage), `layer(convs)` that
    of all."""

    def __init__(self, peer, kind, conv, layer):
        super().__init__()
        heads, hidden, n = {"rsage": 0, "rgat": HEADS}[kind], peer.job.hidden, len(peer.job.fanout)
        self.first, self.layers, widths = peer.first, nn.ModuleList(), peer.widths
        for i in range(n):
            ends = [peer.first] if i + 1 == n else peer.widths
            convs = {
                key: conv((widths[key[0]], widths[key[2]]), hidden, heads)
                for key in peer.relations
                if key[2] in ends
            }
            self.layers.append(layer(convs))
            widths = dict.fromkeys(peer.widths, hidden)
        self.dropout = nn.Dropout(peers.DROPOUT)
        self.linear = nn.Linear(hidden, peer.classes)

    def through(self, apply, x, n):
        """Of the first n vertices of the seeds' type, where apply(i, layer, x) has the rows of
        each type behind a layer."""
        for i, layer in enumerate(self.layers):
            x = apply(i, layer, x)
            if i + 1 < len(self.layers):
                x = {name: self.dropout(rows.relu()) for name, rows in x.items()}
        return self.linear(x[self.first][:n])


class PyGTyped(Typed, peers.PyG):
    def __init__(self, saved, job):
        import torch_geometric.loader  # noqa: F401 - here, so that no measurement has it

        super().__init__(saved, job)

    @staticmethod
    def save(data, facts, path):
        torch.save({"data": data, **facts}, path)

    def make_loader(self, gathers):
        from torch_geometric.loader import NeighborLoader

        return self.pin(NeighborLoader(
            self.data, num_neighbors=self.job.fanout, input_nodes=(self.first, self.train),
            is_sorted=True, **self.settings(),
        ))

    def batches(self, gathers):
        for batch in self.loader(gathers):
            seeds = batch[self.first]
            edges = sum(edges.size(1) for edges in batch.edge_index_dict.values())
            yield edges, batch, batch.x_dict, seeds.y[: seeds.batch_size]

    def hops(self, batch):
        """Vertices of each type and edges of each relation that each hop has added."""
        edge_index = batch.edge_index_dict
        if "num_sampled_nodes" in batch[self.first]:  # pyg-lib says it, and sluice
            return batch.num_sampled_nodes_dict, batch.num_sampled_edges_dict
        # torch-sparse does not, but goes hop by hop, and each of its hops vertex by vertex.
        known = {name: 0 for name in batch.node_types}
        known[self.first] = batch[self.first].batch_size
        nodes = {name: [n] for name, n in known.items()}
        edges = {key: [] for key in edge_index}
        for _ in self.job.fanout:
            after = dict(known)
            for key, (source, target) in edge_index.items():
                begin = sum(edges[key])
                end = int(torch.searchsorted(target, known[key[2]]))
                edges[key].append(end - begin)
                if end > begin:
                    after[key[0]] = max(after[key[0]], int(source[begin:end].max()) + 1)
            for name in known:
                nodes[name].append(after[name] - known[name])
            known = after
        return nodes, edges

    def model(self, kind):
        from torch_geometric.nn import GATConv, HeteroConv, SAGEConv
        from torch_geometric.utils import trim_to_layer

        def conv(widths, out, heads):
            if heads:
                return GATConv(widths, out // heads, heads, add_self_loops=False)
            return SAGEConv(widths, out)

        model = Layers(self, kind, conv, lambda convs: HeteroConv(convs, aggr="sum"))

        def forward(batch, x):
            nodes, edges = self.hops(batch)
            trimmed = [batch.edge_index_dict]

            def apply(i, layer, x):
                x, trimmed[0], _ = trim_to_layer(i, nodes, edges, x, trimmed[0])
                return layer(x, trimmed[0])

            return model.through(apply, x, batch[self.first].batch_size)

        model.forward = forward
        return model


class LoaderTyped(PyGTyped):
    """Of no worker, it chooses itself how many samplers there are."""

    python = peers.Loader.python

    def __init__(self, saved, job):
        super().__init__(saved, job)
        self.path = saved["path"]
        self.package = peers.package()
        assert self.package.NeighborLoader  # which imports PyG, so that no measurement has it

    @staticmethod
    def save(data, facts, path):
        torch.save({"data": None, **facts}, path)

    def make_loader(self, gathers):
        return self.package.NeighborLoader(
            self.path, self.job.fanout, self.job.batch, "train", shuffle=True, seed=7,
            samplers=self.job.workers or "auto",
        )


class DglTyped(Typed, peers.Dgl):
    @staticmethod
    def save(data, facts, path):
        import dgl

        edges, n = {}, {name: data[name].num_nodes for name in data.node_types}
        for key, index in data.edge_index_dict.items():
            indptr = torch.zeros(n[key[2]] + 1, dtype=torch.int64)
            indptr[1:] = torch.bincount(index[1], minlength=n[key[2]]).cumsum(0)
            edges[key] = "csc", (indptr, index[0].contiguous(), [])
        graph = dgl.heterograph(edges, num_nodes_dict=n)
        for name, x in data.x_dict.items():
            graph.nodes[name].data["feat"] = x
        graph.nodes[facts["first"]].data["label"] = facts["y"]
        dgl.save_graphs(path, [graph], formats="csc")
        torch.save(facts, path + ".facts")

    @classmethod
    def read(cls, path):
        import dgl

        (graph,), _ = dgl.load_graphs(path)
        return {"data": graph, **torch.load(path + ".facts")}

    def make_loader(self, gathers):
        import dgl.dataloading as dl

        sampler = dl.NeighborSampler(
            self.job.fanout[::-1],  # DGL names the hop next to the seeds last
            prefetch_node_feats={name: ["feat"] for name in self.widths},
            prefetch_labels={self.first: ["label"]},
        )
        seeds = {self.first: self.train}
        return self.pin(dl.DataLoader(self.data, seeds, sampler, **self.settings()))

    def batches(self, gathers):
        for _, _, blocks in self.loader(gathers):
            edges = sum(block.num_edges() for block in blocks)
            yield edges, blocks, blocks[0].srcdata["feat"], blocks[-1].dstdata["label"][self.first]

    def model(self, kind):
        from dgl.nn import GATConv, HeteroGraphConv, SAGEConv

        def conv(widths, out, heads):
            if heads:
                return GATConv(widths, out // heads, heads)
            return SAGEConv(widths, out, "mean")

        model = Layers(self, kind, conv, HeteroGraphConv)

        def forward(blocks, x):
            def apply(i, layer, x):
                block = blocks[i]
                ends = {name: block.num_dst_nodes(name) for name in x}
                rows = layer(block, (x, {name: x[name][:n] for name, n in ends.items() if n}))
                return {name: found.flatten(1) for name, found in rows.items()}

            return model.through(apply, x, blocks[-1].num_dst_nodes(self.first))

        model.forward = forward
        return model


if __name__ == "__main__":
    peers.PEERS = {"pyg_typed": PyGTyped, "dgl_typed": DglTyped, "loader_typed": LoaderTyped}
    peers.arrays = lambda path: {"path": os.path.abspath(path)}
    peers.main(*sys.argv[1:])
