"""Models, losses and optimizers that can not be: one message that names key, found and wanted."""

import os

import numpy as np
from test_bad_input import refuse_job

from harness import cases, metadata_of, planted, small_job, write_dataset


# What changes in a job that can run, and the words of the message.
OPTIONS = {
    "heads": ({"model.kind": "gat", "model.heads": 3}, ["model.hidden", "3 heads", "15 or 18"]),
    "many-heads": ({"model.kind": "gat", "model.heads": 32}, ["model.hidden", "take 32"]),
    "residual": ({"model.kind": "gcn", "model.residual": True}, ["model.residual", "gcn", "gat"]),
    "aggregator": ({"model.kind": "gat", "model.aggregator": "max"}, ["model.aggregator"]),
    "eps": ({"model.eps": 1}, ["model.eps", "graphsage", "gin"]),
    "degrees": ({"model.degrees": "block"}, ["model.degrees", "gcn"]),
    "layers": ({"model.layers": 9}, ["model.layers", "9", "1 to 8"]),
    "eight-layers": ({"model.layers": 8}, ["sampler.fanout", "2 entries", "wanted 8"]),
    "case": ({"model.kind": "GAT"}, ["model.kind", '"GAT"', 'did you mean "gat"']),
    "norm": ({"model.norm": "instance"}, ["model.norm", "instance", '"batch" or "layer"']),
    "activation": ({"model.activation": "gelu"}, ["model.activation", "gelu", "leaky_relu"]),
    "jumping": ({"model.jumping": "lstm"}, ["model.jumping", "lstm", '"cat" or "max"']),
    "attention-dropout": (
        {"model.kind": "gat", "model.attention_dropout": 1},
        ["model.attention_dropout", "below 1"],
    ),
    "momentum": ({"optimizer.momentum": 0.9}, ["optimizer.momentum", "adam", "sgd"]),
    "gamma": ({"optimizer.gamma": 0.5}, ["optimizer.gamma", "constant", "step"]),
    "min-lr": (
        {"optimizer.schedule": "cosine", "optimizer.min_lr": 1},
        ["optimizer.min_lr", "optimizer.lr 0.01"],
    ),
    "warm-up": ({"optimizer.warmup_epochs": 5}, ["optimizer.warmup_epochs", "3 epochs"]),
    "clip": ({"optimizer.clip_norm": -1}, ["optimizer.clip_norm", "-1"]),
    "decay-on": ({"optimizer.decay_on": "first"}, ["optimizer.decay_on", "first_layer"]),
    "patience": (
        {"early_stopping": {"patience": 3}, "evaluate.every": 0},
        ["early_stopping.patience", "evaluate.every"],
    ),
    "metric": ({"evaluate.metric": "f1"}, ["evaluate.metric", "f1", "macro_f1"]),
    "metric-of-two": ({"evaluate.metric": "roc_auc"}, ["evaluate.metric", "roc_auc", "4 classes"]),
    "weight": ({"loss.class_weights": [1, -2, 3, 4]}, ["loss.class_weights", "entry 1", "-2"]),
    "weights": ({"loss.class_weights": [1, 2]}, ["loss.class_weights", "2 numbers", "wanted 4"]),
    "no-weights": ({"loss.class_weights": []}, ["loss.class_weights", "[]", "balanced"]),
    "zero-weights": ({"loss.class_weights": [0] * 4}, ["loss.class_weights", "all 0", "none"]),
    "weights-word": ({"loss.class_weights": "even"}, ["loss.class_weights", "even", "balanced"]),
    "sampler": ({"sampler.kind": "weighted"}, ["edge_weight.npy"]),
    "paths": ({"sampler.paths": 5}, ["sampler.paths", "khop", "walk"]),
}


@cases(*OPTIONS)
def test_option(box, name):
    changes, words = OPTIONS[name]
    refuse_job(box, small_job(box.shared_dataset("small"), **changes), *words)


OF_A_REGRESSION = {
    "metric": ({"evaluate.metric": "accuracy"}, ["evaluate.metric", "accuracy", "loss"]),
    "weights": ({"loss.class_weights": "balanced"}, ["loss.class_weights", "regression"]),
}


@cases(*OF_A_REGRESSION)
def test_option_that_a_regression_does_not_have(box, name):
    changes, words = OF_A_REGRESSION[name]
    arrays = planted(n=200)
    metadata = dict(metadata_of(arrays), task="regression", num_classes=1)
    arrays["node_label"] = arrays["node_label"].astype(np.float32)
    folder = write_dataset(box.path("numbers"), arrays, metadata=metadata)
    refuse_job(box, small_job(folder, **changes), *words)


NO_WEIGHTS = {
    "nowhere": (None, ["model.weights", "given.safetensors", "none of that name"]),
    "empty": ("", ["model.weights", "given.safetensors"]),
    "text": ("weights, all of them\n", ["model.weights", "not a .safetensors file"]),
    "cut": (300, ["model.weights", "truncated"]),
    "folder": ("folder", ["model.weights", "not a regular file"]),
}


@cases(*NO_WEIGHTS)
def test_weights_that_are_no_file_of_weights(box, name):
    content, words = NO_WEIGHTS[name]
    dataset, path = box.shared_dataset("small"), box.path("given.safetensors")
    if content == "folder":
        os.mkdir(path)
    elif isinstance(content, int):  # so many bytes of a real one
        box.run(small_job(dataset, "first", epochs=1))[0].ok()
        with open(box.path("first", "model.safetensors"), "rb") as whole, open(path, "wb") as file:
            file.write(whole.read(content))
    elif content is not None:
        with open(path, "w") as file:
            file.write(content)
    refuse_job(box, small_job(dataset, **{"model.weights": path}), *words)


OTHER_MODELS = {
    "kind": ({"model.kind": "gat", "model.heads": 2}, ["convs.0.att_src", "(1, 2, 8)", "missing"]),
    "width": ({"model.hidden": 32}, ["convs.0.lin_l.weight", "(16, 16)", "(32, 16)"]),
    "norm": ({"model.norm": "batch"}, ["norms.0.module.weight", "missing"]),
    "jumping": ({"model.jumping": "cat"}, ["lin.weight", "(4, 32)", "missing"]),
    "aggregator": ({"model.aggregator": "gcn"}, ["convs.0.lin_r.weight", "not a tensor"]),
}


@cases(*OTHER_MODELS)
def test_weights_of_another_model(box, name):
    changes, words = OTHER_MODELS[name]
    dataset = box.shared_dataset("small")
    box.run(small_job(dataset, "first", epochs=1))[0].ok()
    weights = box.path("first", "model.safetensors")
    config = small_job(dataset, **{"model.weights": weights, **changes})
    refuse_job(box, config, weights, *words)
