#!/usr/bin/env python3
"""Epochs in PyTorch Geometric on one GPU: gpu_peer.py DATASET KIND FANOUT BATCH WORKERS

What scripts/gpu_suite compares sluice with: NeighborLoader with that many worker processes,
features in pinned memory, training on the GPU. KIND is graphsage or gcn, FANOUT as 25,10. Prints
how long each of three epochs takes.
"""

import os
import sys
import time

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn.models import GCN, GraphSAGE

HIDDEN = 256


def load(path):
    def array(name):
        return np.load(os.path.join(path, name + ".npy"), mmap_mode="r")

    indptr, indices = array("indptr").astype(np.int64), array("indices").astype(np.int64)
    target = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    data = Data(
        x=torch.from_numpy(np.array(array("node_feat"), dtype=np.float32)),
        y=torch.from_numpy(np.array(array("node_label"), dtype=np.int64)),
        edge_index=torch.from_numpy(np.stack([indices, target])),
    )
    data.train_idx = torch.from_numpy(np.array(array("train_idx"), dtype=np.int64))
    return data


def main():
    path, kind, fanout, batch, workers = sys.argv[1:6]
    fanout = [int(n) for n in fanout.split(",")]
    data = load(path)
    classes = int(data.y.max()) + 1
    train_idx = data.train_idx
    del data.train_idx
    loader = NeighborLoader(
        data,
        num_neighbors=fanout,
        input_nodes=train_idx,
        batch_size=int(batch),
        shuffle=True,
        num_workers=int(workers),
        persistent_workers=True,
        pin_memory=True,
    )
    model = {"graphsage": GraphSAGE, "gcn": GCN}[kind]
    model = model(data.num_features, HIDDEN, len(fanout), classes, dropout=0.5).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for _ in range(3):
        torch.cuda.synchronize()
        begin = time.monotonic()
        for part in loader:
            part = part.to("cuda", non_blocking=True)
            optimizer.zero_grad(set_to_none=True)
            out = model(part.x, part.edge_index)[: part.batch_size]
            loss = torch.nn.functional.cross_entropy(out, part.y[: part.batch_size])
            loss.backward()
            optimizer.step()
        torch.cuda.synchronize()
        print(f"epoch {time.monotonic() - begin:.3f} s", flush=True)


if __name__ == "__main__":
    main()
