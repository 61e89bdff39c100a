"""Features of edges that OGB's layouts and DGL's CSVDataset have, by relation, in the data set."""

import glob
import json
import os

import numpy as np

from harness import cases
from test_bad_input import refused
from test_dgl_csv import csv_folder, write_table
from test_typed_data import COUNT, front, mag_folder, reference, save_csv, zipped_folder

# Relations whose edges have features; the last has no edges.
WITH = {("author", "writes"), ("venue", "hosts"), ("paper", "has")}


def rows_of(edges):
    """Rows that tell which edge each one is."""
    numbers = np.arange(edges.shape[1], dtype=np.float32)
    return np.stack([numbers, numbers % 7 - 3, numbers / 2], 1)


def has_features(relation):
    return relation[:2] in WITH


def check_features(box, relations, reverse):
    """Each edge has its own row, and so has its reverse; others have none."""
    listed, indptr, indices, _ = reference(front("paper"), relations, reverse)
    found = np.load(box.path("made/indices.npy"))
    bases = np.cumsum([0] + [n for _, n, *_ in front("paper")])
    base = dict(zip([name for name, *_ in front("paper")], bases))
    row, n_seen = 0, 0
    for r in listed:
        rows = indptr[row : row + COUNT[r["target"]] + 1]
        row += COUNT[r["target"]]
        name = r["name"].removeprefix("rev_")
        swapped, within = name != r["name"], r["source"] == r["target"]
        of = next(t for t in relations
                  if t[1] == name and {t[0], t[2]} == {r["source"], r["target"]})  # fmt: skip
        path = box.path("made", "edge_feat.{source}.{name}.{target}.npy".format(**r))
        assert os.path.exists(path) == (has_features(of) and r["edges"] > 0), path
        if not os.path.exists(path):
            continue
        feat, wanted = np.load(path), rows_of(of[3])
        assert feat.dtype == np.float32 and feat.shape == (rows[-1] - rows[0], 3)
        number = feat[:, 0].astype(int)
        assert np.array_equal(feat, wanted[number])
        source = found[rows[0] : rows[-1]] - base[r["source"]]
        target = np.repeat(np.arange(len(rows) - 1), np.diff(rows))
        s, t = of[3][::-1] if swapped else of[3]
        there = (s[number] == source) & (t[number] == target)
        if reverse and within:
            there |= (t[number] == source) & (s[number] == target)
        else:
            assert sorted(number) == list(range(len(number)))
        assert there.all()
        n_seen += 1
    assert n_seen == (4 if reverse else 2), n_seen
    assert np.array_equal(np.load(box.path("made/indptr.npy")), indptr)
    assert not glob.glob(box.path("made/*.read.npy"))
    assert not os.path.exists(box.path("made/edge_weight.npy"))


def options_of(reverse):
    return ["--reverse"] if reverse else []


@cases(False, True)
def test_ogb(box, reverse):
    relations, _ = mag_folder(box)
    for r in filter(has_features, relations):
        folder = f"mag/raw/relations/{'___'.join(r[:3])}"
        save_csv(box, f"{folder}/edge-feat.csv.gz", rows_of(r[3]))
    box.sluice("import", "ogb", "mag", *options_of(reverse), "--out", "made").ok()
    check_features(box, relations, reverse)


def zipped(box):
    relations, _ = zipped_folder(box)
    feats = {"___".join(r[:3]): rows_of(r[3]) for r in relations if has_features(r)}
    np.savez_compressed(box.path("zip/raw/edge_feat_dict.npz"), **feats)
    return relations, feats


@cases(False, True)
def test_ogb_binary(box, reverse):
    relations, feats = zipped(box)
    options = [*options_of(reverse), "--normalize-features"]  # those of vertices
    said = box.sluice("import", "ogb", "zip", *options, "--out", "made").ok().out
    assert "edge_feat" not in said, said
    check_features(box, relations, reverse)
    first = next(iter(feats))
    np.savez(box.path("zip/raw/edge_feat_dict.npz"), **{first: feats[first][1:]})
    said = box.sluice("import", "ogb", "zip", "-q", "--out", "other")
    refused(box, said, "edge_feat_dict.npz", "a row for each of the 400 edges", output="other")


def test_options_that_edges_with_features_cannot_have(box):
    """What was imported with them is so still, without."""
    zipped(box)
    said = box.sluice("import", "ogb", "zip", "--add-self-loops", "--out", "made").ok().out
    assert "edge_feat_dict.npz (--add-self-loops)" in said, said
    assert not glob.glob(box.path("made/edge_feat*"))


def dgl(box, column):
    relations, *_ = csv_folder(box, "gaps", ",", 1)
    relations = [r[:4] + (None,) for r in relations]
    for i, r in enumerate(relations):
        with open(box.path(f"csv/{i}.csv"), encoding="utf-8") as f:
            lines = [line.rstrip("\n").split(",") for line in f]
        columns = {"src_id": [c[0] for c in lines[1:]], "dst_id": [c[1] for c in lines[1:]]}
        if has_features(r):
            columns[column] = [json.dumps(row.tolist()) for row in rows_of(r[3])]
        columns["since"] = ["x"] * len(lines[1:])
        write_table(box, f"csv/{i}.csv", columns, ",")
    return relations


@cases(False, True)
def test_dgl_csv(box, reverse):
    relations = dgl(box, "feat")
    said = box.sluice("import", "dgl-csv", "csv", *options_of(reverse), "--out", "made").ok().out
    assert "since of writes" in said and "feat of" not in said, said
    check_features(box, relations, reverse)
    options = ["--edge-features", ""]
    said = box.sluice("import", "dgl-csv", "csv", *options, "--out", "none").ok().out
    assert "feat of writes" in said and not glob.glob(box.path("none/edge_feat*")), said


def test_columns_of_dgl_csv(box):
    relations = dgl(box, "how")
    options = ["--edge-features", "how"]
    box.sluice("import", "dgl-csv", "csv", *options, "--out", "made").ok()
    check_features(box, relations, False)

    def fails(words, *options):
        said = box.sluice("import", "dgl-csv", "csv", *options, "-q", "--out", "other")
        refused(box, said, *words, output="other")

    fails(["--edge-features hwo", "no file of edges has such a column"], "--edge-features", "hwo")
    fails(["column since", "found 'x'"], "--edge-features", "since")
    fails(["times or features of edges", "--add-self-loops"], *options, "--add-self-loops")
