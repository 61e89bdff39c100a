#!/usr/bin/env python3
"""Writes pyg.safetensors: what PyTorch Geometric's own models compute on a small graph.

Run it where torch and torch_geometric are installed; sluice itself needs neither:

    python3 tests/golden/make_pyg.py tests/golden/pyg.safetensors

The models are built by scripts/check_pyg.py, which has PinSAGE too. The graph has a hub, self-loops
(two of them at one vertex), vertices without in-edges, one without any edge. All is computed in
double precision. The file has the graph (indptr, indices, x, edge_x, labels, seeds) and for each
case CASE

    note CASE           the "model" of a job, as JSON
    note CASE.tensors   names and shapes in the order of the state_dict, as JSON
    CASE/params         all of them, flat (not num_batches_tracked)
    CASE/logits         of all vertices, outside training
    CASE/gradient       in training mode, of the cross-entropy summed over the vertices with a
                        label; in the places of running statistics those of this one batch
    CASE/loss           of the same
"""
import itertools
import json
import os
import platform
import sys

import numpy as np
import torch
import torch_geometric

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "scripts"), os.path.dirname(HERE)]
from check_pyg import build  # noqa: E402
from tensors import write_tensors  # noqa: E402

NODES, FEATURES, EDGE_FEATURES, HIDDEN, CLASSES = 14, 7, 4, 6, 3

KINDS = {
    "graphsage": {"kind": "graphsage"},
    "graphsage-max": {"kind": "graphsage", "aggregator": "max"},
    "graphsage-gcn": {"kind": "graphsage", "aggregator": "gcn"},
    "gcn": {"kind": "gcn"},
    "gat": {"kind": "gat", "heads": 2},
    "gat-residual": {"kind": "gat", "heads": 3, "residual": True},
    "gin": {"kind": "gin", "eps": 0.25},
    "gin-eps": {"kind": "gin", "train_eps": True},
    "pinsage": {"kind": "pinsage"},
    "gcn-plain": {"kind": "gcn", "self_loops": False},
    "gatv2": {"kind": "gatv2", "heads": 2},
    "gatv2-residual": {"kind": "gatv2", "heads": 3, "residual": True},
    "gat-edges": {"kind": "gat", "heads": 2, "edge_features": True},
    "gat-edges-residual": {"kind": "gat", "heads": 3, "residual": True, "edge_features": True},
    "gatv2-edges": {"kind": "gatv2", "heads": 2, "edge_features": True},
    "gatv2-edges-residual": {"kind": "gatv2", "heads": 3, "residual": True, "edge_features": True},
}
# layers, norm, activation, jumping: every pair of options at least once
SHAPES = [
    (1, "none", "relu", "none"),
    (2, "none", "relu", "none"),
    (3, "none", "elu", "none"),
    (2, "batch", "leaky_relu", "none"),
    (3, "layer", "elu", "none"),
    (1, "layer", "relu", "cat"),
    (2, "layer", "relu", "max"),
    (3, "batch", "elu", "cat"),
    (3, "none", "leaky_relu", "cat"),
    (3, "none", "relu", "max"),
    (2, "batch", "relu", "last"),
    (3, "batch", "leaky_relu", "max"),
]


def graph():
    edges = [(j, 0) for j in range(1, 12)]  # the hub
    edges += [(j, j + 1) for j in range(0, 8)]
    edges += [(9, 3), (11, 3), (10, 9), (2, 9), (5, 9)]
    edges += [(4, 4), (6, 6), (6, 6), (0, 0), (12, 12)]  # 12 has nothing but its own loop
    edges = sorted(edges, key=lambda e: (e[1], e[0]))  # 10, 11 and 13: no in-edges
    indptr, indices = [0], []
    for v in range(NODES):
        indices += [s for s, d in edges if d == v]
        indptr.append(len(indices))
    return edges, indptr, indices


def running(name):
    return name.endswith(("running_mean", "running_var"))


def statistics(before, after, momentum=0.1):
    """What a batch norm has averaged in."""
    return (after - (1 - momentum) * before) / momentum


def fill(model):
    """Random values that float32 holds, biases and statistics too: zeros would hide a mistake."""
    for name, t in model.state_dict().items():
        if name.endswith("running_var"):
            t.uniform_(0.5, 1.5)
        elif t.is_floating_point():
            t.uniform_(-0.7, 0.7)


def case(number, options, x, labels, edge_index, edge_x):
    torch.manual_seed(17 + number)
    model = build(options, FEATURES, CLASSES, EDGE_FEATURES)
    given = {"edge_attr": edge_x} if options.get("edge_features") else {}
    eps = options.get("eps")
    with torch.no_grad():
        fill(model)
        for name, t in model.state_dict().items():
            if eps is not None and name.endswith(".eps"):
                t.fill_(eps)
    model = model.double().eval()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    with torch.no_grad():
        logits = model(x, edge_index, **given)
    model.train()
    loss = torch.nn.functional.cross_entropy(
        model(x, edge_index, **given), labels, reduction="sum", ignore_index=-1
    )
    loss.backward()
    after, learned = model.state_dict(), dict(model.named_parameters())

    def gradient(name):
        if running(name):
            return statistics(before[name], after[name])
        return learned[name].grad if name in learned else torch.zeros_like(before[name])

    floats = [k for k, v in before.items() if v.is_floating_point()]
    shapes = [[k, list(v.shape)] for k, v in before.items()]
    arrays = {
        "params": torch.cat([before[k].flatten() for k in floats]),
        "logits": logits.detach(),
        "gradient": torch.cat([gradient(k).flatten() for k in floats]),
        "loss": loss.detach().reshape(1),
    }
    return json.dumps(shapes), arrays


def main():
    torch.set_num_threads(1)  # the same file every time
    edges, indptr, indices = graph()
    torch.manual_seed(3)
    x = torch.randn(NODES, FEATURES)
    labels = torch.randint(0, CLASSES, (NODES,))
    labels[[2, 5, 8, 11]] = -1
    edge_index = torch.tensor(edges).t().contiguous()
    edge_x = torch.randn(len(edges), EDGE_FEATURES)
    arrays = {
        "indptr": indptr,
        "indices": indices,
        "x": x,
        "edge_x": edge_x,
        "labels": labels,
        "seeds": [3, 0, 10, 7, 13, 9, 12],
    }
    names, notes = [], {}
    for number, ((kind, options), shape) in enumerate(itertools.product(KINDS.items(), SHAPES)):
        layers, norm, activation, jumping = shape
        model = dict(
            options,
            layers=layers,
            hidden=HIDDEN,
            norm=norm,
            activation=activation,
            jumping=jumping,
        )
        name = f"{kind}-{layers}-{norm}-{activation}-{jumping}"
        names.append(name)
        notes[name] = json.dumps(model)
        notes[f"{name}.tensors"], out = case(
            number, model, x.double(), labels, edge_index, edge_x.double()
        )
        arrays.update({f"{name}/{key}": value for key, value in out.items()})
    made = (
        f"torch {torch.__version__}, torch_geometric {torch_geometric.__version__}, "
        f"python {platform.python_version()}"
    )
    arrays = {k: np.ascontiguousarray(v, np.float32) for k, v in arrays.items()}
    write_tensors(sys.argv[1], arrays, {"made_with": made, "cases": json.dumps(names), **notes})


if __name__ == "__main__":
    main()
