"""Features of edges of a plain graph, from the layouts that have some, in the data set:
edge_feat.npy in the order of its edges."""

import glob
import gzip
import json
import os

import numpy as np

from harness import cases, small_job
from test_bad_input import refused

N, E = 60, 400


def graph():
    """Edges, of which the first five are there again, behind a loop; a row tells which edge it is
    of."""
    rng = np.random.default_rng(4)
    edges = rng.integers(0, N, (2, E))
    edges[:, 10] = 7
    edges[:, 20:25] = edges[:, :5]
    numbers = np.arange(E, dtype=np.float32)
    return edges, np.stack([numbers, numbers % 7 - 3, numbers / 2], 1)


def write_text(path, lines):
    with (gzip.open(path, "wt") if path.endswith(".gz") else open(path, "w")) as f:
        f.writelines(f"{line}\n" for line in lines)


def rows_as_text(rows):
    return (",".join(map(str, row)) for row in rows.tolist())


def dgl_csv(folder, edges, feat, weight):
    write_text(f"{folder}/meta.yaml", [
        "dataset_name: plain", "node_data:", "- file_name: nodes.csv", "edge_data:",
        "- file_name: edges.csv"])  # fmt: skip
    x, y = vertices()
    write_text(f"{folder}/nodes.csv", ["node_id,label,feat"] + [
        f'{i},{y[i]},"{",".join(map(str, x[i].tolist()))}"' for i in range(N)])
    write_text(f"{folder}/edges.csv", ["src_id,dst_id,feat" + ",weight" * weight] + [
        f'{s},{d},"{row}"' + f",{i + 1}" * weight
        for i, ((s, d), row) in enumerate(zip(edges.T.tolist(), rows_as_text(feat)))])


def vertices():
    rng = np.random.default_rng(5)
    return rng.standard_normal((N, 4)).astype(np.float32), rng.integers(0, 3, N)


def ogb(folder, edges, feat, weight):
    raw = f"{folder}/raw"
    os.mkdir(raw)
    x, y = vertices()
    write_text(f"{raw}/num-node-list.csv.gz", [N])
    write_text(f"{raw}/num-edge-list.csv.gz", [E])
    write_text(f"{raw}/edge.csv.gz", rows_as_text(edges.T))
    write_text(f"{raw}/edge-feat.csv.gz", rows_as_text(feat))
    write_text(f"{raw}/node-feat.csv.gz", rows_as_text(x))
    write_text(f"{raw}/node-label.csv.gz", y.tolist())
    if weight:
        write_text(f"{raw}/edge_weight.csv.gz", range(1, E + 1))


def ogb_binary(folder, edges, feat, _):
    os.mkdir(f"{folder}/raw")
    x, y = vertices()
    np.savez(f"{folder}/raw/data.npz", num_nodes_list=[N], num_edges_list=[E], edge_index=edges,
             edge_feat=feat, node_feat=x)  # fmt: skip
    np.savez(f"{folder}/raw/node-label.npz", node_label=y[:, None])


def pyg(folder, edges, feat, weight):
    x, y = vertices()
    arrays = {"edge_index": edges, "edge_attr": feat, "x": x, "y": y}
    if weight:
        arrays["edge_weight"] = np.arange(1, E + 1, dtype=np.float32)
    for name, array in arrays.items():
        np.save(f"{folder}/{name}.npy", array)


LAYOUTS = {"dgl-csv": dgl_csv, "ogb": ogb, "ogb binary": ogb_binary, "pyg": pyg}
SHARES = ("--split", "0.5,0.2")


def imported(box, layout, *options, feat=None, weight=False, out="made"):
    edges, rows = graph()
    os.makedirs(box.path("from"), exist_ok=True)
    if not os.listdir(box.path("from")):
        LAYOUTS[layout](box.path("from"), edges, rows if feat is None else feat, weight)
    return box.sluice("import", layout.split()[0], "from", *SHARES, *options, "--out", out)


def numbers_of(box, both=False, dtype=np.float32):
    """Which edge of the source each one has the features of: its own ends, or where reverses were
    added those the other way."""
    (s, d), rows = graph()
    feat, indptr = (np.load(box.path("made", f"{n}.npy")) for n in ("edge_feat", "indptr"))
    source, target = np.load(box.path("made/indices.npy")), np.repeat(np.arange(N), np.diff(indptr))
    assert feat.dtype == dtype and feat.shape == (indptr[-1], 3)
    number = feat[:, 0].astype(int)
    assert np.array_equal(feat, rows[number].astype(dtype))
    there = (s[number] == source) & (d[number] == target)
    if both:
        there |= (d[number] == source) & (s[number] == target)
    assert there.all()
    assert not os.path.exists(box.path("made/edge_weight.npy"))
    assert not glob.glob(box.path("made/*.read.npy"))
    return number


@cases(*LAYOUTS)
def test_each_edge_has_its_own_row(box, layout):
    said = imported(box, layout, "--normalize-features").ok().out  # those of vertices
    assert "400, with features" in said and "left out" not in said, said
    assert sorted(numbers_of(box)) == list(range(E))


@cases("dgl-csv", "ogb", "pyg")
def test_a_model_reads_them(box, layout):
    imported(box, layout, "-q").ok()
    model = {"kind": "gatv2", "layers": 2, "hidden": 8, "heads": 2, "edge_features": True}
    losses = []
    for output in "seen", "other":
        _, report = box.run(small_job("made", model=model, output=f"runs/{output}"), name=output)
        losses.append(report["epochs"][0]["loss"])
        rows = np.load(box.path("made/edge_feat.npy"))
        np.save(box.path("made/edge_feat.npy"), rows[::-1])
    assert losses[0] != losses[1], losses


def test_edges_that_are_kept_once(box):
    """Of equal edges the first one's are kept; a reverse has those of its edge."""
    (s, d), _ = graph()
    first = {}
    for i, ends in enumerate(zip(s.tolist(), d.tolist())):
        first.setdefault(ends, i)
    imported(box, "pyg", "--dedup", "-q").ok()
    assert sorted(numbers_of(box)) == sorted(first.values())
    imported(box, "pyg", "--symmetrise", "-q", "--force").ok()
    number = numbers_of(box, both=True)
    assert set(first.values()) == set(number), number
    indptr, indices = np.load(box.path("made/indptr.npy")), np.load(box.path("made/indices.npy"))
    target = np.repeat(np.arange(N), np.diff(indptr))
    for source, target, i in np.stack([indices, target, number], 1).tolist():
        assert i == first.get((source, target), first.get((target, source))), (source, target, i)


def test_edges_whose_inverses_are_added(box):
    imported(box, "ogb", "--add-inverse-edge", "-q").ok()
    assert sorted(numbers_of(box, both=True)) == sorted(2 * list(range(E)))


def test_other_options(box):
    imported(box, "ogb binary", "--remove-self-loops", "--f16", "-q").ok()
    (s, d), _ = graph()
    kept = np.flatnonzero(s != d)
    assert sorted(numbers_of(box, dtype=np.float16)) == kept.tolist()
    imported(box, "ogb binary", "--holdout", "0.1,0.1", "-q", "--force").ok()
    number = numbers_of(box)
    assert 0.7 * E < len(number) < 0.9 * E and len(set(number)) == len(number)


@cases("dgl-csv", "ogb", "pyg")
def test_weights_come_first(box, layout):
    said = imported(box, layout, weight=True).ok().out
    assert "with weights" in said and "left out" in said, said
    assert not os.path.exists(box.path("made/edge_feat.npy"))
    imported(box, layout, "--no-weights", "-q", "--force").ok()
    assert sorted(numbers_of(box)) == list(range(E))


def test_columns_of_dgl_csv(box):
    said = imported(box, "dgl-csv", "--edge-features", "").ok().out
    assert "feat of _E" in said and not os.path.exists(box.path("made/edge_feat.npy")), said
    imported(box, "dgl-csv", "--edge-features", "feat", "-q", "--force").ok()
    assert sorted(numbers_of(box)) == list(range(E))
    for words, *options in (
        (["--edge-features hwo", "no file of edges has such a column"], "hwo"),
        (["--edge-features: features of edges do not go with --add-self-loops"], "feat",
         "--add-self-loops"),
    ):
        said = imported(box, "dgl-csv", "-q", "--edge-features", *options, out="other")
        refused(box, said, *words, output="other")


def test_what_edges_with_features_cannot_have(box):
    """What was imported with it is so still, without."""
    said = imported(box, "ogb", "--add-self-loops").ok().out
    assert "edge-feat (--add-self-loops)" in said, said
    assert not os.path.exists(box.path("made/edge_feat.npy"))


def test_rows_that_are_missing(box):
    _, feat = graph()
    said = imported(box, "pyg", "-q", feat=feat[1:])
    refused(box, said, "edge_attr: found 399 rows, wanted one for each of 400 edges", output="made")


def test_numbers_of_one_column(box):
    """Weights, or with --no-weights features."""
    edges, feat = graph()
    os.mkdir(box.path("from"))
    pyg(box.path("from"), edges, feat[:, 0], False)
    imported(box, "pyg", "-q").ok()
    assert not os.path.exists(box.path("made/edge_feat.npy"))
    imported(box, "pyg", "--no-weights", "-q", "--force").ok()
    rows = np.load(box.path("made/edge_feat.npy"))
    assert rows.shape == (E, 1) and sorted(rows[:, 0]) == list(range(E))
    with open(box.path("made/metadata.json"), encoding="utf-8") as f:
        assert json.load(f)["num_edges"] == E
