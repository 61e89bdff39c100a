"""`sluice generate bipartite`: the best ranking that it says is the one that its truth gives.

What users and items have, and with which chances: tests/unit/test_dataset_bipartite.c.
"""

import json
import os
import re
import subprocess
import sys

import numpy as np

from harness import ROOT, cases, whole, write_dataset
from test_bad_input import refused


def make(box, *options, out="made"):
    made = ("generate", "bipartite", "--out", out, *options, "--output", "json")
    return json.loads(box.sluice(*made).ok().out)["metadata"]


def load(box, name):
    return np.load(box.path(f"made/{name}.npy"))


def hits(box, rows, split, k=20):
    """The share of held-out items that `sluice retrieve` finds for their users."""
    pairs = load(box, f"{split}_edges")
    users = np.unique(pairs[:, 0])
    np.save(box.path("rows.npy"), rows.astype(np.float32))
    np.save(box.path("sources.npy"), users)
    only = ("--targets", "made/items.npy", "--exclude-known", "--dataset", "made")
    asked = ("--sources", "sources.npy", "--k", str(k), "--out", "top.npy", "--force", "--quiet")
    box.sluice("retrieve", "rows.npy", *only, *asked).ok()
    top = np.load(box.path("top.npy"))
    return (top[np.searchsorted(users, pairs[:, 0])] == pairs[:, 1:]).any(1).mean()


KINDS = {
    "default": (),
    "skewed": ("--exponent", "2.1", "--user-exponent", "2.8", "--degree", "9"),
    "even": ("--exponent", "100", "--tastes-each", "1"),
    "dense": ("--items", "60", "--degree", "25", "--tastes", "6", "--user-exponent", "50"),
    "strict": ("--stray", "0", "--tastes", "30", "--tastes-each", "16"),
}


@cases(*KINDS)
def test_truth_reaches_the_best(box, kind):
    size = ("--users", "3000", "--items", "800", "--tastes", "40", "--feat-dim", "0")
    best = make(box, *size, *KINDS[kind], "--truth")["generator"]["best_hits"]
    truth = load(box, "node_truth")
    assert best["k"] == 20
    for split in ("val", "test"):
        assert abs(hits(box, truth, split) - best[split]) < 1e-12, split
    # What knows less finds less: how popular items are, and nothing.
    popular = np.ones((len(truth), 1), np.float32)
    popular[3000:, 0] = np.diff(load(box, "indptr"))[3000:]
    random = np.random.default_rng(1).standard_normal(truth.shape)
    nothing, some = hits(box, random, "test"), hits(box, popular, "test")
    assert nothing < some < best["test"], (nothing, some, best)
    assert kind == "dense" or nothing < 0.1 < best["test"], (nothing, best)


def test_features_tell_tastes_and_degrees(box):
    make(box, "--users", "4000", "--items", "900", "--tastes", "8", "--truth")
    truth, feat = load(box, "node_truth"), load(box, "node_feat")
    degree = np.log(np.diff(load(box, "indptr")) + 1.0)
    of = truth[4000:].argmax(1)
    means = np.stack([feat[4000:][of == c, 1:].mean(0) for c in range(8)])
    nearest = np.linalg.norm(feat[4000:, None, 1:] - means, axis=2).argmin(1)
    assert (nearest == of).mean() > 0.5
    found = feat[:4000, 1:] @ means.T
    assert np.corrcoef(found.ravel(), truth[:4000].ravel())[0, 1] > 0.5
    for side in (slice(0, 4000), slice(4000, None)):
        assert np.corrcoef(feat[side, 0], degree[side])[0, 1] > 0.7


def test_inspect_says_the_sides(box):
    make(box, "--users", "300", "--items", "90", "--tastes", "5")
    found = json.loads(box.sluice("inspect", "made", "--full", "-o", "json").ok().out)
    assert found["sides"] == {"first": 300, "second": 90, "edges_within": 0}
    assert found["edges"] == {"train": 5400, "val": 300, "test": 300}
    text = box.sluice("inspect", "made").ok().out
    assert "300 vertices, then 90; 0 edges within a side" in text
    box.sluice("reorder", "made", "--by", "degree", "--out", "mixed", "--quiet").ok()
    assert "sides" not in json.loads(box.sluice("inspect", "mixed", "-o", "json").ok().out)


def test_sides_of_other_data(box):
    with open(box.path("one.txt"), "w") as file:
        file.write("1 1\n2 1\n2 3\n")
    made = ("import", "edgelist", "one.txt", "--bipartite", "2", "--out", "one", "--quiet")
    box.sluice(*made).ok()
    found = json.loads(box.sluice("inspect", "one", "-o", "json").ok().out)
    assert found["sides"] == {"first": 3, "second": 3, "edges_within": 0}  # ids from 1
    arrays = {"indptr": np.array([0, 1, 3, 3]), "indices": np.array([1, 0, 2])}
    about = {"num_nodes": 3, "num_edges": 3, "first_side": 1}
    write_dataset(box.path("mine"), arrays, metadata=about)
    assert "1 edges within a side" in box.sluice("inspect", "mine").ok().out
    write_dataset(box.path("bad"), arrays, metadata={**about, "first_side": 4})
    words = ("bad/metadata.json", '"first_side" is 4', "num_nodes = 3")
    refused(box, box.sluice("inspect", "bad"), *words, output="")


def test_advice_is_followed(box):
    size = ("--users", "50", "--items", "200", "--tastes", "10", "--edges", "6000")
    result = box.sluice("generate", "bipartite", "--out", "made", *size)
    refused(box, result, "--user-exponent", "more --items", "fewer edges", output="made")
    make(box, *size, "--user-exponent", "20")


@whole
def test_worked_pinsage(box):
    """The commands of examples/README.md, word for word."""
    os.symlink(f"{ROOT}/examples", box.path("examples"))
    with open(f"{ROOT}/examples/README.md", encoding="utf-8") as file:
        commands = re.findall(r"^    ((?:mkdir|sluice|python3) .*)$", file.read(), re.M)
    *made, hits = [command.split() for command in commands]
    assert len(made) == 4 and hits[0] == "python3", commands
    for name, *rest in made:
        if name == "sluice":
            box.sluice(*rest).ok()
        else:
            subprocess.run([name, *rest], cwd=box.path(), check=True)
    last = [sys.executable, *hits[1:]]
    said = subprocess.run(last, cwd=box.path(), capture_output=True, text=True, check=True).stdout
    hits, best = map(float, re.search(r"test: Hits@20 (\S+), at best (\S+)", said).groups())
    assert 0.7 * best < hits < best, said
    with open(box.path("runs/pinsage/report.json"), encoding="utf-8") as file:
        hard = [epoch["hard_negatives"] for epoch in json.load(file)["epochs"]]
    assert hard[0] == 0 < hard[1] < hard[2], hard
