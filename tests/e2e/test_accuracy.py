"""Real graphs: the accuracy that the literature and full-batch PyTorch reach on the same files."""

import os

from harness import CORES, SHARED_DATA, Skip, not_under, timeout, whole


def shared(name):
    path = os.path.join(SHARED_DATA, name)
    if not os.path.isdir(path):
        raise Skip(f"{path} is not there")
    return path


def job(dataset, **changes):
    return {
        "dataset": dataset,
        "model": {"kind": "gcn", "layers": 2, "hidden": 16, "dropout": 0.5, "input_dropout": 0.5},
        "sampler": {"kind": "khop", "fanout": [-1, -1], "batch_size": 1024},
        "optimizer": {"kind": "adam", "lr": 0.01, "weight_decay": 5e-4},
        "updates": {"mode": "ordered", "batches_per_update": 1},
        "devices": [{"kind": "cpu", "cores": str(core)} for core in CORES],
        "allocation": {"samplers": 1, "trainers": 1},
        "epochs": 200,
        "seed": 1,
        "evaluate": {"every": 1, "fanout": "full"},
        "output": "runs/accuracy",
        **changes,
    }


@timeout(180)
@not_under("address", "an accuracy does not depend on the sanitizer, and it takes minutes")
@not_under("thread", "an accuracy does not depend on the sanitizer, and it takes minutes")
def test_cora(box):
    config = job(shared("cora"), evaluate={"every": 4, "fanout": "full"})
    result, report = box.run(config, seconds=170)
    result.ok()
    assert report["test_accuracy"] >= 0.79, report["test_accuracy"]


@whole
@timeout(240)
@not_under("address", "an accuracy does not depend on the sanitizer, and it takes minutes")
@not_under("thread", "an accuracy does not depend on the sanitizer, and it takes minutes")
def test_amazon_photo(box):
    config = job(
        shared("amazon_photo"),
        model={"kind": "graphsage", "layers": 2, "hidden": 64, "dropout": 0.5},
        sampler={"kind": "khop", "fanout": [15, 10], "batch_size": 512},
        optimizer={"kind": "adam", "lr": 0.005},
        epochs=15,
    )
    result, report = box.run(config, seconds=200)
    result.ok()
    assert report["test_accuracy"] >= 0.9, report["test_accuracy"]
