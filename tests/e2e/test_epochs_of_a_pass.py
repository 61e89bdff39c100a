"""order.epochs_per_pass: an epoch is a share of the way through the training vertices, with all
that goes by epochs."""

import numpy as np

from harness import cases, fingerprint, read_json, small_job, whole
from test_bad_input import refused
from test_external import BATCH, begin, borrow

PER_PASS = 4


def job(box, **changes):
    changes = {"order.epochs_per_pass": PER_PASS, "epochs": 6, **changes}
    return small_job(box.shared_dataset("small"), **changes)


def n_train(box):
    return len(np.load(box.shared_dataset("small") + "/train_idx.npy"))


def test_each_share_of_the_way_is_an_epoch(box):
    share = -(-n_train(box) // PER_PASS)
    batches = -(-share // 64)
    result, report = box.run(job(box))
    result.ok()
    assert report["batches"]["scheduled"] == 6 * batches, report["batches"]
    for number, epoch in enumerate(report["epochs"]):
        assert epoch["epoch"] == number and epoch["batches"] == batches, epoch
        assert epoch["val_accuracy"] > 0, epoch
    said = box.sluice("run", box.job(job(box, output="runs/other")), "--dry-run").ok().out
    assert f"epochs      6 of {batches} mini-batches, {batches} updates each" in said, said
    assert f"  {PER_PASS} of them walk through the training set once, of " in said, said


def test_lent_epochs_are_shares(box):
    running, path = begin(box, epochs=PER_PASS, order={"epochs_per_pass": PER_PASS})
    assert borrow(box, path).wait().rc == 0
    assert running.wait().rc == 0
    report = read_json(box.path("runs/job/report.json"))
    share = -(-n_train(box) // PER_PASS)
    assert report["batches"]["scheduled"] == PER_PASS * -(-share // BATCH), report["batches"]


def test_training_stops_within_a_pass(box):
    result, report = box.run(job(box, epochs=12, **{"early_stopping.target": 0.05}))
    result.ok()
    assert 0 < len(report["epochs"]) < PER_PASS, report["stopped_early"]
    assert report["best_epoch"] == len(report["epochs"]) - 1


@cases("plain", "sampled")
def test_the_same_bits_after_a_death(box, way):
    """Of the broker within an epoch and before an evaluation; with more trainers."""
    changes = {"updates.batches_per_update": 2}
    if way == "sampled":
        changes["evaluate.fanout"] = [3, 3]
    _, report = box.run(job(box, output="runs/whole", **changes), name="whole")
    wanted = fingerprint(report)
    changes["checkpoint.every_updates"] = 1
    config = job(box, allocation={"samplers": 2, "trainers": 2}, **changes)
    for point in "trainer_gradient:3", "broker_phase:5":
        result, report = box.run(config, env={"SLUICE_FAILPOINT": point})
        if point.startswith("broker"):
            result.error(1, "the broker was killed by SIGKILL")
            box.until_gone()
            result, report = box.run(config)
        result.ok()
        assert fingerprint(report) == wanted, point
        config["output"] = "runs/other"


def test_a_fraction_of_evaluations_divides_epochs(box):
    """It is the same job in other words, and as many evaluations, whoever dies meanwhile."""
    _, report = box.run(job(box, epochs=2 * PER_PASS, output="runs/shares"), name="shares")
    wanted = fingerprint(report)
    changes = {"epochs": 2, "evaluate.every": 1 / PER_PASS, "checkpoint.every_updates": 1}
    allocation = {"samplers": 2, "trainers": 2}
    config = small_job(box.shared_dataset("small"), allocation=allocation, **changes)
    for point in None, "trainer_gradient:9", "broker_phase:7":
        result, report = box.run(config, env={"SLUICE_FAILPOINT": point} if point else {})
        if point and point.startswith("broker"):
            result.error(1, "the broker was killed by SIGKILL")
            box.until_gone()
            result, report = box.run(config)
        result.ok()
        assert fingerprint(report) == wanted, point
        assert [e["passes"] for e in report["epochs"]] == [e / 4 for e in range(1, 9)], report
        assert all(e["val_accuracy"] > 0 for e in report["epochs"]), report
        config["output"] = f"runs/after{point}".replace(":", "-")
    config["output"] = "runs/job"
    config["evaluate"]["every"] = 1
    config["epochs"] = 9
    wanted = "order.epochs_per_pass: found 1, the run has 4"
    box.sluice("run", box.job(config)).error(2, wanted)


def test_a_fraction_needs_whole_updates(box):
    config = small_job(box.shared_dataset("small"), **{"evaluate.every": 0.001})
    refused(box, box.sluice("run", box.job(config), "--dry-run"), "evaluate.every: found 0.001",
            "at least an update, of 64: set it to ")


def test_other_orders_have_whole_epochs(box):
    said = box.sluice("run", box.job(job(box, **{"order.kind": "listed"})), "--dry-run")
    refused(box, said, "order.epochs_per_pass", "order.kind")


@whole
def test_a_whole_pass_learns_as_much(box):
    """As many batches, in shares or not: the accuracy is near."""
    _, shares = box.run(job(box, epochs=12, output="runs/shares"), name="shares")
    _, passes = box.run(job(box, epochs=3, output="runs/passes", **{"order.epochs_per_pass": 1}),
                        name="passes")
    assert abs(shares["test_accuracy"] - passes["test_accuracy"]) < 0.1
