#!/usr/bin/env python3
"""Epochs of other systems on one GPU, which scripts/gpu_suite takes in turn with sluice's own:

    gpu_peer.py look PEER                why PEER cannot be used here: the last line, and status 1
    gpu_peer.py serve PEER DATASET JOB   an epoch for each line of standard input

PEER is pyg (PyTorch Geometric's NeighborLoader: features in pinned memory, JOB's worker processes
sample), cugraph (cuGraph-PyG) or wholegraph (WholeGraph), which have graph and features on the GPU.
JOB is JSON: fanout (the hop next to the seeds first), batch, hidden, workers. Answers are lines of
JSON: {"ready": true} once the data set is loaded, then seconds and edges of each epoch, or an
error.
"""

import json
import sys
import time
import traceback

# What has to be imported for each.
NEEDED = {
    "pyg": ["torch_geometric"],
    "cugraph": ["torch_geometric", "cugraph_pyg.loader", "pylibwholegraph.torch", "rmm"],
    "wholegraph": ["torch_geometric", "pylibwholegraph.torch"],
}


def look(name):
    """Imports all of it and asks for the GPU; an exception says what is missing."""
    import importlib

    import torch

    torch.zeros(1).cuda()
    for module in NEEDED[name]:
        importlib.import_module(module)
    if name == "pyg":
        import torch_geometric.typing as typing

        if not (typing.WITH_PYG_LIB or typing.WITH_TORCH_SPARSE):
            raise ImportError("neither pyg-lib nor torch-sparse, which NeighborLoader samples with")


def first_line(error):
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"


def say(**facts):
    print(json.dumps(facts), flush=True)


def serve(name, path, job):
    import torch
    from peers import PEERS_OF_GPUS, Job, arrays, start, train_epoch

    peer = PEERS_OF_GPUS[name](arrays(path), Job(**json.loads(job)), "cuda")
    model, optimizer = start(peer)
    torch.backends.cuda.matmul.allow_tf32 = True  # as sluice does by itself
    say(ready=True)
    for _ in sys.stdin:
        try:
            torch.cuda.synchronize()
            begin = time.monotonic()
            _, edges, _ = train_epoch(peer, model, optimizer)
            torch.cuda.synchronize()
            say(seconds=time.monotonic() - begin, edges=edges)
        except Exception as error:  # noqa: BLE001 - the peer's own, which the table then says
            traceback.print_exc()
            say(error=first_line(error))


def main(*words):
    arguments = {"look": 2, "serve": 4}
    if not words or len(words) != arguments.get(words[0]) or words[1] not in NEEDED:
        sys.exit(__doc__)
    if words[0] == "serve":
        serve(*words[1:])
        return
    try:
        look(words[1])
    except Exception as error:  # noqa: BLE001 - whatever a broken package says
        sys.exit(first_line(error))


if __name__ == "__main__":
    main(*sys.argv[1:])
