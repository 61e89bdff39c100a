"""`sluice reorder`: the same graph under other numbers, and the same training."""

import os
import shutil

import numpy as np

from harness import cases, metadata_of, planted, read_json, small_job, write_dataset
from test_bad_input import refused
from test_data_tools import check_dataset, digest_of, leftovers, load
from test_typed_jobs import job, papers

KINDS = ("degree", "hotness", "reads", "bfs")


def graph(**extra):
    """A graph with weights, extra arrays, isolated vertices and self-loops."""
    arrays = planted(n=700)
    rng = np.random.default_rng(3)
    arrays["edge_weight"] = rng.random(len(arrays["indices"])).astype(np.float32)
    arrays["edge_feat"] = rng.random((len(arrays["indices"]), 3))
    arrays["node_year"] = rng.integers(1990, 2020, 700).astype(np.int16)
    arrays["train_idx"] = rng.permutation(arrays["train_idx"])  # an order that is to be kept
    arrays.update(extra)
    return arrays


def rows_of(arrays):
    return np.split(arrays["indices"], arrays["indptr"][1:-1])


def assert_same_graph(old, new, order):
    """`new` is `old` with vertex order[v] named v."""
    n = len(order)
    assert sorted(order) == list(range(n)), "the map is no permutation"
    rank = np.empty(n, np.int64)
    rank[order] = np.arange(n)
    before, after = rows_of(old), rows_of(new)
    for v in range(n):
        assert (after[v] == rank[before[order[v]]]).all(), v
    for name in ("node_feat", "node_year"):
        assert new[name].dtype == old[name].dtype
        assert (new[name] == old[name][order]).all(), name
    assert (new["node_label"].reshape(-1) == old["node_label"][order]).all()
    for name in ("edge_weight", "edge_feat"):
        rows = np.split(old[name], old["indptr"][1:-1])
        assert (new[name] == np.concatenate([rows[v] for v in order])).all(), name
    for name in ("train_idx", "val_idx", "test_idx"):
        assert (new[name] == rank[old[name]]).all(), name


def degree_order(arrays):
    out_degree = np.bincount(arrays["indices"], minlength=len(arrays["indptr"]) - 1)
    return np.argsort(-out_degree, kind="stable")


def bfs_order(arrays):
    rows, n = rows_of(arrays), len(arrays["indptr"]) - 1
    seen, order = np.zeros(n, bool), []
    for start in np.argsort(-np.diff(arrays["indptr"]), kind="stable"):
        if seen[start]:
            continue
        seen[start] = True
        queue = [start]
        while queue:
            v = queue.pop(0)
            order.append(v)
            for u in rows[v]:
                if not seen[u]:
                    seen[u] = True
                    queue.append(u)
    return np.array(order)


def expected_visits(arrays, fanout):
    n, degree = len(arrays["indptr"]) - 1, np.diff(arrays["indptr"])
    to = np.repeat(np.arange(n), degree)
    p = np.zeros(n)
    p[arrays["train_idx"]] = 1
    for k in fanout:  # each hop draws for all that its batch knows
        share = p[to] * (1 if k < 0 else np.minimum(1, k / degree[to]))
        p += np.bincount(arrays["indices"], share, n)
    return p


def reorder(box, by, source="old", out="new", *options):
    return box.sluice("reorder", source, "--by", by, "--out", out, *options)


@cases(*KINDS)
def test_graph_is_the_same_under_other_numbers(box, by):
    old = graph()
    meta = {**metadata_of(old), "licence": "mine"}
    write_dataset(box.path("old"), old, metadata=meta)
    with open(box.path("old", "names.txt"), "w") as file:
        file.write("of no data set\n")
    result = reorder(box, by).ok()
    meta, new = check_dataset(box.path("new"))
    order = new["vertex_map"]
    assert_same_graph(old, new, order)
    assert meta["licence"] == "mine" and meta["name"] == "new" and meta["order"]["by"] == by
    assert meta["order"]["of"] == "test", meta
    assert "names.txt" in result.out and "left out" in result.out, result
    assert not leftovers(box, "old", "new")
    if by == "degree":
        assert (order == degree_order(old)).all()
    elif by == "bfs":
        assert (order == bfs_order(old)).all()
    elif by == "reads":
        share = np.minimum(1, 5 / np.maximum(np.diff(old["indptr"]), 1))
        reads = (expected_visits(old, [15, 10]) * share)[order]
        assert (np.diff(reads) <= 1e-6 * reads[:-1]).all(), "not by falling reads of an entry"
    else:
        visits = expected_visits(old, [15, 10, 5])[order]
        assert (np.diff(visits) <= 1e-6 * visits[:-1]).all(), "not by falling visits"


def test_hotness_follows_the_fanout(box):
    old = graph()
    write_dataset(box.path("old"), old)
    reorder(box, "hotness", "old", "new", "--fanout", "-1,2").ok()
    visits = expected_visits(old, [-1, 2])[np.load(box.path("new", "vertex_map.npy"))]
    assert (np.diff(visits) <= 1e-6 * visits[:-1]).all()
    assert read_json(box.path("new", "metadata.json"))["order"]["fanout"] == [-1, 2]
    assert visits[0] > 1


def test_maps_compose_and_lead_back(box):
    old = graph()
    write_dataset(box.path("old"), old)
    reorder(box, "bfs", "old", "once").ok()
    result = reorder(box, "degree", "once", "twice").ok()
    assert "earlier reordering" in result.out, result
    _, twice = check_dataset(box.path("twice"))
    assert_same_graph(old, twice, twice["vertex_map"])
    assert box.sluice("inspect", "twice", "-o", "json").ok().json()["reordered"] is True
    assert "vertex_map.npy has the ids" in box.sluice("inspect", "twice").ok().out
    assert box.sluice("inspect", "old", "-o", "json").ok().json()["reordered"] is False
    # In place: nothing is read after the directory has its name.
    reorder(box, "hotness", "once", "once", "--force").ok()
    _, once = check_dataset(box.path("once"))
    assert_same_graph(old, once, once["vertex_map"])


def test_threads_do_not_matter(box):
    write_dataset(box.path("old"), graph())
    reorder(box, "reads", "old", "a", "--threads", "1").ok()
    reorder(box, "reads", "old", "b", "--threads", "4", "--quiet").ok()
    assert digest_of(box.path("a")) == digest_of(box.path("b"))


def test_training_is_the_same_to_the_bit(box):
    """Lists and rows keep their order, so batches, samples and sums are those of the original."""
    write_dataset(box.path("old"), graph())
    reorder(box, "hotness").ok()
    reports = {}
    for name in ("old", "new"):
        job = small_job(name, output=f"runs/{name}", **{"model.kind": "gcn"})
        result, reports[name] = box.run(job, name=name)
        result.ok()
    for key in ("params_sha256", "test_accuracy"):
        assert reports["old"][key] == reports["new"][key], (key, reports)
    assert reports["new"]["test_accuracy"] > 0.5


def test_predictions_come_in_the_order_from_before(box):
    write_dataset(box.path("old"), graph())
    reorder(box, "bfs", "old", "once").ok()
    reorder(box, "hotness", "once", "new").ok()
    result, _ = box.run(small_job("old"))
    result.ok()
    made = {}
    for name in ("old", "new"):
        box.sluice("predict", "runs/job", "--dataset", name, "--out", f"{name}.npy").ok()
        made[name] = np.load(box.path(f"{name}.npy"))
    assert (made["old"] == made["new"]).all(), "other bits, or another order"


def test_labels_of_other_tasks(box):
    labels = np.random.default_rng(5).random((700, 2)).astype(np.float64)
    old = graph(node_label=labels)
    meta = {**metadata_of(old), "task": "regression", "num_classes": labels.shape[1]}
    write_dataset(box.path("old"), old, metadata=meta)
    reorder(box, "degree").ok()
    new = np.load(box.path("new", "node_label.npy"))
    assert new.dtype == labels.dtype
    assert (new == labels[np.load(box.path("new", "vertex_map.npy"))]).all()
    box.sluice("inspect", "new").ok()


@cases("wide", "empty", "half")
def test_other_forms(box, form):
    old = graph()
    if form == "wide":
        old["indices"] = old["indices"].astype(np.int64)
    if form == "half":
        old["node_feat"] = old["node_feat"].astype(np.float16)
    if form == "empty":
        old = {"indptr": np.zeros(6, np.int64), "indices": old["indices"][:0]}
    meta = {"num_nodes": len(old["indptr"]) - 1, "num_edges": len(old["indices"])}
    if form in ("wide", "half"):
        meta = metadata_of(old)
    write_dataset(box.path("old"), old, metadata=meta)
    reorder(box, "bfs").ok()
    _, new = check_dataset(box.path("new"))
    if form in ("wide", "half"):
        assert_same_graph(old, new, new["vertex_map"])
    else:
        assert (new["vertex_map"] == bfs_order(old)).all()
    box.sluice("inspect", "new").ok()


# ---- graphs of several types --------------------------------------------------------------------


def typed_graph(box, to="old"):
    """Papers, authors and fields, with further arrays by edge, vertex and vertex of a type."""
    shutil.copytree(papers(box, 400), box.path(to))
    about, rng = read_json(box.path(to, "metadata.json")), np.random.default_rng(4)
    authors = about["types"][1]["count"]
    np.save(box.path(to, "edge_feat.npy"), rng.random((about["num_edges"], 2)))
    writes = about["relations"][0]
    np.save(box.path(to, "edge_feat.author.writes.paper.npy"), rng.random(writes["edges"]))
    np.save(box.path(to, "node_year.npy"), rng.integers(0, 99, about["num_nodes"]))
    np.save(box.path(to, "node_age.author.npy"), rng.integers(0, 99, authors).astype(np.int16))
    return about, load(box.path(to))


def typed_visits(about, arrays, fanout):
    """Of vertices, by hops that draw for all that their batch knows; and what the last one reads of
    an entry of their lists."""
    count = {t["name"]: t["count"] for t in about["types"]}
    first = dict(zip(count, np.cumsum([0, *count.values()])))
    vertex = np.concatenate(
        [first[r["target"]] + np.arange(count[r["target"]]) for r in about["relations"]]
    )
    degree, n = np.diff(arrays["indptr"]), about["num_nodes"]
    row = np.repeat(np.arange(len(degree)), degree)
    p = np.zeros(n)
    p[arrays["train_idx"]] = 1
    for k in fanout:
        p = p + np.bincount(arrays["indices"], p[vertex[row]] * np.minimum(1, k / degree[row]), n)
    read = np.bincount(vertex, np.minimum(degree, 5), n) / np.maximum(
        np.bincount(vertex, degree, n), 1)
    return p, p * read


@cases(*KINDS)
def test_types_keep_their_ids(box, by):
    about, old = typed_graph(box)
    reorder(box, by).ok()
    said, new = read_json(box.path("new", "metadata.json")), load(box.path("new"))
    assert (said["types"], said["relations"]) == (about["types"], about["relations"])
    order = new["vertex_map"]
    rank = np.argsort(order)
    first = dict(zip((t["name"] for t in about["types"]),
                     np.cumsum([0] + [t["count"] for t in about["types"]])))
    before, after = rows_of(old), rows_of(new)
    cuts = old["indptr"]
    in_rows = {name: np.split(old[name], cuts[1:-1]) for name in ("edge_weight", "edge_feat")}
    was, at = [], 0
    for r in about["relations"]:
        n = next(t["count"] for t in about["types"] if t["name"] == r["target"])
        local = order[first[r["target"]] :][:n] - first[r["target"]]
        assert sorted(local) == list(range(n)), r
        was.extend(at + local)
        at += n
    for row, i in enumerate(was):
        assert (after[row] == rank[before[i]]).all(), row
    in_rows["edge_feat.author.writes.paper"] = np.split(old["edge_feat.author.writes.paper"],
                                                        cuts[1:400])
    for name, rows in in_rows.items():
        wanted = np.concatenate([rows[i] for i in was[: len(rows)]])
        assert (new[name] == wanted).all(), name
    own = {t["name"]: order[first[t["name"]] :][: t["count"]] - first[t["name"]]
           for t in about["types"]}
    for name, rows in (("node_feat.paper", own["paper"]), ("node_label", own["paper"]),
                       ("node_age.author", own["author"]), ("node_year", order)):
        assert new[name].dtype == old[name].dtype and (new[name] == old[name][rows]).all(), name
    for name in ("train_idx", "val_idx", "test_idx"):
        assert (new[name] == rank[old[name]]).all(), name
    visits, _ = typed_visits(about, old, [15, 10, 5])
    keys = {"degree": np.bincount(old["indices"], minlength=about["num_nodes"]), "hotness": visits,
            "reads": typed_visits(about, old, [15, 10])[1]}
    for name, local in own.items():
        if by in keys:
            key = keys[by][first[name] + local]
            assert (np.diff(key) <= 1e-6 * key[:-1]).all(), f"not by falling {by}: {name}"
    box.sluice("inspect", "new").ok()


def test_training_on_types_is_the_same_to_the_bit(box):
    """Models, predictions and embeddings of a type; also where it is reordered twice."""
    typed_graph(box)
    reorder(box, "bfs", "old", "once").ok()
    reorder(box, "hotness", "once", "new").ok()
    sha = set()
    for name in ("old", "new"):
        result, report = box.run(job(box, dataset=name, output=f"runs/{name}"), name=name)
        result.ok()
        sha.add(report["params_sha256"])
    assert len(sha) == 1
    np.save(box.path("ids.npy"), np.array([7, 3, 11]))
    for command, *arguments in (["predict"], ["embed", "--type", "author"],
                                ["predict", "--nodes", "ids.npy"],
                                ["embed", "--type", "author", "--nodes", "ids.npy"]):
        made = []
        for name in ("old", "new"):
            box.sluice(command, "runs/old", "--dataset", name, "--out", "x.npy", "-f",
                       *arguments).ok()
            made.append(np.load(box.path("x.npy")))
        assert (made[0] == made[1]).all(), (command, arguments)


def test_a_map_across_types_is_refused(box):
    about, _ = typed_graph(box)
    crossed = np.arange(about["num_nodes"], dtype=np.int32)
    crossed[[0, 400]] = [400, 0]
    np.save(box.path("old", "vertex_map.npy"), crossed)
    refused(box, reorder(box, "degree"),
            "vertex_map.npy: element 0 is 400, wanted a vertex of type paper", output="new")


BAD = {
    "no training vertices": (["--by", "hotness"], "has none: add train_idx.npy"),
    "no training vertices either": (["--by", "reads"], "--by reads starts from"),
    "fanout without hotness": (["--by", "bfs", "--fanout", "5"], "only hotness and reads depend"),
    "bad fanout": (["--by", "hotness", "--fanout", "5,x"], "reorder: --fanout '5,x': wanted"),
    "unknown order": (["--by", "rabbit"], "degree"),
    "exists": (["--by", "bfs", "--out", "taken"], "taken"),
}


def test_refused(box):
    write_dataset(box.path("old"), graph())
    arrays = graph()
    del arrays["train_idx"]
    write_dataset(box.path("bare"), arrays)
    os.makedirs(box.path("taken"))
    for what, (arguments, message) in BAD.items():
        source = "bare" if what.startswith("no training vertices") else "old"
        result = box.sluice("reorder", source, "--out", "new", *arguments)
        refused(box, result, message, output="new")
    assert not leftovers(box, "old", "bare", "taken")


def test_damaged_map_is_refused(box):
    old = graph(vertex_map=np.zeros(700, np.int32))
    write_dataset(box.path("old"), old)
    result = reorder(box, "degree")
    refused(box, result, "vertex_map.npy: element 1 is 0, which element 0 is already")
    assert not leftovers(box, "old")
