#!/usr/bin/env python3
"""GATv2 of PyTorch Geometric with edge features, on a graph that is a `Data` in memory:

    PYTHONPATH=python examples/gatv2_edges.py
    PYTHONPATH=python examples/gatv2_edges.py --data data/first

The graph is made here: each vertex has two neighbours of each colour, and its label is the colour
of those two whose edges can be trusted. Who does not look at the edges can only guess: --blind.
With --data it is a data set of sluice, whose edges get the degrees of both ends as features where
they have none.

Prints loss and validation accuracy after each epoch. Ends with 1 if the last accuracy is hardly
better than naming always the commonest class.
"""

import argparse
import sys

import sluice
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GATv2Conv
from torch_geometric.utils import degree


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", metavar="DIR", help="a data set directory")
    parser.add_argument("--blind", action="store_true", help="leave the edge features out")
    parser.add_argument("--fanout", type=int, nargs=2, default=[8, 8])
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=16, help="of each of 4 heads")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=7)
    return parser.parse_args()


def trusted_edges(n=3000, colours=4):
    """A graph whose labels show in edge_attr alone."""
    colour, y = torch.randint(colours, (2, n))
    # Two sources of each colour for each vertex: (n, 2 * colours)
    of_colour = [(colour == c).nonzero()[:, 0] for c in range(colours)]
    source = torch.cat([ids[torch.randint(len(ids), (n, 2))] for ids in of_colour], 1)
    trust = (colour[source] == y[:, None]) + 0.2 * torch.randn(source.shape)
    edges = torch.stack([source, torch.arange(n)[:, None].expand_as(source)]).flatten(1)
    order = torch.randperm(edges.shape[1])  # any order will do
    return Data(
        x=torch.nn.functional.one_hot(colour, colours).float(),
        y=y,
        edge_index=edges[:, order],
        edge_attr=torch.stack([trust.flatten(), torch.rand(trust.numel())], 1)[order],
        train_mask=torch.arange(n) < n // 2,
        val_mask=torch.arange(n) >= n // 2,
    )


def with_degrees(path):
    data = sluice.open(path).to_pyg()
    if "edge_attr" not in data:
        ends = [degree(ids, data.num_nodes)[ids] for ids in data.edge_index]
        data.edge_attr = torch.stack(ends, 1).log1p()
    return data


class Model(torch.nn.Module):
    def __init__(self, dims, hidden, edge_dim):
        super().__init__()
        self.first = GATv2Conv(dims[0], hidden, heads=4, edge_dim=edge_dim)
        self.second = GATv2Conv(4 * hidden, dims[1], heads=4, concat=False, edge_dim=edge_dim)

    def forward(self, batch, blind):
        """Logits of the seeds."""
        edge_attr = torch.zeros_like(batch.edge_attr) if blind else batch.edge_attr
        h = self.first(batch.x.float(), batch.edge_index, edge_attr).relu()
        return self.second(h, batch.edge_index, edge_attr)[: batch.batch_size]


def main():
    o = options()
    torch.manual_seed(o.seed)
    data = with_degrees(o.data) if o.data else trusted_edges()
    # The Data goes to the samplers through shared memory. Batches have all that it has, by vertex
    # (x, y) and by edge: edge_attr[k] is of the edge edge_index[:, k].
    train = sluice.NeighborLoader(
        data, o.fanout, o.batch_size, data.train_mask, shuffle=True, seed=o.seed
    )
    val = sluice.NeighborLoader(data, o.fanout, o.batch_size, data.val_mask, seed=o.seed)

    n_classes = int(data.y.max()) + 1
    model = Model((data.num_features, n_classes), o.hidden, data.num_edge_features)
    optimizer = torch.optim.Adam(model.parameters(), lr=o.lr)
    with train, val:
        for epoch in range(o.epochs):
            model.train()
            total = 0.0
            for batch in train:
                optimizer.zero_grad()
                y = batch.y[: batch.batch_size]  # of a Data, batch.y is of all vertices
                loss = torch.nn.functional.cross_entropy(
                    model(batch, o.blind), y, ignore_index=-1
                )
                loss.backward()
                optimizer.step()
                total += loss.item()

            model.eval()
            hits, counts = 0, torch.zeros(n_classes)
            for batch in val:
                y = batch.y[: batch.batch_size]
                with torch.no_grad():
                    hits += int((model(batch, o.blind).argmax(1) == y).sum())
                counts += torch.bincount(y[y >= 0], minlength=n_classes)
            found, commonest = hits / float(counts.sum()), float(counts.max() / counts.sum())
            print(f"epoch {epoch + 1}/{o.epochs}  loss {total / len(train):.4f}  val {found:.4f}")
    if found < commonest + 0.1 * (1 - commonest):
        sys.exit(f"has learned nothing: the commonest class alone is {commonest:.4f}")


if __name__ == "__main__":
    main()
