#!/usr/bin/env python3
"""Writes layers.json: what PyTorch Geometric's own models compute on a small graph.

Run it where torch and torch_geometric are installed; sluice itself needs neither:

    python3 tests/golden/make_layers.py > tests/golden/layers.json

For each model: the graph as CSC, features, parameters (flat, in state_dict order), logits of all
vertices, and the gradient of the summed cross-entropy over `seeds`.
"""
import json
import platform
import sys

import torch
import torch_geometric
from torch_geometric.nn.models import GCN, GraphSAGE

NODES, FEATURES, HIDDEN, CLASSES = 12, 7, 5, 3


def graph():
    """A hub (vertex 0), a chain, vertices without in-edges (10, 11); no self loops, no repeats."""
    edges = [(j, 0) for j in range(1, 12)]
    edges += [(j, j + 1) for j in range(0, 8)]
    edges += [(9, 3), (11, 3), (10, 9), (2, 9), (5, 9)]
    edges = sorted(set(edges), key=lambda e: (e[1], e[0]))
    indptr, indices = [0], []
    for v in range(NODES):
        indices += [s for s, d in edges if d == v]
        indptr.append(len(indices))
    return edges, indptr, indices


def numbers(tensor):
    return [float(f"{v:.9g}") for v in tensor.detach().flatten().tolist()]


def case(name, kind, layers, x, labels, seeds, edge_index):
    torch.manual_seed(17 + layers)
    model = kind(FEATURES, HIDDEN, layers, CLASSES)
    with torch.no_grad():
        for p in model.parameters():
            p.uniform_(-0.7, 0.7)  # biases too: zeros would hide a mistake
    logits = model(x, edge_index)
    loss = torch.nn.functional.cross_entropy(logits[seeds], labels[seeds], reduction="sum")
    loss.backward()
    state = model.state_dict()
    by_name = dict(model.named_parameters())
    return {
        "model": name,
        "layers": layers,
        "tensors": [{"name": k, "shape": list(v.shape)} for k, v in state.items()],
        "params": [n for v in state.values() for n in numbers(v)],
        "logits": numbers(logits),
        "loss": float(loss.detach()),
        "gradient": [n for k in state for n in numbers(by_name[k].grad)],
    }


def main():
    edges, indptr, indices = graph()
    torch.manual_seed(3)
    x = torch.randn(NODES, FEATURES)
    labels = torch.randint(0, CLASSES, (NODES,))
    seeds = [3, 0, 10, 7, 9]
    edge_index = torch.tensor(edges).t().contiguous()
    cases = [
        case(name, kind, layers, x, labels, seeds, edge_index)
        for name, kind in (("graphsage", GraphSAGE), ("gcn", GCN))
        for layers in (1, 2, 3)
    ]
    json.dump(
        {
            "made_with": f"torch {torch.__version__}, torch_geometric "
            f"{torch_geometric.__version__}, python {platform.python_version()}",
            "nodes": NODES,
            "features": FEATURES,
            "hidden": HIDDEN,
            "classes": CLASSES,
            "indptr": indptr,
            "indices": indices,
            "x": numbers(x),
            "labels": labels.tolist(),
            "seeds": seeds,
            "cases": cases,
        },
        sys.stdout,
    )
    print()


main()
