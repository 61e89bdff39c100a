"""Graphs of several types, and jobs on them, for `scripts/accuracy --typed`."""

import json
import os
import sys

from benchlib import ROOT, SHARED_DATA, import_types


def mean_rows(rows, groups, n):
    """(n, width): the mean of the rows of each group."""
    import numpy

    sums = numpy.zeros((n, rows.shape[1]))
    numpy.add.at(sums, groups, rows)
    return (sums / numpy.bincount(groups, minlength=n)[:, None]).astype(numpy.float32)


def arxiv(jobs):
    """Papers of ogbn_arxiv that cite one another, years that they are of, and 64 groups by the
    signs of six random mixtures of their features. No label is looked at; the features of a year
    and of a group are its papers' mean."""
    import numpy

    source = os.path.join(SHARED_DATA, "ogbn_arxiv")

    def array(name):
        return numpy.load(os.path.join(source, f"{name}.npy"))

    papers, begin = array("node_feat"), array("indptr").astype(numpy.int64)
    n = len(papers)
    cites = numpy.stack([array("indices"), numpy.repeat(numpy.arange(n), numpy.diff(begin))])
    years, year = numpy.unique(array("node_year").reshape(-1), return_inverse=True)
    mixtures = numpy.random.default_rng(7).standard_normal((papers.shape[1], 6))
    signs = (papers - papers.mean(axis=0)) @ mixtures > 0
    groups, group = numpy.unique(signs @ (1 << numpy.arange(6)), return_inverse=True)
    features = {
        "paper": papers,
        "year": mean_rows(papers, year, len(years)),
        "group": mean_rows(papers, group, len(groups)),
    }
    relations = {
        ("paper", "cites", "paper"): cites,
        ("paper", "in", "year"): numpy.stack([numpy.arange(n), year]),
        ("paper", "of", "group"): numpy.stack([numpy.arange(n), group]),
    }
    splits = {name: array(f"{name}_idx") for name in ("train", "val", "test")}
    labels = array("node_label").reshape(-1)
    return import_types(jobs, "arxiv-typed", features, relations, labels, splits)


def cora(jobs):
    """Papers that cite one another and the words in them. The features of a word are the mean of
    its papers'; no label is looked at."""
    import numpy

    source = os.path.join(SHARED_DATA, "cora")

    def array(name):
        return numpy.load(os.path.join(source, f"{name}.npy"))

    begin, words = array("indptr").astype(numpy.int64), array("node_feat")
    has = numpy.ascontiguousarray(words[:, words.any(axis=0)] > 0, numpy.float32)
    features = {"paper": has, "word": has.T @ has / has.sum(axis=0)[:, None]}
    relations = {
        ("paper", "cites", "paper"): numpy.stack(
            [array("indices"), numpy.repeat(numpy.arange(len(has)), numpy.diff(begin))]
        ),
        ("paper", "has", "word"): numpy.stack(numpy.nonzero(has)),
    }
    splits = {name: array(f"{name}_idx") for name in ("train", "val", "test")}
    return import_types(jobs, "cora-typed", features, relations, array("node_label"), splits)


def planted(jobs):
    return jobs.generate("planted", "typed --nodes 10000")


def without_types(jobs):
    """The same as a plain graph: all edges are of one kind, and a row has each type's features in
    columns of its own."""
    import numpy

    sys.path.append(os.path.join(ROOT, "python"))
    import sluice

    dataset = sluice.open(planted(jobs))
    arrays, n = dataset.arrays, dataset.num_nodes
    types = dataset.schema.types
    widths = [t.get("feat_dim", 0) for t in dataset.metadata["types"]]
    rows, at = numpy.zeros((n, sum(widths)), numpy.float32), 0
    for t, width in zip(types, widths):
        if width:
            rows[t.first : t.first + t.n, at : at + width] = arrays[f"node_feat.{t.name}"]
        at += width
    targets = []
    for r in dataset.schema.relations:
        begin = arrays["indptr"][r.first_row : r.first_row + r.target.n + 1]
        targets.append(numpy.repeat(r.target.first + numpy.arange(r.target.n), numpy.diff(begin)))
    targets = numpy.concatenate(targets)
    indptr = numpy.zeros(n + 1, numpy.int64)
    indptr[1:] = numpy.bincount(targets, minlength=n).cumsum()
    labels = numpy.full(n, -1, numpy.int64)
    labels[: types[0].n] = arrays["node_label"].reshape(-1)
    plain = {
        "indptr": indptr,
        "indices": numpy.asarray(arrays["indices"])[numpy.argsort(targets, kind="stable")],
        "node_feat": rows,
        "node_label": labels,
        **{name: arrays[name] for name in ("train_idx", "val_idx", "test_idx")},
    }
    path = jobs.path("planted-plain")
    os.mkdir(path)
    for name, array in plain.items():
        numpy.save(os.path.join(path, f"{name}.npy"), array)
    facts = {"num_nodes": n, "num_edges": len(targets), "feat_dim": rows.shape[1]}
    facts["num_classes"] = dataset.metadata["num_classes"]
    with open(os.path.join(path, "metadata.json"), "w") as file:
        json.dump(facts, file)
    return path


def job(make, kind, hidden, fanout, batch, lr, epochs, **model):
    """`make` makes the data set."""
    return {
        "dataset": make,
        "model": {"kind": kind, "layers": 2, "hidden": hidden, "dropout": 0.5} | model,
        "sampler": {"fanout": fanout, "batch_size": batch, "expand": "new"},
        "optimizer": {"kind": "adam", "lr": lr},
        "epochs": epochs,
    }


def of_cora(kind, epochs=20, **model):
    return job(cora, kind, 32, [10, 10], 35, 0.01, epochs, input_dropout=0.5, **model)


HEADS = {"heads": 4, "attention_dropout": 0.0}
# As scripts/accuracy has its own.
TYPED = {
    "ogbn_arxiv": {
        "rsage": (job(arxiv, "rsage", 64, [10, 5], 1024, 0.005, 5), None),
        "rgat": (job(arxiv, "rgat", 64, [10, 5], 1024, 0.005, 5, **HEADS), None),
        "rgatv2": (job(arxiv, "rgatv2", 64, [10, 5], 1024, 0.005, 5, **HEADS), None),
        "rgcn": (job(arxiv, "rgcn", 64, [10, 5], 1024, 0.005, 5), None),
        "hgt": (job(arxiv, "hgt", 64, [10, 5], 1024, 0.005, 5, heads=4), None),
    },
    "cora": {
        "rsage": (of_cora("rsage"), None),
        "rgat": (of_cora("rgat", **HEADS), None),
        "rgatv2": (of_cora("rgatv2", **HEADS), None),
        "rgcn": (of_cora("rgcn"), None),
        "hgt": (of_cora("hgt", 40, heads=4), None),
    },
    "planted": {
        "rsage": (job(planted, "rsage", 64, [10, 10], 256, 0.01, 10), 0.82),
        "rgat": (job(planted, "rgat", 64, [10, 10], 256, 0.01, 10, **HEADS), None),
        "rgatv2": (job(planted, "rgatv2", 64, [10, 10], 256, 0.01, 10, **HEADS), None),
        "rgcn": (job(planted, "rgcn", 64, [10, 10], 256, 0.005, 10), None),
        "hgt": (job(planted, "hgt", 64, [10, 10], 256, 0.005, 10, heads=4), None),
        "graphsage": (job(without_types, "graphsage", 64, [10, 10], 256, 0.01, 10), None),
    },
}
