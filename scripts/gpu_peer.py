#!/usr/bin/env python3
"""Epochs in PyTorch Geometric on one GPU: gpu_peer.py DATASET KIND FANOUT BATCH WORKERS

What scripts/gpu_suite compares sluice with: NeighborLoader with that many worker processes,
features in pinned memory, training on the GPU. KIND is graphsage or gcn, FANOUT as 25,10. Prints
how long each of three epochs takes.
"""

import sys
import time

import torch
from peers import Job, PyG, arrays, start, train_epoch

KINDS = {"graphsage": "GraphSAGE", "gcn": "GCN"}


def main():
    path, kind, fanout, batch, workers = sys.argv[1:6]
    job = Job([int(n) for n in fanout.split(",")], int(batch), workers=int(workers))
    peer = PyG(arrays(path), job, "cuda", KINDS[kind])
    model, optimizer = start(peer)
    torch.backends.cuda.matmul.allow_tf32 = True  # as sluice does by itself
    for _ in range(3):
        torch.cuda.synchronize()
        begin = time.monotonic()
        train_epoch(peer, model, optimizer)
        torch.cuda.synchronize()
        print(f"epoch {time.monotonic() - begin:.3f} s", flush=True)


if __name__ == "__main__":
    main()
