#!/usr/bin/env python3
"""Loaders of pairs and epochs of models of links, of other systems, as scripts/bench_pairs.py asks.

Commands and lines are those of peers.py. PEER is pyg_pairs (LinkNeighborLoader), dgl_pairs
(as_edge_prediction_sampler) or loader_pairs (LinkNeighborLoader of python/sluice); the data set has
train_edges.npy, a batch is of so many of these and as many uniform negatives. DGL's batches are
drawn without the edges to predict and their reverses, where each edge of the graph has one, else
without these edges alone; those of PyG know no such thing. The model gives embeddings as wide as
its hidden layer, their products are scores, the loss is cross-entropy.
"""

import os
import sys

import numpy as np
import peers
import torch
from torch import nn


def places(indptr, indices, source, target):
    """Where in `indices` the edges stand, -1 for those that are none."""
    n = len(indptr) - 1
    rows = np.repeat(np.arange(n), np.diff(indptr))
    keys = rows * n + indices
    order = np.argsort(keys, kind="stable")
    wanted = target * n + source
    at = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
    return np.where(keys[at] == wanted, at, -1)


class Pairs:
    """Of a peer: what its items are. `pairs` (2, n), source first."""

    loss = staticmethod(nn.functional.binary_cross_entropy_with_logits)

    def __init__(self, saved, job):
        super().__init__(saved, job)
        self.pairs = saved["pairs"]

    @classmethod
    def convert(cls, tensors, path):
        pairs = np.load(os.path.join(tensors["path"], "train_edges.npy")).astype(np.int64)
        tensors["pairs"] = torch.from_numpy(pairs.T.copy())
        super().convert(tensors, path)

    def widths(self):
        return [self.x.size(1), *[self.job.hidden] * len(self.job.fanout)]


class DglPairs(Pairs, peers.Dgl):
    """By places of edges, which are DGL's numbers of them."""

    @classmethod
    def convert(cls, tensors, path):
        super().convert(tensors, path)
        indptr, indices = (tensors[name].numpy() for name in ("indptr", "indices"))
        rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        items = places(indptr, indices, *tensors["pairs"].numpy())
        if (items < 0).any():
            raise ValueError("train_edges.npy has pairs that are no edges, which DGL cannot take")
        back = places(indptr, indices, rows, indices)
        own = {"items": torch.from_numpy(items), "back": torch.from_numpy(back)}
        torch.save({"pairs": tensors["pairs"], **own}, path + ".pairs")

    @classmethod
    def read(cls, path):
        return {**super().read(path), **torch.load(path + ".pairs")}

    def __init__(self, saved, job):
        super().__init__(saved, job)
        self.items, self.back = saved["items"], saved["back"]

    def make_loader(self, gathers):
        import dgl.dataloading as dl

        features = {"prefetch_node_feats": ["feat"]} if gathers else {}
        symmetric = bool((self.back >= 0).all())
        sampler = dl.as_edge_prediction_sampler(
            dl.NeighborSampler(self.job.fanout[::-1], **features),
            exclude="reverse_id" if symmetric else "self",
            reverse_eids=self.back if symmetric else None,
            negative_sampler=dl.negative_sampler.Uniform(1),
        )
        return self.pin(dl.DataLoader(self.graph, self.items, sampler, **self.settings()))

    def batches(self, gathers):
        for _, positive, negative, blocks in self.loader(gathers):
            x = blocks[0].srcdata["feat"] if gathers else None
            labels = torch.tensor([1.0, 0.0]).repeat_interleave(positive.num_edges())
            edges = sum(block.num_edges() for block in blocks)
            yield edges, (positive, negative, blocks), x, labels

    def model(self):
        import dgl.ops

        model = peers.SageOfDgl(self.widths())
        embeddings = model.forward

        def forward(graphs, x):
            rows = embeddings(graphs[2], x)
            scores = [dgl.ops.u_dot_v(graph, rows, rows) for graph in graphs[:2]]
            return torch.cat(scores).squeeze(1)

        model.forward = forward
        return model


class PyGPairs(Pairs, peers.PyG):
    """Batches, no model."""

    def make_loader(self, gathers):
        from torch_geometric.data import Data
        from torch_geometric.loader import LinkNeighborLoader

        data = Data(edge_index=self.edge_index, num_nodes=len(self.x))
        if gathers:
            data.x = self.x
        return self.pin(LinkNeighborLoader(
            data, num_neighbors=self.job.fanout, edge_label_index=self.pairs,
            neg_sampling="binary", is_sorted=True, **self.settings(),
        ))

    def batches(self, gathers):
        for batch in self.loader(gathers):
            yield batch.edge_index.size(1), None, None, None


class LoaderPairs(peers.Loader):
    def make_loader(self, gathers):
        return self.package.LinkNeighborLoader(
            self.path, self.job.fanout, edge_label_index="train", neg_sampling="binary",
            batch_size=self.job.batch, shuffle=True, seed=7, samplers=self.job.workers or "auto",
        )

    def batches(self, gathers):
        for batch in self.loader(gathers):
            yield batch.edge_index.size(1), None, None, None


if __name__ == "__main__":
    peers.PEERS = {"dgl_pairs": DglPairs, "pyg_pairs": PyGPairs, "loader_pairs": LoaderPairs}
    peers.main(*sys.argv[1:])
