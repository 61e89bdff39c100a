"""Import of DGL's CSVDataset, against a NumPy reference: vertices are numbered by rising id."""

import json
import os

import numpy as np

from harness import cases, read_json, whole
from test_bad_input import refused
from test_typed_data import COUNT, TYPES, check, draw, features, front

SPLITS = ("train", "val", "test")


def ids_of(kind, n, rng):
    """The ids of n vertices in the order of their numbers, and how else each may be written."""
    if kind == "counting":
        ids = list(range(n))
    elif kind == "gaps":  # by value: -3 before 4 before 30
        ids = np.unique(rng.integers(-50, 900, 4 * n + 1))[: n or 0].tolist()
        ids = (ids + list(range(1000, 1000 + n)))[:n]
    else:  # text: by bytes, "10" before "9" and "B" before "a"
        words = [f"{'aB9é'[i % 4]}{'x, y' * (i % 3 == 1)}{i}" for i in range(n)]
        return sorted(words, key=lambda w: w.encode()), list
    return [str(i) for i in ids], lambda some: [f"{int(i):05d}" for i in some]


def quote(cell):
    text = str(cell)
    return f'"{text}"' if any(c in text for c in ",;\t ") else text


def write_table(box, path, columns, separator, order=None):
    """A csv file of {heading: cells}, its rows in that order."""
    n = len(next(iter(columns.values())))
    with open(box.path(path), "w", encoding="utf-8") as file:
        file.write(separator.join(columns) + "\n")
        for i in range(n) if order is None else order:
            file.write(separator.join(quote(cells[i]) for cells in columns.values()) + "\n")


def cells_of(x, row):
    """Numbers of a row as a cell: with brackets, or without."""
    values = [repr(float(v)) for v in x[row]]
    return "[" + ", ".join(values) + "]" if row % 2 else ",".join(values)


def node_columns(ids, x, label, masks):
    columns = {"node_id": ids}
    if x is not None:
        columns["feat"] = [cells_of(x, row) for row in range(len(x))]
    if label is not None:
        columns["label"] = ["" if y < 0 else y for y in label]
        for i, s in enumerate(SPLITS):
            columns[f"{s}_mask"] = [(bool(m), int(m))[i % 2] for m in masks[s]]
    return columns


def meta(box, folder, nodes, edges, separator, more=()):
    data = {"dataset_name": "papers", "node_data": nodes, "edge_data": edges}
    data |= {} if separator == "," else {"separator": separator}
    box.write_json(f"{folder}/meta.yaml", data | dict(more))  # JSON is YAML


def csv_folder(box, kind, separator, seed):
    rng = np.random.default_rng(seed)
    os.makedirs(box.path("csv"))
    ids, other, nodes, edges = {}, {}, [], []
    label = np.arange(COUNT["paper"]) % 4 - 1
    masks = {s: np.arange(COUNT["paper"]) % 5 == i for i, s in enumerate(SPLITS)}
    for name, n, dim, dtype in TYPES:
        ids[name], other[name] = ids_of(kind, n, rng)
        x = features(name, n, dim, dtype) if dim else None
        papers = name == "paper"
        columns = node_columns(other[name](ids[name]), x, label if papers else None, masks)
        order = None if kind == "counting" else rng.permutation(n)
        write_table(box, f"csv/{name}.csv", columns, separator, order)
        nodes.append({"file_name": f"{name}.csv", "ntype": name})
    relations = draw(seed)
    for i, (source, name, target, (s, t), weight) in enumerate(relations):
        columns = {"src_id": [ids[source][v] for v in s]}
        columns["dst_id"] = other[target]([ids[target][v] for v in t])
        if weight is not None:
            columns["weight"] = weight
        columns["since"] = s
        write_table(box, f"csv/{i}.csv", columns, separator)
        edges.append({"file_name": f"{i}.csv", "etype": [source, name, target]})
    meta(box, "csv", nodes, edges, separator)
    return relations, ids, label, masks


CASES = (("text", ",", True), ("gaps", ";", False), ("counting", "\t", False))


@cases(*CASES)
def test_types(box, kind, separator, reverse):
    relations, ids, label, masks = csv_folder(box, kind, separator, 1)
    options = ["--reverse"] if reverse else []
    said = box.sluice("import", "dgl-csv", "csv", *options, "--out", "made").ok().out
    assert "since of writes" in said
    types = [(name, n, dim, dtype and "float32") for name, n, dim, dtype in front("paper")]
    seen = check(box, "made", types, relations, reverse)
    assert seen["name"] == "papers" and seen["num_classes"] == 3
    assert np.array_equal(np.load(box.path("made", "node_label.npy")), label)
    for s in SPLITS:
        assert np.array_equal(np.load(box.path("made", f"{s}_idx.npy")), np.flatnonzero(masks[s]))
    assert os.path.exists(box.path("made", "vertex_names.npy")) == (kind != "counting")
    assert os.path.exists(box.path("made", "node_id.npy")) == (kind == "gaps")
    if kind != "counting":
        wanted = [i for name, *_ in types for i in ids[name]]
        assert names_of(box, "made") == wanted
    if kind == "gaps":
        assert np.load(box.path("made", "node_id.npy")).tolist() == [int(i) for i in wanted]


def names_of(box, folder):
    text = np.load(box.path(folder, "vertex_names.npy")).tobytes()
    at = np.load(box.path(folder, "vertex_name_offsets.npy"))
    return [text[a:b].decode() for a, b in zip(at, at[1:])]


def plain_folder(box, columns, edges, more=()):
    os.makedirs(box.path("csv"), exist_ok=True)
    write_table(box, "csv/n.csv", columns, ",")
    write_table(box, "csv/e.csv", edges, ",")
    meta(box, "csv", [{"file_name": "n.csv"}], [{"file_name": "e.csv"}], ",", more)


def plain_columns(n, seed):
    rng = np.random.default_rng(seed)
    ids = rng.permutation(n)
    columns = {"node_id": ids, "graph_id": [3] * n, "age": rng.integers(0, 9, n)}
    columns |= {"pair": [f"({a}, {b},)" for a, b in rng.integers(0, 9, (n, 2))]}
    columns["kinds"] = [f"[{a}, {b}]" for a, b in rng.integers(0, 2, (n, 2))]
    s, t = rng.integers(0, n, (2, 5 * n))
    return columns, {"dst_id": t, "src_id": s, "cost": rng.integers(1, 9, 5 * n)}


def test_one_type(box):
    """It is a plain graph; features stand side by side, labels are several."""
    columns, edges = plain_columns(200, 5)
    plain_folder(box, columns, edges)
    options = ["--features", "pair,age", "--label", "kinds", "--weight", "cost"]
    options += ["--split", "0.5,0.25", "--memory", "1MiB"]
    box.sluice("import", "dgl-csv", "csv", *options, "--out", "made").ok()
    said = read_json(box.path("made", "metadata.json"))
    assert "types" not in said and said["task"] == "multilabel" and said["feat_dim"] == 3
    row = np.argsort(columns["node_id"])
    pair = np.array([json.loads(p.replace(",)", "]").replace("(", "[")) for p in columns["pair"]])
    wanted = np.concatenate([pair, columns["age"][:, None]], 1)[row].astype(np.float32)
    assert np.array_equal(np.load(box.path("made", "node_feat.npy")), wanted)
    kinds = np.array([json.loads(k) for k in columns["kinds"]])[row]
    assert np.array_equal(np.load(box.path("made", "node_label.npy")), kinds)
    order = np.lexsort((edges["src_id"], edges["dst_id"]))
    assert np.array_equal(np.load(box.path("made", "indices.npy")), edges["src_id"][order])
    indptr = np.concatenate([[0], np.cumsum(np.bincount(edges["dst_id"], minlength=200))])
    assert np.array_equal(np.load(box.path("made", "indptr.npy")), indptr)
    assert np.array_equal(np.load(box.path("made", "edge_weight.npy")), edges["cost"][order])
    box.sluice("inspect", "made").ok()
    box.sluice("import", "dgl-csv", "csv", "--features", "", "--out", "bare").ok()
    assert not os.path.exists(box.path("bare", "node_feat.npy"))


@whole
def test_many_ids(box):
    """More rows than a mebibyte sorts; ids that fill the memory they may take are refused."""
    n, rng = 20000, np.random.default_rng(2)
    ids = [f"vertex number {i}" for i in rng.permutation(n)]
    x = rng.integers(-9, 9, (n, 9))
    s, t = rng.integers(0, n, (2, 30000))
    columns = {"node_id": ids, "feat": [cells_of(x, i) for i in range(n)]}
    plain_folder(box, columns, {"src_id": [ids[i] for i in s], "dst_id": [ids[i] for i in t]})
    box.sluice("import", "dgl-csv", "csv", "--memory", "8MiB", "--out", "made").ok()
    order = np.argsort(np.array(ids))
    assert names_of(box, "made") == sorted(ids)
    assert np.array_equal(np.load(box.path("made", "node_feat.npy")), x[order])
    at = np.argsort(order)
    found = np.load(box.path("made", "indices.npy"))
    assert np.array_equal(found, at[s][np.lexsort((at[s], at[t]))])
    said = box.sluice("import", "dgl-csv", "csv", "--memory", "1MiB", "-q", "--out", "other")
    refused(box, said, "larger --memory", output="other")


# What is changed in n.csv's or e.csv's columns or meta.yaml, options, and what is said.
BAD = {
    "graphs": ("n", {"graph_id": [3, 4, 3]}, [], ["line 3", "several graphs"]),
    "edges of another": ("e", {"graph_id": [3, 9]}, [], ["line 3", "graph '9' after graph '3'"]),
    "twice": ("n", {"node_id": ["a", "b", "a"]}, [], ["line 4", "second time"]),
    "twice otherwise": ("n", {"node_id": ["7", "1", "007"]}, [], ["line 4", "second time"]),
    "no id": ("n", {"node_id": ["", "1", "2"]}, [], ["line 2", "1 to 4096"]),
    "no vertex": ("e", {"dst_id": ["1", "5"]}, [], ["line 3", "'5'", "dst_id", "type _V"]),
    "not a number": ("n", {"feat": ["1,2", "1,x", "1,2"]}, [], ["line 3", "feat"]),
    "fewer": ("n", {"feat": ["1,2", "1", "1,2"]}, [], ["line 3", "2 finite"]),
    "infinite": ("n", {"feat": ["1,2", "1,1e99", "1,2"]}, [], ["line 3", "2 finite"]),
    "empty": ("n", {"feat": ["1,2", "", "1,2"]}, [], ["line 3", "2 finite"]),
    "mask": ("n", {"val_mask": [0, 2, 1]}, [], ["line 3", "'2'", "val_mask"]),
    "label": ("n", {"label": [0, "cat", 1]}, [], ["line 3", "'cat'", "label"]),
    "weight": ("e", {"weight": [1, -1]}, [], ["line 3", "'-1'", "--no-weights"]),
    "columns": ("n", {"feat": None, "a": [1, 2, 3], "b": [1, 2, 3]}, [], ["a, b", "--features"]),
    "no column": ("n", {}, ["--features", "x"], ["--features x"]),
    "no label": ("n", {}, ["--label", "x"], ["--label x"]),
    "no weight": ("n", {}, ["--weight", "x"], ["--weight x"]),
    "label type": ("n", {}, ["--label-type", "x"], ["--label-type x"]),
    "id column": ("n", {"node_id": None}, [], ["n.csv", "'node_id'", "node_id_field"]),
    "reverse": ("n", {}, ["--reverse"], ["--symmetrise"]),
    "version": ("m", {"version": "2.0.0"}, [], ["version", "1.0.0"]),
    "separator": ("m", {"separator": "ab"}, [], ["separator"]),
    "no file": ("m", {"node_data": [{"file_name": "x.csv"}]}, [], ["x.csv"]),
    "nodes": ("m", {"node_data": []}, [], ["node_data", "list"]),
    "etype": (
        "m",
        {"edge_data": [{"file_name": "e.csv", "etype": ["_V", "_E", "x"]}]},
        [],
        ["edge_data[0]", "target"],
    ),
}


@cases(*BAD)
def test_bad_input(box, what):
    where, change, options, words = BAD[what]
    nodes = {"node_id": ["0", "1", "2"], "graph_id": [3, 3, 3], "feat": ["1,2", "3,4", "5,6"]}
    edges = {"src_id": ["0", "1"], "dst_id": ["1", "2"]}
    if where == "n":
        nodes |= change
    elif where == "e":
        edges |= change
    nodes = {k: v for k, v in nodes.items() if v is not None}
    plain_folder(box, nodes, edges, change if where == "m" else {})
    said = box.sluice("import", "dgl-csv", "csv", "-q", *options, "--out", "made")
    refused(box, said, *words, output="made")


def test_lines_that_are_not_rows(box):
    plain_folder(box, {"node_id": [0, 1]}, {"src_id": [0], "dst_id": [1]})
    for text, words in (
        ("node_id,feat\n0\n", ["line 2", "2 columns"]),
        ("node_id\n0,1\n", ["line 2", "'1'", "1 columns"]),
        ('node_id\n"0\n', ["line 2", "quote"]),
        ("", ["n.csv", "empty"]),
    ):
        with open(box.path("csv", "n.csv"), "w") as file:
            file.write(text)
        said = box.sluice("import", "dgl-csv", "csv", "-q", "--out", "made")
        refused(box, said, *words, output="made")


def test_labels_of_several_types(box):
    nodes = {"node_id": [0, 1], "label": [0, 1]}
    plain_folder(box, nodes, {"src_id": [0], "dst_id": [1]})
    entries = [{"file_name": "n.csv", "ntype": t} for t in ("a", "b")]
    edges = [{"file_name": "e.csv", "etype": ["a", "to", "b"]}]
    meta(box, "csv", entries, edges, ",")
    said = box.sluice("import", "dgl-csv", "csv", "-q", "--out", "made")
    refused(box, said, "types a, b", "--label-type", output="made")
    box.sluice("import", "dgl-csv", "csv", "--label-type", "b", "--out", "made").ok()
    assert read_json(box.path("made", "metadata.json"))["label_type"] == "b"
