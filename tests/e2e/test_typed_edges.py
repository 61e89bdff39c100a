"""Features of edges in models of graphs of several types: what they learn of them, that it does not
depend on who works, that evaluations and predictions agree, PyTorch Geometric's numbers."""

import json
import os
import shutil

import numpy as np

from harness import ROOT, Running, cases, fingerprint, python_with, read_json, small_job
from test_typed_jobs import evaluations

PAPERS, AUTHORS, CLASSES, WRITERS = 900, 300, 6, 5
FEAT = "edge_feat.author.writes.paper.npy"


def papers(box, mark="float32"):
    """Papers have five authors, one of whom is of the paper's area: the edges' features say who.
    Authors' features say their area; those of edges back are noise."""
    def make(folder):
        os.makedirs(folder)
        r = np.random.default_rng(3)
        labels, areas = r.integers(0, CLASSES, PAPERS), np.arange(AUTHORS) % CLASSES
        writers = r.integers(0, AUTHORS, (PAPERS, WRITERS))
        right = r.integers(0, WRITERS, PAPERS)
        own = r.integers(0, AUTHORS // CLASSES, PAPERS) * CLASSES + labels
        writers[np.arange(PAPERS), right] = own
        says = (np.arange(WRITERS) == right[:, None]).reshape(-1, 1)
        noise = r.standard_normal((PAPERS * WRITERS, 2))
        by = np.argsort(writers.ravel(), kind="stable")  # each author's papers
        rows = [*[WRITERS] * PAPERS, *np.bincount(writers.ravel(), minlength=AUTHORS)]
        lists = np.concatenate([PAPERS + writers.ravel(), by // WRITERS])
        order = r.permutation(PAPERS)
        arrays = {
            "indptr": np.concatenate([[0], np.cumsum(rows)]).astype(np.int64),
            "indices": lists.astype(np.int32),
            "node_label": labels.astype(np.int32),
            "node_feat.author": np.eye(CLASSES, dtype=np.float32)[areas],
            "node_feat.paper": r.standard_normal((PAPERS, 4)).astype(np.float32),
            FEAT[:-4]: np.concatenate([says, noise], 1).astype(mark),
            "edge_feat.paper.by.author": r.standard_normal(len(by)).astype(np.float32),
            "train_idx": order[:600].astype(np.int32),
            "val_idx": order[600:750].astype(np.int32),
            "test_idx": order[750:].astype(np.int32),
        }
        for name, array in arrays.items():
            np.save(f"{folder}/{name}.npy", array)
        told = {
            "name": "papers", "num_nodes": PAPERS + AUTHORS, "num_edges": len(lists),
            "num_classes": CLASSES, "task": "multiclass",
            "types": [{"name": "paper", "count": PAPERS, "feat_dim": 4},
                      {"name": "author", "count": AUTHORS, "feat_dim": CLASSES}],
            "relations": [
                {"source": "author", "name": "writes", "target": "paper", "edges": len(by)},
                {"source": "paper", "name": "by", "target": "author", "edges": len(by)},
            ],
        }
        with open(f"{folder}/metadata.json", "w", encoding="utf-8") as f:
            json.dump(told, f)

    return box.shared_folder(f"papers-of-edges-{mark}", make)


def test_inspect_tells_features_of_edges(box):
    """Their width, type and bytes by relation; of a set without there is no word of them."""
    found = box.sluice("inspect", papers(box), "-o", "json").ok().json()["relations"]
    told = [[r[key] for key in ("name", "edge_feat_dim", "edge_feat_dtype", "edge_feature_bytes")]
            for r in found]  # fmt: skip
    n = PAPERS * WRITERS
    assert told == [["writes", 3, "float32", 12 * n], ["by", 1, "float32", 4 * n]], told
    said = box.sluice("inspect", papers(box)).ok().out
    assert "3 x float32" in said and "1 x float32" in said, said
    bare = box.path("bare")
    shutil.copytree(papers(box), bare)
    os.remove(f"{bare}/{FEAT}")
    found = box.sluice("inspect", bare, "-o", "json").ok().json()["relations"]
    assert ["edge_feat_dim" in r for r in found] == [False, True], found
    os.rename(f"{bare}/edge_feat.paper.by.author.npy", f"{bare}/edge_feat.npy")  # of no relation
    found = box.sluice("inspect", bare, "-o", "json").ok().json()["relations"]
    assert not any("edge_feat_dim" in r for r in found), found
    # Of a kind that no model reads: said, and no reason to refuse the data set.
    np.save(f"{bare}/{FEAT}", np.zeros((n, 3)))
    found = box.sluice("inspect", bare, "-o", "json").ok().json()
    assert not any("edge_feat_dim" in r for r in found["relations"]), found
    assert "is float64" in found["no_edge_features"], found
    said = box.sluice("inspect", bare, "--full").ok().out
    assert "No model can read the features of edges: " in said and "is float64" in said, said


def job(box, dataset=None, **changes):
    model = {"kind": "rgat", "layers": 2, "hidden": 16, "heads": 2, "edge_features": True,
             "activation": "leaky_relu", "dropout": 0.1, "attention_dropout": 0}
    return small_job(dataset or papers(box), **{
        "model": model, "sampler.expand": "new", "evaluate.test": "each", **changes})


def of_one_weight(box):
    """Of papers that are as wide as authors."""
    def make(folder):
        shutil.copytree(papers(box), folder)
        rows = np.load(f"{folder}/node_feat.paper.npy")
        np.save(f"{folder}/node_feat.paper.npy", np.concatenate([rows, rows[:, :2]], 1))
        metadata = read_json(f"{folder}/metadata.json")
        metadata["types"][0]["feat_dim"] = CLASSES
        with open(f"{folder}/metadata.json", "w", encoding="utf-8") as f:
            json.dump(metadata, f)

    return {"model.share_weights": True, "dataset": box.shared_folder("papers-even", make)}


def trained(box, label, env=None, **changes):
    result, report = box.run(job(box, output=f"runs/{label}", **changes), name=label, env=env)
    result.ok()
    return report


@cases(("rgat", "float32"), ("rgat", "float16"), ("rgatv2", "float32"))
def test_learns_what_edges_tell(box, kind, mark):
    """By one layer, which reads the authors' own features."""
    changes = {"dataset": papers(box, mark), "epochs": 20, "model.layers": 1,
               "model.kind": kind, "sampler.fanout": [WRITERS]}
    sees = trained(box, "sees", **changes)["test_accuracy"]
    blind = trained(box, "blind", **changes, **{"model.edge_features": False})["test_accuracy"]
    assert blind < 0.75 < 0.95 < sees, (blind, sees)


@cases(("rgat", "new"), ("rgat", "all"), ("rgatv2", "new"))
def test_same_bits_for_every_split(box, kind, expand):
    found, changes = {}, {"sampler.expand": expand, "updates.batches_per_update": 4,
                          "model.kind": kind}
    for samplers, trainers in ((1, 1), (2, 1), (1, 2), (2, 2)):
        split = {"samplers": samplers, "trainers": trainers}
        report = trained(box, f"s{samplers}t{trainers}", allocation=split, **changes)
        found[samplers, trainers] = fingerprint(report)
    assert all(f == found[1, 1] for f in found.values()), found


def test_same_bits_from_a_drive(box):
    """Features of vertices come from there, those of edges from files that are mapped."""
    found = [trained(box, where, **{"store.features": where}) for where in ("memory", "storage")]
    assert found[0]["params_sha256"] == found[1]["params_sha256"]


def test_links_of_edges_with_features(box):
    """The graph that a pair is scored by has them; the pair itself has none."""
    task = {"kind": "link", "relation": "writes", "exclude": "self"}
    found = []
    for trainers in (1, 2):
        split = {"samplers": 1, "trainers": trainers}
        found.append(trained(box, f"t{trainers}", task=task, allocation=split,
                             **{"evaluate.test": "never", "updates.batches_per_update": 2}))
    assert found[0]["params_sha256"] == found[1]["params_sha256"]
    assert found[0]["epochs"][-1]["loss"] < found[0]["epochs"][0]["loss"]
    np.save(box.path("pairs.npy"), np.array([[1, 2], [299, 899]], np.int32))
    box.sluice("predict", "runs/t1", "--pairs", "pairs.npy", "--out", "scores.npy", "-q").ok()
    assert np.isfinite(np.load(box.path("scores.npy"))).all()


def test_a_plan_counts_them(box):
    plans = []
    for reads in (True, False):
        path = box.job(job(box, **{"model.edge_features": reads}))
        plans.append(box.sluice("run", path, "--dry-run", "-o", "json").ok().json()["mini_batch"])
    writes, by = (plans[0]["edges"][r] for r in plans[0]["edges"])
    more = plans[0]["feature_bytes"] - plans[1]["feature_bytes"]
    assert abs(more - 4 * (3 * writes + by)) <= 16, plans


@cases(("rgat", "sampler_drawn:5"), ("rgat", "trainer_gradient:7"), ("rgat", "trainer_infer:2"),
       ("rgatv2", "trainer_gradient:7"))
def test_a_worker_dies(box, kind, point):
    split = {"allocation": {"samplers": 2, "trainers": 2, "switching": False}, "model.kind": kind}
    whole = trained(box, "whole", **split)
    killed = trained(box, "killed", env={"SLUICE_FAILPOINT": point}, **split)
    assert len(killed["restarts"]) == 1, killed["restarts"]
    assert fingerprint(killed) == fingerprint(whole)


@cases("rgat", "rgatv2")
def test_a_full_evaluation_is_exact(box, kind):
    """Layer by layer, by mini-batches with all neighbours, and of predictions."""
    found = [evaluations(trained(box, "full", **{"model.kind": kind}))]
    for label, batch in (("small", 7), ("large", 400)):
        batches = {"evaluate.fanout": [-1, -1], "evaluate.batch_size": batch, "model.kind": kind}
        found.append(evaluations(trained(box, label, **batches)))
    for accuracy, losses in found[1:]:
        assert accuracy == found[0][0], found
        assert np.allclose(losses, found[0][1], rtol=1e-5, atol=0), found


@cases("rgat", "rgatv2")
def test_predictions_are_those_of_the_evaluation(box, kind):
    accuracy = trained(box, "job", **{"model.kind": kind})["test_accuracy"]
    folder = papers(box)
    labels, test = np.load(f"{folder}/node_label.npy"), np.load(f"{folder}/test_idx.npy")
    rows = {}
    for chunk in ("7", "100", "100000"):  # mini-batches of few; layer by layer
        options = ["--out", "logits.npy", "--chunk", chunk, "--force", "-q"]
        box.sluice("predict", "runs/job", *options).ok()
        rows[chunk] = np.load(box.path("logits.npy"))
        right = rows[chunk][test].argmax(1) == labels[test]
        assert abs(right.mean() - accuracy) < 1e-9, (chunk, accuracy)
        assert np.abs(rows[chunk] - rows["7"]).max() < 1e-5
    box.sluice("embed", "runs/job", "--type", "author", "--out", "authors.npy", "-q").ok()
    assert np.load(box.path("authors.npy")).shape == (AUTHORS, 16)


@cases(("rgat", False), ("rgatv2", False), ("rgatv2", True))
def test_pyg_computes_the_same(box, kind, shares):
    python = python_with("torch_geometric")
    trained(box, "job", **{"model.kind": kind}, **(of_one_weight(box) if shares else {}))
    env = {**box.environment(), "TMPDIR": box.path("left")}  # it leaves its own sources there
    os.mkdir(env["TMPDIR"])
    program = [python, os.path.join(ROOT, "scripts/check_pyg.py"), box.path("runs/job")]
    said = Running(box, program, env).wait(600).ok().out
    assert "strict load into TypedModel" in said and ": ok" in said, said


@cases(("rgat", b"att_edge"), ("rgatv2", b"lin_r.bias"))
def test_parameters_are_named_as_theirs(box, kind, other):
    trained(box, "job", epochs=1, **{"model.kind": kind})
    with open(box.path("runs/job/model.safetensors"), "rb") as f:
        names = f.read(1 << 16)
    assert b"convs.0.convs.<author___writes___paper>.lin_edge.weight" in names
    assert b"convs.1.convs.<paper___by___author>." + other in names


def test_one_weight_of_two_names_goes_on(box):
    """Whose values stand twice in a checkpoint."""
    changes = {"model.kind": "rgatv2", **of_one_weight(box)}
    whole = trained(box, "whole", epochs=2, **changes)
    trained(box, "job", epochs=1, **changes)
    again = trained(box, "job", epochs=2, **changes)
    assert again["params_sha256"] == whole["params_sha256"]
    apart = trained(box, "apart", epochs=1, **{**changes, "model.share_weights": False})
    assert apart["num_params"] - whole["num_params"] == 2 * (6 * 16 + 16 + 16 * 16 + 16)


def test_a_run_goes_on_with_these_edges_alone(box):
    """Other features of edges are other data."""
    folder = box.path("data")
    shutil.copytree(papers(box), folder)
    trained(box, "job", dataset=folder, epochs=1)
    whole = trained(box, "whole", dataset=folder, epochs=2)
    again = trained(box, "job", dataset=folder, epochs=2)
    assert again["params_sha256"] == whole["params_sha256"]
    rows = np.load(f"{folder}/{FEAT}")
    np.save(f"{folder}/{FEAT}", rows + 1)
    result, _ = box.run(job(box, dataset=folder, output="runs/job", epochs=3), name="again")
    result.error(2, "data set")


def test_what_cannot_be_is_refused(box):
    def said(status, *parts, **changes):
        result, _ = box.run(job(box, output="runs/bad", **changes), name="bad")
        result.error(status, *parts)
        assert not os.path.exists(box.path("runs/bad"))

    said(2, r"model\.edge_features: found", 'only with "gat", "gatv2", "rgat" or "rgatv2"',
         model={"kind": "hgt", "layers": 2, "hidden": 16, "heads": 2, "edge_features": True})
    folder = box.path("data")
    shutil.copytree(papers(box), folder)
    rows = np.load(f"{folder}/{FEAT}")
    np.save(f"{folder}/{FEAT}", rows[1:])
    said(2, rf"{FEAT}: is float32 \(4499, 3\)", "4500 edges", dataset=folder)
    np.save(f"{folder}/{FEAT}", rows.astype(np.int64))
    said(2, rf"{FEAT}: is int64", "float32 or float16", dataset=folder)
    rows[3, 1] = np.nan
    np.save(f"{folder}/{FEAT}", rows)
    said(2, rf"{FEAT}: row 3, column 1 is NaN", dataset=folder)
    os.unlink(f"{folder}/{FEAT}")
    os.unlink(f"{folder}/edge_feat.paper.by.author.npy")
    said(2, r"has no edge_feat\.SOURCE\.NAME\.TARGET\.npy", r"model\.edge_features",
         dataset=folder)
