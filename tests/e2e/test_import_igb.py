"""`sluice import igb`: the Illinois Graph Benchmark's layout, with and without headers."""

import os

import numpy as np

from harness import read_json
from test_bad_input import refused
from test_data_tools import check_dataset, in_edges, leftovers

N, E, DIM = 50, 300, 1024


def arrays():
    rng = np.random.default_rng(2)
    edges = rng.integers(0, N, (E, 2)).astype(np.int32)
    edges[4] = (9, 9)
    return {
        "paper/node_feat": rng.random((N, DIM)).astype(np.float32),
        "paper/node_label_19": rng.integers(0, 19, N).astype(np.float32),
        "paper/node_label_2K": rng.integers(0, 2983, N).astype(np.float32),
        "paper__cites__paper/edge_index": edges,
    }


def write_igb(box, folder="igb", raw=False, **changes):
    made = {**arrays(), **{key.replace("__of__", "/"): value for key, value in changes.items()}}
    for name, array in made.items():
        path = box.path(folder, "processed", f"{name}.npy")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if raw and name.startswith("paper/"):
            array.tofile(path)
        else:
            np.save(path, array)
    return made


def import_igb(box, *options, source="igb", out="made"):
    return box.sluice("import", "igb", source, "--out", out, *options)


def check(folder, wanted, label, n_classes, n_labelled=N):
    meta, made = check_dataset(folder)
    assert (made["node_feat"] == wanted["paper/node_feat"]).all()
    labels = wanted[label].astype(int)
    labels[n_labelled:] = -1
    assert (made["node_label"].reshape(-1) == labels).all()
    assert meta["num_classes"] == n_classes
    edges = sorted(map(tuple, wanted["paper__cites__paper/edge_index"].tolist()))
    assert sorted(in_edges(made)) == edges
    n_train, n_val = int(n_labelled * 0.6), int(n_labelled * 0.2)
    assert made["train_idx"].tolist() == list(range(n_train))
    assert made["val_idx"].tolist() == list(range(n_train, n_train + n_val))
    assert made["test_idx"].tolist() == list(range(n_train + n_val, n_labelled))


def test_with_headers(box):
    wanted = write_igb(box)
    result = import_igb(box).ok()
    check(box.path("made"), wanted, "paper/node_label_19", 19)
    assert "exactly one self-loop" in result.out, result
    import_igb(box, "--classes", "2983", "--force").ok()
    check(box.path("made"), wanted, "paper/node_label_2K", 2983)
    assert not leftovers(box, "igb", "made")


def test_without_headers(box):
    size = "full"
    wanted = write_igb(box, f"igb/{size}", raw=True)
    result = import_igb(box, "--size", size, "--nodes", N, "--labelled", 43).ok()
    check(box.path("made"), wanted, "paper/node_label_19", 19, 43)
    assert "the first 43 of 50 vertices" in result.out, result
    source = read_json(box.path("made", "metadata.json"))["source"]
    assert source["size"] == size and source["labelled"] == 43
    import_igb(box, "--raw", "--nodes", N, source=f"igb/{size}", out="named").ok()
    check(box.path("named"), wanted, "paper/node_label_19", 19)
    # Whoever saved them again with a header is understood.
    write_igb(box, f"igb/{size}")
    import_igb(box, "--size", size, "--nodes", N, out="again").ok()
    check(box.path("again"), wanted, "paper/node_label_19", 19)


def test_full_knows_how_many_are_labelled(box):
    """What is behind them in the file is padding: a file that ends one label before is short."""
    classes, name, n = "2983", "2K", 153383374
    path = box.path("igb", "processed", "paper", f"node_label_{name}.npy")
    os.makedirs(os.path.dirname(path))
    with open(path, "wb") as file:  # of holes
        header = {"descr": "<f4", "fortran_order": False, "shape": (n - 1,)}
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + 4 * (n - 1))
    result = import_igb(box, "--size", "full", "--classes", classes)
    refused(box, result, f"({n - 1},)", f"the first {n} of 269346174")


def test_as_its_own_loader(box):
    wanted = write_igb(box)
    import_igb(box, "--remove-self-loops", "--add-self-loops", "--f16").ok()
    _, made = check_dataset(box.path("made"))
    assert made["node_feat"].dtype == np.float16
    edges = {(a, b) for a, b in wanted["paper__cites__paper/edge_index"].tolist() if a != b}
    found = in_edges(made)
    assert set(found) == edges | {(v, v) for v in range(N)}
    assert sum(a == b for a, b in found) == N


def test_two_edges_are_pairs(box):
    wanted = write_igb(
        box, **{"paper__cites__paper__of__edge_index": np.array([[1, 2], [3, 4]], np.int32)}
    )
    import_igb(box).ok()
    check(box.path("made"), wanted, "paper/node_label_19", 19)


BAD = {
    "number of vertices": (["--size", "small"], {}, ["1000000", "(50,)"]),
    "no header": ([], {"raw": True}, ["give --size, or --nodes"]),
    "wrong size of raw": (
        ["--raw", "--nodes", "49"],
        {"raw": True},
        ["found 200 bytes: wanted 196", "without a header"],
    ),
    "features' rows": (
        ["--nodes", "50"],
        {"paper__of__node_feat": np.zeros((49, 8), np.float32)},
        ["(49, 8)", "each of the 50 vertices"],
    ),
    "class too large": (
        [],
        {"paper__of__node_label_19": np.full(N, 19, np.float32)},
        ["found class 19", "--classes 19"],
    ),
    "vertex out of range": (
        [],
        {"paper__cites__paper__of__edge_index": np.array([[0, 1], [50, 2], [1, 1]], np.int32)},
        ["found 50", "0 to 49"],
    ),
    "negative vertex": (
        [],
        {"paper__cites__paper__of__edge_index": np.array([[0, 1], [-3, 2], [1, 1]], np.int32)},
        ["found -3", "0 to 49"],
    ),
    "edges the other way round": (
        [],
        {"paper__cites__paper__of__edge_index": np.zeros((2, 30), np.int32)},
        ["(2, 30)", "(number of edges, 2)"],
    ),
    "more labelled than there are": (["--labelled", "51"], {}, ["--labelled 51 with 50"]),
}


def test_refused(box):
    for what, (options, changes, words) in BAD.items():
        folder = what.replace(" ", "-")
        write_igb(box, folder, **changes)
        result = import_igb(box, "-q", *options, source=folder)
        refused(box, result, *words, output="made")


def test_not_an_igb_folder(box):
    os.makedirs(box.path("igb"))
    refused(box, import_igb(box), "no processed/paper", "--size")
    refused(box, import_igb(box, "--size", "tiny"), "and so has its part tiny")


def test_truncated(box):
    write_igb(box)
    path = box.path("igb", "processed", "paper", "node_feat.npy")
    os.truncate(path, os.path.getsize(path) - 4)
    result = import_igb(box)
    assert result.rc == 2 and "node_feat.npy" in result.errors()[0], result
    assert not leftovers(box, "igb")
