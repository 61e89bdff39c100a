"""Papers and authors whose edges have features, as a plain graph and as one of two types, and jobs
on them with a model of that kind."""

import json
import os

import numpy as np

from harness import small_job

PAPERS, AUTHORS, CLASSES, WRITERS = 900, 300, 6, 5
TYPED = ("rgat", "rgatv2")


def file_of(kind):
    return "edge_feat.author.writes.paper.npy" if kind in TYPED else "edge_feat.npy"


def written(r):
    """Papers have five authors, one of whom is of the paper's area: labels of papers, areas of
    authors, who wrote each paper, and which of them the edges' features are to name."""
    labels, areas = r.integers(0, CLASSES, PAPERS), np.arange(AUTHORS) % CLASSES
    writers = r.integers(0, AUTHORS, (PAPERS, WRITERS))
    right = r.integers(0, WRITERS, PAPERS)
    own = r.integers(0, AUTHORS // CLASSES, PAPERS) * CLASSES + labels
    writers[np.arange(PAPERS), right] = own
    return labels, areas, writers, np.arange(WRITERS) == right[:, None]


def plain_arrays(r, mark):
    """Authors' features say their area; those of edges back are noise. Some papers cite
    themselves."""
    labels, areas, writers, says = written(r)
    lists, rows = [], []
    for p in range(PAPERS):
        own_loops = 1 if p % 9 == 0 else 0
        lists.append(np.append(PAPERS + writers[p], [p] * own_loops))
        rows.append(np.append(says[p] * 1.0, [5.0] * own_loops))
    for a in range(AUTHORS):
        lists.append(np.nonzero((writers == a).any(1))[0])
        rows.append(np.zeros(len(lists[-1])))
    says = np.concatenate(rows)
    feat = np.concatenate([0.1 * r.standard_normal((PAPERS, CLASSES)), np.eye(CLASSES)[areas]])
    return {
        "indptr": np.cumsum([0, *map(len, lists)]).astype(np.int64),
        "indices": np.concatenate(lists).astype(np.int32),
        "node_label": np.concatenate([labels, np.full(AUTHORS, -1)]).astype(np.int32),
        "node_feat": feat.astype(np.float32),
        "edge_feat": np.concatenate(
            [says[:, None], r.standard_normal((len(says), 2))], 1).astype(mark),
    }, {"feat_dim": CLASSES}


def typed_arrays(r, mark):
    """The same as two types, where papers know nothing of their area and each edge back says one
    number."""
    labels, areas, writers, says = written(r)
    noise = r.standard_normal((PAPERS * WRITERS, 2))
    by = np.argsort(writers.ravel(), kind="stable")  # each author's papers
    rows = [*[WRITERS] * PAPERS, *np.bincount(writers.ravel(), minlength=AUTHORS)]
    return {
        "indptr": np.cumsum([0, *rows]).astype(np.int64),
        "indices": np.concatenate([PAPERS + writers.ravel(), by // WRITERS]).astype(np.int32),
        "node_label": labels.astype(np.int32),
        "node_feat.author": np.eye(CLASSES, dtype=np.float32)[areas],
        "node_feat.paper": r.standard_normal((PAPERS, 4)).astype(np.float32),
        file_of("rgat")[:-4]: np.concatenate([says.reshape(-1, 1), noise], 1).astype(mark),
        "edge_feat.paper.by.author": r.standard_normal(len(by)).astype(np.float32),
    }, {
        "types": [{"name": "paper", "count": PAPERS, "feat_dim": 4},
                  {"name": "author", "count": AUTHORS, "feat_dim": CLASSES}],
        "relations": [
            {"source": "author", "name": "writes", "target": "paper", "edges": len(by)},
            {"source": "paper", "name": "by", "target": "author", "edges": len(by)},
        ],
    }


def papers(box, kind="rgat", mark="float32"):
    def make(folder):
        os.makedirs(folder)
        r = np.random.default_rng(3)
        arrays, told = (typed_arrays if kind in TYPED else plain_arrays)(r, mark)
        order = r.permutation(PAPERS).astype(np.int32)
        arrays |= {"train_idx": order[:600], "val_idx": order[600:750], "test_idx": order[750:]}
        for name, array in arrays.items():
            np.save(f"{folder}/{name}.npy", array)
        told |= {"name": "papers", "num_nodes": PAPERS + AUTHORS, "task": "multiclass",
                 "num_edges": len(arrays["indices"]), "num_classes": CLASSES}
        with open(f"{folder}/metadata.json", "w", encoding="utf-8") as f:
            json.dump(told, f)

    return box.shared_folder(f"papers-of-edges-{kind in TYPED}-{mark}", make)


def job(box, dataset=None, kind="rgat", **changes):
    model = {"kind": kind, "layers": 2, "hidden": 16, "heads": 2, "edge_features": True,
             "dropout": 0.1, "attention_dropout": 0.1}
    if kind in TYPED:
        model |= {"activation": "leaky_relu", "attention_dropout": 0}
        changes = {"sampler.expand": "new", **changes}
    return small_job(dataset or papers(box, kind),
                     **{"model": model, "evaluate.test": "each", **changes})
