"""`sluice split-edges`: which pairs are held out, and what is left, beside the same in NumPy."""

import json
import os
import shutil

import numpy as np

from harness import cases, planted, write_dataset
from test_bad_input import refused
from test_data_tools import leftovers

U64 = np.uint64


def mix(x):
    with np.errstate(over="ignore"):
        x = (x ^ x >> U64(30)) * U64(0xBF58476D1CE4E5B9)
        x = (x ^ x >> U64(27)) * U64(0x94D049BB133111EB)
        return x ^ x >> U64(31)


def numbers(pairs, seed):
    with np.errstate(over="ignore"):
        key = mix(np.array([seed], U64) + U64(0x9E3779B97F4A7C15))
    return mix((pairs[:, 0].astype(U64) << U64(32) | pairs[:, 1].astype(U64)) ^ key)


def tangle(n, n_edges, undirected, seed):
    """Repeated edges, self-loops, hubs, vertices without edges, lists in no order."""
    rng = np.random.default_rng(seed)
    edges = (n * rng.random((n_edges, 2)) ** 2.5).astype(np.int64) % max(n - 3, 1)
    edges = np.concatenate([edges, edges[: n_edges // 10], np.arange(n)[::7, None].repeat(2, 1)])
    if undirected:
        edges = np.concatenate([edges, edges[:, ::-1]])
    edges = rng.permutation(edges)
    edges = edges[np.argsort(edges[:, 1], kind="stable")]
    weight = rng.random(len(edges)).astype(np.float32)
    feat = rng.integers(0, 99, (len(edges), 3)).astype(np.int16)
    arrays = {
        "indptr": np.searchsorted(edges[:, 1], np.arange(n + 1)),
        "indices": edges[:, 0].astype(np.int32),
        "edge_weight": weight,
        "edge_feat": feat,
        "node_feat": rng.random((n, 4)).astype(np.float32),
    }
    return arrays, edges


def write(box, arrays):
    n, n_edges = len(arrays["indptr"]) - 1, len(arrays["indices"])
    about = {"num_nodes": n, "num_edges": n_edges, "feat_dim": arrays["node_feat"].shape[1]}
    write_dataset(box.path("data"), arrays, metadata=about)


def load(box, name):
    folder = box.path(name)
    arrays = {f[:-4]: np.load(os.path.join(folder, f)) for f in os.listdir(folder) if ".npy" in f}
    with open(os.path.join(folder, "metadata.json")) as file:
        return arrays, json.load(file)


def pairs_of(edges, undirected):
    pairs = np.sort(edges, axis=1) if undirected else edges
    return np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)


def kept_numbers(pairs, number, n):
    """The largest number of each vertex's pairs."""
    own = np.zeros(n, U64)
    for side in (0, 1):
        np.maximum.at(own, pairs[:, side], number)
    return own


def check(arrays, edges, made, undirected, shares, seed, keep):
    """What was held out is what NumPy holds out, and the rest is what was there, in its order."""
    n = len(arrays["indptr"]) - 1
    pairs = pairs_of(edges, undirected)
    number = numbers(pairs, seed)
    may = np.ones(len(pairs), bool)
    if keep:
        own = kept_numbers(pairs, number, n)
        may = (own[pairs[:, 0]] != number) & (own[pairs[:, 1]] != number)
    order = np.flatnonzero(may)[np.argsort(number[may])]
    n_val, n_test = (int(np.floor(share * len(pairs) + 0.5)) for share in shares)
    wanted = {"test": order[:n_test], "val": order[n_test : n_test + n_val]}
    held = set()
    for split, which in wanted.items():
        found = made[f"{split}_edges"]
        assert np.array_equal(found, found[np.lexsort((found[:, 0], found[:, 1]))])
        assert np.array_equal(np.unique(found, axis=0), np.unique(pairs[which], axis=0)), split
        assert len(found) == len(which)
        held |= {tuple(p) for p in pairs[which].tolist()}
    key = np.sort(edges, axis=1) if undirected else edges
    left = np.array([tuple(k) not in held for k in key.tolist()], bool)
    assert np.array_equal(made["indices"], arrays["indices"][left])
    assert np.array_equal(made["indptr"], np.searchsorted(edges[left, 1], np.arange(n + 1)))
    for name in ("edge_weight", "edge_feat"):
        assert made[name].dtype == arrays[name].dtype
        assert np.array_equal(made[name], arrays[name][left]), name
    assert np.array_equal(made["node_feat"], arrays["node_feat"])
    return edges[left]


@cases("undirected", "directed")
def test_beside_numpy(box, kind):
    undirected = kind == "undirected"
    for n, n_edges, seed in ((14, 90, 1), (4097, 9000, 2), (700, 20000, 3)):
        arrays, edges = tangle(n, n_edges, undirected, seed)
        shutil.rmtree(box.path("data"), ignore_errors=True)
        write(box, arrays)
        for keep, shares in ((False, (0.2, 0.3)), (True, (0.0, 0.1)), (False, (0.3, 0.0))):
            options = ["--val", str(shares[0]), "--test", str(shares[1]), "--seed", str(seed)]
            options += ["--keep-one"] if keep else []
            outs = []
            for threads in ("1", "3"):
                command = ["split-edges", "data", "--out", "made", "--force", "--threads", threads]
                box.sluice(*command, *options).ok()
                outs.append(load(box, "made"))
            made, about = outs[0]
            assert about == outs[1][1] and about["num_edges"] == len(made["indices"])
            assert all(np.array_equal(made[k], outs[1][0][k]) for k in made)
            assert about["edge_split"]["pairs"] == kind
            left = check(arrays, edges, made, undirected, shares, seed, keep)
            if keep:
                touched = {v for e in edges.tolist() if e[0] != e[1] for v in e}
                assert touched == {v for e in left.tolist() if e[0] != e[1] for v in e}
            box.sluice("inspect", "made", "--full").ok()


def test_a_larger_test_has_a_smaller_one(box):
    write_dataset(box.path("data"), planted(n=300))
    found = []
    for share in ("0.1", "0.3"):
        box.sluice("split-edges", "data", "--out", share, "--test", share, "--val", "0").ok()
        found.append({tuple(p) for p in load(box, share)[0]["test_edges"].tolist()})
    assert found[0] < found[1]


def test_what_is_refused(box):
    arrays = planted(n=200)
    write_dataset(box.path("data"), arrays)
    split = ("split-edges", "data", "--out", "made", "--quiet")
    said = box.sluice(*split, "--val", "0.5", "--test", "0.5")
    refused(box, said, "--val 0.5 and --test 0.5", "below 1 together")
    refused(box, box.sluice(*split, "--val", "0", "--test", "0"), "wanted one at least")
    said = box.sluice(*split, "--pairs", "undirected")
    refused(box, said, "without their reverse", "--symmetrise")
    said = box.sluice(*split, "--keep-one", "--test", "0.9")
    refused(box, said, "with --keep-one", "take smaller shares")
    assert not os.path.exists(box.path("made"))
    box.sluice(*split).ok()
    said = box.sluice("split-edges", "made", "--out", "again")
    refused(box, said, "val_edges.npy", "held out already")


FAULTY = {
    "columns": (np.zeros((2, 3), np.int32), "is int32 (2, 3), wanted (n, 2)", "edge_index.T"),
    "floats": (np.zeros((3, 2), np.float32), "is float32 (3, 2), wanted (n, 2)", "astype"),
    "target": (np.array([[0, 1], [2, 200]]), "the target of pair 1 is 200", "num_nodes = 200"),
    "source": (np.array([[0, 1], [-1, 2]]), "the source of pair 1 is -1"),
}


@cases(*FAULTY)
def test_pairs_that_are_none(box, what):
    pairs, *words = FAULTY[what]
    write_dataset(box.path("data"), planted(n=200))
    np.save(box.path("data/val_edges.npy"), pairs)
    refused(box, box.sluice("inspect", "data"), "val_edges.npy", *words)


def test_pairs_are_those_of_a_reordered_data_set(box):
    write(box, tangle(400, 3000, True, 5)[0])
    box.sluice("split-edges", "data", "--out", "made").ok()
    box.sluice("reorder", "made", "--by", "degree", "--out", "sorted").ok()
    made, ordered = load(box, "made")[0], load(box, "sorted")[0]
    back = ordered["vertex_map"].astype(np.int64)
    for split in ("val", "test"):
        assert np.array_equal(back[ordered[f"{split}_edges"]], made[f"{split}_edges"])
    said = box.sluice("inspect", "sorted", "-o", "json").ok().json()
    assert said["edges"] == {k: len(made[f"{k}_edges"]) for k in ("val", "test")}


# ---- held out by an import ----------------------------------------------------------------------


def write_list(box, *columns):
    np.savetxt(box.path("list.txt"), np.column_stack(columns), fmt="%d")


@cases((), ("--undirected", "--keep-one"), ("--symmetrise", "--pairs", "undirected"))
def test_an_import_holds_out_as_the_command_does(box, *options):
    _, edges = tangle(300, 4000, False, 5)
    rng = np.random.default_rng(4)
    write_list(box, edges, rng.integers(1, 9, len(edges)))
    ours = [o for o in options if o in ("--keep-one", "--pairs")]
    ours += ["undirected"] if "--pairs" in options else []
    theirs = [o for o in options if o in ("--undirected", "--symmetrise")]
    listed = ("import", "edgelist", "list.txt")
    box.sluice(*listed, *theirs, "--out", "whole").ok()
    shares = ("--val", "0.1", "--test", "0.2", "--seed", "7")
    box.sluice("split-edges", "whole", *shares, *ours, "--out", "split").ok()
    holdout = ("--holdout", "0.1,0.2", "--seed", "7")
    assert "are left" in box.sluice(*listed, *options, *holdout, "--out", "made").ok().out
    (made, about), (split, other) = load(box, "made"), load(box, "split")
    assert sorted(made) == sorted(split) and "edge_weight" in made
    for name in made:
        assert np.array_equal(made[name], split[name]), name
    del other["edge_split"]["of"]
    assert about["edge_split"] == other["edge_split"] and "temporary" not in about
    assert about["num_edges"] == other["num_edges"]
    box.sluice("inspect", "made", "--full").ok()


def by_time(edges, time, undirected, shares, seed):
    """The pairs of validation and test: the latest ones, by the latest edge of each."""
    ends = np.sort(edges, axis=1) if undirected else edges
    pairs, at = np.unique(ends, axis=0, return_inverse=True)
    latest = np.full(len(pairs), -1)
    np.maximum.at(latest, at.ravel(), time)
    proper = pairs[:, 0] != pairs[:, 1]
    pairs, latest = pairs[proper], latest[proper]
    order = np.lexsort((numbers(pairs, seed), -latest))
    n_val, n_test = (int(np.floor(share * len(pairs) + 0.5)) for share in shares)
    test, val = order[:n_test], order[n_test : n_test + n_val]
    return {"test": (pairs[test], latest[test]), "val": (pairs[val], latest[val])}


# Ties, seconds since 1970, and the ends of what there may be.
SPANS = ((0, 4), (1_600_000_000, 1_700_000_000), (0, 2_139_095_039))


@cases("directed", "undirected", "symmetrise", "relabel")
def test_by_time(box, kind):
    _, edges = tangle(120, 900, False, 6)
    edges = np.concatenate([edges, np.arange(120)[:, None].repeat(2, 1)])  # all vertices are there
    rng = np.random.default_rng(8)
    undirected = kind in ("undirected", "symmetrise")
    for seed, (low, high) in enumerate(SPANS):
        time = rng.integers(low, high, len(edges), endpoint=True)
        weight = [rng.integers(1, 9, len(edges))] if seed else []
        write_list(box, edges, *weight, time)
        options = ["--holdout", "0.1,0.15", "--by-time", "--seed", str(seed), "--out", "made"]
        options += [] if kind == "directed" else [f"--{kind}"]
        options += [] if undirected else ["--pairs", "directed"]
        box.sluice("import", "edgelist", "list.txt", *options, "--force").ok()
        made, about = load(box, "made")
        held = set()
        for split, (pairs, _) in by_time(edges, time, undirected, (0.1, 0.15), seed).items():
            rows = set(map(tuple, pairs.tolist()))
            assert set(map(tuple, made[f"{split}_edges"].tolist())) == rows, (kind, split)
            assert len(made[f"{split}_edges"]) == len(rows)
            held |= rows
        left = [p for p in edges.tolist() if tuple(sorted(p) if undirected else p) not in held]
        left += [p[::-1] for p in left if undirected and p[0] != p[1]]
        left = sorted(set(map(tuple, left))) if kind == "symmetrise" else sorted(map(tuple, left))
        target = np.repeat(np.arange(120), np.diff(made["indptr"]))
        found = np.stack([made["indices"], target], 1)
        assert sorted(map(tuple, found.tolist())) == left
        assert "edge_weight" not in made and about["edge_split"]["by_time"]


HOLDOUTS = {
    "one": (["--holdout", "0.1"], "wanted VAL,TEST", "0.05,0.1"),
    "three": (["--holdout", "0.1,0.1,0.1"], "wanted VAL,TEST"),
    "text": (["--holdout", "a,b"], "'a,b'", "wanted VAL,TEST"),
    "all": (["--holdout", "0.5,0.5"], "below 1 together"),
    "minus": (["--holdout=-0.1,0.5"], "from 0"),
    "none": (["--holdout", "0,0"], "--holdout 0,0 of 2 pairs", "one at least"),
    "alone": (["--keep-one"], "--keep-one without --holdout"),
    "time alone": (["--by-time"], "--by-time without --holdout"),
    "weights": (["--holdout", "0,0.5", "--by-time", "--weights"], "both given", "leave one out"),
    "one way": (["--holdout", "0,0.5", "--pairs", "undirected"], "list.txt", "--symmetrise"),
    "kept": (["--holdout", "0,0.9", "--keep-one"], "list.txt: --holdout 0,0.9 are 2 pairs"),
    "columns": (["--holdout", "0,0.5", "--by-time", "--columns", "1,2"], "line 1", "no time"),
    "milliseconds": (["--holdout", "0,0.5", "--by-time"], "line 2", "1700000000000", "divide"),
}


@cases(*HOLDOUTS)
def test_what_an_import_does_not_hold_out(box, what):
    options, *words = HOLDOUTS[what]
    write_list(box, [[0, 1], [1, 2]], [5, 1_700_000_000_000])
    said = box.sluice("import", "edgelist", "list.txt", "--out", "made", "-q", *options)
    refused(box, said, *words, output="made")
    assert not leftovers(box, "list.txt")
