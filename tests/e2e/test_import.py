"""`sluice import` of arrays that others wrote: npz, OGB's binary layout, GraphBolt.

Files are written here with numpy and zipfile; that the readers agree with scipy's, PyTorch
Geometric's and OGB's own is built into what is expected (an entry (i, j) is the edge i -> j, and so
on).
"""

import gzip
import io
import json
import os
import zipfile

import numpy as np

from harness import cases, read_json
from test_bad_input import refused
from test_data_tools import check_dataset, in_edges, leftovers

N, E = 60, 400


def rng():
    return np.random.default_rng(11)


def random_edges():
    edges = rng().integers(0, N, (2, E))
    edges[:, 3] = 7  # a self-loop
    return edges


def edges_of(folder):
    """Sorted pairs (source, destination) of a data set."""
    return sorted(edge[:2] for edge in in_edges(check_dataset(folder)[1]))


def pairs(edges):
    return sorted(map(tuple, np.asarray(edges).T.tolist()))


def compressed(edges, values=None):
    """Edges as (indptr, indices, data) by rows."""
    order = np.lexsort((edges[1], edges[0]))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(edges[0], minlength=N))])
    data = np.ones(E, np.float32) if values is None else values[order]
    return indptr, edges[1][order], data


def sparse_features():
    dense = rng().random((N, 9)).astype(np.float32)
    dense[dense < 0.7] = 0
    rows, columns = dense.nonzero()
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=N))])
    return dense, (indptr, columns, dense[rows, columns])


def benchmark():
    """Arrays of the gnn-benchmark layout."""
    indptr, indices, data = compressed(random_edges())
    _, attr = sparse_features()
    return {
        "adj_indptr": indptr.astype(np.int32),
        "adj_indices": indices.astype(np.int32),
        "adj_data": data,
        "adj_shape": np.array([N, N]),
        "attr_indptr": attr[0].astype(np.int32),
        "attr_indices": attr[1].astype(np.int32),
        "attr_data": attr[2],
        "attr_shape": np.array([N, 9]),
        "labels": np.arange(N) % 4,
    }


def npy_bytes(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def write_zip(path, members, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data if isinstance(data, bytes) else npy_bytes(data))


def import_npz(box, *options, name="graph.npz"):
    return box.sluice("import", "npz", name, "--out", "made", *options)


# ---- npz ----------------------------------------------------------------------------------------


def test_npz_benchmark(box):
    arrays = benchmark()
    arrays["node_names"] = np.array(["a", None], dtype=object)  # pickled: left out, not refused
    np.savez_compressed(box.path("graph.npz"), **arrays)
    result = import_npz(box).ok()
    assert "node_names" in result.out and "left out" in result.out, result
    meta, made = check_dataset(box.path("made"))
    assert edges_of(box.path("made")) == pairs(random_edges())
    assert (made["node_feat"] == sparse_features()[0]).all()
    assert (made["node_label"] == arrays["labels"]).all() and meta["num_classes"] == 4
    assert not leftovers(box, "made", "graph.npz")


def test_npz_as_pytorch_geometric_reads_it(box):
    """Positive features are 1, self-loops are gone, edges are symmetric and there once."""
    np.savez(box.path("graph.npz"), **benchmark())
    import_npz(box, "--symmetrise", "--remove-self-loops", "--binary-features").ok()
    edges = random_edges()
    both = {(a, b) for a, b in pairs(edges) + pairs(edges[::-1]) if a != b}
    assert edges_of(box.path("made")) == sorted(both)
    dense = (sparse_features()[0] > 0).astype(np.float32)
    assert (np.load(box.path("made", "node_feat.npy")) == dense).all()


def scipy_arrays(kind, edges, values):
    common = {"format": kind.encode(), "shape": (N, N)}
    if kind == "coords":  # as scipy's sparse arrays are saved
        return {**common, "format": b"coo", "coords": edges, "data": values}
    if kind == "coo":
        return {**common, "row": edges[0], "col": edges[1], "data": values}
    by = edges if kind == "csr" else edges[::-1]
    indptr, indices, data = compressed(by, values)
    return {**common, "indptr": indptr, "indices": indices, "data": data}


def test_npz_values_that_are_no_weights(box):
    edges = np.unique(random_edges(), axis=1)
    values = -rng().random(edges.shape[1])
    n = len(values)
    arrays = {"format": b"coo", "shape": (N, N), "row": edges[0], "col": edges[1], "data": values}
    np.savez(box.path("graph.npz"), **arrays)
    result = import_npz(box)
    assert result.rc == 2 and "data" in result.err and "--no-weights" in result.err, result
    import_npz(box, "--no-weights").ok()
    meta, _ = check_dataset(box.path("made"))
    assert meta["num_edges"] == n and not os.path.exists(box.path("made", "edge_weight.npy"))


@cases("csr", "csc", "coo", "coords")
def test_npz_of_scipy(box, kind):
    edges = np.unique(random_edges(), axis=1)  # so that weights are told apart
    global E
    E, before = edges.shape[1], E
    values = rng().random(E)
    np.savez_compressed(box.path("graph.npz"), **scipy_arrays(kind, edges, values))
    E = before
    import_npz(box).ok()
    _, made = check_dataset(box.path("made"))
    wanted = np.zeros((N, N), np.float32)
    wanted[edges[0], edges[1]] = values
    found = np.zeros((N, N), np.float32)
    for source, destination, weight in in_edges(made):
        found[source, destination] = weight
    assert (found == wanted).all()
    import_npz(box, "--force", "--no-weights").ok()
    assert not os.path.exists(box.path("made", "edge_weight.npy"))
    assert edges_of(box.path("made")) == pairs(edges)


def test_npz_of_other_machines(box):
    """Big-endian numbers are converted; labels as floats with NaN are classes."""
    arrays = benchmark()
    labels = arrays["labels"].astype(">f8")
    labels[5] = np.nan
    for key in ("adj_indptr", "adj_indices", "attr_indices", "adj_shape"):
        arrays[key] = arrays[key].astype(">i8" if key == "adj_shape" else ">i4")
    arrays["attr_data"] = arrays["attr_data"].astype(">f4")
    arrays["labels"] = labels
    np.savez(box.path("graph.npz"), **arrays)
    import_npz(box).ok()
    made = check_dataset(box.path("made"))[1]
    assert edges_of(box.path("made")) == pairs(random_edges())
    assert (made["node_feat"] == sparse_features()[0]).all()
    assert made["node_label"][5] == -1 and (made["node_label"][6:] == np.arange(6, N) % 4).all()


def test_npz_zip64(box):
    """Sizes and positions that stand in zip64's wide fields only."""
    limit, zipfile.ZIP64_LIMIT = zipfile.ZIP64_LIMIT, 10
    try:
        write_zip(box.path("graph.npz"), benchmark())
    finally:
        zipfile.ZIP64_LIMIT = limit
    with open(box.path("graph.npz"), "rb") as file:
        assert b"PK\x06\x06" in file.read(), "this Python wrote no zip64"
    import_npz(box).ok()
    assert edges_of(box.path("made")) == pairs(random_edges())


def test_npz_labels_and_half_features(box):
    arrays = {k: v for k, v in benchmark().items() if not k.startswith("attr")}
    features = rng().normal(size=(N, 5)).astype(np.float16)
    arrays["attr_matrix"] = features
    arrays["labels"] = rng().normal(size=N)
    np.savez(box.path("graph.npz"), **arrays)
    import_npz(box, "--task", "regression").ok()
    made = {n: np.load(box.path("made", f"{n}.npy")) for n in ("node_label", "node_feat")}
    assert made["node_feat"].dtype == np.float16 and (made["node_feat"] == features).all()
    found = made["node_label"].reshape(np.shape(arrays["labels"]))
    assert np.allclose(found, arrays["labels"], rtol=1e-6)
    box.sluice("inspect", "made").ok()


@cases("multilabel", "multiclass")
def test_one_hot_labels_are_said(box, task):
    arrays = benchmark()
    arrays["labels"] = np.eye(5, dtype=np.int64)[np.arange(N) % 4]
    if task == "multiclass":
        arrays["labels"][7] = 0  # no class
    np.savez(box.path("graph.npz"), **arrays)
    result = import_npz(box, "--task", task).ok()
    assert read_json(box.path("made", "metadata.json"))["num_classes"] == 5
    labels = np.load(box.path("made", "node_label.npy"))
    if task == "multilabel":
        assert "one-hot" in result.out and "--task multiclass" in result.out, result
        assert (labels == arrays["labels"]).all()
        arrays["labels"][7, :2] = 1  # and it is not said of what has more
        np.savez(box.path("graph.npz"), **arrays)
        assert "one-hot" not in import_npz(box, "--force").ok().out
    else:
        wanted = np.arange(N) % 4
        wanted[7] = -1
        assert (labels == wanted).all()
        assert "classes" in result.out and "1 vertices without" in result.out, result
        arrays["labels"][7, :2] = 1
        np.savez(box.path("graph.npz"), **arrays)
        result = import_npz(box, "--task", task, "--out", "other", "-q")
        refused(box, result, "vertex 7", "columns 0 and 1", "one class", output="other")


def without(name):
    return lambda arrays: arrays.pop(name)


def put(name, value):
    return lambda arrays: arrays.__setitem__(name, value)


def change(name, index, value):
    def edit(arrays):
        arrays[name] = np.array(arrays[name])
        arrays[name][index] = value

    return edit


NPZ_REFUSED = (
    ("no-indices", without("adj_indices"), ["has no array", "adj_indices"]),
    ("rectangle", put("adj_shape", np.array([N, 5])), ["adj_shape", "60 x 5", "square"]),
    ("empty", put("adj_shape", np.array([0, 0])), ["no vertices"]),
    ("shape", put("adj_shape", np.array([N])), ["adj_shape", "two numbers"]),
    ("id", change("adj_indices", 9, N), ["adj_indices", "element 9", "found 60", "0 to 59"]),
    ("negative", change("adj_indices", 0, -1), ["adj_indices", "found -1"]),
    ("falling", change("adj_indptr", 4, 0), ["adj_indptr", "element 4", "never fall"]),
    ("long", change("adj_indptr", N, E + 1), ["adj_indptr", "401", "400 entries"]),
    ("short", put("adj_indptr", np.zeros(5, np.int64)), ["adj_indptr", "(5,)", "(61,)"]),
    ("rows", put("attr_shape", np.array([N - 1, 9])), ["59", "60"]),
    ("column", change("attr_indices", 0, 9), ["attr_indices", "found 9", "0 to 8"]),
    ("nan", change("attr_data", 2, np.nan), ["row", "nan", "finite"]),
    ("labels", put("labels", np.zeros(N - 1, int)), ["labels", "(59,)", "(60, columns)", "60 "]),
    ("class", put("labels", np.full(N, 0.5)), ["labels", "vertex 0", "0.5", "a class"]),
    ("object", put("labels", np.array([None] * N, dtype=object)), ["labels", "pickled"]),
    ("complex", put("labels", np.zeros(N, complex)), ["labels", "'<c16'"]),
    ("text", put("labels", np.array([b"0", b"1"] * (N // 2))), ["labels", "'|s1', text", "astype"]),
    ("inf", change("attr_data", 2, np.inf), ["row", "inf", "finite"]),
    (
        "sum-too-large",
        lambda a: a.update(attr_data=np.full(len(a["attr_data"]), 1e300)),
        ["attr_data", "element 0", "found 1e+300", "3.4028235e+38"],
    ),
    (
        "fortran",
        put("attr_matrix", np.asfortranarray(np.ones((N, 3)))),
        ["attr_matrix", "fortran", "ascontiguousarray"],
    ),
    ("cut", lambda a: a.update(labels=npy_bytes(a["labels"])[:-8]), ["labels", "truncated"]),
    ("no-npy", lambda a: a.update(labels=b"0 1 2"), ["labels", "not a numpy .npy"]),
    (
        "too-large",
        put("attr_matrix", np.where(np.eye(N, 3) > 0, 1e39, 0)),
        ["attr_matrix", "row 0, column 0", "found 1e+39", "3.4028235e+38"],
    ),
)
def test_npz_refused(box):
    for _, edit, words in NPZ_REFUSED:
        arrays = benchmark()
        edit(arrays)
        write_zip(box.path("graph.npz"), arrays)
        refused(box, import_npz(box, "-q"), "graph.npz", *words, output="made")
    assert not leftovers(box, "graph.npz"), leftovers(box, "graph.npz")


def test_npz_damaged(box):
    write_zip(box.path("whole.npz"), benchmark())
    with open(box.path("whole.npz"), "rb") as file:
        data = file.read()
    at = data.index(b"adj_indices.npy") + 60  # of what is read
    for damaged, words in (
        (data[:-30], ["truncated"]),
        (data[100:], ["damaged"]),
        (data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :], ["damaged"]),
        (b"0 1\n1 2\n", ["not a zip file"]),
        (b"", ["not a zip file", "empty"]),
    ):
        with open(box.path("graph.npz"), "wb") as file:
            file.write(damaged)
        refused(box, import_npz(box, "-q"), "graph.npz", *words, output="made")


def test_npz_of_other_compressions(box):
    write_zip(box.path("graph.npz"), benchmark(), zipfile.ZIP_BZIP2)
    refused(box, import_npz(box, "-q"), "adj_shape", "bzip2", "deflate", output="made")


def test_npz_with_one_name_twice(box):
    with zipfile.ZipFile(box.path("graph.npz"), "w") as archive:
        for _ in range(2):
            archive.writestr(zipfile.ZipInfo("labels.npy"), npy_bytes(np.zeros(3)))
    refused(box, import_npz(box, "-q"), "two members", output="made")


def test_npz_of_something_else(box):
    np.savez(box.path("graph.npz"), weights=np.zeros(3), bias=np.zeros(3))
    refused(box, import_npz(box, "-q"), "weights, bias", "adj_indptr", "save_npz", output="made")
    np.savez(box.path("graph.npz"), format=b"dia", shape=(N, N), data=np.zeros(3))
    refused(box, import_npz(box, "-q"), "dia", "tocsr", output="made")


# ---- OGB's binary layout ------------------------------------------------------------------------


def ogb_folder(box, name="papers", **changes):
    """raw/data.npz, raw/node-label.npz and a split."""
    os.makedirs(box.path(name, "raw"))
    os.makedirs(box.path(name, "split", "time"))
    labels = (np.arange(N) % 3).astype(np.float32).reshape(-1, 1)
    labels[4] = np.nan
    arrays = {
        "edge_index": random_edges(),
        "num_nodes_list": np.array([N]),
        "num_edges_list": np.array([E]),
        "node_feat": rng().normal(size=(N, 5)).astype(np.float32),
        "node_year": np.zeros((N, 1)),
        **changes,
    }
    labels = arrays.pop("labels", labels)
    arrays = {k: v for k, v in arrays.items() if v is not None}
    np.savez_compressed(box.path(name, "raw", "data.npz"), **arrays)
    np.savez_compressed(box.path(name, "raw", "node-label.npz"), node_label=labels)
    for part, ids in zip(("train", "valid", "test"), np.split(np.arange(N)[::-1], [30, 40])):
        with gzip.open(box.path(name, "split", "time", f"{part}.csv.gz"), "wt") as file:
            np.savetxt(file, ids, fmt="%d")
    return arrays


def test_ogb_binary(box):
    arrays = ogb_folder(box)
    result = box.sluice("import", "ogb", "papers", "--out", "made").ok()
    assert "node_year" in result.out, result
    _, made = check_dataset(box.path("made"))
    assert edges_of(box.path("made")) == pairs(arrays["edge_index"])
    assert (made["node_feat"] == arrays["node_feat"]).all()
    assert made["node_label"][4] == -1 and (made["node_label"][5:] == np.arange(5, N) % 3).all()
    assert (made["train_idx"] == np.arange(N)[::-1][:30]).all() and len(made["test_idx"]) == 20


def test_ogb_binary_in_column_order(box):
    """numpy saves the transpose of an (E, 2) array in Fortran order: pairs, one after another."""
    edges = random_edges()
    ogb_folder(box, edge_index=np.asfortranarray(edges))
    box.sluice("import", "ogb", "papers", "--out", "made").ok()
    assert edges_of(box.path("made")) == pairs(edges)


OGB_REFUSED = (
    ("edges", lambda: {"num_edges_list": np.array([E + 1])}, ["400 edges", "401"]),
    ("nodes", lambda: {"num_nodes_list": np.array([9])}, ["edge_index", "vertex from 0 to 8"]),
    ("graphs", lambda: {"num_nodes_list": np.array([N, N])}, ["num_nodes_list", "2 graphs", "one"]),
    ("shape", lambda: {"edge_index": np.zeros((3, E), int)}, ["(3, 400)", "(2, number"]),
    ("missing", lambda: {"edge_index": None}, ["edge_index"]),
    ("rows", lambda: {"node_feat": np.ones((N + 2, 4))}, ["node_feat", "(62, 4)", "60 vertices"]),
    ("labels", lambda: {"labels": np.zeros((N - 1, 1))}, ["node_label", "(59, 1)", "60 vertices"]),
    ("float", lambda: {"edge_index": np.full((2, E), 0.5)}, ["edge_index", "0.5", "whole number"]),
    ("mask", lambda: {"edge_index": np.ones((2, E), bool)}, ["edge_index", "is bool, a mask"]),
)
def test_ogb_binary_refused(box):
    for name, changes, words in OGB_REFUSED:
        ogb_folder(box, name, **changes())
        result = box.sluice("import", "ogb", name, "--out", "made", "-q")
        refused(box, result, *words, output="made")


def test_ogb_split_of_pytorch_damaged(box):
    ogb_folder(box)
    for part in ("train", "valid", "test"):
        os.remove(box.path("papers", "split", "time", f"{part}.csv.gz"))
    with open(box.path("papers", "split", "time", "split_dict.pt"), "wb") as file:
        file.write(b"PK")
    result = box.sluice("import", "ogb", "papers", "--out", "made", "-q")
    refused(box, result, "split_dict.pt", "truncated", output="made")


# ---- GraphBolt ----------------------------------------------------------------------------------

YAML = """\
# made by hand
dataset_name: "tiny set"
graph:
    nodes:
        - num: 60
    edges:
        - {format: numpy, path: edges.npy}   # (2, E)
feature_data:
- domain: node
  type: null
  name: feat
  format: numpy
  in_memory: false
  path: feat.npy
- domain: edge
  name: weight
  format: numpy
  path: weight.npy
tasks:
  - name: node_classification
    num_classes: 5
    train_set:
      - type:
        data:
          - name: seeds
            format: numpy
            path: train.npy
          - name: labels
            format: numpy
            path: 'train_label.npy'
    validation_set:
      - data: [{name: seeds, format: numpy, path: val.npy},
 {name: labels, format: numpy, path: val_label.npy}]
"""
# The last entry in one line, as flow collections have to be.
YAML = YAML.replace("},\n {", "}, {")


def graphbolt(box, yaml=YAML, edges=None):
    os.makedirs(box.path("raw"))
    arrays = {
        "edges": random_edges() if edges is None else edges,
        "feat": rng().normal(size=(N, 4)),
        "train": np.arange(N)[::-1][:20],
        "val": np.arange(10).reshape(-1, 1),
    }
    arrays["train_label"] = arrays["train"] % 3
    arrays["val_label"] = arrays["val"] % 3
    for name, array in arrays.items():
        np.save(box.path("raw", f"{name}.npy"), array)
    with open(box.path("raw", "metadata.yaml"), "w") as file:
        file.write(yaml)
    return arrays


def test_graphbolt(box):
    arrays = graphbolt(box)
    result = box.sluice("import", "graphbolt", "raw", "--out", "made").ok()
    assert "edge weight" in result.out, result
    meta, made = check_dataset(box.path("made"))
    assert meta["name"] == "tiny set" and meta["num_classes"] == 5
    assert edges_of(box.path("made")) == pairs(arrays["edges"])
    assert (made["node_feat"] == arrays["feat"].astype(np.float32)).all()
    assert (made["train_idx"] == arrays["train"]).all() and len(made["val_idx"]) == 10
    known = np.isin(np.arange(N), np.concatenate([np.arange(10), arrays["train"]]))
    assert (made["node_label"] == np.where(known, np.arange(N) % 3, -1)).all()
    assert "test_idx" not in made


def test_lists_that_share_vertices(box):
    """They are imported as they are, which is told; what the import and the refusal say to do
    helps."""
    arrays = graphbolt(box)
    np.save(box.path("raw", "val.npy"), arrays["train"][:10])
    np.save(box.path("raw", "val_label.npy"), arrays["train"][:10] % 3)
    result = box.sluice("import", "graphbolt", "raw", "--out", "made").ok()
    told = "train_idx.npy and val_idx.npy share 10 vertices (50, 51, 52, 53, 54, ...)"
    assert told in result.out and '"splits": "overlap"' in result.out, result
    result = box.sluice("inspect", "made")
    assert result.rc == 2 and told in result.err, result
    metadata = dict(read_json(box.path("made", "metadata.json")), splits="overlap")
    with open(box.path("made", "metadata.json"), "w") as file:
        json.dump(metadata, file)
    box.sluice("inspect", "made").ok()
    box.sluice("reorder", "made", "--by", "degree", "--out", "ordered").ok()
    box.sluice("inspect", "ordered").ok()
    box.sluice("import", "graphbolt", "raw", "--split", "0.5,0.2", "--out", "drawn").ok()
    box.sluice("inspect", "drawn").ok()


@cases("pairs", "columns", "csv")
def test_graphbolt_edges(box, kind):
    """(E, 2), (2, E) in column order, and text."""
    edges = random_edges()
    saved = np.ascontiguousarray(edges.T) if kind == "pairs" else np.asfortranarray(edges)
    yaml = YAML.replace("format: numpy, path: edges.npy", "format: csv, path: edges.csv")
    graphbolt(box, yaml if kind == "csv" else YAML, edges=saved)
    np.savetxt(box.path("raw", "edges.csv"), edges.T, fmt="%d", delimiter=",")
    box.sluice("import", "graphbolt", "raw", "--out", "made").ok()
    assert edges_of(box.path("made")) == pairs(edges)


GRAPHBOLT_REFUSED = (
    ("no-file", None, None, ["metadata.yaml"]),
    (
        "types",
        "- num: 60",
        "- {type: a, num: 6}\n        - {type: b, num: 54}",
        ["source:relation:target"],
    ),
    ("num", "num: 60", "num: many", ["graph.nodes.num"]),
    ("small", "num: 60", "num: 50", ["train.npy", "found 59", "0 to 49"]),
    ("format", "{format: numpy", "{format: hdf5", ["graph.edges", "hdf5", "csv or numpy"]),
    ("torch", "feat\n  format: numpy", "feat\n  format: torch", ["torch", "numpy.save"]),
    ("missing", "path: feat.npy", "path: nowhere.npy", ["nowhere.npy", "no such file"]),
    ("classes", "num_classes: 5", "num_classes: 2", ["num_classes", "found 2", "at least 3"]),
    ("links", "- name: seeds", "- name: node_pairs", ["node_pairs", "edges"]),
    ("twice", "path: val.npy", "path: twice.npy", ["twice.npy", "second time"]),
    ("outside", "path: val.npy", "path: outside.npy", ["outside.npy", "found 60"]),
    ("shape", "path: val_label.npy", "path: train_label.npy", ["train_label.npy", "10 seeds"]),
    ("tab", "    nodes:", "\tnodes:", ["line 4", "token"]),
    ("anchor", "num: 60", "num: &n 60", ["line 5", "anchors"]),
    ("tag", "num: 60", "num: !!int 60", ["line 5", "tags"]),
    ("key", "num_classes: 5", "num_classes 5", ["line 2", "':'"]),
    ("repeated", "num_classes: 5", "name: other", ["name", "twice"]),
)  # fmt: skip
def test_graphbolt_refused(box):
    graphbolt(box)
    np.save(box.path("raw", "twice.npy"), np.zeros(10, int))
    np.save(box.path("raw", "outside.npy"), np.arange(N - 9, N + 1))
    for _, old, new, words in GRAPHBOLT_REFUSED:
        os.remove(box.path("raw", "metadata.yaml"))
        if old is not None:
            assert YAML.count(old) >= 1, old
            with open(box.path("raw", "metadata.yaml"), "w") as file:
                file.write(YAML.replace(old, new, 1))
        result = box.sluice("import", "graphbolt", "raw", "--out", "made", "-q")
        refused(box, result, *words, output="made")
        open(box.path("raw", "metadata.yaml"), "a").close()
    assert not leftovers(box, "raw"), leftovers(box, "raw")


def test_graphbolt_preprocessed(box):
    graphbolt(box, "dataset_name: x\ngraph_topology: {type: Fused, path: x.pt}\n")
    result = box.sluice("import", "graphbolt", "raw", "--out", "made", "-q")
    refused(box, result, "graph_topology", "preprocessed", "raw", output="made")
