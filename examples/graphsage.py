#!/usr/bin/env python3
"""GraphSAGE of PyTorch Geometric on a data set of sluice, whose processes sample and gather:

    PYTHONPATH=python examples/graphsage.py data/first --epochs 5

Prints loss and validation accuracy after each epoch, and at the end the test accuracy of the epoch
that was best in validation.
With --state FILE the run goes on where it was, if it was killed.
"""

import argparse
import os

import sluice
import torch
from torch_geometric.nn import GraphSAGE


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("dataset")
    parser.add_argument("--fanout", type=int, nargs="+", default=[10, 10])
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--dropout", type=float, default=0.3)
    parser.add_argument("--norm", help="such as batch_norm")
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--state", help="file that has the run after each 20 batches")
    return parser.parse_args()


def forward(model, batch):
    """Logits of the seeds; each layer computes what later ones need, and no more."""
    out = model(
        batch.x.float(),
        batch.edge_index,
        num_sampled_nodes_per_hop=batch.num_sampled_nodes,
        num_sampled_edges_per_hop=batch.num_sampled_edges,
    )
    return out[: batch.batch_size]


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    hits = total = 0
    for batch in loader:
        known = batch.y >= 0
        hits += int((forward(model, batch).argmax(1) == batch.y)[known].sum())
        total += int(known.sum())
    return hits / max(1, total)


def main():
    o = options()
    torch.manual_seed(o.seed)
    graph = sluice.open(o.dataset).metadata
    model = GraphSAGE(
        graph["feat_dim"],
        o.hidden,
        len(o.fanout),
        graph["num_classes"],
        dropout=o.dropout,
        norm=o.norm,
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=o.lr)

    def loader(nodes, shuffle=False):
        return sluice.NeighborLoader(
            o.dataset, o.fanout, o.batch_size, nodes, shuffle=shuffle, seed=o.seed
        )

    def save(path, best):
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "best": best}
        torch.save({**state, "loader": train.state_dict()}, f"{path}.part")
        os.replace(f"{path}.part", path)

    with loader("train", shuffle=True) as train, loader("val") as val, loader("test") as test:
        first, best = 0, (0.0, 0.0)  # accuracy of validation, and of the test then
        if o.state and os.path.exists(o.state):
            state = torch.load(o.state)
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            train.load_state_dict(state["loader"])
            first, best = state["loader"]["epoch"], state["best"]
        for epoch in range(first, o.epochs):
            model.train()
            total, number = 0.0, 0
            for number, batch in enumerate(train, 1):
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(
                    forward(model, batch), batch.y, ignore_index=-1
                )
                loss.backward()
                optimizer.step()
                total += loss.item()
                if o.state and number % 20 == 0:
                    save(o.state, best)
            mean, found = total / max(1, number), accuracy(model, val)
            if found >= best[0]:
                best = found, accuracy(model, test)
            print(f"epoch {epoch + 1}/{o.epochs}  loss {mean:.4f}  val {found:.4f}")
            if o.state:
                save(o.state, best)
        print(f"test {best[1]:.4f}")


if __name__ == "__main__":
    main()
