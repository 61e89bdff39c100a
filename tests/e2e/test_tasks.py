"""Tasks and what they are judged by: several classes, two rare ones, several labels, numbers.

What a metric is: tests/unit/test_broker_metrics.c. Here those of a report are those that `predict`
finds with the parameters that the run left.
"""

import json
import os
import re

import numpy as np

from harness import cases, planted, read_json, small_job, text_of, write_dataset
from test_bad_input import refused

TOLERANCE = 1e-5


# ---- data sets ----------------------------------------------------------------------------------


def dataset(box, label, task, outputs, name="data", noise=1.0):
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
    return write_dataset(box.path(name), arrays, metadata=metadata), arrays


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


def expect(found, wanted):
    """The same metrics; of rows in another order, sums may differ a little."""
    assert found.pop("not_finite", 0) == 0 and set(found) == set(wanted), (found, wanted)
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


TASKS = {
    "classes": (some_unlabelled, "multiclass", 4, "accuracy"),
    "two-classes": (a_rare_class, "multiclass", 2, "roc_auc"),
    "labels": (several_labels, "multilabel", 5, "micro_f1"),
    "numbers": (numbers, "regression", 2, "loss"),
}


def predicted(box, run, *arguments):
    """What `predict` writes, and its summary."""
    out = box.path("predicted.npy")
    summary = box.sluice("predict", run, "--out", out, "--force", "-o", "json", *arguments).ok()
    return np.load(out), summary.json()


def test_metrics_are_those_of_the_best_parameters(box):
    for name, (label, task, n_outputs, measure) in TASKS.items():
        data, _ = dataset(box, label, task, n_outputs, name)
        report = finished(box, one_layer(data, output=f"runs/{name}"))
        best = report["best_metric"]
        assert best["name"] == measure, best
        epochs = [e["val"][measure] for e in report["epochs"]]
        assert best["value"] == (min(epochs) if measure == "loss" else max(epochs))
        assert best["epoch"] == epochs.index(best["value"])
        _, summary = predicted(box, box.path("runs", name))
        expect(summary["val"], report["epochs"][best["epoch"]]["val"])
        expect(summary["test"], report["test"])
        assert report["test_accuracy"] == report["test"].get("accuracy")
        losses = [e["loss"] for e in report["epochs"]]
        assert losses[-1] < losses[0], losses


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
        recall[name] = predicted(box, box.path(name), "--classes")[0][rare].mean()
    assert recall["runs/none"] < 0.5 * recall["runs/balanced"], recall
    assert recall["runs/list"] > recall["runs/none"], recall


def test_training_stops_when_patience_runs_out(box):
    data, _ = dataset(box, some_unlabelled, "multiclass", 4, noise=3.5)
    changes = {
        "epochs": 200,
        "early_stopping.patience": 4,
        "early_stopping.min_delta": 0.002,
        "evaluate.fanout": [-1],
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
    assert read_json(box.path("runs", "job", "report.json")) == report


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
    assert found["parameters"] == "last" and found["test"]["not_finite"] == 0
    expect(found["test"], report["test"])
    # Nobody prints what is no number.
    told = [result.out, result.err, box.sluice("report", "runs/job").ok().out]
    told.append(box.sluice("report", "runs/job", "--html", "--out", "-").ok().out)
    for name in ("report.json", "metrics.jsonl", "events.jsonl", "log/broker.log"):
        told.append(text_of(box.path("runs/job", name)))
    for text in told:
        assert not re.search(r"\b-?nan\b", text, re.I), text


@cases(
    ("numbers-have-no-accuracy", numbers, "regression", 2, "accuracy", "is a regression"),
    ("four-classes-have-no-auc", some_unlabelled, "multiclass", 4, "roc_auc", "has 4 classes"),
)
def test_a_metric_of_another_task_is_refused(box, _, label, task, n, metric, why):
    data, _ = dataset(box, label, task, n)
    result, _ = box.run(one_layer(data, **{"evaluate.metric": metric}))
    refused(box, result, "evaluate.metric", why)
