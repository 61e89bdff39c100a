"""Models and weights that cannot be of their data set: one message, key, found and wanted.

What is wrong with a job file alone is in tests/unit/test_cli_job_check.c, a row each."""

import os

import numpy as np
from test_bad_input import refuse_job

from harness import cases, metadata_of, planted, small_job, write_dataset


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
