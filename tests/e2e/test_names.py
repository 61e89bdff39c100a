"""Names of vertices: from an edge list and tables of text to what a trained model says of them."""

import csv
import json
import random

import numpy as np

from harness import small_job
from test_bad_input import refused

KINDS = ["cat", "dog, big", 'the "owl"']


def people(n=300):
    """Names that are text, numbers and text with every separator."""
    rng = random.Random(5)
    names = [f"person {i}" if i % 3 else str(i * 10**15) for i in range(n - 3)]
    names += ["a,b", 'say "no"', "Åsa"]
    rng.shuffle(names)
    return rng, names


def write_csv(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def read_csv(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def write_tables(box):
    """Edges within kinds for the most part; features that tell the kind."""
    rng, names = people()
    kind = {name: rng.randrange(3) for name in names}
    edges = []
    for a in names:
        near = [b for b in names if kind[b] == kind[a]]
        edges += [[a, rng.choice(near if rng.random() < 0.8 else names)] for _ in range(5)]
    rng.shuffle(edges)
    features = [[a] + [float(kind[a] == k) + rng.gauss(0, 0.3) for k in range(3)] for a in names]
    write_csv(box.path("edges.csv"), edges)
    write_csv(box.path("features.csv"), [["name", "x", "y", "z"]] + features)
    rng.shuffle(names)
    write_csv(box.path("labels.csv"), [["name", "kind"]] + [[a, KINDS[kind[a]]] for a in names])
    parts = ["train", "valid", "test"]
    write_csv(box.path("splits.csv"), [[a, parts[i % 3]] for i, a in enumerate(names)])
    return names, kind


def names_of(dataset, what):
    offsets = np.load(f"{dataset}/{what}_name_offsets.npy")
    text = np.load(f"{dataset}/{what}_names.npy").tobytes()
    return [text[a:b].decode() for a, b in zip(offsets[:-1], offsets[1:])]


def test_from_names_to_names(box):
    names, kind = write_tables(box)
    tables = [f"--{what}={box.path(what + '.csv')}" for what in ("features", "labels", "splits")]
    data = box.path("people")
    box.sluice("import", "edgelist", "edges.csv", "--relabel", *tables, "--out", "people").ok()
    assert sorted(names_of(data, "vertex")) == sorted(names)
    assert names_of(data, "class") == KINDS
    small = ["--memory", "1MiB", "--out", "again", "-q"]
    box.sluice("import", "edgelist", "edges.csv", "--relabel", *tables, *small).ok()
    assert names_of(box.path("again"), "vertex") == names_of(data, "vertex")
    shown = json.loads(box.sluice("inspect", "people", "-o", "json").ok().out)
    assert shown["vertex_names"] and shown["class_names"]

    run = box.path("run")
    quick = {"sampler.batch_size": 4, "optimizer.lr": 0.05}
    box.run(small_job(data, output=run, epochs=1, **quick), "--quiet")[0].ok()
    logits = box.path("logits.npy")
    box.sluice("predict", run, "--out", logits).ok()
    best = [KINDS[k] for k in np.load(logits).argmax(axis=1)]
    box.sluice("predict", run, "--names", "--classes", "--out", "classes.csv").ok()
    rows = read_csv(box.path("classes.csv"))
    assert rows[0] == ["vertex", "class"]
    assert rows[1:] == [list(row) for row in zip(names_of(data, "vertex"), best)]
    right = sum(KINDS[kind[name]] == found for name, found in rows[1:])
    assert right > len(names) / 2, right  # the tables were joined by name

    box.sluice("predict", run, "--names", "--set", "test", "--out", "test.csv").ok()
    rows = read_csv(box.path("test.csv"))
    assert rows[0] == ["vertex"] + [f"output_{k}" for k in KINDS]
    tested = {row[0] for row in read_csv(box.path("splits.csv")) if row[1] == "test"}
    assert {row[0] for row in rows[1:]} == tested and len(rows) == len(tested) + 1
    box.sluice("embed", run, "--names", "--out", "hidden.csv").ok()
    rows = read_csv(box.path("hidden.csv"))
    assert rows[0][:2] == ["vertex", "hidden_0"]
    assert [row[0] for row in rows[1:]] == names_of(data, "vertex")

    # In another order the vertices keep their names.
    box.sluice("reorder", "people", "--by", "degree", "--out", "sorted").ok()
    again = ["--dataset", "sorted", "--names", "--classes", "--set", "test", "--out", "sorted.csv"]
    box.sluice("predict", run, *again).ok()
    by_name = dict(zip(names_of(data, "vertex"), best))
    rows = read_csv(box.path("sorted.csv"))[1:]
    assert {name for name, _ in rows} == tested
    assert all(by_name[name] == found for name, found in rows)


def test_names_that_are_not_there_are_explained(box):
    data = box.shared_dataset("small")
    run = box.path("run")
    box.run(small_job(data, output=run, epochs=1), "--quiet")[0].ok()
    refused(
        box,
        box.sluice("predict", run, "--names", "--out", "x.npy"),
        "--names --out 'x.npy'",
        "wanted FILE.csv",
    )
    refused(
        box,
        box.sluice("embed", run, "--names", "--out", "x.csv"),
        "has no names (vertex_names.npy)",
        "leave --names out",
    )
