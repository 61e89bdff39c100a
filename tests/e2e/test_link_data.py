"""Data sets of links: OGB's link property prediction layout, pairs with weights and negatives."""

import gzip
import json
import os
import shutil

import numpy as np

from harness import cases, planted, write_dataset
from test_bad_input import refused
from torch_saved import Tensor, dumps, save

N, E = 60, 200


def load(box, name):
    folder = box.path(name)
    return {f[:-4]: np.load(os.path.join(folder, f)) for f in os.listdir(folder) if ".npy" in f}


def draw(*shape, seed=1):
    return np.random.default_rng((seed, *shape)).integers(0, N, shape)


# ---- OGB ----------------------------------------------------------------------------------------


def write_csv(path, rows):
    with gzip.open(path, "wt") as file:
        np.savetxt(file, rows, fmt="%d", delimiter=",")


def ogb_folder(box, name, weights=True):
    """raw/ as OGB's csv layout has it; returns the edges and their weights."""
    shutil.rmtree(box.path(name), ignore_errors=True)
    os.makedirs(box.path(name, "raw"))
    os.makedirs(box.path(name, "split", "time"))
    edges, weight = draw(E, 2), 1 + draw(E) % 5
    write_csv(box.path(name, "raw", "edge.csv.gz"), edges)
    write_csv(box.path(name, "raw", "num-node-list.csv.gz"), [N])
    write_csv(box.path(name, "raw", "num-edge-list.csv.gz"), [E])
    if weights:
        write_csv(box.path(name, "raw", "edge_weight.csv.gz"), weight)
    return edges, weight


def save_split(box, name, parts, tensors, one=False, **form):
    """The split's files; `parts` as OGB names them."""
    if tensors:
        parts = {s: {k: Tensor(a, skip=3) for k, a in p.items()} for s, p in parts.items()}
    for s, part in parts.items():
        save(box.path(name, "split", "time", f"{s}.pt"), part, **form)
    if one:
        for s in parts:
            os.remove(box.path(name, "split", "time", f"{s}.pt"))
        save(box.path(name, "split", "time", "split_dict.pt"), parts, **form)


def collab_parts():
    parts = {}
    for s, n in (("train", 90), ("valid", 20), ("test", 31)):
        parts[s] = {"edge": draw(n, 2), "weight": 1 + draw(n) % 7, "year": 1990 + draw(n)}
        if s != "train":
            parts[s]["edge_neg"] = draw(n + 5, 2, seed=2)
    # The transpose of (2, n), as edge_index.t() is.
    parts["test"]["edge"] = np.asfortranarray(parts["test"]["edge"])
    parts["valid"]["weight"] = parts["valid"]["weight"].astype(np.float32)
    return parts


FORMS = {
    "zip-tensors": {"tensors": True},
    "zip-arrays-of-protocol-2": {"tensors": False, "one": True},
    "zip-arrays-of-protocol-5": {"tensors": False, "protocol": 5},
    "pickles-tensors": {"tensors": True, "old": True},
    "pickles-arrays-of-protocol-2": {"tensors": False, "old": True},
    "pickles-arrays-of-protocol-4": {"tensors": False, "old": True, "protocol": 4},
}


@cases(*FORMS)
def test_ogb_links(box, form):
    edges, weight = ogb_folder(box, "ogbl_collab")
    parts = collab_parts()
    save_split(box, "ogbl_collab", parts, **FORMS[form])
    said = box.sluice("import", "ogb", "ogbl_collab", "--out", "made").ok()
    assert "as OGB's loader does for ogbl-collab" in said.out and "year of the test" in said.out
    made = load(box, "made")
    for theirs, ours in (("train", "train"), ("valid", "val"), ("test", "test")):
        part = parts[theirs]
        assert np.array_equal(made[f"{ours}_edges"], part["edge"])
        assert np.array_equal(made[f"{ours}_edge_weight"], part["weight"])
        assert made[f"{ours}_edge_weight"].dtype == np.float32
        if "edge_neg" in part:
            assert np.array_equal(made[f"{ours}_neg"], part["edge_neg"])
    assert "train_neg" not in made and "train_idx" not in made
    # Every edge and its reverse, with the edge's weight.
    target = np.repeat(np.arange(N), np.diff(made["indptr"]))
    found = np.stack([made["indices"], target, made["edge_weight"].astype(int)], 1)
    wanted = np.column_stack([np.concatenate([edges, edges[:, ::-1]]), np.tile(weight, 2)])
    assert sorted(map(tuple, found.tolist())) == sorted(map(tuple, wanted.tolist()))


def citation_parts(k):
    return {
        s: {"source_node": draw(n), "target_node": draw(n, seed=3)}
        | ({} if s == "train" else {"target_node_neg": draw(n, k)})
        for s, n in (("train", 90), ("valid", 20), ("test", 31))
    }


def test_ogb_targets_and_a_reordered_data_set(box):
    """k = 2 is no array of pairs; negatives and weights go with their pairs."""
    ogb_folder(box, "citation-v2", weights=False)
    parts = citation_parts(2)
    for part in parts.values():
        part["weight"] = part["source_node"] + 0.5
    save_split(box, "citation-v2", parts, tensors=True)
    box.sluice("import", "ogb", "citation-v2", "--out", "made").ok()
    box.sluice("reorder", "made", "--by", "degree", "--out", "sorted").ok()
    made, ordered = load(box, "made"), load(box, "sorted")
    back = ordered["vertex_map"].astype(np.int64)
    for theirs, ours in (("valid", "val"), ("test", "test")):
        part = parts[theirs]
        assert np.array_equal(
            made[f"{ours}_edges"], np.stack([part["source_node"], part["target_node"]], 1)
        )
        assert np.array_equal(made[f"{ours}_neg_target"], part["target_node_neg"])
        for name in (f"{ours}_edges", f"{ours}_neg_target"):
            assert np.array_equal(back[ordered[name]], made[name])
        assert np.array_equal(ordered[f"{ours}_edge_weight"], made[f"{ours}_edge_weight"])
    about = json.loads(box.sluice("inspect", "sorted", "-o", "json").ok().out)
    assert about["negatives"]["test"] == {"pairs": 62, "per_positive": 2}
    assert about["edges"] == {"train": 90, "val": 20, "test": 31}


def test_ogb_vessel(box):
    """The binary layout, with negatives for training, too; no weights where none are wanted."""
    os.makedirs(box.path("vessel", "raw"))
    os.makedirs(box.path("vessel", "split", "spatial"))
    edges, arrays = draw(E, 2), {"num_nodes_list": [N], "num_edges_list": [E]}
    arrays["node_feat"] = np.ones((N, 3), np.float32)
    np.savez(box.path("vessel", "raw", "data.npz"), edge_index=edges.T, **arrays)
    for s in ("train", "valid", "test"):
        part = {k: Tensor(draw(9, 2, seed=i)) for i, k in enumerate(("edge", "edge_neg"))}
        part["weight"] = Tensor(draw(9))
        save(box.path("vessel", "split", "spatial", f"{s}.pt"), part)
    box.sluice("import", "ogb", "vessel", "--no-weights", "--out", "made").ok()
    made = load(box, "made")
    assert len(made["indices"]) == E and "train_edge_weight" not in made
    assert np.array_equal(made["train_edges"], draw(9, 2, seed=0))
    assert np.array_equal(made["train_neg"], draw(9, 2, seed=1))
    # What training learns is another set once edges of the graph are held out.
    for name in ("val_edges", "test_edges", "val_neg", "test_neg"):
        os.remove(box.path("made", f"{name}.npy"))
    box.sluice("split-edges", "made", "--out", "split").ok()
    assert sorted(load(box, "split")) == sorted(
        ("indices", "indptr", "node_feat", "val_edges", "test_edges")
    )


def test_ogb_split_of_vertices(box):
    """What OGB's DatasetSaver writes for a node data set."""
    ogb_folder(box, "nodes", weights=False)
    ids = np.split(np.arange(N)[::-1], [30, 40])
    split = dict(zip(("train", "valid", "test"), ids))
    save(box.path("nodes", "split", "time", "split_dict.pt"), split)
    box.sluice("import", "ogb", "nodes", "--out", "made").ok()
    made = load(box, "made")
    for name, wanted in zip(("train_idx", "val_idx", "test_idx"), ids):
        assert np.array_equal(made[name], wanted)


def with_bytes(content):
    def change(box):
        with open(box.path("ogbl_collab", "split", "time", "valid.pt"), "wb") as file:
            file.write(content)

    return change


def with_valid(**arrays):
    part = {"edge": draw(20, 2), **arrays}
    return with_bytes(dumps({k: v for k, v in part.items() if v is not None}))


def with_file(*place):
    def change(box):
        write_csv(box.path("ogbl_collab", *place), [0])

    return change


STRIDED = Tensor(np.arange(80).reshape(20, 4)[:, ::2])
WHOLE, OLD = (dumps({"edge": Tensor(draw(20, 2))}, old) for old in (False, True))
KINDS = {"edge": None, "head": draw(20), "relation": draw(20), "tail": draw(20)}
OGB_REFUSED = {
    "kinds": (with_file("raw", "edge_reltype.csv.gz"), "several kinds", "ogbl-wikikg2", "edgelist"),
    "relations": (with_valid(**KINDS), "valid.pt", "head, relation, tail", "--holdout"),
    "types": (with_file("raw", "triplet-type-list.csv.gz"), "num-node-dict", "several types"),
    "keys": (with_valid(edge=None, year=draw(20)), "valid.pt", "found year", "wanted edge"),
    "vertex": (with_valid(edge=draw(20, 2) + 50), "valid.pt: edge", "vertex from 0 to 59"),
    "negative": (with_valid(edge_neg=draw(9, 2) - 50), "edge_neg", "found -", "0 to 59"),
    "shape": (with_valid(edge=draw(2, 20)), "found shape (2, 20)", "wanted (number of pairs, 2)"),
    "targets": (with_valid(target_node_neg=draw(9, 3)), "(9, 3)", "wanted (20, k)"),
    "weights": (with_valid(weight=draw(19)), "weight", "(19,)", "wanted (20,)"),
    "weight": (with_valid(weight=draw(20) - 90.0), "found -", "--no-weights"),
    "list": (with_valid(edge=draw(20, 2).tolist()), "edge", "is no array", "numpy.array"),
    "strides": (with_valid(edge=STRIDED), "edge", "x.contiguous()"),
    "text": (with_valid(edge=np.array(["a"])), "edge", "real numbers"),
    "long": (with_valid(edge=list(range(99999))), "65,536 objects", "numpy.array"),
    "nothing": (with_bytes(b""), "valid.pt", "ends early"),
    "other": (with_bytes(b"0 1\n1 2\n"), "valid.pt", "no pickle"),
    "array": (with_bytes(dumps(draw(20, 2))), "valid.pt", "holds no dictionary"),
    "short": (with_bytes(OLD[:-8]), "valid.pt", "within its tensors"),
    "zip": (with_bytes(WHOLE[:200]), "valid.pt", "zip file"),
}


@cases(*OGB_REFUSED)
def test_ogb_links_refused(box, what):
    change, *words = OGB_REFUSED[what]
    ogb_folder(box, "ogbl_collab")
    save_split(box, "ogbl_collab", collab_parts(), tensors=True)
    change(box)
    said = box.sluice("import", "ogb", "ogbl_collab", "--out", "made", "-q")
    refused(box, said, *words, output="made")


def test_what_a_refused_graph_of_kinds_is_told_to_do(box):
    ogb_folder(box, "wikikg-v2", weights=False)
    with_file_at = box.path("wikikg-v2", "raw", "edge_reltype.csv.gz")
    write_csv(with_file_at, [0])
    said = box.sluice("import", "ogb", "wikikg-v2", "--out", "made", "-q")
    advice = said.err.split("`sluice ")[1].split("`")[0].split()
    box.sluice(*advice, "--out", "made").ok()
    assert len(load(box, "made")["val_edges"]) > 0


# ---- the data set's contract --------------------------------------------------------------------

PAIRS = np.array([[0, 1], [2, 3], [4, 5]])


def faulty(*words, **arrays):
    return {"val_edges": PAIRS, **arrays}, words


FAULTY = {
    "both": faulty("val_neg.npy and val_neg_target.npy", val_neg=PAIRS, val_neg_target=PAIRS),
    "targets": faulty("(3, 4)", "go into val_neg_target.npy", val_neg=np.ones((3, 4), int)),
    "pairs": faulty("(2, 2), wanted (3, k)", "go into val_neg.npy", val_neg_target=PAIRS[:2]),
    "alone": faulty("test_neg.npy and no test_edges.npy", test_neg=PAIRS),
    "unpaired": faulty("no train_edges.npy", train_neg_target=PAIRS),
    "floats": faulty("float64", "wanted (3, k) of int32", val_neg_target=np.ones((3, 1))),
    "source": faulty("val_neg.npy", "the source of pair 1 is 200", val_neg=[[0, 1], [200, 2]]),
    "target": faulty("row 2, column 0 is -1", val_neg_target=[[0], [1], [-1]]),
    "count": faulty("float32 (2,), wanted float32 (3,)", val_edge_weight=np.ones(2, np.float32)),
    "double": faulty("float64 (3,), wanted float32", "astype", val_edge_weight=np.ones(3)),
    "nan": faulty("element 1 is nan", val_edge_weight=np.float32([1, np.nan, 2])),
    "minus": faulty("element 2 is -2, wanted", val_edge_weight=np.float32([1, 0, -2])),
    "lonely": faulty("test_edge_weight.npy and no test", test_edge_weight=np.ones(1, np.float32)),
}


@cases(*FAULTY)
def test_negatives_and_weights_that_are_none(box, what):
    arrays, words = FAULTY[what]
    write_dataset(box.path("data"), {**planted(n=200), **arrays})
    refused(box, box.sluice("inspect", "data"), *words)


def test_inspect_counts_what_is_odd(box):
    arrays = planted(n=200)
    rng = np.random.default_rng(7)
    target = np.repeat(np.arange(200), np.diff(arrays["indptr"]))
    graph = np.stack([arrays["indices"], target], 1)
    train = rng.permutation(graph)[:90]
    arrays["train_edges"] = np.concatenate([train, train[:4]])
    val = np.concatenate([rng.permutation(graph)[:30], rng.integers(0, 200, (40, 2))])
    arrays["val_edges"] = np.concatenate([val, val[:9], train[:5, ::-1], [[7, 7]]])
    arrays["val_neg"] = rng.integers(0, 200, (50, 2))
    write_dataset(box.path("data"), arrays)
    said = json.loads(box.sluice("inspect", "data", "-o", "json").ok().out)
    known, trained = set(map(tuple, graph.tolist())), set(map(tuple, train.tolist()))
    for split in ("train", "val"):
        pairs = arrays[f"{split}_edges"]
        rows = list(map(tuple, pairs.tolist()))
        wanted = {"weights": False, "repeated": len(rows) - len(set(rows))}
        wanted["loops"] = int((pairs[:, 0] == pairs[:, 1]).sum())
        wanted["in_graph"] = wanted["in_train"] = 0
        if split == "val":
            wanted["in_graph"] = sum(r in known for r in rows)
            wanted["in_train"] = sum(r in trained or r[::-1] in trained for r in rows)
            assert min(wanted[k] for k in ("repeated", "loops", "in_graph", "in_train")) > 0
        assert said["edges_found"][split] == wanted, (said["edges_found"], wanted)
    assert said["negatives"] == {"val": {"pairs": 50, "per_positive": 0}}
    assert "are edges of the graph" in box.sluice("inspect", "data").ok().out
