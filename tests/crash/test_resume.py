"""Checkpoints: a run that was stopped or killed goes on, and ends as if nothing had happened."""

import json
import os
import random
import signal

from harness import cases, fingerprint, go_on, planted, read_json, small_job, text_of, write_dataset

EPOCHS = 4
BATCHES = 12  # of an epoch: 750 training vertices, 64 a batch
# One trainer: where it stands still, the job stays at that update.
ALONE = {"allocation": {"samplers": 1, "trainers": 1, "switching": False}}


def held_after_update(*updates):
    """Where the one trainer stands still, by updates of this run. Of one batch each."""
    return {"SLUICE_FAILPOINT": ",".join(f"trainer_gradient:{n + 1}:stop" for n in updates)}


def resume_job(dataset, **changes):
    return small_job(
        dataset,
        **{
            "epochs": EPOCHS,
            "updates.batches_per_update": 1,
            "checkpoint": {"every_updates": 2, "keep": 2},
            **changes,
        },
    )


def undisturbed(box, name, **changes):
    config = resume_job(box.shared_dataset("small"), **{**changes, "checkpoint": {}})
    return box.undisturbed(f"resume-{name}", config)


def kill_everything(box, running):
    box.kill_everything()
    running.wait()
    box.until_gone()


def killed_at(box, path, *points, role=None):
    """The job until one of it stands still, where all of it is killed; what it had said."""
    stops = ",".join(f"{point}:stop" for point in points)
    running = box.start("run", path, env={"SLUICE_FAILPOINT": stops})
    box.until_stopped(running, role)
    kill_everything(box, running)
    return running.output()[1]


def random_points(chance, n):
    """Moments of a run, so early that a job has all n before it ends."""
    kinds = [
        ("sampler_drawn", 6),
        ("sampler_published", 6),
        ("trainer_extracted", 6),
        ("trainer_gradient", 6),
        ("trainer_apply", 1),
        ("trainer_flipped", 1),
        ("trainer_start", 1),
        ("broker_checkpoint", 1),
        ("broker_checkpoint_named", 1),
    ]
    for _ in range(n):
        name, most = chance.choice(kinds)
        yield f"{name}:{chance.randint(1, most)}"


def killed_and_gone_on(box, config, seed, n=4):
    """The job with n deaths of all of it, from the first checkpoint on; its report."""
    path = box.job(config)
    # No run gets much further than to its first checkpoint, however slow the broker is.
    batches = config["checkpoint"]["every_updates"] * config["updates"].get("batches_per_update", 1)
    end = f"trainer_gradient:{batches + 3}"
    killed_at(box, path, "broker_checkpoint_named", end, role="broker")
    for point in random_points(random.Random(seed), n - 1):
        said = killed_at(box, path, point, end)
        assert "going on from update" in said, (point, said)
    result, report = box.run(config)
    result.ok()
    assert "going on from update" in result.err, str(result)
    # A run that died before its first batch has gone on too, and nobody could write that down.
    assert 1 <= len(report["resumes"]) <= n, report["resumes"]
    return report


CASES = {
    "each": {},
    "rarely": {"checkpoint": {"every_updates": 7, "keep": 1}},
    "four_a_update": {
        "updates.batches_per_update": 4,
        "checkpoint": {"every_updates": 1},
        "allocation": {"samplers": 2, "trainers": 2},
    },
    "five_a_update": {"updates.batches_per_update": 5, "evaluate": {"every": 2, "fanout": [3, 3]}},
    "without_evaluation": {"evaluate": {"every": 0, "fanout": "full"}, "model.kind": "gcn"},
    "momentum": {"optimizer": {"kind": "sgd", "lr": 0.05, "momentum": 0.9}},
    "switching": {
        "updates.batches_per_update": 3,
        "cache": {"policy": "presc", "presample_epochs": 1, "ratio": 0.2},
        "allocation": {"samplers": 2, "trainers": 1, "switching": True},
        "schedule": [{"epoch": 2, "batch": 3, "samplers": 1, "trainers": 3}],
    },
    "oracle": {"cache": {"policy": "optimal", "ratio": 0.1, "report_optimal": True}},
    "early_stopping": {
        "epochs": 8,
        "optimizer.lr": 0.3,
        "early_stopping": {"patience": 2},
        "updates.batches_per_update": 3,
    },
    "proximity": {"order": {"kind": "proximity", "sequences": 4}},
    "batch_norm": {"model.norm": "batch", "updates.batches_per_update": 2},
}


@cases(*CASES)
def test_kill_9_of_everything_at_random_moments(box, name):
    changes = CASES[name]
    wanted = undisturbed(box, name, **changes)
    config = resume_job(box.shared_dataset("small"), **changes)
    assert fingerprint(killed_and_gone_on(box, config, seed=name)) == wanted
    assert len(box.checkpoints()) <= changes.get("checkpoint", {}).get("keep", 2)


@cases(1, 24, 36)
def test_kill_at_a_known_update(box, update):
    """Right after the checkpoint of a chosen update, the ends of epochs among them."""
    changes = {"checkpoint": {"every_updates": 1}, **ALONE}
    wanted = undisturbed(box, "each")
    config = resume_job(box.shared_dataset("small"), **changes)
    running = box.start("run", box.job(config), env=held_after_update(update))
    running.until(lambda: box.checkpoints() and int(box.checkpoints()[-1]) == update, "checkpoint")
    kill_everything(box, running)
    result, report = box.run(config)
    result.ok()
    assert f"going on from update {update}" in result.err, str(result)
    assert fingerprint(report) == wanted
    (resume,) = report["resumes"]
    assert resume["update"] == update, resume
    with open(box.path("runs/job/metrics.jsonl")) as file:
        epochs = [json.loads(line)["epoch"] for line in file]
    assert epochs == list(range(EPOCHS)), epochs


@cases(signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)
def test_stopped_by_a_signal(box, number):
    """Every process gets it at once, as a batch system does it."""
    wanted = undisturbed(box, "each")
    config = resume_job(
        box.shared_dataset("small"), **{"checkpoint": {"every_seconds": 1000}, **ALONE}
    )
    running = box.start("run", box.job(config), env=held_after_update(20))
    trainer = box.until_stopped(running, "trainer")
    for pid in list(box.processes()):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass
    box.until_gone("sampler")  # it has been told to leave
    go_on(trainer)
    result = running.wait()
    box.nothing_runs()
    result.error(130, "the same command goes on")
    assert len(box.checkpoints()) == 1, box.checkpoints()
    assert read_json(box.path("runs/job/report.json"))["status"] == "stopped"
    result, report = box.run(config)
    result.ok()
    (resume,) = report["resumes"]
    assert resume["update"] >= 20, resume
    assert f"going on from update {resume['update']}," in result.err, str(result)
    assert fingerprint(report) == wanted


def test_async_updates_go_on_and_train_every_batch_once(box):
    config = resume_job(
        box.shared_dataset("small"),
        **{
            "updates": {"mode": "async", "staleness": 2},
            "allocation": {"samplers": 1, "trainers": 3},
        },
    )
    report = killed_and_gone_on(box, config, seed=5)
    found, wanted = fingerprint(report), undisturbed(box, "each")
    assert [e["batches"] for e in report["epochs"]] == [BATCHES] * EPOCHS
    assert max(e["updates"]["staleness_max"] for e in report["epochs"]) <= 2
    # What was drawn does not depend on who applied what when.
    for key in ("samples_digest", "edges", "batches"):
        assert found[key] == wanted[key], key
    version = int(box.checkpoints()[-1])
    assert version == EPOCHS * BATCHES, version


def test_a_full_disk_is_a_warning(box):
    """checkpoints/ cannot be written: the job goes on and says so once."""
    config = resume_job(box.shared_dataset("small"))
    running = box.start("run", box.job(config), "--report", box.path("job.report.json"),
                        env={"SLUICE_FAILPOINT": "trainer_gradient:stop"})
    trainer = box.until_stopped(running, "trainer")
    running.until(lambda: os.path.exists(box.path("runs/job/config.json")), "a run directory")
    # A file of that name is in the way of every directory below it.
    with open(box.path("runs/job/checkpoints"), "x"):
        pass
    go_on(trainer)
    result = running.wait()
    result.ok()
    assert result.err.count("no checkpoint of update") == 1, str(result)
    assert read_json(box.path("job.report.json"))["status"] == "done"


def test_without_a_best_the_last_parameters_are_tested(box):
    """Validation of one class has no ROC-AUC. All dies in the test, which is all that is left."""
    arrays = planted(classes=2)
    val = arrays["val_idx"]
    arrays["val_idx"] = val[arrays["node_label"][val] == 1]
    data = write_dataset(box.path("data"), arrays)
    changes = {"evaluate.metric": "roc_auc", "epochs": 2, **ALONE}
    _, whole = box.run(resume_job(data, **changes, output="runs/whole"))
    path = box.job(resume_job(data, **changes))
    # An evaluation is two chunks of the hidden layer and one of the last. The last update's
    # checkpoint is made before the evaluation behind it, and then once more.
    stops = "trainer_infer:4:stop,trainer_infer:9:stop"
    running = box.start("run", path, env={"SLUICE_FAILPOINT": stops})
    newest = box.path(f"runs/job/checkpoints/{2 * BATCHES:012}/state.json")
    for epochs in 1, 2:
        trainer = box.until_stopped(running, "trainer")
        word = f'"epoch":\t{epochs}'
        running.until(lambda: word in text_of(newest), f"a checkpoint with {word}")  # noqa: B023
        if epochs == 1:
            go_on(trainer)
    kill_everything(box, running)
    result, rest = box.run(resume_job(data, **changes))
    assert "going on from update 24" in result.ok().err, str(result)
    assert rest["best_metric"] is None and rest["test"] == whole["test"], (rest["test"], whole)
