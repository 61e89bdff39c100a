"""Models and weights that cannot be of their data set: one message, key, found and wanted.

What is wrong with a job file alone is in tests/unit/test_cli_job_check.c, a row each."""

import numpy as np
from test_bad_input import refuse_job

from harness import metadata_of, planted, small_job, write_dataset


def test_option_that_a_regression_does_not_have(box):
    arrays = planted(n=200)
    metadata = dict(metadata_of(arrays), task="regression", num_classes=1)
    arrays["node_label"] = arrays["node_label"].astype(np.float32)
    folder = write_dataset(box.path("numbers"), arrays, metadata=metadata)
    for key, value, word in (
        ("evaluate.metric", "accuracy", "loss"),
        ("loss.class_weights", "balanced", "regression"),
    ):
        refuse_job(box, small_job(folder, **{key: value}), key, word)


def test_weights_that_do_not_fit(box):
    """No file of weights, and one of another model."""
    dataset, path = box.shared_dataset("small"), box.path("given.safetensors")
    box.run(small_job(dataset, "first", epochs=1))[0].ok()
    weights = box.path("first", "model.safetensors")
    with open(weights, "rb") as whole, open(path, "wb") as file:
        file.write(whole.read(300))
    for given, changes, words in (
        (box.path("nowhere"), {}, ["model.weights", "none of that name"]),
        (path, {}, ["model.weights", "given.safetensors", "truncated"]),
        (weights, {"model.hidden": 32}, ["convs.0.lin_l.weight", "(16, 16)", "(32, 16)"]),
        (weights, {"model.norm": "batch"}, ["norms.0.module.weight", "missing"]),
    ):
        refuse_job(box, small_job(dataset, **{"model.weights": given, **changes}), *words)
