"""Every kind of model with its options, as a whole job: it learns, and its bits do not depend on
who computed them; options of optimizers with them.

What a layer computes, and what an optimizer makes of it, is compared with PyTorch Geometric and
PyTorch in tests/unit/test_trainer_golden.c and test_trainer_update.c.
"""

import os

import numpy as np

from harness import (
    CORES,
    SHARED_DATA,
    Skip,
    cases,
    fingerprint,
    metadata_of,
    not_under,
    planted,
    small_job,
    whole,
    write_dataset,
)
from tensors import read_tensors

# A kind with options -> what it changes in a job of two layers of 16 on a planted graph, on which
# one vertex in four is chance and the features alone reach about 0.5; a test accuracy that eight
# seeds exceeded by far.
MODELS = {
    "graphsage": ({"model.kind": "graphsage"}, 0.80),
    "graphsage-max": ({"model.kind": "graphsage", "model.aggregator": "max"}, 0.75),
    "graphsage-gcn": ({"model.kind": "graphsage", "model.aggregator": "gcn"}, 0.80),
    "gcn": ({"model.kind": "gcn"}, 0.80),
    "gcn-of-the-block": ({"model.kind": "gcn", "model.degrees": "block"}, 0.75),
    "gcn-without-loops": ({"model.kind": "gcn", "model.self_loops": False}, 0.75),
    "gat": ({"model.kind": "gat", "model.heads": 4}, 0.75),
    "gat-residual-elu": (
        {
            "model.kind": "gat",
            "model.heads": 2,
            "model.residual": True,
            "model.activation": "elu",
            "model.attention_dropout": 0.1,
        },
        0.70,
    ),
    "gatv2": ({"model.kind": "gatv2", "model.heads": 4, "model.residual": True}, 0.75),
    "gin-batch-norm": ({"model.kind": "gin", "model.train_eps": True, "model.norm": "batch"}, 0.75),
    "gin-layer-norm": ({"model.kind": "gin", "model.eps": 0.5, "model.norm": "layer"}, 0.65),
    "pinsage": ({"model.kind": "pinsage"}, 0.75),
    "pinsage-walk": ({"model.kind": "pinsage", "sampler.kind": "walk"}, 0.75),
    "jumping-cat": (
        {"model.kind": "graphsage", "model.jumping": "cat", "model.norm": "batch"},
        0.75,
    ),
    "jumping-max": (
        {"model.kind": "gcn", "model.jumping": "max", "model.activation": "leaky_relu"},
        0.75,
    ),
    "jumping-last": (
        {"model.kind": "gat", "model.heads": 4, "model.jumping": "last", "model.norm": "layer"},
        0.75,
    ),
    "one-layer": ({"model.kind": "gcn", "model.layers": 1, "sampler.fanout": [10]}, 0.70),
    "one-layer-jumping": (
        {"model.kind": "gcn", "model.layers": 1, "sampler.fanout": [10], "model.jumping": "cat"},
        0.70,
    ),
    "three-layers": (
        {
            "model.kind": "graphsage",
            "model.layers": 3,
            "model.norm": "layer",
            "sampler.fanout": [5, 4, 3],
        },
        0.75,
    ),
}

# Those whose bits have most ways to depend on something: a state (running statistics, a learned
# scalar), random masks on edges, several outputs, other blocks.
DELICATE = {
    "batch-norm": {"model.kind": "graphsage", "model.norm": "batch"},
    "gat-dropout": {"model.kind": "gat", "model.heads": 4, "model.attention_dropout": 0.4},
    "gatv2-dropout": {"model.kind": "gatv2", "model.heads": 4, "model.attention_dropout": 0.4},
    "gin-eps": {"model.kind": "gin", "model.train_eps": True, "model.norm": "batch"},
    "jumping-cat": {"model.kind": "gcn", "model.jumping": "cat", "model.norm": "layer"},
    "pinsage-walk": {"model.kind": "pinsage", "sampler.kind": "walk"},
    "adamw": {
        "model.kind": "graphsage",
        "model.aggregator": "max",
        "optimizer.kind": "adamw",
        "optimizer.weight_decay": 0.05,
        "optimizer.decay_on": "first_layer",
        "optimizer.clip_norm": 0.5,
        "optimizer.schedule": "cosine",
        "optimizer.min_lr": 0.0005,
        "optimizer.warmup_epochs": 0.5,
    },
}


# ---- parameters ---------------------------------------------------------------------------------


def train(box, label, config, **how):
    """(report, parameters) of a job that has to succeed."""
    result, report = box.run(dict(config, output=f"runs/{label}"), name=label, **how)
    result.ok()
    assert report["batches"]["trained"] == report["batches"]["scheduled"], report["batches"]
    return report, read_tensors(box.path(f"runs/{label}", "model.safetensors"))


# ---- they learn ---------------------------------------------------------------------------------


@cases(*MODELS)
def test_learns(box, name):
    changes, floor = MODELS[name]
    config = small_job(box.shared_dataset("small"), epochs=8, **changes)
    report, tensors = train(box, "job", config)
    loss = [epoch["loss"] for epoch in report["epochs"]]
    assert loss[-1] < 0.8 * loss[0], f"the loss hardly falls: {loss}"
    assert report["test_accuracy"] >= floor, report["test_accuracy"]
    for tensor, values in tensors.items():
        assert np.isfinite(values).all(), f"{tensor} is not finite"
        if tensor.endswith("num_batches_tracked"):
            assert values == report["batches"]["scheduled"], f"{tensor} is {values}"
    assert any("running_var" in t for t in tensors) == (changes.get("model.norm") == "batch")
    assert ("lin.weight" in tensors) == ("model.jumping" in changes)
    # What is not learned stays.
    if changes.get("model.eps"):
        assert tensors["convs.0.eps"] == 0.5
    if changes.get("model.train_eps"):
        assert tensors["convs.0.eps"] != 0


@cases("graphsage", "gat", "gin")
def test_learns_with_every_sampler(box, kind):
    """Random walks and shared neighbours, and an evaluation that samples as well."""
    for sampler in ("walk", "labor"):
        config = small_job(
            box.shared_dataset("small"),
            **{
                "model.kind": kind,
                "model.norm": "batch",
                "sampler.kind": sampler,
                "evaluate.fanout": [5, 5],
                "epochs": 6,
            },
        )
        report, _ = train(box, f"{kind}-{sampler}", config)
        loss = [epoch["loss"] for epoch in report["epochs"]]
        assert loss[-1] < 0.8 * loss[0], f"{sampler}: the loss hardly falls: {loss}"
        assert report["test_accuracy"] >= 0.6, f"{sampler}: {report['test_accuracy']}"


# ---- bits ---------------------------------------------------------------------------------------


@cases(*DELICATE)
def test_same_bits_whoever_computes(box, name):
    """Trainers, samplers, switching, a trainer that dies in its gradient, update or inference."""
    config = small_job(
        box.shared_dataset("small"), **{"updates.batches_per_update": 3, **DELICATE[name]}
    )
    plans = [
        ("one", (1, 1), True, None),
        ("three", (1, 3), False, None),
        ("update", (1, 2), False, "trainer_apply:4"),
        ("inference", (1, 2), True, "trainer_infer:3"),
    ]
    wanted = None
    for label, (samplers, trainers), switching, failpoint in plans:
        config["allocation"] = {
            "samplers": samplers,
            "trainers": trainers,
            "switching": switching,
        }
        env = {"SLUICE_FAILPOINT": failpoint} if failpoint else None
        report, _ = train(box, label, config, env=env)
        assert not failpoint or report["restarts"], f"nobody died at {failpoint}"
        wanted = wanted or fingerprint(report)
        assert fingerprint(report) == wanted, f"{label}: {fingerprint(report)}, but {wanted}"


# ---- optimizers ---------------------------------------------------------------------------------


# ---- what the user sees -------------------------------------------------------------------------


@cases(
    ("multilabel", 4, lambda y: np.eye(4, dtype=np.int8)[y], "val micro-F1 0."),
    ("regression", 1, lambda y: y.astype(np.float32), "val loss "),
    ("multiclass", 4, lambda y: y, "val 0."),
)
def test_progress_shows_the_metric_of_the_task(box, task, columns, labels, text):
    arrays = planted(n=400)
    metadata = dict(metadata_of(arrays), task=task, num_classes=columns)
    arrays["node_label"] = labels(arrays["node_label"])
    folder = write_dataset(box.path("data"), arrays, metadata=metadata)
    result, report = box.run(small_job(folder))
    result.ok()
    lines = [line for line in (result.out + result.err).splitlines() if line.startswith("epoch ")]
    assert len(lines) == 3 and all(text in line for line in lines), lines
    assert all("nan" not in line for line in lines), lines
    # The number that is shown is the one of the report.
    key = report["best_metric"]["name"]
    for line, epoch in zip(lines, report["epochs"]):
        shown = float(line.split(" val ")[1].split("  ")[0].split()[-1])
        assert abs(shown - epoch["val"][key]) < 1e-3 * max(1, shown), (line, epoch["val"])


# ---- a real graph -------------------------------------------------------------------------------

# Options, a floor of the test accuracy, epochs. (test_accuracy.py has GCN and GraphSAGE.)
CORA = {
    "gat": ({"hidden": 64, "heads": 8, "activation": "elu"}, 0.79, 60),
    "gatv2": ({"hidden": 64, "heads": 8, "activation": "elu"}, 0.79, 60),
    "gin": ({"hidden": 64, "norm": "batch"}, 0.64, 60),
    "pinsage": ({"hidden": 64}, 0.70, 60),
}


@whole
@not_under("address", "an accuracy does not depend on the sanitizer, and it takes minutes")
@cases(*CORA)
def test_cora(box, kind):
    model, floor, epochs = CORA[kind]
    path = os.path.join(SHARED_DATA, "cora")
    if not os.path.isdir(path):
        raise Skip(f"{path} is not there")
    config = {
        "dataset": path,
        "model": {"kind": kind, "layers": 2, "hidden": 16, "dropout": 0.6, "input_dropout": 0.6}
        | model,
        "sampler": {"fanout": [-1, -1], "batch_size": 140},
        "optimizer": {"kind": "adam", "lr": 0.01, "weight_decay": 5e-4},
        "devices": [{"kind": "cpu", "cores": str(core)} for core in CORES],
        "allocation": {"samplers": 1, "trainers": 1},
        "epochs": epochs,
        "seed": 1,
    }
    report, _ = train(box, kind, config, seconds=100)
    assert report["test_accuracy"] >= floor, report["test_accuracy"]
