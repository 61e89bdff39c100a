"""Jobs that say next to nothing: what is left to sluice learns, and sluice says what it chose."""

import json

from harness import cases, read_json


@cases("gin", "graphsage")
def test_dense_graph(box, kind):
    # Vertices have some 120 neighbours, of which training sees 15 and evaluation all.
    dataset = box.shared_dataset("dense", n=2000, degree=120, homophily=0.7, noise=2.0)
    job = {
        "dataset": dataset,
        "model": {"kind": kind},
        "sampler": {"batch_size": 128},  # for more updates
        "epochs": 4,
        "output": "runs/job",
    }
    result, report = box.run(job, seconds=110)
    result.ok()
    assert report["test_accuracy"] > 0.7, report["test_accuracy"]  # a guess has 0.25


def test_epochs_by_themselves(box):
    job = {
        "dataset": box.shared_dataset("little", n=400),
        "model": {"kind": "graphsage", "layers": 1, "hidden": 16},
        "sampler": {"fanout": [5]},
        "early_stopping": {"patience": 2, "min_delta": 0.05},
        "output": "runs/job",
    }
    dry = box.sluice("run", box.job(job), "--dry-run", "-o", "json").ok()
    said = "200 epochs of 1 update each, by themselves"
    plan = json.loads(dry.out)
    assert plan["config"]["epochs"] == 200 and said in plan["epochs_reason"], plan

    result, report = box.run(job, seconds=100)
    assert said in result.ok().err, result.err
    trained = len(report["epochs"])
    assert report["status"] == "done" and 3 <= trained < 200, report["status"]
    assert report["config"]["epochs"] == 200 and said in report["epochs_reason"]
    assert report["stopped_early"]["epoch"] == trained - 1, report["stopped_early"]
    assert read_json(box.path("runs/job/config.json"))["epochs"] == 200

    # It is over, early as it was.
    again, _ = box.run(job, seconds=60)
    (error,) = again.errors()
    assert again.rc == 2 and f"finished after {trained} epochs, stopped early" in error, error
