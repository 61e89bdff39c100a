#!/usr/bin/env python3
"""GraphSAGE of PyTorch Geometric on several processes, whose ranks share one job's samplers:

    PYTHONPATH=python torchrun --nproc-per-node 2 examples/ddp.py data/first --epochs 5

Batch k of an epoch is of rank k mod world, and every rank has the same number of batches, so that
the sum of gradients never waits for a rank that has none. Rank 0 prints loss and test accuracy.
"""

import argparse

import sluice
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.nn import GraphSAGE


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("dataset")
    parser.add_argument("--fanout", type=int, nargs="+", default=[10, 10])
    parser.add_argument("--batch-size", type=int, default=512, help="of each rank")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=7)
    return parser.parse_args()


def logits(model, batch):
    return model(batch.x.float(), batch.edge_index)[: batch.batch_size]


@torch.no_grad()
def accuracy(model, loader):
    """Over what all ranks have evaluated."""
    model.eval()
    counts = torch.zeros(2)
    for batch in loader:
        known = batch.y >= 0
        counts[0] += (logits(model, batch).argmax(1) == batch.y)[known].sum()
        counts[1] += known.sum()
    distributed.all_reduce(counts)
    return float(counts[0] / counts[1].clamp(min=1))


def main():
    o = options()
    distributed.init_process_group("gloo")
    torch.manual_seed(o.seed)  # the same parameters in every rank
    graph = sluice.open(o.dataset).metadata
    plain = GraphSAGE(graph["feat_dim"], o.hidden, len(o.fanout), graph["num_classes"])
    model = DistributedDataParallel(plain)
    optimizer = torch.optim.Adam(model.parameters(), lr=o.lr)

    def loader(nodes, shuffle=False):
        return sluice.NeighborLoader(
            o.dataset, o.fanout, o.batch_size, nodes, shuffle=shuffle, seed=o.seed
        )

    with loader("train", shuffle=True) as train, loader("test") as test:
        for epoch in range(o.epochs):
            model.train()
            loss = torch.zeros(())
            for batch in train:
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(
                    logits(model, batch), batch.y, ignore_index=-1
                )
                loss.backward()
                optimizer.step()
            # Evaluated without DistributedDataParallel: ranks may have one batch more or less.
            found = accuracy(plain, test)
            if distributed.get_rank() == 0:
                print(f"epoch {epoch + 1}/{o.epochs}  loss {loss.item():.4f}  test {found:.4f}")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
