"""Going on with a run: which jobs may, from which checkpoint, and what is refused and why.

What refusals advise is done in test_advice.py; keys are the subject of test_free_keys.py and of
tests/unit/test_config_differences.c.
"""

import os
import re

import numpy as np

from harness import cases, fingerprint, go_on, planted, small_job, write_dataset
from tensors import read_tensors


def job(box, **changes):
    return small_job(
        box.shared_dataset("small"), **{"checkpoint": {"every_updates": 5, "keep": 3}, **changes}
    )


def unfinished(box, **changes):
    """A run that was killed when its report was half written; its job."""
    config = job(box, **changes)
    result, _ = box.run(config, env={"SLUICE_FAILPOINT": "broker_report:1"})
    assert result.rc == 1, str(result)
    box.until_gone()
    assert not os.path.exists(box.path("runs/job/report.json"))
    return config


def two_checkpoints(box):
    """An unfinished run of 36 updates that has a checkpoint of its middle and one of its end."""
    config = job(box, allocation={"samplers": 1, "trainers": 1, "switching": False})
    points = "trainer_gradient:20:stop,broker_report"
    running = box.start("run", box.job(config), env={"SLUICE_FAILPOINT": points})
    trainer = box.until_stopped(running)
    running.until(box.checkpoints, "a checkpoint")
    go_on(trainer)
    assert running.wait().rc == 1
    box.until_gone()
    assert len(box.checkpoints()) >= 2, box.checkpoints()
    return config


def times(folder):
    return {name: os.path.getmtime(os.path.join(folder, name)) for name in os.listdir(folder)}


def refused(box, config, *words, arguments=()):
    before = times(box.path("runs/job"))
    result, _ = box.run(config, *arguments)
    error = result.error(2, *map(re.escape, words))
    assert before == times(box.path("runs/job")), "a refused job has changed the run directory"
    return error


def test_a_finished_run_is_refused(box):
    config = job(box)
    box.run(config)[0].ok()
    refused(box, config, "holds an earlier run (found report.json)", "finished after 3 epochs",
            "more epochs", "--set output=DIR")


def test_more_epochs_go_on_with_a_finished_run(box):
    config = job(box)
    box.run(config)[0].ok()
    result, report = box.run(dict(config, epochs=5))
    result.ok()
    assert "going on from update 36, after epoch 3" in result.err, str(result)
    assert [e["epoch"] for e in report["epochs"]] == list(range(5))
    alone, wanted = box.run(dict(config, epochs=5, output="runs/alone"), name="alone")
    alone.ok()
    assert fingerprint(report) == fingerprint(wanted)
    assert report["batches"]["trained"] == 60
    refused(box, config, "finished after 5 epochs")


def test_another_data_set_is_refused(box):
    write_dataset(box.path("a"), planted(n=600))
    write_dataset(box.path("b"), planted(n=600, seed=2))
    config = small_job(box.path("a"), checkpoint={"every_updates": 2})
    result, _ = box.run(config, env={"SLUICE_FAILPOINT": "broker_report:1"})
    assert result.rc == 1, str(result)
    box.until_gone()
    refused(box, dict(config, dataset=box.path("b")), "dataset:", "not the data set", "digest")
    # The same one somewhere else is the same one.
    os.rename(box.path("a"), box.path("moved"))
    box.run(dict(config, dataset=box.path("moved")))[0].ok()


@cases("optimizer.safetensors", "state.json")
def test_a_damaged_checkpoint_is_refused_and_an_older_one_offered(box, name):
    config = two_checkpoints(box)
    older, newest = box.checkpoints()[-2:]
    path = box.path("runs/job/checkpoints", newest, name)
    with open(path, "r+b") as file:
        if os.path.getsize(path):
            file.truncate(os.path.getsize(path) // 2)
        else:
            file.write(b"x")
    refused(box, config, f"checkpoint {newest}", name, f"--checkpoint {older}")
    result, report = box.run(config, "--checkpoint", older)
    result.ok()
    assert f"going on from update {int(older)}," in result.err, str(result)
    assert "1 newer checkpoint is set aside" in result.err, str(result)
    alone, wanted = box.run(dict(config, output="runs/alone"), name="alone")
    alone.ok()
    assert fingerprint(report) == fingerprint(wanted)


def test_a_checkpoint_that_is_not_there(box):
    config = unfinished(box)
    refused(box, config, "has no checkpoint '000000000099'", box.checkpoints()[-1],
            arguments=("--checkpoint", "000000000099"))


def test_the_summary_is_of_all_runs(box):
    """Seconds of stages are of all of them, and so is what they are shares of."""
    config = job(box)
    result, first = box.run(dict(config, epochs=6))
    result.ok()
    result, report = box.run(dict(config, epochs=7))
    result.ok()
    before = report["resumes"][-1]["seconds_before"]
    assert 0 < before <= first["wall_seconds"], (report["resumes"], first["wall_seconds"])
    assert abs(report["total_seconds"] - before - report["wall_seconds"]) < 1e-6, report
    first = result.out.splitlines()[0]
    wanted = r"test: done in [\d.]+ m?s \([\d.]+ m?s since it went on\), 7 epochs"
    assert re.match(wanted, first), first
    ((seconds, share),) = re.findall(r"^train +([\d.]+) +(\d+) %", result.out, re.M)
    lived = sum(epoch["worker_seconds"]["trainers"] for epoch in report["epochs"])
    wanted = 100 * float(seconds) / lived
    rounded = 100 * 0.005 / lived + 0.5
    assert abs(int(share) - wanted) <= rounded, (wanted, result.out)


# ---- initial parameters -------------------------------------------------------------------------


def test_training_begins_with_given_parameters(box):
    first = job(box, epochs=1, output="runs/first")
    box.run(first, name="first")[0].ok()
    weights = box.path("runs/first/model.safetensors")
    # With a learning rate of nearly nothing they stay what they were.
    config = job(box, epochs=1, **{"model.weights": weights, "optimizer.lr": 1e-30})
    result, report = box.run(config)
    result.ok()
    given, found = read_tensors(weights), read_tensors(box.path("runs/job/model.safetensors"))
    assert given.keys() == found.keys()
    for name, tensor in given.items():
        assert np.array_equal(tensor, found[name]), name
    assert report["test_accuracy"] > 0.5
