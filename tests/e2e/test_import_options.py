"""Options that all importers share: self-loops, features, the split; and a full disk."""

import gzip
import os

import numpy as np

from harness import cases
from test_bad_input import refused
from test_data_tools import check_dataset, digest_of, in_edges, leftovers

N = 40


def rng():
    return np.random.default_rng(23)


def adjacency(edges):
    order = np.lexsort((edges[1], edges[0]))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(edges[0], minlength=N))])
    return indptr, edges[1][order]


def write_npz(box, features=None, labels=None, edges=None, name="graph.npz"):
    """The gnn-benchmark layout; vertex N - 1 has no edge, vertex 3 a self-loop."""
    if edges is None:
        edges = rng().integers(0, N - 1, (2, 200))
        edges[:, 0] = 3
    indptr, indices = adjacency(edges)
    if features is None:
        features = rng().random((N, 6)).astype(np.float32)
    if labels is None:
        labels = np.arange(N) % 4
    np.savez(
        box.path(name),
        adj_indptr=indptr,
        adj_indices=indices,
        adj_data=np.ones(len(indices), np.float32),
        adj_shape=np.array([N, N]),
        attr_matrix=features,
        labels=labels,
    )
    return edges, features


def import_npz(box, *options, out="made"):
    return box.sluice("import", "npz", "graph.npz", "--out", out, *options)


# ---- self-loops ---------------------------------------------------------------------------------


@cases(["--remove-self-loops"], ["--symmetrise"], ["--dedup", "--weights"])
def test_self_loops_are_added(box, more):
    edges, _ = write_npz(box)
    result = import_npz(box, "--add-self-loops", *more).ok()
    meta, arrays = check_dataset(box.path("made"))
    wanted = [tuple(e) for e in edges.T.tolist()]
    if "--symmetrise" in more:
        wanted = wanted + [(b, a) for a, b in wanted]
    if "--symmetrise" in more or "--dedup" in more:
        wanted = sorted(set(wanted))
    if "--remove-self-loops" in more:
        wanted = [(a, b) for a, b in wanted if a != b]
    missing = [(v, v) for v in range(N) if (v, v) not in wanted]
    assert sorted(edge[:2] for edge in in_edges(arrays)) == sorted(wanted + missing)
    for v in range(N):  # in their places
        row = arrays["indices"][arrays["indptr"][v] : arrays["indptr"][v + 1]]
        assert (np.diff(row) >= 0).all(), (v, row)
    assert "self-loops added" in result.out and f"{len(missing)}" in result.out, result
    assert meta["source"]["self_loops_added"] is True
    if "--weights" in more:
        assert (arrays["edge_weight"] == 1).all()


def test_self_loops_of_an_edgelist(box):
    with open(box.path("edges.txt"), "w") as file:
        file.write("7 2 0.5\n2 2 0.25\n5 9 3\n")
    box.sluice("import", "edgelist", "edges.txt", "--add-self-loops", "--out", "made").ok()
    _, arrays = check_dataset(box.path("made"))
    weights = {(a, b): weight for a, b, weight in in_edges(arrays)}
    assert weights == {**{(v, v): 1 for v in range(10)}, (7, 2): 0.5, (2, 2): 0.25, (5, 9): 3}
    box.sluice(
        "import", "edgelist", "edges.txt", "--add-self-loops", "--relabel", "--out", "dense"
    ).ok()
    _, arrays = check_dataset(box.path("dense"))
    found = [edge[:2] for edge in in_edges(arrays)]
    assert found == [(0, 0), (2, 0), (1, 1), (2, 2), (1, 3), (3, 3)]


# ---- features -----------------------------------------------------------------------------------


def normalised(x):
    """torch_geometric.transforms.NormalizeFeatures."""
    x = x.astype(np.float64) - x.min()
    return x / np.maximum(x.sum(axis=1, keepdims=True), 1)


FEATURES = {
    "negative": lambda: rng().normal(size=(N, 6)).astype(np.float32),
    "positive": lambda: (rng().random((N, 6)) + 5).astype(np.float64),
    "half": lambda: rng().normal(size=(N, 6)).astype(np.float16),
}


@cases(*FEATURES)
def test_features_are_normalised(box, kind):
    features = FEATURES[kind]()
    write_npz(box, features)
    result = import_npz(box, "--normalize-features").ok()
    _, arrays = check_dataset(box.path("made"))
    got, wanted = arrays["node_feat"], normalised(features)
    assert got.dtype == (np.float16 if kind == "half" else np.float32)
    assert np.allclose(got, wanted, rtol=1e-3 if kind == "half" else 1e-5, atol=1e-6)
    assert "normalised" in result.out, result
    import_npz(box, "--normalize-features", "--f16", "--force").ok()
    got = np.load(box.path("made", "node_feat.npy"))
    assert got.dtype == np.float16 and np.allclose(got, wanted, rtol=1e-3, atol=1e-4)


def test_features_too_far_apart_to_normalise(box):
    write_npz(box, np.array([3e38, -3e38] * (N // 2), np.float32)[:, None])
    result = import_npz(box, "--normalize-features", "-q")
    refused(box, result, "row 0", "-3e+38", "scale the features")


def test_half_precision(box):
    features = rng().normal(size=(N, 6)).astype(np.float32)
    features[3, 4], features[5, 0], features[6, 1] = 65519, 1e-9, -65504
    write_npz(box, features)
    result = import_npz(box, "--f16").ok()
    got = np.load(box.path("made", "node_feat.npy"))
    assert got.dtype == np.float16
    assert (got == features.astype(np.float16)).all() and got[3, 4] == 65504
    assert "too small for float16" in result.out and "became 0: 1" in result.out, result
    features[7, 2] = -65520
    write_npz(box, features)
    result = import_npz(box, "--f16", "--force")
    assert result.rc == 2 and "row 7, column 2: found -65520" in result.errors()[0], result
    assert "leave --f16 out" in result.errors()[0], result
    assert (np.load(box.path("made", "node_feat.npy")) == got).all(), "the old one is untouched"


# ---- the split ----------------------------------------------------------------------------------


def splits_of(folder):
    names = ("train_idx", "val_idx", "test_idx")
    return [np.load(os.path.join(folder, f"{name}.npy")) for name in names]


@cases(("0.5,0.25,0.125", [16, 8, 4]), ("1,0", [32, 0, 0]))
def test_split_of_labelled_vertices(box, shares, sizes):
    labels = np.arange(N) % 4
    labels[::5] = -1
    write_npz(box, labels=labels)
    import_npz(box, "--split", shares, "--seed", "4").ok()
    meta, _ = check_dataset(box.path("made"))
    parts = splits_of(box.path("made"))
    assert [len(p) for p in parts] == sizes
    together = np.concatenate(parts)
    assert len(set(together)) == len(together) and (labels[together] >= 0).all()
    assert all((np.diff(p) > 0).all() for p in parts)
    assert meta["source"]["split_seed"] == 4
    import_npz(box, "--split", shares, "--seed", "4", out="same").ok()
    import_npz(box, "--split", shares, "--seed", "5", out="other").ok()
    assert digest_of(box.path("made")) == digest_of(box.path("same"))
    if sizes[1]:
        assert (splits_of(box.path("other"))[0] != parts[0]).any()


def test_split_knows_unlabelled_vertices_of_other_tasks(box):
    labels = rng().integers(0, 2, (N, 3)).astype(np.float64)
    labels[1] = np.nan  # not known at all
    labels[2, 0] = np.nan  # known in part
    write_npz(box, labels=labels)
    import_npz(box, "--task", "multilabel", "--split", "0.5,0.5").ok()
    together = np.concatenate(splits_of(box.path("made")))
    assert 1 not in together and 2 in together and len(together) == N - 1


def test_split_without_labels_is_of_all_vertices(box):
    with open(box.path("edges.txt"), "w") as file:
        file.writelines(f"{v} {(v + 1) % 10}\n" for v in range(10))
    box.sluice("import", "edgelist", "edges.txt", "--split", "0.6,0.2", "--out", "made").ok()
    parts = splits_of(box.path("made"))
    assert [len(p) for p in parts] == [6, 2, 2]
    assert sorted(np.concatenate(parts)) == list(range(10))


def write_ogb(box):
    os.makedirs(box.path("ogb", "raw"))
    for scheme in ("time", "random"):
        os.makedirs(box.path("ogb", "split", scheme))

    def write(name, rows):
        with gzip.open(box.path("ogb", f"{name}.csv.gz"), "wt") as file:
            file.writelines(",".join(map(str, row)) + "\n" for row in rows)

    write("raw/num-node-list", [[10]])
    write("raw/num-edge-list", [[9]])
    write("raw/edge", [[v, v + 1] for v in range(9)])
    write("raw/node-feat", [[v, -v] for v in range(10)])
    write("raw/node-label", [[v % 2] for v in range(10)])
    for scheme, first in (("time", 0), ("random", 5)):
        for i, part in enumerate(("train", "valid", "test")):
            write(f"split/{scheme}/{part}", [[(first + i) % 10]])


def test_split_in_place_of_the_sources(box):
    write_ogb(box)
    box.sluice("import", "ogb", "ogb", "--split", "random", "--out", "scheme").ok()
    assert [p.tolist() for p in splits_of(box.path("scheme"))] == [[5], [6], [7]]
    box.sluice("import", "ogb", "ogb", "--split", "0.4,0.4", "--f16", "--out", "drawn").ok()
    assert [len(p) for p in splits_of(box.path("drawn"))] == [4, 4, 2]
    refused(box, box.sluice("import", "ogb", "ogb", "--out", "none"), "random", "time")


# ---- refusals -----------------------------------------------------------------------------------

BAD = {
    "--split=0.6": "wanted a second share",
    "--split=0.6,0.5": "1.1 together",
    "--split=0.5,0.2,0.2,0.1": "TRAIN,VAL or TRAIN,VAL,TEST",
    "--split=60,20,20": "shares from 0 to 1",
    "--split=0.5,nan": "shares from 0 to 1",
    "--split=random": "shares from 0 to 1",
}


def test_bad_split(box):
    write_npz(box)
    for option, words in BAD.items():
        refused(box, import_npz(box, option), words)
    assert not leftovers(box, "graph.npz")


def test_features_that_are_not_there(box):
    np.savez(
        box.path("graph.npz"),
        adj_indptr=np.zeros(N + 1, np.int64),
        adj_indices=np.zeros(0, np.int64),
        adj_data=np.zeros(0),
        adj_shape=np.array([N, N]),
    )
    result = import_npz(box, "--f16")
    assert result.rc == 2 and "has no features" in result.err, result
    assert not leftovers(box, "graph.npz")


def test_options_of_other_formats_are_refused(box):
    """A sparse matrix has no features, and other formats no names to number."""
    for kind, option in ("mtx", "--f16"), ("npz", "--relabel"):
        refused(box, box.sluice("import", kind, "any", option, "--out", "made"), option)


def test_a_graph_without_edges(box):
    empty = np.zeros((2, 0), np.int64)
    write_npz(box, edges=empty)
    import_npz(box).ok()
    meta, arrays = check_dataset(box.path("made"))
    assert meta["num_nodes"] == N and len(arrays["indices"]) == 0
    import_npz(box, "--add-self-loops", "--symmetrise", out="loops").ok()
    _, arrays = check_dataset(box.path("loops"))
    assert in_edges(arrays) == [(v, v) for v in range(N)]
    box.sluice("reorder", "loops", "--by", "degree", "--out", "ordered").ok()
    with open(box.path("empty.txt"), "w") as file:
        file.write("# nothing\n")
    refused(
        box, box.sluice("import", "edgelist", "empty.txt", "--out", "none"), "found no edge in 1"
    )
