"""`sluice generate`, `import` and `inspect`: what they make is right, whole or not there."""

import gzip
import hashlib
import json
import os
import signal

import numpy as np

from harness import cases, go_on, planted, read_json, small_job, write_dataset


def digest_of(folder):
    """One hash of every file but metadata.json, which names the folder."""
    total = hashlib.sha256()
    for name in sorted(os.listdir(folder)):
        if name.endswith(".npy"):
            with open(os.path.join(folder, name), "rb") as file:
                total.update(name.encode() + file.read())
    return total.hexdigest()


def load(folder):
    return {
        name[:-4]: np.load(os.path.join(folder, name))
        for name in os.listdir(folder)
        if name.endswith(".npy")
    }


def check_dataset(folder):
    """What DESIGN calls a data set directory; returns (metadata, arrays)."""
    meta, arrays = read_json(os.path.join(folder, "metadata.json")), load(folder)
    n = meta["num_nodes"]
    indptr, indices = arrays["indptr"], arrays["indices"]
    assert indptr.shape == (n + 1,) and indptr[0] == 0 and indptr[-1] == len(indices)
    assert (np.diff(indptr) >= 0).all()
    assert meta["num_edges"] == len(indices)
    assert len(indices) == 0 or (indices.min() >= 0 and indices.max() < n)
    if meta.get("feat_dim"):
        assert arrays["node_feat"].shape == (n, meta["feat_dim"])
        assert np.isfinite(arrays["node_feat"]).all()
    if meta.get("num_classes"):
        label = arrays["node_label"].reshape(-1)
        assert label.shape == (n,) and label.min() >= -1 and label.max() < meta["num_classes"]
    return meta, arrays


def leftovers(box, *known):
    """Names in the box that no test made."""
    standard = {"tmp", "logs", "cache", *known}
    return [n for n in os.listdir(box.folder) if n not in standard and not n.endswith(".json")]


SMALL = {
    "planted": ["--nodes", "5000", "--classes", "5", "--feat-dim", "12"],
    "rmat": ["--scale", "12", "--edge-factor", "8", "--feat-dim", "12", "--classes", "5"],
}


@cases("planted", "rmat")
def test_generate(box, kind):
    box.sluice("generate", kind, *SMALL[kind], "--out", "made").ok()
    meta, arrays = check_dataset(box.path("made"))
    assert meta["num_nodes"] == (5000 if kind == "planted" else 4096)
    split = np.concatenate([arrays["train_idx"], arrays["val_idx"], arrays["test_idx"]])
    assert sorted(split) == list(range(meta["num_nodes"])), "the split is no partition"
    degrees = np.diff(arrays["indptr"])
    assert degrees.max() > 8 * degrees.mean(), "no power law"
    assert not leftovers(box, "made"), leftovers(box, "made")


@cases("planted", "rmat")
def test_generate_is_seeded(box, kind):
    made = {}
    for name, extra in {
        "one": ["--seed", "5"],
        "same": ["--seed", "5", "--threads", "1"],
        "tight": ["--seed", "5", "--memory", "1MiB"],
        "other": ["--seed", "6"],
    }.items():
        box.sluice("generate", kind, *SMALL[kind], *extra, "--out", name).ok()
        made[name] = digest_of(box.path(name))
    assert made["one"] == made["same"] == made["tight"], made
    assert made["one"] != made["other"], made


def test_generate_undirected_graph_is_symmetric(box):
    box.sluice("generate", "planted", *SMALL["planted"], "--out", "made").ok()
    _, arrays = check_dataset(box.path("made"))
    to = np.repeat(np.arange(5000), np.diff(arrays["indptr"]))
    edges = set(zip(to.tolist(), arrays["indices"].tolist()))
    assert len(edges) == len(to), "an edge stands twice"
    assert all((b, a) in edges for a, b in edges)
    assert all(a != b for a, b in edges), "a self-loop"


def test_generate_planted_has_the_homophily_asked_for(box):
    box.sluice("generate", "planted", *SMALL["planted"], "--homophily", "0.7", "--out", "made").ok()
    _, arrays = check_dataset(box.path("made"))
    label = arrays["node_label"].reshape(-1)
    to = np.repeat(np.arange(5000), np.diff(arrays["indptr"]))
    share = (label[to] == label[arrays["indices"]]).mean()
    assert abs(share - 0.7) < 0.05, share


def test_generate_trains(box):
    box.sluice("generate", "planted", "--nodes", "3000", "--classes", "4", "--out", "made").ok()
    result, report = box.run(small_job("made", **{"epochs": 6}))
    result.ok()
    assert report["test_accuracy"] > 0.5


def test_generate_keeps_what_is_there(box):
    os.mkdir(box.path("made"))
    with open(box.path("made/thesis.txt"), "w") as file:
        file.write("precious")
    result = box.sluice("generate", "planted", *SMALL["planted"], "--out", "made")
    assert result.rc == 2 and result.err.startswith("sluice: ") and "made" in result.err, str(
        result
    )
    assert os.listdir(box.path("made")) == ["thesis.txt"]


@cases(
    ("nodes", ["planted", "--nodes", "0"], "nodes"),
    ("text", ["planted", "--nodes", "many"], "many"),
    ("homophily", ["planted", "--homophily", "1.5"], "homophily"),
    ("kind", ["plantd"], "planted"),
    ("option", ["planted", "--node", "5"], "--nodes"),
    ("ratios", ["planted", "--train-ratio", "0.9", "--val-ratio", "0.9"], "ratio"),
    ("scale", ["rmat", "--scale", "99"], "scale"),
    ("no-kind", [], "kind"),
)
def test_generate_refuses(box, name, arguments, word):
    result = box.sluice("generate", *arguments, "--out", "made")
    assert result.rc == 2, str(result)
    lines = result.err.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("sluice: "), str(result)
    assert word.lower() in lines[0].lower(), str(result)
    assert not leftovers(box), leftovers(box)


def test_generate_needs_out(box):
    result = box.sluice("generate", "planted")
    assert result.rc == 2 and "--out" in result.err, str(result)


PLANTED = ["planted", "--feat-dim", "64", "--nodes", "4000", "--edges", "60000", "--out", "big"]


@cases(("SIGINT", 130), ("SIGTERM", 130), ("SIGKILL", -9))
def test_generate_killed_in_the_middle_leaves_nothing_under_the_name(box, name, status):
    for moment in (1, 3, 6):
        env = {"SLUICE_FAILPOINT": f"command_staged:{moment}:stop"}
        running = box.start("generate", *PLANTED, env=env)
        pid = box.until_stopped(running)
        assert leftovers(box), "it stands still before it has begun"
        os.kill(pid, getattr(signal, name))
        go_on(pid)
        result = running.wait()
        assert result.rc == status, str(result)
        assert not os.path.exists(box.path("big")), os.listdir(box.path("big"))
        if name != "SIGKILL":
            assert not leftovers(box), leftovers(box)
    # Killed at the point, and what that left beside it does not disturb the next one.
    killed = box.sluice("generate", *PLANTED, env={"SLUICE_FAILPOINT": "command_staged:2"})
    assert killed.rc == -signal.SIGKILL, str(killed)
    box.sluice("generate", *PLANTED).ok()
    check_dataset(box.path("big"))
    assert not leftovers(box, "big"), leftovers(box)


# ---- inspect ------------------------------------------------------------------------------------


def test_inspect_says_what_is_there(box):
    dataset = box.shared_dataset("small")
    result = box.sluice("inspect", dataset).ok()
    arrays = load(dataset)
    plain = result.out.replace(",", "").replace("'", "").replace(" ", "").replace("_", "")
    for value in (1500, len(arrays["indices"]), 16, 4, np.diff(arrays["indptr"]).max()):
        assert str(value) in plain, f"{value} is not said\n{result}"


def test_inspect_does_not_change_the_data_set(box):
    dataset = write_dataset(box.path("data"), planted(n=300))
    before = digest_of(dataset)
    box.sluice("inspect", dataset).ok()
    assert digest_of(dataset) == before


def test_inspect_a_graph_without_features(box):
    dataset = write_dataset(
        box.path("bare"),
        {k: v for k, v in planted(n=300).items() if k in ("indptr", "indices")},
        metadata={"name": "bare", "num_nodes": 300, "num_edges": len(planted(n=300)["indices"])},
    )
    box.sluice("inspect", dataset).ok()


def test_inspect_in_a_folder_that_can_not_be_written(box):
    dataset = write_dataset(box.path("data"), planted(n=300))
    os.chmod(dataset, 0o555)
    box.without_privileges()
    for _ in range(2):
        box.sluice("inspect", dataset).ok()


# ---- import -------------------------------------------------------------------------------------


def edges_of(folder):
    _, arrays = check_dataset(folder)
    to = np.repeat(np.arange(len(arrays["indptr"]) - 1), np.diff(arrays["indptr"]))
    return sorted(zip(arrays["indices"].tolist(), to.tolist()))


def test_import_edge_list(box):
    with open(box.path("graph.txt"), "w") as file:
        file.write("# Directed graph\n# FromNodeId\tToNodeId\n0\t1\n0\t2\n2\t1\n3\t0\n1\t3\n")
    box.sluice("import", "edgelist", "graph.txt", "--out", "made").ok()
    assert edges_of(box.path("made")) == [(0, 1), (0, 2), (1, 3), (2, 1), (3, 0)]
    assert not leftovers(box, "made", "graph.txt"), leftovers(box, "made", "graph.txt")


def test_import_edge_list_gz(box):
    with gzip.open(box.path("graph.txt.gz"), "wt") as file:
        file.write("".join(f"{i} {(i * 7 + 3) % 1000}\n" for i in range(1000)))
    box.sluice("import", "edgelist", "graph.txt.gz", "--out", "made").ok()
    assert edges_of(box.path("made")) == sorted((i, (i * 7 + 3) % 1000) for i in range(1000))


@cases(
    ("text", "0 1\n1 two\n2 0\n", ["graph.txt", "2"]),
    ("one-column", "0 1\n1\n2 0\n", ["graph.txt", "2"]),
    ("negative", "0 1\n1 -2\n", ["graph.txt", "2"]),
    ("empty", "", ["graph.txt"]),
)
def test_import_refuses_edge_list(box, name, text, words):
    with open(box.path("graph.txt"), "w") as file:
        file.write(text)
    result = box.sluice("import", "edgelist", "graph.txt", "--out", "made")
    assert result.rc in (1, 2), str(result)
    lines = result.err.strip().splitlines()
    assert lines[-1].startswith("sluice: "), str(result)
    for word in words:
        assert word in lines[-1], str(result)
    assert not leftovers(box, "graph.txt"), leftovers(box, "graph.txt")


def write_gz(path, rows):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with gzip.open(path, "wt") as file:
        file.write("".join(",".join(map(str, np.atleast_1d(row))) + "\n" for row in rows))


def ogb_folder(box, arrays):
    """The layout that OGB's zip files of node property prediction have."""
    root = box.path("ogbn_test")
    n = len(arrays["indptr"]) - 1
    to = np.repeat(np.arange(n), np.diff(arrays["indptr"]))
    write_gz(f"{root}/raw/edge.csv.gz", np.stack([arrays["indices"], to], 1))
    write_gz(f"{root}/raw/num-node-list.csv.gz", [n])
    write_gz(f"{root}/raw/num-edge-list.csv.gz", [len(to)])
    write_gz(f"{root}/raw/node-feat.csv.gz", np.round(arrays["node_feat"], 4))
    write_gz(f"{root}/raw/node-label.csv.gz", arrays["node_label"])
    for part, name in (("train", "train"), ("valid", "val"), ("test", "test")):
        write_gz(f"{root}/split/time/{part}.csv.gz", arrays[f"{name}_idx"])
    return root


def test_import_ogb(box):
    arrays = planted(n=400)
    box.sluice("import", "ogb", ogb_folder(box, arrays), "--out", "made").ok()
    meta, made = check_dataset(box.path("made"))
    assert meta["num_nodes"] == 400 and meta["num_classes"] == 4
    assert (made["indptr"] == arrays["indptr"]).all()
    assert edges_of(box.path("made")) == sorted(
        zip(
            arrays["indices"].tolist(),
            np.repeat(np.arange(400), np.diff(arrays["indptr"])).tolist(),
        )
    )
    assert np.allclose(made["node_feat"], arrays["node_feat"], atol=1e-4)
    assert (made["node_label"].reshape(-1) == arrays["node_label"]).all()
    for split in ("train_idx", "val_idx", "test_idx"):
        assert (made[split] == arrays[split]).all(), split


def test_import_ogb_with_a_file_missing(box):
    root = ogb_folder(box, planted(n=100))
    os.remove(f"{root}/raw/edge.csv.gz")
    result = box.sluice("import", "ogb", root, "--out", "made")
    assert result.rc == 2 and "edge.csv" in result.err, str(result)
    assert not leftovers(box, "ogbn_test"), leftovers(box, "ogbn_test")


def test_import_ogb_cut_in_the_middle(box):
    root = ogb_folder(box, planted(n=2000))
    path = f"{root}/raw/node-feat.csv.gz"
    with open(path, "rb") as file:
        blob = file.read()
    with open(path, "wb") as file:
        file.write(blob[: len(blob) // 2])
    result = box.sluice("import", "ogb", root, "--out", "made")
    assert result.rc in (1, 2) and "node-feat.csv.gz" in result.err, str(result)
    assert not leftovers(box, "ogbn_test"), leftovers(box, "ogbn_test")


# ---- help and doctor ----------------------------------------------------------------------------


@cases(
    ("sluice", []),
    ("run", ["run"]),
    ("generate", ["generate"]),
    ("planted", ["generate", "planted"]),
    ("rmat", ["generate", "rmat"]),
    ("import", ["import"]),
    ("inspect", ["inspect"]),
    ("doctor", ["doctor"]),
)
def test_help(box, name, command):
    result = box.sluice(*command, "--help").ok()
    assert not result.err, str(result)
    assert "sluice" in result.out and len(result.out.splitlines()) >= 4, str(result)
    if command:
        assert "xample" in result.out, f"no example\n{result}"


def test_doctor(box):
    result = box.sluice("doctor").ok()
    text = result.out.lower()
    for word in ("core", "memory"):
        assert word in text, str(result)


def test_large_features_are_checked_in_a_sample(box):
    """1.2 GB of zeros, which take no room, and a NaN that only a look at all of them finds."""
    dataset = write_dataset(box.path("wide"), planted(n=300, feat_dim=4))
    features = os.path.join(dataset, "node_feat.npy")
    os.remove(features)
    wide = np.lib.format.open_memmap(features, mode="w+", dtype=np.float32, shape=(300, 1000000))
    metadata = read_json(os.path.join(dataset, "metadata.json"))
    with open(os.path.join(dataset, "metadata.json"), "w") as file:
        json.dump(dict(metadata, feat_dim=1000000), file)
    said = box.sluice("inspect", dataset).ok().out
    assert "of the features 256 MiB of 1.12 GiB, a sample: --full checks all" in said, said
    assert "a sample" not in box.sluice("inspect", dataset, "--full").ok().out
    wide.reshape(-1)[2 * (1 << 18)] = np.nan
    wide.flush()
    box.sluice("inspect", dataset).ok()
    refused = box.sluice("inspect", dataset, "--full")
    assert refused.rc == 2 and "node_feat.npy: row 0, column 524288 is NaN" in refused.err, refused
