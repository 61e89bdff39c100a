"""Tasks and what they are judged by: several classes, two rare ones, several labels, numbers.

The metrics of a report are computed once more here, with numpy, from the parameters that the run
left: one layer of GraphSAGE over all neighbours is the mean of the neighbours and two matrices.
"""

import json
import os
import re
import struct

import numpy as np

from harness import cases, planted, read_json, small_job, text_of, timeout, write_dataset
from test_bad_input import refused

TOLERANCE = 1e-5


# ---- data sets ----------------------------------------------------------------------------------


def dataset(box, label, task, outputs, noise=1.0):
    """A planted graph with other labels."""
    arrays = planted(noise=noise)
    arrays["node_label"] = label(arrays, np.random.default_rng(5))
    metadata = {
        "name": task,
        "num_nodes": len(arrays["indptr"]) - 1,
        "num_edges": len(arrays["indices"]),
        "feat_dim": arrays["node_feat"].shape[1],
        "num_classes": outputs,
        "task": task,
    }
    return write_dataset(box.path("data"), arrays, metadata=metadata), arrays


def several_labels(arrays, rng):
    """Five labels: three that follow class and features, a rare one, one that few know."""
    c, x = arrays["node_label"], arrays["node_feat"]
    y = np.stack([c == 0, c >= 2, x[:, 0] > 0, rng.random(len(c)) < 0.03, c == 1], 1)
    y = y.astype(np.float32)
    y[rng.random(len(c)) < 0.9, 4] = np.nan
    y[rng.random(y.shape) < 0.05] = np.nan
    return y


def numbers(arrays, rng):
    x = arrays["node_feat"]
    y = np.stack([x[:, 0] - 0.5 * x[:, 1] + 3, np.tanh(x[:, 2])], 1).astype(np.float32)
    y[rng.random(y.shape) < 0.1] = np.nan
    return y


def a_rare_class(arrays, rng):
    rare = (arrays["node_label"] == 3) & (rng.random(len(arrays["node_label"])) < 0.3)
    label = rare.astype(np.int64)
    label[rng.random(len(label)) < 0.05] = -1
    return label


def some_unlabelled(arrays, rng):
    label = arrays["node_label"].copy()
    label[rng.random(len(label)) < 0.3] = -1
    return label


# ---- the model in numpy -------------------------------------------------------------------------


def read_safetensors(path):
    with open(path, "rb") as file:
        data = file.read()
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8 : 8 + n])
    head.pop("__metadata__", None)
    tensors = {}
    for name, entry in head.items():
        begin, end = entry["data_offsets"]
        raw = data[8 + n + begin : 8 + n + end]
        tensors[name] = np.frombuffer(raw, np.float32).reshape(entry["shape"]).astype(float)
    return tensors


def outputs_of(run, arrays):
    p = read_safetensors(os.path.join(run, "model.best.safetensors"))
    x, indptr = arrays["node_feat"].astype(float), arrays["indptr"]
    sums = np.zeros_like(x)
    np.add.at(sums, np.repeat(np.arange(len(x)), np.diff(indptr)), x[arrays["indices"]])
    mean = sums / np.maximum(np.diff(indptr), 1)[:, None]
    left = mean @ p["convs.0.lin_l.weight"].T + p["convs.0.lin_l.bias"]
    return left + x @ p["convs.0.lin_r.weight"].T


# ---- metrics, as slow as their definitions -------------------------------------------------------


def f1(right, wrong, missed):
    return 2 * right / (2 * right + wrong + missed) if right + wrong + missed else 0.0


def auc(score, positive):
    above = score[positive][:, None] - score[~positive][None, :]
    return ((above > 0) + 0.5 * (above == 0)).mean()


def counts(predicted, true):
    return (predicted & true).sum(), (predicted & ~true).sum(), (~predicted & true).sum()


def of_classes(outputs, label):
    known = label >= 0
    outputs, label = outputs[known], label[known]
    predicted = outputs.argmax(1)
    top = outputs.max(1, keepdims=True)
    log_sum = top[:, 0] + np.log(np.exp(outputs - top).sum(1))
    each = [counts(predicted == c, label == c) for c in range(outputs.shape[1])]
    found = {
        "accuracy": (predicted == label).mean(),
        "micro_f1": (predicted == label).mean(),
        "macro_f1": np.mean([f1(*c) for c in each if sum(c)]),
        "loss": (log_sum - outputs[np.arange(len(label)), label]).mean(),
    }
    if outputs.shape[1] == 2:
        found["roc_auc"] = auc(outputs[:, 1] - outputs[:, 0], label == 1)
    return found


def of_labels(outputs, label):
    known = ~np.isnan(label)
    columns = [(outputs[k, c], label[k, c] > 0.5) for c, k in enumerate(known.T)]
    each = np.array([counts(z > 0, y) for z, y in columns])
    z, y = outputs[known], label[known]
    return {
        "accuracy": ((z > 0) == (y > 0.5)).mean(),
        "micro_f1": f1(*each.sum(0)),
        "macro_f1": np.mean([f1(*c) for c in each]),
        "roc_auc": np.mean([auc(z, y) for z, y in columns if y.any() and not y.all()]),
        "loss": (np.maximum(z, 0) - z * y + np.log1p(np.exp(-np.abs(z)))).mean(),
    }


def of_numbers(outputs, label):
    known = ~np.isnan(label)
    error = outputs - label
    r2 = [
        1 - (error[k, c] ** 2).sum() / ((label[k, c] - label[k, c].mean()) ** 2).sum()
        for c, k in enumerate(known.T)
    ]
    return {
        "loss": (error[known] ** 2).mean(),
        "mae": np.abs(error[known]).mean(),
        "r2": np.mean(r2),
    }


def expect(found, wanted):
    assert set(found) == set(wanted), f"{sorted(found)}, wanted {sorted(wanted)}"
    for key, value in wanted.items():
        off = abs(found[key] - value)
        assert off <= TOLERANCE * max(1, abs(value)), f"{key}: {found[key]}, wanted {value}"


# ---- tests --------------------------------------------------------------------------------------


def one_layer(data, **changes):
    changes = {"epochs": 6, "model.layers": 1, "sampler.fanout": [-1], "model.dropout": 0} | changes
    return small_job(data, **changes)


def finished(box, job):
    result, report = box.run(job)
    result.ok()
    return report


def report_folder(box):
    return box.path("runs", "job")


TASKS = [
    ("classes", some_unlabelled, "multiclass", 4, of_classes, "accuracy"),
    ("two-classes", a_rare_class, "multiclass", 2, of_classes, "roc_auc"),
    ("labels", several_labels, "multilabel", 5, of_labels, "micro_f1"),
    ("numbers", numbers, "regression", 2, of_numbers, "loss"),
]


@timeout(120)
@cases(*[(name, fanout) for name, *_ in TASKS for fanout in ("full", "sampled")])
def test_metrics_are_those_of_the_best_parameters(box, name, fanout):
    _, label, task, n_outputs, metrics, measure = next(t for t in TASKS if t[0] == name)
    data, arrays = dataset(box, label, task, n_outputs)
    job = one_layer(data, **{"evaluate.fanout": "full" if fanout == "full" else [-1]})
    report = finished(box, job)
    outputs = outputs_of(report_folder(box), arrays)
    best = report["best_metric"]
    assert best["name"] == measure, best
    epochs = [e["val"][measure] for e in report["epochs"]]
    assert best["value"] == (min(epochs) if measure == "loss" else max(epochs))
    assert best["epoch"] == epochs.index(best["value"])
    val = report["epochs"][best["epoch"]]["val"]
    for part, found in (("val", val), ("test", report["test"])):
        ids = arrays[f"{part}_idx"]
        expect(found, metrics(outputs[ids], arrays["node_label"][ids]))
    assert report["test_accuracy"] == report["test"].get("accuracy")
    losses = [e["loss"] for e in report["epochs"]]
    assert losses[-1] < losses[0], losses


@timeout(90)
def test_class_weights_find_the_rare_class(box):
    data, arrays = dataset(box, a_rare_class, "multiclass", 2, noise=3.5)
    ids = arrays["test_idx"]
    rare = ids[arrays["node_label"][ids] == 1]
    recall = {}
    for weights in ("none", "balanced", [1, 30]):
        name = f"runs/{weights if isinstance(weights, str) else 'list'}"
        job = one_layer(
            data,
            **{"loss.class_weights": weights, "output": name, "evaluate.metric": "macro_f1"},
        )
        report = finished(box, job)
        assert report["best_metric"]["name"] == "macro_f1"
        outputs = outputs_of(box.path(name), arrays)
        recall[name] = (outputs[rare, 1] > outputs[rare, 0]).mean()
    assert recall["runs/none"] < 0.5 * recall["runs/balanced"], recall
    assert recall["runs/list"] > recall["runs/none"], recall


@timeout(60)
@cases("layers", "sampled")
def test_training_stops_when_patience_runs_out(box, how):
    data, arrays = dataset(box, some_unlabelled, "multiclass", 4, noise=3.5)
    changes = {
        "epochs": 200,
        "early_stopping.patience": 4,
        "early_stopping.min_delta": 0.002,
        "evaluate.fanout": "full" if how == "layers" else [-1],
        "optimizer.lr": 0.05,
    }
    report = finished(box, one_layer(data, **changes))
    epochs = [e["val_accuracy"] for e in report["epochs"]]
    assert 5 <= len(epochs) < 200, len(epochs)
    # The rule, once more.
    mark, waited = epochs[0], 0
    for i, value in enumerate(epochs[1:], 1):
        waited = 0 if value > mark + 0.002 else waited + 1
        mark = value if waited == 0 else mark
        assert (waited == 4) == (i == len(epochs) - 1), (i, epochs)
    assert report["stopped_early"]["epoch"] == len(epochs) - 1
    assert "4 evaluations without a better accuracy" in report["stopped_early"]["reason"]
    assert report["status"] == "done"
    assert report["best_epoch"] == epochs.index(max(epochs))
    assert report["batches"]["trained"] == report["batches"]["scheduled"]
    ids = arrays["test_idx"]
    outputs = outputs_of(report_folder(box), arrays)
    expect(report["test"], of_classes(outputs[ids], arrays["node_label"][ids]))
    assert read_json(box.path("runs", "job", "report.json")) == report


@timeout(90)
def test_patience_survives_a_stop(box):
    data, _ = dataset(box, some_unlabelled, "multiclass", 4, noise=3.5)
    job = one_layer(
        data,
        **{
            "epochs": 200,
            "early_stopping.patience": 6,
            "optimizer.lr": 0.05,
            "throttle.train": 0.01,
        },
    )
    whole = finished(box, dict(job, output="runs/whole"))
    n = len(whole["epochs"])
    assert n < 200
    # Stopped shortly before patience runs out, when it is half gone.
    running = box.start("run", box.job(job))
    running.until(lambda: f"epoch {n - 3:3}/200  loss" in running.output()[1], f"epoch {n - 3}")
    running.interrupt()
    assert running.wait(20).rc == 130
    rest = finished(box, job)
    assert rest["resumes"], "it did not go on"
    for key in ("best_metric", "stopped_early", "test", "params_sha256"):
        assert rest[key] == whole[key], (key, rest[key], whole[key])
    assert [e["val"] for e in rest["epochs"]] == [e["val"] for e in whole["epochs"]]
    result, _ = box.run(job)
    refused(box, result, "finished", "stopped early", output=None)


@timeout(60)
def test_without_patience_nothing_stops(box):
    data, _ = dataset(box, some_unlabelled, "multiclass", 4)
    report = finished(box, one_layer(data, epochs=12))
    assert len(report["epochs"]) == 12 and report["stopped_early"] is None


@timeout(60)
def test_a_metric_that_is_not_defined_has_no_best(box):
    """Validation of one class has no ROC-AUC: it is said once, and decides nothing."""
    arrays = planted(classes=2)
    val = arrays["val_idx"]
    arrays["val_idx"] = val[arrays["node_label"][val] == 1]
    data = write_dataset(box.path("data"), arrays)
    changes = {"evaluate.metric": "roc_auc", "early_stopping.patience": 1, "epochs": 4}
    job = small_job(data, **changes)
    why = "the validation's ROC-AUC is not defined: all of its labelled vertices are of class 1"
    assert why in box.sluice("run", box.job(job), "--dry-run").ok().out
    result, report = box.run(job)
    assert result.ok().err.count(why) == 1, str(result)
    assert "val ROC-AUC unknown" in result.err and "the last: none is the best" in result.out
    assert len(report["epochs"]) == 4 and report["stopped_early"] is None
    assert report["best_metric"] is None and report["best_epoch"] is None
    assert [text for text in report["warnings"] if text.startswith(why)]
    assert report["epochs"][3]["val"]["roc_auc"] is None and report["test"]["roc_auc"] > 0.5
    assert not os.path.exists(box.path("runs/job/model.best.safetensors"))
    # What is tested and predicted with are the last parameters.
    result = box.sluice("predict", "runs/job", "--out", "p.npy", "-o", "json", "--set", "test")
    found = json.loads(result.ok().out)
    assert found["parameters"] == "last" and found["test"].pop("not_finite") == 0
    expect(found["test"], report["test"])
    # Nobody prints what is no number.
    told = [result.out, result.err, box.sluice("report", "runs/job").ok().out]
    told.append(box.sluice("report", "runs/job", "--html", "--out", "-").ok().out)
    for name in ("report.json", "metrics.jsonl", "events.jsonl", "log/broker.log"):
        told.append(text_of(box.path("runs/job", name)))
    for text in told:
        assert not re.search(r"\b-?nan\b", text, re.I), text


@timeout(60)
def test_a_key_for_vertices_that_are_not_there_is_refused(box):
    arrays = planted()
    arrays["val_idx"] = arrays["val_idx"][:0]
    data = write_dataset(box.path("data"), arrays)
    job = small_job(data, **{"early_stopping.patience": 3})
    result, _ = box.run(job)
    refused(box, result, "job.json: early_stopping.patience", "found 3", "no validation vertices")
    assert "take it out" in result.err, str(result)
    box.sluice("run", box.job(job), "--dry-run", "--set", "early_stopping.patience=0").ok()


@timeout(60)
@cases(
    ("numbers-have-no-accuracy", numbers, "regression", 2, "accuracy", "is a regression"),
    ("four-classes-have-no-auc", some_unlabelled, "multiclass", 4, "roc_auc", "has 4 classes"),
)
def test_a_metric_of_another_task_is_refused(box, _, label, task, n, metric, why):
    data, _ = dataset(box, label, task, n)
    result, _ = box.run(one_layer(data, **{"evaluate.metric": metric}))
    refused(box, result, "evaluate.metric", why)
