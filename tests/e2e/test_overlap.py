"""Evaluation beside the next epoch's training: the results are those of one after the other."""

import os
import signal

from harness import cases, cpu_devices, fingerprint, go_on, read_json, small_job, text_of

EPOCH = 12  # updates


def job(box, **changes):
    """Of the three trainers of its four devices one can train at once."""
    return small_job(box.shared_dataset("small"), **{
        "allocation": {"samplers": 1, "trainers": 3},
        "checkpoint": {"every_updates": 1, "keep": 100},
        **changes,
    })


def one_after_the_other(box, config):
    config = {**config, "output": "runs/alone"}
    config["evaluate"] = {**config["evaluate"], "overlap": False}
    result, report = box.run(config, name="alone")
    result.ok()
    assert all(e["overlapped_seconds"] == 0 for e in report["epochs"])
    return report


def expect_the_same(report, wanted):
    assert fingerprint(report) == fingerprint(wanted)
    assert report["test"] == wanted["test"] and report["best_metric"] == wanted["best_metric"]
    assert [e["val"] for e in report["epochs"]] == [e["val"] for e in wanted["epochs"]]
    assert [e["test"] for e in report["epochs"]] == [e["test"] for e in wanted["epochs"]]
    assert report["epochs"][-1]["overlapped_seconds"] == 0


def trained_while_evaluation_stands(box, config):
    """The job when a trainer has stood in the first chunk of the first evaluation until all of the
    second epoch was trained: that trainer."""
    running = box.start("run", box.job(config), env={"SLUICE_FAILPOINT": "trainer_infer:1:stop"})
    trainer = box.until_stopped(running, "trainer")
    folder = box.path("runs/job/checkpoints", f"{2 * EPOCH:012}")
    running.until(lambda: os.path.isdir(folder), "the second epoch's last update")
    state = read_json(os.path.join(folder, "state.json"))
    assert (state["epoch"], state["batches_done"], state["batches_beside"]) == (0, EPOCH, EPOCH)
    assert text_of(box.path("runs/job/metrics.jsonl")) == ""
    return running, trainer


def test_a_trainer_that_is_killed_with_a_part_of_the_evaluation_changes_nothing(box):
    config = job(box)
    running, trainer = trained_while_evaluation_stands(box, config)
    os.kill(trainer, signal.SIGKILL)
    running.wait().ok()
    report = read_json(box.path("runs/job/report.json"))
    assert len(report["restarts"]) == 1, report["restarts"]
    assert "inference chunk" in report["restarts"][0]["held"], report["restarts"]
    assert report["epochs"][0]["overlapped_seconds"] > 0
    expect_the_same(report, one_after_the_other(box, config))


@cases("killed", "stopped")
def test_a_job_goes_on_with_both(box, how):
    config = job(box, **{"evaluate.test": "each"})
    running, _ = trained_while_evaluation_stands(box, config)
    if how == "killed":
        box.kill_everything()
    else:
        running.interrupt()  # the one that stands in its chunk is killed when it does not leave
    running.wait()
    box.until_gone()
    result, report = box.run(config)
    result.ok()
    assert f"going on from update {2 * EPOCH}, epoch 2, batch {EPOCH} of {EPOCH}" in result.err
    assert len(report["epochs"]) == 3 and report["batches"]["trained"] == 3 * EPOCH
    expect_the_same(report, one_after_the_other(box, config))


def test_a_standby_trainer_evaluates_to_the_last_chunk(box):
    config = job(box, devices=cpu_devices(2), allocation={"samplers": 1, "trainers": 1})
    points = {"SLUICE_FAILPOINT": f"trainer_gradient:{EPOCH + 1}:stop"}
    running = box.start("run", box.job(config), env=points)
    trainer = box.until_stopped(running, "trainer")  # the only one, in the second epoch
    told = box.path("runs/job/metrics.jsonl")
    running.until(lambda: '"epoch"' in text_of(told), "the first epoch's evaluation")
    go_on(trainer)
    running.wait().ok()
    report = read_json(box.path("runs/job/report.json"))
    assert report["restarts"] == [] and report["epochs"][0]["evaluate_seconds"] == 0
    expect_the_same(report, one_after_the_other(box, config))
