#!/bin/sh
# DGL 2.1.0: where DistNodeDataLoader has sampler processes (DGL_NUM_SAMPLER), an epoch that was left
# early spoils all that follow: each begins with the batches that the samplers still had in work, and
# never comes to as many of its own last ones. Without samplers all is well.
# Seen, of batches 0 to 7, after an epoch that was left behind 0 and 1: 2 3 4 0 1 2 3 4, then
# 5 6 7 0 1 2 3 4.
exec "$(dirname "$0")/with" torch==2.2.1 dgl==2.1.0 torchdata==0.7.1 numpy==1.26.4 pandas==3.0.6 \
    pydantic==2.14.4 pyyaml==6.0.4 "setuptools<80" <<'PYTHON'
import json
import os
import socket
import subprocess
import sys

os.environ["DGLBACKEND"] = "pytorch"
import dgl
import torch

N, BATCH = 64, 8


def cluster(samplers):
    """What a trainer saw, beside a graph server of this machine."""
    with socket.socket() as free, open("ip_config", "w") as file:
        free.bind(("127.0.0.1", 0))
        file.write(f"127.0.0.1 {free.getsockname()[1]}\n")
    env = {**os.environ, "DGL_DIST_MODE": "distributed", "DGL_NUM_SERVER": "1"}
    env |= {"DGL_SERVER_ID": "0", "DGL_NUM_SAMPLER": str(samplers)}
    env |= {"DGL_NUM_CLIENT": str(1 + samplers)}
    env |= {"DGL_IP_CONFIG": "ip_config", "DGL_CONF_PATH": "parts/ring.json"}
    command = [sys.executable, __file__, "run"]
    quiet = {"stderr": subprocess.DEVNULL, "stdout": subprocess.PIPE, "text": True}
    server = subprocess.Popen(command, env=env | {"DGL_ROLE": "server"}, **quiet)
    try:
        trainer = subprocess.run(command, env=env | {"DGL_ROLE": "client"}, timeout=120, **quiet)
    finally:
        server.kill()
        server.wait()
    return next(json.loads(line) for line in trainer.stdout.splitlines() if line.startswith("[["))


def run():
    dgl.distributed.initialize("ip_config")
    graph = dgl.distributed.DistGraph("ring", part_config="parts/ring.json")
    sampler = dgl.dataloading.NeighborSampler([1])
    loader = dgl.dataloading.DistNodeDataLoader(graph, torch.arange(N), sampler, batch_size=BATCH)
    epochs = []
    for epoch in range(3):
        epochs.append([])
        for _, seeds, _ in loader:
            epochs[-1].append(int(seeds[0]) // BATCH)
            if epoch == 0 and len(epochs[0]) == 2:
                break
    print(json.dumps(epochs), flush=True)


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit(run())
    ring = dgl.graph((torch.arange(N), (torch.arange(N) + 1) % N))
    dgl.distributed.partition_graph(ring, "ring", 1, "parts")
    wanted = [[0, 1], list(range(8)), list(range(8))]
    found = {samplers: cluster(samplers) for samplers in (0, 1)}
    print(f"batches of three epochs, the first left behind two, by samplers: {found}")
    assert found[0] == wanted
    assert found[1][0] == [0, 1] and found[1][1] != wanted[1] and found[1][2] != wanted[2]
PYTHON
