#!/usr/bin/env python3
"""Writes pyg_typed.safetensors: what torch_geometric's classes compute on a small typed graph.

    PYTHON tests/golden/make_pyg_typed.py tests/golden/pyg_typed.safetensors

with a Python that has torch and torch_geometric, as make_pyg.py. Types, widths and relations are
those of tests/unit/trainer_typed_naive.h. The file has the graph (indptr.R and indices.R of each
relation, x.TYPE, labels, seeds, and edge_attr.R of relations whose edges have features) and for
each case CASE what pyg.safetensors has. The loss is that of the seeds; a case with batch norm has
no gradient, since a batch of seeds has statistics of its own.
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
from pyg_typed import TypedModel  # noqa: E402
from tensors import write_tensors  # noqa: E402

COUNTS = {"paper": 23, "author": 17, "venue": 1, "topic": 9, "tag": 3}
WIDTHS = {"paper": 5, "author": 3, "venue": 0, "topic": 6, "tag": 0}
# and edges of each row at most
RELATIONS = {
    ("author", "writes", "paper"): 4,
    ("paper", "cites", "paper"): 5,
    ("paper", "by", "author"): 3,
    ("venue", "shows", "paper"): 1,
    ("paper", "in", "venue"): 40,
    ("author", "on", "topic"): 2,
    ("topic", "likes", "author"): 1,
}
# Features of edges: wider than a head, one number, and of a relation whose edges are many.
EDGE_WIDTHS = {
    ("author", "writes", "paper"): 4,
    ("paper", "in", "venue"): 1,
    ("author", "on", "topic"): 3,
}
HIDDEN, CLASSES = 6, 4
SEEDS = [3, 0, 22, 7, 13, 9, 12]

KINDS = {
    "rsage": {"kind": "rsage"},
    "rsage-mean": {"kind": "rsage", "relations": "mean"},
    "rgat": {"kind": "rgat", "heads": 2},
    "rgat-mean": {"kind": "rgat", "heads": 3, "relations": "mean"},
    "rgcn": {"kind": "rgcn"},
    "rgcn-bases": {"kind": "rgcn", "bases": 3},
    "rgcn-blocks": {"kind": "rgcn", "blocks": 2},
    "hgt": {"kind": "hgt", "heads": 2},
    "rgat-edges": {"kind": "rgat", "heads": 2, "edge_features": True},
    "rgat-edges-mean": {"kind": "rgat", "heads": 3, "edge_features": True, "relations": "mean"},
    "rgat-residual": {"kind": "rgat", "heads": 2, "residual": True},
    "rgat-residual-mean": {"kind": "rgat", "heads": 3, "residual": True, "relations": "mean"},
    "rgatv2": {"kind": "rgatv2", "heads": 2},
    "rgatv2-mean-residual": {"kind": "rgatv2", "heads": 3, "relations": "mean", "residual": True},
    "rgatv2-edges": {"kind": "rgatv2", "heads": 2, "edge_features": True},
    "rgatv2-edges-mean": {"kind": "rgatv2", "heads": 3, "edge_features": True,
                          "relations": "mean", "residual": True},
}
SHAPES = [  # layers, norm, activation
    (1, "none", "relu"),
    (2, "none", "leaky_relu"),
    (2, "layer", "elu"),
    (3, "none", "relu"),
    (3, "batch", "elu"),
]


def draw_edges(generator):
    """{relation: (indptr, indices)}; every fourth row is empty, a paper cites itself and others
    twice."""
    lists = {}
    for (source, name, target), most in RELATIONS.items():
        indptr, indices = [0], []
        for row in range(COUNTS[target]):
            n = 0 if row % 4 == 3 and COUNTS[target] > 1 else 1 + row % most if most > 1 else most
            found = list(generator.integers(0, COUNTS[source], n))
            if name == "cites" and n > 2:
                found[1], found[2] = row, found[0]
            indices += [int(v) for v in found]
            indptr.append(len(indices))
        lists[source, name, target] = (indptr, indices)
    return lists


def in_order(state):
    """HGTConv's skips stand by their names; here by type, as all else does."""
    names = list(state)
    places = [i for i, name in enumerate(names) if ".skip." in name]
    types = list(COUNTS)
    ordered = sorted(
        (names[i] for i in places), key=lambda n: (n.split(".")[1], types.index(n.split(".")[-1]))
    )
    for i, name in zip(places, ordered):
        names[i] = name
    return {name: state[name] for name in names}


def case(number, options, x, labels, edges, edge_attr):
    torch.manual_seed(29 + number)
    model = TypedModel(options, WIDTHS, list(RELATIONS), CLASSES, EDGE_WIDTHS)
    with torch.no_grad():
        for name, t in model.state_dict().items():
            if t.is_floating_point():
                t.uniform_(0.5, 1.5) if name.endswith("running_var") else t.uniform_(-0.7, 0.7)
    model = model.double().eval()
    state = in_order(model.state_dict())
    logits = model(x, edges, edge_attr)
    loss = torch.nn.functional.cross_entropy(
        logits[SEEDS], labels[SEEDS], reduction="sum", ignore_index=-1
    )
    loss.backward()
    learned = dict(model.named_parameters())
    floats = [k for k, v in state.items() if v.is_floating_point()]
    arrays = {
        "params": torch.cat([state[k].flatten() for k in floats]),
        "logits": logits.detach(),
        "loss": loss.detach().reshape(1),
    }
    if options["norm"] != "batch":
        none = {k: torch.zeros_like(state[k]) for k in floats}  # of relations without any edge
        grads = [learned[k].grad if learned[k].grad is not None else none[k] for k in floats]
        arrays["gradient"] = torch.cat([g.flatten() for g in grads])
    return json.dumps([[k, list(v.shape)] for k, v in state.items()]), arrays


def main():
    torch.set_num_threads(1)  # the same file every time
    generator = np.random.default_rng(8)
    lists = draw_edges(generator)
    x = {
        t: torch.from_numpy(generator.standard_normal((n, WIDTHS[t])).astype(np.float32))
        if WIDTHS[t]
        else torch.ones(n, 1)
        for t, n in COUNTS.items()
    }
    labels = torch.from_numpy(generator.integers(0, CLASSES, COUNTS["paper"]))
    labels[[0, 5, 13]] = -1
    edges, arrays = {}, {"labels": labels, "seeds": SEEDS}
    for number, (relation, (indptr, indices)) in enumerate(lists.items()):
        rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        edges[relation] = torch.from_numpy(np.stack([np.array(indices, np.int64), rows]))
        arrays[f"indptr.{number}"], arrays[f"indices.{number}"] = indptr, indices or [0]
    arrays.update({f"x.{t}": rows for t, rows in x.items()})
    x = {t: rows.double() for t, rows in x.items()}
    edge_attr = {}
    for number, relation in enumerate(RELATIONS):
        if relation in EDGE_WIDTHS:
            shape = (edges[relation].size(1), EDGE_WIDTHS[relation])
            rows = torch.from_numpy(generator.standard_normal(shape).astype(np.float32))
            arrays[f"edge_attr.{number}"], edge_attr[relation] = rows, rows.double()
    names, notes = [], {}
    for number, ((kind, options), shape) in enumerate(itertools.product(KINDS.items(), SHAPES)):
        layers, norm, activation = shape
        model = dict(options, layers=layers, hidden=HIDDEN, norm=norm, activation=activation)
        name = f"{kind}-{layers}-{norm}-{activation}"
        names.append(name)
        notes[name] = json.dumps(model)
        notes[f"{name}.tensors"], out = case(number, model, x, labels, edges, edge_attr)
        arrays.update({f"{name}/{key}": value for key, value in out.items()})
    made = (
        f"torch {torch.__version__}, torch_geometric {torch_geometric.__version__}, "
        f"python {platform.python_version()}"
    )
    arrays = {k: np.ascontiguousarray(v, np.float32) for k, v in arrays.items()}
    write_tensors(sys.argv[1], arrays, {"made_with": made, "cases": json.dumps(names), **notes})


if __name__ == "__main__":
    main()
