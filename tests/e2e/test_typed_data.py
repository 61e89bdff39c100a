"""Data sets of several types of vertices and relations: imports against a NumPy reference."""

import gzip
import json
import os

import numpy as np

from harness import cases, read_json
from test_bad_input import refused

# Name, vertices, features (0: none) and their type; sizes around a word of bits, none, one.
TYPES = [("author", 64, 3, "float32"), ("paper", 65, 5, "float16"), ("venue", 1, 0, None)]
TYPES += [("topic", 0, 0, None), ("institute", 7, 2, "float32")]
COUNT = {name: n for name, n, _, _ in TYPES}


def draw(seed):
    """Relations of TYPES as (source, name, target, (2, E), weights or None): a hub, duplicates,
    self-loops, an empty one, types without edges."""
    rng = np.random.default_rng(seed)

    def edges(source, target, n):
        e = np.stack([rng.integers(0, COUNT[source], n), rng.integers(0, COUNT[target], n)])
        e[1, : n // 4] = COUNT[target] - 1
        e[:, n // 2 : n // 2 + 9] = e[:, :9]
        return e

    cites = edges("paper", "paper", 300)
    cites[1, 7] = cites[0, 7]
    return [
        ("author", "writes", "paper", edges("author", "paper", 400), None),
        ("paper", "cites", "paper", cites, rng.integers(0, 9, 300).astype(np.float32)),
        ("venue", "hosts", "paper", edges("venue", "paper", 65), None),
        ("paper", "has", "topic", np.zeros((2, 0), int), None),
        ("author", "cites", "author", np.array([[63], [0]]), None),
    ]


def flipped(edges, weight):
    return edges[::-1], weight


def one_each(source, target, weight, own):
    """The first of equal edges; those of the file before those that were added."""
    kept = {}
    for mine in (True, False):
        for s, t, w, o in zip(source, target, weight, own):
            if o == mine:
                kept.setdefault((s, t), w)
    keys = np.array(list(kept), int).reshape(-1, 2)
    return keys[:, 0], keys[:, 1], np.array(list(kept.values()), np.float32)


def reference(types, relations, reverse=False):
    """What the data set has to be: metadata's relations, indptr, indices, edge_weight."""
    base = dict(zip([t[0] for t in types], np.cumsum([0] + [t[1] for t in types])))
    relations = [r + (None,) for r in relations]
    for source, name, target, edges, weight, _ in list(relations) if reverse else []:
        if source != target:
            relations.append((target, f"rev_{name}", source, edges[::-1], weight, name))
    indptr, indices, weights, listed = [], [], [], []
    for source, name, target, edges, weight, of in relations:
        s, t = edges
        w = np.ones(len(s), np.float32) if weight is None else weight
        if reverse and source == target:
            loop = s == t
            own = np.arange(len(s) + (~loop).sum()) < len(s)
            s, t = np.concatenate([s, t[~loop]]), np.concatenate([t, s[~loop]])
            s, t, w = one_each(s, t, np.concatenate([w, w[~loop]]), own)
            of = name
        order = np.lexsort((s, t))  # stable: equal edges in the order of the file
        degrees = np.bincount(t, minlength=COUNT[target])
        before = sum(map(len, indices))
        indptr.append(before + np.cumsum(degrees) - degrees)
        indices.append(base[source] + s[order])
        weights.append(w[order])
        listed.append({"source": source, "name": name, "target": target, "edges": len(s)})
        if of:
            listed[-1]["reverse_of"] = of
    n_edges = sum(map(len, indices))
    return (
        listed,
        np.concatenate(indptr + [[n_edges]]),
        np.concatenate(indices),
        np.concatenate(weights),
    )


def features(name, n, dim, dtype):
    rng = np.random.default_rng(len(name))
    return rng.integers(-9, 9, (n, dim)).astype(dtype)


def check(box, folder, types, relations, reverse=False, weighted=True):
    """The data set against the reference; returns what inspect says."""
    listed, indptr, indices, weight = reference(types, relations, reverse)
    metadata = read_json(box.path(folder, "metadata.json"))
    assert metadata["relations"] == listed, metadata["relations"]
    assert [(t["name"], t["count"]) for t in metadata["types"]] == [t[:2] for t in types]
    assert np.array_equal(np.load(box.path(folder, "indptr.npy")), indptr)
    assert np.array_equal(np.load(box.path(folder, "indices.npy")), indices)
    assert os.path.exists(box.path(folder, "edge_weight.npy")) == weighted
    if weighted:
        found = np.load(box.path(folder, "edge_weight.npy"))
        assert found.dtype == np.float32 and np.array_equal(found, weight)
    for name, n, dim, dtype in types:
        path = box.path(folder, f"node_feat.{name}.npy")
        assert os.path.exists(path) == (dim > 0 and n > 0)
        if os.path.exists(path):
            assert np.load(path).dtype == dtype
            assert np.array_equal(np.load(path), features(name, n, dim, dtype))
    seen = box.sluice("inspect", folder, "-o", "json").ok().json()
    row = 0
    for relation, found in zip(listed, seen["relations"]):
        degrees = np.diff(indptr[row : row + COUNT[relation["target"]] + 1])
        row += len(degrees)
        assert all(found[key] == value for key, value in relation.items())
        assert found["empty_rows"] == (degrees == 0).sum()
        assert found["max_degree"] == (degrees.max() if len(degrees) else 0)
    return seen


def front(name):
    """TYPES with the type of the labels first."""
    return sorted(TYPES, key=lambda t: t[0] != name)


# ---- a folder with graph.json -------------------------------------------------------------------


def write_text(path, rows, heading=None):
    with gzip.open(path, "wt") if path.endswith(".gz") else open(path, "w") as file:
        if heading:
            file.write(heading + "\n")
        for row in rows:
            file.write(",".join(map(str, row)) + "\n")


def write_edges(box, folder, form, relation):
    """A relation's files; its entry in graph.json."""
    source, name, target, edges, weight = relation
    entry = {"source": source, "name": name, "target": target}
    entry["edges"] = f"{source}.{name}.{'npy' if form in ('rows', 'pairs') else form}"
    path = box.path(folder, entry["edges"])
    if form in ("rows", "pairs"):
        np.save(path, edges if form == "rows" else edges.T)
        if weight is not None:
            np.save(box.path(folder, f"{name}.w.npy"), weight)
            entry["weights"] = f"{name}.w.npy"
        return entry
    columns = [*edges] if weight is None else [*edges, weight.astype(int)]
    write_text(path, zip(*columns), "from,to" if form == "csv" else None)
    return entry | {"heading": form == "csv"} | ({"weights": True} if weight is not None else {})


def folder_of(box, relations, form, text=False):
    """A folder of files and graph.json."""
    os.makedirs(box.path("src"), exist_ok=True)
    types = []
    for name, n, dim, dtype in TYPES:
        types.append({"name": name, "count": n})
        if dim and text and dtype == "float32":
            write_text(box.path("src", f"{name}.csv"), features(name, n, dim, dtype))
            types[-1]["features"] = f"{name}.csv"
        elif dim:
            np.save(box.path("src", f"{name}.npy"), features(name, n, dim, dtype))
            types[-1] = {"name": name, "features": f"{name}.npy"}
    labels = np.arange(COUNT["paper"]) % 4 - 1
    np.save(box.path("src", "labels.npy"), labels)
    np.save(box.path("src", "train.npy"), np.array([64, 3, 1]))
    write_text(box.path("src", "val.csv"), [[0], [63]])
    graph = {"name": "papers", "types": types}
    graph["relations"] = [write_edges(box, "src", form, r) for r in relations]
    graph["labels"] = {"type": "paper", "file": "labels.npy"}
    graph["splits"] = {"train": "train.npy", "val": "val.csv"}
    box.write_json("src/graph.json", graph)
    return graph, labels


@cases(*[(f, r) for f in ("rows", "csv", "csv.gz") for r in (False, True)])
def test_import(box, form, reverse):
    relations = draw(reverse)
    _, labels = folder_of(box, relations, form, text=reverse)
    options = ["--reverse"] if reverse else []
    box.sluice("import", "typed", "src", *options, "--out", "made").ok()
    seen = check(box, "made", front("paper"), relations, reverse)
    assert np.array_equal(np.load(box.path("made", "node_label.npy")), labels)
    assert np.load(box.path("made", "train_idx.npy")).tolist() == [64, 3, 1]
    assert np.load(box.path("made", "val_idx.npy")).tolist() == [0, 63]
    assert seen["types"][0]["labels"] and seen["types"][0]["name"] == "paper"
    assert seen["name"] == "papers" and seen["num_classes"] == 3
    text = box.sluice("inspect", "made").ok().out
    assert "author -writes-> paper" in text and "5 x float16" in text
    assert ("reverse of writes" in text) == reverse


def test_memory_and_pairs(box):
    """Sorted in runs, each relation by itself; weights are dropped."""
    rng = np.random.default_rng(5)
    relations = [
        ("paper", "cites", "paper", rng.integers(0, 65, (2, 200000)), None),
        ("author", "writes", "paper", rng.integers(0, 64, (2, 150000)), None),
    ]
    folder_of(box, relations, "pairs")
    box.sluice("import", "typed", "src", "--memory", "1MiB", "--out", "made").ok()
    check(box, "made", front("paper"), relations, weighted=False)


def test_options(box):
    relations = draw(9)
    folder_of(box, relations, "pairs")
    options = ["--no-weights", "--split", "0.5,0.25"]
    box.sluice("import", "typed", "src/graph.json", *options, "--out", "made").ok()
    check(box, "made", front("paper"), relations, weighted=False)
    lists = [np.load(box.path("made", f"{s}_idx.npy")) for s in ("train", "val", "test")]
    labelled = np.flatnonzero(np.arange(65) % 4 - 1 >= 0)
    assert np.array_equal(np.sort(np.concatenate(lists)), labelled)
    # Self-loops are those of relations within a type, whatever numbers the others have.
    options = ["--remove-self-loops", "--add-self-loops", "--dedup", "--no-weights"]
    box.sluice("import", "typed", "src", *options, "--out", "loops").ok()
    wanted = []
    for source, name, target, edges, _ in relations:
        edges = np.unique(edges, axis=1)
        if source == target:
            edges = edges[:, edges[0] != edges[1]]
            edges = np.concatenate([edges, np.tile(np.arange(COUNT[source]), (2, 1))], 1)
        wanted.append((source, name, target, edges, None))
    check(box, "loops", front("paper"), wanted, weighted=False)


def change(graph, *path, to):
    for key in path[:-1]:
        graph = graph[key]
    graph[path[-1]] = to


WRONG = {
    "no such type": (["relations", 0, "source"], "writer", ["'writer'", "name of a type"]),
    "name": (["types", 0, "name"], "a b", ["'a b'", "letters"]),
    "twice": (["types", 0, "name"], "paper", ["'paper' twice"]),
    "relation twice": (["relations", 3, "name"], "has", ["author -has-> author twice"]),
    "key": (["types", 0, "feature"], "x.npy", ["types[0]feature", "no key"]),
    "count": (["types", 2, "count"], -1, ["types[2].count", "whole number"]),
    "no file": (["relations", 0, "edges"], "none.npy", ["none.npy"]),
    "labels": (["labels", "type"], "author", ["labels.npy", "64"]),
    "label type": (["labels", "type"], "writer", ["labels.type"]),
    "types": (["types"], [], ["\"types\"", "list"]),
    "reverse": (["relations", 0, "reverse_of"], "cites", ["relations[0].reverse_of"]),
    "target": (["relations", 0, "target"], "venue", ["author.writes.npy", "vertex from 0 to 0"]),
    "empty": (["relations", 0, "target"], "topic", ["no vertices"]),
}


@cases(*WRONG)
def test_bad_folders(box, what):
    path, to, words = WRONG[what]
    graph, _ = folder_of(box, draw(1), "rows")
    change(graph, *path, to=to)
    if what == "relation twice":
        graph["relations"] += [graph["relations"][4] | {"name": "has"}] * 2
    box.write_json("src/graph.json", graph)
    refused(box, box.sluice("import", "typed", "src", "-q", "--out", "made"), *words, output="made")


def test_options_that_do_not_go_with_types(box):
    folder_of(box, draw(1), "rows")
    write_text(box.path("plain.csv"), [[0, 1], [1, 2]])
    for command, word in (
        (["typed", "src", "--symmetrise"], "--reverse"),
        (["typed", "src", "--holdout", "0.1,0.1"], "--holdout"),
        (["edgelist", "plain.csv", "--reverse"], "--symmetrise"),
    ):
        said = box.sluice("import", *command, "-q", "--out", "made")
        refused(box, said, word, output="made")


def test_everything_else_refuses_them(box):
    folder_of(box, draw(1), "rows")
    box.sluice("import", "typed", "src", "--out", "made").ok()
    said = "has several types (5 of vertices, 5 relations)"
    config = {"dataset": "made", "output": "runs/job", "epochs": 1}
    config["model"] = {"kind": "graphsage", "layers": 1, "hidden": 4}
    config["sampler"] = {"kind": "khop", "fanout": [3], "batch_size": 8}
    job = box.job(config | {"optimizer": {"kind": "adam", "lr": 0.01}})
    for command in (
        ["run", job],
        ["run", job, "--dry-run"],
        ["reorder", "made", "--by", "degree", "--out", "x"],
        ["stripe", "made", "--to", "a", "--to", "b"],
        ["split-edges", "made", "--val", "0.1", "--test", "0.1", "--out", "x"],
        ["partition", "made", "--parts", "2"],
    ):
        refused(box, box.sluice(*command), said)
