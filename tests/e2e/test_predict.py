"""`sluice predict`, `embed` and `import-weights`: a run's model over a whole graph.

What a layer computes is compared with PyTorch Geometric in tests/unit/test_trainer_golden.c.
Everything here is said in terms of the logits of all vertices.
"""

import glob
import json
import os
import re
import signal

import numpy as np

from harness import cases, fingerprint, planted, small_job, write_dataset
from tensors import read_tensors, write_tensors
from test_bad_input import refused

LARGE = {"n": 20000, "degree": 6}  # more than two pieces of inference


def trained(box, name="run", dataset=None, **changes):
    """A run directory and its report."""
    dataset = dataset or box.shared_dataset("small")
    run = box.path(name)
    result, report = box.run(small_job(dataset, output=run, **changes), "--quiet")
    result.ok()
    return run, report


def shared_run(box):
    """One that many tests read: of the shared data set, as small_job() trains it."""

    def train(path):
        box.run(small_job(box.shared_dataset("small"), output=path), "--quiet")[0].ok()

    return box.shared_folder("run-to-predict", train)


def rows(box, run, *arguments, command="predict", name="rows.npy", env=None):
    """What the command writes, and its summary."""
    out = box.path(name)
    result = box.sluice(
        command, run, "--out", out, "--force", "-o", "json", "--quiet", *arguments, env=env
    ).ok()
    return np.load(out), json.loads(result.out)


def test_edges_of_weight_zero_are_none(box):
    """Training, evaluation and predictions by weight are those of a graph that never had them."""
    arrays, random = planted(n=300, seed=3), np.random.default_rng(3)
    weights = np.where(random.random(len(arrays["indices"])) < 0.4, 0, 0.5).astype(np.float32)
    degree = np.diff(arrays["indptr"])
    row = np.repeat(np.arange(len(degree)), degree)
    weights[row % 17 == 0] = 0
    loops = arrays["indptr"][:-1][degree > 1][::3]
    arrays["indices"][loops] = row[loops]
    there = weights > 0
    kept = np.bincount(row[there], minlength=len(degree))
    others = {
        **arrays,
        "indptr": np.concatenate([[0], np.cumsum(kept)]),
        "indices": arrays["indices"][there],
        "edge_weight": weights[there],
    }
    made = []
    for name, graph in ("whole", {**arrays, "edge_weight": weights}), ("without", others):
        result, report = box.run(
            small_job(
                write_dataset(box.path("data", name), graph),
                output=box.path(name),
                digest=True,
                sampler={"kind": "weighted", "fanout": [-1, 3], "batch_size": 64},
                **{"model.kind": "gcn"},
            )
        )
        said = re.search(
            r"sampling by weight: (\d+) of .* have weight 0.* alone: (\d+)", result.ok().err
        )
        logits, _ = rows(box, box.path(name), "--last")
        made.append((fingerprint(report), report["test_accuracy"], logits.tobytes()))
        if name == "without":
            assert not said, result.err
            continue
        assert int(said[1]) == (~there).sum(), result.err
        assert int(said[2]) == ((degree > 0) & (kept == 0)).sum() > 5, result.err
    assert made[0] == made[1]


def test_a_relative_data_set_is_found_from_elsewhere(box):
    """Names in a job are relative to where it was started, wherever its run is asked from."""
    os.symlink(box.shared_dataset("small"), box.path("graph"))
    box.run(small_job("graph", output="runs/mine"), "--quiet")[0].ok()
    here = box.folder
    box.folder = box.path("elsewhere")
    os.mkdir(box.folder)
    try:
        out = os.path.join(box.folder, "rows.npy")
        box.sluice("predict", "../runs/mine", "--out", out, "--quiet").ok()
        os.rename(os.path.join(here, "runs"), os.path.join(here, "moved"))
        result = box.sluice("predict", "../moved/mine", "--out", out, "--force", "--quiet")
        refused(box, result, "--dataset")
    finally:
        box.folder = here


def test_some_vertices_are_rows_of_all(box):
    dataset = box.shared_dataset("large", **LARGE)
    run, _ = trained(box, dataset=dataset, epochs=1)
    whole, _ = rows(box, run)
    ids = np.array([19999, 3, 3, 0, 12345])
    np.save(box.path("ids.npy"), ids)
    some, summary = rows(box, run, "--nodes", box.path("ids.npy"))
    np.testing.assert_allclose(some, whole[ids], rtol=1e-4, atol=1e-6)
    assert summary["rows"] == 5 and summary["computed_rows"] < 2000, summary
    test, summary = rows(box, run, "--set", "test")
    np.testing.assert_allclose(
        test, whole[np.load(f"{dataset}/test_idx.npy")], rtol=1e-4, atol=1e-6
    )
    assert "test" in summary and "val" not in summary, summary
    np.save(box.path("ids.npy"), ids[:0].astype(np.int32))
    none, _ = rows(box, run, "--nodes", box.path("ids.npy"))
    assert none.shape == (0, 4), none.shape


def test_what_is_predicted(box):
    """By the best parameters, whose accuracy is the report's: classes and probabilities."""
    run, report = trained(box)
    logits, summary = rows(box, run)
    assert summary["parameters"] == "best", summary
    assert abs(summary["test"]["accuracy"] - report["test_accuracy"]) < 1e-9, summary
    best = report["epochs"][report["best_epoch"]]
    assert abs(summary["val"]["accuracy"] - best["val_accuracy"]) < 1e-9, summary
    classes, summary = rows(box, run, "--classes")
    assert classes.dtype == np.int32 and (classes == logits.argmax(1)).all()
    share, again = rows(box, run, "--probabilities")
    wanted = np.exp(logits - logits.max(1, keepdims=True))
    np.testing.assert_allclose(share, wanted / wanted.sum(1, keepdims=True), atol=1e-6)
    assert summary["test"]["accuracy"] == again["test"]["accuracy"]


def multilabel(n=1500):
    arrays = planted(n=n)
    label = np.zeros((n, 3), np.int8)
    label[np.arange(n), np.minimum(arrays["node_label"], 2)] = 1
    metadata = {
        "name": "labels",
        "num_nodes": n,
        "num_edges": len(arrays["indices"]),
        "feat_dim": arrays["node_feat"].shape[1],
        "num_classes": 3,
        "task": "multilabel",
    }
    return {**arrays, "node_label": label}, metadata


def broken_features(arrays):
    """The same graph with features that leave float32's range around a tenth of the vertices."""
    features = arrays["node_feat"].copy()
    features[:: max(len(features) // 10, 1)] = 3e38
    return {**arrays, "node_feat": features}


@cases("two", "labels")
def test_rows_that_are_not_finite_are_right_for_nothing(box, name):
    """All ways to predict leave out the same rows, and say how many."""
    arrays, metadata = multilabel(300)
    if name != "labels":
        arrays = planted(n=300, classes=2)
        metadata = None
    run, _ = trained(box, dataset=write_dataset(box.path("good"), arrays, metadata=metadata))
    bad = write_dataset(box.path("bad"), broken_features(arrays), metadata=metadata)
    logits, told = rows(box, run, "--dataset", bad)
    broken = ~np.isfinite(logits).all(1)
    assert 30 <= broken.sum() < 300, broken.sum()
    finite = np.where(broken[:, None], 0, logits)
    found = (finite > 0).astype(int) if name == "labels" else finite.argmax(1)
    found[broken] = -1
    classes, of_classes = rows(box, run, "--dataset", bad, "--classes")
    assert (classes == found).all()
    share, of_share = rows(box, run, "--dataset", bad, "--probabilities")
    assert (np.isnan(share).all(1) == broken).all() and (np.isnan(share).any(1) == broken).all()
    hidden, of_hidden = rows(box, run, "--dataset", bad, command="embed")
    assert of_hidden["not_finite"] == (~np.isfinite(hidden).all(1)).sum() > 0, of_hidden
    for split in ("train", "val", "test"):
        ids = arrays[f"{split}_idx"]
        accuracy = (found[ids] == arrays["node_label"][ids]).mean()
        for summary in (told, of_classes, of_share):
            assert summary["not_finite"] == broken.sum(), summary
            assert summary[split]["not_finite"] == broken[ids].sum(), summary
            assert abs(summary[split]["accuracy"] - accuracy) < 1e-9, (summary, accuracy)
        assert told[split]["loss"] is None and told[split].get("roc_auc", 0) < 1, told
    result = box.sluice("predict", run, "--dataset", bad, "--out", box.path("c.npy"), "--classes")
    warning = f"sluice: warning: predict: {broken.sum()} of 300 rows (--set all) are not finite"
    assert warning in result.ok().err and "holds -1 for them" in result.err, str(result)
    test = broken[arrays["test_idx"]].sum()
    assert f"({test} of 75 labelled rows are not finite)" in result.out, str(result)


def test_a_reordered_data_set_has_the_same_rows(box):
    dataset = box.shared_dataset("small")
    other = box.path("reordered")
    box.sluice("reorder", dataset, "--out", other, "--by", "degree").ok()
    run, _ = trained(box)
    wanted, summary = rows(box, run)
    found, again = rows(box, run, "--dataset", other)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)
    assert again["test"]["accuracy"] == summary["test"]["accuracy"]
    np.save(box.path("ids.npy"), np.array([7, 1]))
    some, _ = rows(box, run, "--dataset", other, "--nodes", box.path("ids.npy"))
    np.testing.assert_allclose(some, wanted[[7, 1]], rtol=1e-4, atol=1e-6)


def test_a_graph_without_labels(box):
    run = shared_run(box)
    arrays = planted(n=900, seed=5)
    metadata = {
        "num_nodes": 900,
        "num_edges": len(arrays["indices"]),
        "feat_dim": 16,
        "num_classes": 4,
        "task": "multiclass",
    }
    bare = {name: arrays[name] for name in ("indptr", "indices", "node_feat")}
    other = write_dataset(box.path("bare"), bare, metadata=metadata)
    found, summary = rows(box, run, "--dataset", other)
    assert found.shape == (900, 4) and "test" not in summary, summary
    classes, _ = rows(box, run, "--dataset", other, "--classes")
    assert (classes == found.argmax(1)).all()
    result = box.sluice(
        "predict", run, "--dataset", other, "--set", "test", "--out", box.path("t.npy"), "--quiet"
    )
    refused(box, result, "no test set", "--set all", output="t.npy")


def test_a_layer_of_jumping_knowledge(box):
    run, _ = trained(box, **{"model.jumping": "cat", "model.layers": 2})
    hidden = np.hstack([rows(box, run, "--layer", k, command="embed")[0] for k in (0, 1)])
    w = read_tensors(f"{run}/model.best.safetensors")
    logits, _ = rows(box, run)
    np.testing.assert_allclose(
        logits, hidden @ w["lin.weight"].T + w["lin.bias"], rtol=1e-3, atol=1e-5
    )


def writers(folder):
    """Processes that write to files of a folder, with a name or without one yet."""
    found = set()
    for link in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            if os.readlink(link).startswith(folder + "/"):
                found.add(int(link.split("/")[2]))
        except OSError:  # it has ended, or the file is closed
            continue
    return found


@cases("sluice", "sluice-trainer")
def test_a_death_leaves_nothing(box, who):
    dataset = box.shared_dataset("broad", n=60000, degree=8, feat_dim=64)
    run, _ = trained(box, dataset=dataset, epochs=1, **{"model.hidden": 256})
    folder = box.path("out")
    os.makedirs(folder)
    p = box.start("predict", run, "--out", f"{folder}/rows.npy", "--chunk", 1, "--threads", 1)
    p.until(lambda: writers(folder), "temporary file", 60)
    if who == "sluice":
        p.kill()
        assert p.wait().rc == -signal.SIGKILL
    else:
        for pid in writers(folder):
            os.kill(pid, signal.SIGKILL)
        assert p.wait().rc > 0
    box.until_gone()
    assert os.listdir(folder) == []


def test_bad_input(box):
    run = shared_run(box)
    out = box.path("rows.npy")

    def no(*arguments, words, command="predict"):
        result = box.sluice(command, *arguments, "--quiet")
        refused(box, result, *words, output="rows.npy")

    no(box.path("nothing"), "--out", out, words=["no run directory"])
    no(run, "--out", box.path("a/b.npy"), words=["--out", "a"])
    no(run, "--out", box.path("rows.parquet"), words=["rows.parquet", "FILE.npy", "FILE.csv"])
    no(run, "--out", out, "--classes", "--probabilities", words=["--classes"])
    no(run, "--out", out, "--best", "--last", words=["--best", "--last"])
    no(run, "--out", out, "--set", "tset", words=["tset", "test"])
    no(run, "--out", out, "--weights", box.path("w"), words=["/w", "no such file"])
    no(run, "--out", out, "--layer", 1, command="embed", words=["--layer 1", "0 to 0"])
    no(run, "--out", out, "--scratch", box.path("no"), words=["--scratch", "directory"])
    np.save(box.path("ids.npy"), np.array([1, 1500]))
    no(run, "--out", out, "--nodes", box.path("ids.npy"), words=["entry 1 is 1500", "0 to 1499"])
    np.save(box.path("ids.npy"), np.array([1.0]))
    no(run, "--out", out, "--nodes", box.path("ids.npy"), words=["float64", "int64"])
    other = write_dataset(box.path("wide"), planted(feat_dim=9))
    no(run, "--out", out, "--dataset", other, words=["9 features", "convs.0.lin_l.weight"])
    np.save(out, np.zeros(3))
    result = box.sluice("predict", run, "--out", out)
    refused(box, result, "exists", "--force", output=None)
    assert np.load(out).shape == (3,)


# ---- import-weights -----------------------------------------------------------------------------


def test_imported_weights_predict(box):
    run = shared_run(box)
    wanted, _ = rows(box, run)
    for kind in (np.float16, np.float64):
        tensors = read_tensors(f"{run}/model.best.safetensors")
        tensors = {name: values.astype(kind) for name, values in tensors.items()}
        file = write_tensors(box.path("w.safetensors"), tensors)
        imported = box.path(f"imported-{kind.__name__}")
        box.sluice("import-weights", file, "--job", f"{run}/config.json", "--out", imported).ok()
        found, summary = rows(box, imported)
        assert summary["parameters"] == "last", summary
        assert (np.abs(found - wanted).max() > 0) == (kind == np.float16)
        assert np.abs(found - wanted).max() < 0.05
    # and as the beginning of a job
    job = small_job(
        box.shared_dataset("small"),
        output=box.path("next"),
        epochs=1,
        **{"model.weights": f"{imported}/model.safetensors", "optimizer.lr": 1e-9},
    )
    result, _ = box.run(job)
    result.ok()
    again, _ = rows(box, box.path("next"), "--last")
    np.testing.assert_allclose(again, found, atol=1e-3)


def import_weights(box, file, run, *options, out="imported"):
    job = f"{run}/config.json"
    return box.sluice("import-weights", file, "--job", job, "--out", box.path(out), *options)


def test_weights_behind_a_prefix(box):
    """As torch.compile and DistributedDataParallel leave them: told, and taken off when asked."""
    run = shared_run(box)
    tensors = read_tensors(f"{run}/model.safetensors")
    names = {f"_orig_mod.module.{name}": values for name, values in tensors.items()}
    file = write_tensors(box.path("w.safetensors"), names)
    told = "import-weights --strip-prefix _orig_mod.module.`"
    refused(box, import_weights(box, file, run), "its names begin with", told, output="imported")
    job = {"model.weights": file, "output": box.path("next")}
    result, _ = box.run(small_job(box.shared_dataset("small"), **job))
    refused(box, result, "model.weights", told)
    import_weights(box, file, run, "--strip-prefix", "_orig_mod.module").ok()
    assert (rows(box, box.path("imported"))[0] == rows(box, run, "--last")[0]).all()


def test_imported_weights_are_checked(box):
    """The original's logits of all vertices, in double precision: the same, and elsewhere not."""
    run = shared_run(box)
    file = f"{run}/model.best.safetensors"
    logits = rows(box, run)[0].astype(np.float64)
    np.save(box.path("logits.npy"), logits)
    result = import_weights(box, file, run, "--check", box.path("logits.npy"), "-o", "json").ok()
    assert 0 <= json.loads(result.out)["check"]["largest_difference"] < 1e-6, result
    assert "note:" not in result.err, result
    told = import_weights(box, file, run, "--check", box.path("logits.npy"), out="told").ok().out
    assert "largest difference from" in told and "parameters from" in told, told
    result = import_weights(box, file, run, out="unchecked").ok()
    assert "note:" in result.err and "another aggr" in result.err, result
    assert "LayerNorm" not in result.err, result
    logits[7, 1] += 0.02
    np.save(box.path("logits.npy"), logits)
    check = ["--check", box.path("logits.npy")]
    result = import_weights(box, file, run, *check, out="new/other")
    assert result.rc == 1, result
    (error,) = result.errors()
    assert "vertex 7, output 1" in error and "trainer/MODELS.md" in error, error
    assert not os.path.exists(box.path("new"))
    logits -= np.log(np.exp(logits).sum(1, keepdims=True))
    np.save(box.path("logits.npy"), logits)
    result = import_weights(box, file, run, *check, out="other")
    assert result.rc == 1 and "log_softmax" in result.errors()[0], result
    np.save(box.path("logits.npy"), logits[1:])
    result = import_weights(box, file, run, *check, out="other")
    refused(box, result, "logits.npy", "wanted (", output="other")
