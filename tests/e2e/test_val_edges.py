"""evaluate.val_edges_as_input: test edges are scored by a graph with the validation edges, and
everything else is as without it. That graph is imported here as a data set of its own, and gives
the same bits."""

import json
import os
import shutil

import numpy as np

from harness import cases, planted, read_json, small_job, whole, write_dataset
from test_bad_input import refused

MEASURES = ("hits", "mrr", "roc_auc", "average_precision", "loss")
KEY = "evaluate.val_edges_as_input"


def graph_of(data):
    """Edges (source, target) of a data set, in the order of its lists, and their weights."""
    indptr, source = np.load(data + "/indptr.npy"), np.load(data + "/indices.npy")
    target = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    weights = data + "/edge_weight.npy"
    weight = np.load(weights) if os.path.exists(weights) else np.ones(len(source), np.float32)
    return np.stack([source, target], 1).astype(np.int64), weight


def lists_of(edges, weight, n):
    order = np.lexsort((edges[:, 0], edges[:, 1]))
    indptr = np.zeros(n + 1, np.int64)
    np.add.at(indptr, edges[:, 1] + 1, 1)
    return {"indptr": indptr.cumsum(), "indices": edges[order, 0].astype(np.int32),
            "edge_weight": weight[order]}


def both(edges):
    return np.concatenate([edges, edges[:, ::-1]])


def made(box, undirected):
    """A data set with validation edges, some of which its graph has, that stand twice, or loop; and
    the same with the validation edges in the graph."""
    def make(folder):
        os.makedirs(folder)
        arrays = planted(n=700, noise=1.0)
        n = len(arrays["indptr"]) - 1
        rng = np.random.default_rng(4)
        if undirected:
            write_dataset(folder + "/directed", arrays)
            edges = np.unique(both(graph_of(folder + "/directed")[0]), axis=0)
            arrays |= lists_of(edges, np.ones(len(edges), np.float32), n)
        count = len(arrays["indices"])
        # By weight some edges are none.
        arrays["edge_weight"] = rng.choice([0, 1, 2], count, p=[0.1, 0.6, 0.3]).astype(np.float32)
        if undirected:  # an edge and its reverse alike
            key = arrays["indices"].astype(np.int64)
            target = np.repeat(np.arange(n), np.diff(arrays["indptr"]))
            arrays["edge_weight"] = ((key * target + key + target) % 7 != 0).astype(np.float32)
        write_dataset(folder + "/whole", arrays)
        data = folder + "/data"
        box.sluice("split-edges", folder + "/whole", "--out", data, "-q").ok()
        edges, weight = graph_of(data)
        val = np.load(data + "/val_edges.npy")
        val = np.concatenate([val, edges[:3], edges[weight == 0][:3], val[:2], [[5, 5]]])
        np.save(data + "/val_edges.npy", val.astype(np.int64))
        for split in ("val", "test"):
            np.save(f"{data}/{split}_neg.npy", rng.integers(0, n, (500, 2)))
        # The wider graph: an edge that is none by its weight becomes one.
        shutil.copytree(data, folder + "/wider")
        weights = dict(zip(map(tuple, edges), weight))
        for edge in map(tuple, both(val) if undirected else val):
            weights[edge] = weights.get(edge) or 1.0
        wider = np.array(list(weights)), np.array(list(weights.values()), np.float32)
        for name, array in lists_of(*wider, n).items():
            np.save(f"{folder}/wider/{name}.npy", array)
        metadata = read_json(data + "/metadata.json")
        with open(folder + "/wider/metadata.json", "w") as file:
            json.dump({**metadata, "num_edges": len(weights)}, file)

    return box.shared_folder(f"val-edges-{undirected}", make)


WAYS = {
    "plain": {},
    "gcn": {"model.kind": "gcn"},
    "block": {"model.kind": "gcn", "model.degrees": "block"},
    "walks": {"sampler.kind": "walk", "model.kind": "pinsage"},
    "weighted": {"sampler.kind": "weighted", "model.kind": "gcn", "model.jumping": "cat"},
    "gat": {"model.kind": "gat", "model.heads": 2, "task.decoder": "mlp"},
    "learned": {"features.kind": "both", "features.dim": 8},
}


def job(data, **changes):
    changes = {"task": {"kind": "link"}, "model.dropout": 0.0, "epochs": 2, "evaluate.test": "each",
               "sampler.batch_size": 256, "updates.batches_per_update": 2, **changes}
    return small_job(data, **changes)


def run(box, data, label, **changes):
    result, report = box.run(job(data, output=f"runs/{label}", **changes), name=label)
    result.ok()
    assert report["status"] == "done", report
    return result, report


def values(evaluation):
    return [evaluation[m] for m in MEASURES]


def trained(report):
    """What the key changes nothing of."""
    return (report["params_sha256"], report["samples_digest"], report["best_epoch"],
            [(e["loss"], values(e["val"])) for e in report["epochs"]])


def tested(report):
    return [values(e["test"]) for e in report["epochs"]] + [values(report["test"])]


# Two and two; and such that evaluations are beside training.
SPLITS = ({"samplers": 2, "trainers": 2}, {"samplers": 1, "trainers": 3, "switching": False})


def same_as_imported(box, way, undirected):
    folder = made(box, undirected)
    data, wider, changes = folder + "/data", folder + "/wider", WAYS[way]
    _, without = run(box, data, "without", **changes)
    result, with_it = run(box, data, "with", **{KEY: True, **changes})
    split = SPLITS[undirected]
    _, more = run(box, data, "more", **{KEY: True, "allocation": split, **changes})
    assert trained(with_it) == trained(without) == trained(more)
    assert tested(with_it) == tested(more)
    assert tested(with_it) != tested(without)
    assert ("and their reverses" in result.err) == undirected, result.err
    edges, others = len(graph_of(data)[0]), len(graph_of(wider)[0])
    if way != "weighted":
        assert with_it["val_edges_added"] == others - edges, with_it["val_edges_added"]
    assert "val_edges_added" not in without
    if way != "learned":  # the same parameters all along, on both graphs
        still = {"model.weights": "runs/with/model.safetensors", "epochs": 1,
                 "optimizer": {"kind": "sgd", "lr": 1e-300, "weight_decay": 0}, **changes}
        _, here = run(box, data, "here", **{KEY: True, **still})
        _, there = run(box, wider, "there", **still)
        assert tested(here) == tested(there)
        assert values(here["test"]) == values(with_it["epochs"][1]["test"])
    if way == "learned":  # rows are of one graph, which reports of older versions do not tell
        other = ("--last", "--dataset", wider, "--val-edges", "without")
        box.sluice("embed", "runs/with", "--out", "none.npy", *other).error(2, "has another graph")
        report = read_json(box.path("runs/with/report.json"))
        del report["topology_digest"]
        box.write_json("runs/with/report.json", report)
    for name, words in (
        ("auto", ["--last"]),
        ("wider", ["--last", "--dataset", wider, "--val-edges", "without"]),
        ("narrow", ["--last", "--val-edges", "without"]),
        ("asked", ["--last", "--val-edges", "with"]),
    ):
        run_of = "runs/without" if name == "asked" else "runs/with"
        box.sluice("embed", run_of, "--out", name + ".npy", *words).ok()
    rows = {name: np.load(box.path(name + ".npy")) for name in ("auto", "wider", "narrow", "asked")}
    assert (rows["auto"] == rows["wider"]).all() and (rows["auto"] == rows["asked"]).all()
    assert (rows["auto"] != rows["narrow"]).any()


def test_directed(box):
    same_as_imported(box, "plain", False)


def test_undirected(box):
    same_as_imported(box, "gcn", True)


def test_what_is_said(box):
    data = made(box, True) + "/data"
    path = box.job(job(data, **{KEY: True}))
    said = box.sluice("run", path, "--dry-run").ok().out
    assert "test edges are scored by a graph that has the validation edges: at most" in said, said
    plan = json.loads(box.sluice("run", path, "--dry-run", "-o", "json").ok().out)
    assert plan["test_graph_bytes"] > 0 and plan["config"]["evaluate"]["val_edges_as_input"]
    bare = box.path("bare")
    shutil.copytree(data, bare)
    for name in ("edges", "neg"):
        os.remove(f"{bare}/val_{name}.npy")
    result, _ = box.run(job(bare, **{KEY: True}))
    refused(box, result, KEY, "no validation edges")
    result, report = box.run(job(data, output="runs/job", **{KEY: True}), name="job")
    assert "by a graph with the validation edges" in result.ok().out, result.out
    answer = ("embed", "runs/job", "--last", "-o", "json", "--out")
    assert json.loads(box.sluice(*answer, "with.npy").ok().out)["val_edges"] is True
    retrieves_none(box, data)
    other = json.loads(box.sluice(*answer, "bare.npy", "--dataset", bare).ok().out)
    assert other["val_edges"] is False
    box.sluice(*answer, "no.npy", "--dataset", bare, "--val-edges", "with").error(
        2, "--val-edges with", "val_edges.npy")
    result, _ = box.run(small_job(box.shared_dataset("small"), output="runs/nodes", epochs=1))
    result.ok()
    box.sluice("embed", "runs/nodes", "--out", "no.npy", "--val-edges", "with").error(
        2, "--val-edges", "task.kind")


def retrieves_none(box, data):
    """No validation edge is an answer of the run; of its rows alone those are that are new."""
    val = both(np.load(data + "/val_edges.npy"))
    val = set(map(tuple, val[val[:, 0] != val[:, 1]].tolist()))
    graph = set(map(tuple, graph_of(data)[0].tolist()))
    np.save(box.path("sources.npy"), np.arange(700))
    found = []
    for name, words in (("runs/job", []), ("with.npy", ["--dataset", data])):
        box.sluice("retrieve", name, "--sources", "sources.npy", "--k", "699", "--exclude-known",
                   "--out", "answers.npy", "--force", *words).ok()
        answers = np.load(box.path("answers.npy"))
        found.append({(u, v) for u in range(700) for v in answers[u].tolist() if v >= 0} & val)
    assert not found[0] and found[1] == val - graph and found[1], [len(pairs) for pairs in found]


@whole
@cases(*(way for way in WAYS if way != "plain"))
def test_other_models(box, way):
    same_as_imported(box, way, False)
