"""Checkpoints: a run that was stopped or killed goes on, and ends as if nothing had happened."""

import json
import os
import random
import shutil
import signal
import time

from harness import SLOW, cases, fingerprint, not_under, read_json, small_job, timeout

EPOCHS = 4
BATCHES = 12  # of an epoch: 750 training vertices, 64 a batch
STEP = 0.01  # seconds a batch takes: some moments lie within an epoch


def resume_job(dataset, **changes):
    return small_job(
        dataset,
        **{
            "epochs": EPOCHS,
            "updates.batches_per_update": 1,
            "throttle": {"train": STEP, "standby": STEP},
            "checkpoint": {"every_updates": 2, "keep": 2},
            **changes,
        },
    )


def undisturbed(box, name, **changes):
    dataset = box.shared_dataset("small")

    def compute():
        config = resume_job(
            dataset, **{**changes, "output": f"runs/{name}", "throttle": {}, "checkpoint": {}}
        )
        result, report = box.run(config, name=name)
        result.ok()
        return fingerprint(report)

    return box.shared_value(f"resume-{name}", compute)


def checkpoints(box, output="runs/job"):
    folder = box.path(output, "checkpoints")
    if not os.path.isdir(folder):
        return []
    return sorted(name for name in os.listdir(folder) if not name.startswith("."))


def kill_everything(box):
    box.kill_everything()
    box.until_gone()


def ready_count(box, output="runs/job"):
    """How many runs have begun to train in the directory, by the broker's log."""
    try:
        with open(box.path(output, "log", "broker.log"), errors="replace") as file:
            return file.read().count("all workers are ready")
    except FileNotFoundError:
        return 0


def until_ready(box, running, before):
    end = time.monotonic() + 30 * SLOW
    while ready_count(box) == before and not running.finished() and time.monotonic() < end:
        time.sleep(0.005)


def killed_until_done(box, path, chance, kills, longest):
    """Runs the job, killing all of it at random moments; (result, deaths, how often it went on)."""
    report = box.path("job.report.json")
    deaths = resumes = 0
    for turn in range(200):
        before = ready_count(box)
        running = box.start("run", path, "--report", report)
        if turn < kills:
            if turn % 4 != 3:  # else at any moment of the start
                until_ready(box, running, before)
            # The first death comes once there is something to go on from, the others whenever.
            end = time.monotonic() + (10 if turn == 0 else chance.random() * longest) * SLOW
            while time.monotonic() < end and not running.finished():
                if turn == 0 and checkpoints(box):
                    break
                time.sleep(0.002)
            if not running.finished():
                kill_everything(box)
        result = running.wait(60)
        deaths += result.rc == -signal.SIGKILL
        resumes += "going on from update" in result.err
        if result.rc == 2 and "is finished" in result.err:
            # Killed after it had left everything but its last word.
            shutil.copy(box.path("runs/job/report.json"), report)
            return result, deaths, resumes
        if result.rc == 0:
            return result, deaths, resumes
        assert turn < kills and result.rc < 0, str(result)
    raise AssertionError("it never ended")


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
    "batch_norm": {"model.norm": "batch", "updates.batches_per_update": 2},
}


def moments(box, name, n, seed):
    """The job, killed at up to n moments, must equal the undisturbed one; (deaths, goings-on)."""
    changes = CASES[name]
    wanted = undisturbed(box, name, **changes)
    path = box.job(resume_job(box.shared_dataset("small"), **changes))
    # So long that the last of n moments is likely to lie near the end, if it gets on at all.
    every = changes.get("checkpoint", {}).get("every_updates", 2)
    between = every * changes.get("updates.batches_per_update", 1) * STEP
    longest = max(2 * EPOCHS * BATCHES * STEP / n, 3 * between)
    result, deaths, resumes = killed_until_done(box, path, random.Random(seed), n, longest)
    found = fingerprint(read_json(box.path("job.report.json")))
    assert found == wanted, f"found  {found}\nwanted {wanted}\n{result}"
    assert len(checkpoints(box)) <= changes.get("checkpoint", {}).get("keep", 2)
    return deaths, resumes


@timeout(120)
@cases(*CASES)
def test_kill_9_of_everything_at_random_moments(box, name):
    moments(box, name, 5, seed=name)


@timeout(120)
@cases(1, 5, 12, 23, 24, 25, 36)
def test_kill_at_a_known_update(box, update):
    """Right after the checkpoint of a chosen update, the ends of epochs among them."""
    changes = {"checkpoint": {"every_updates": 1}, "throttle": {"train": 0.02}}
    wanted = undisturbed(box, "each")
    path = box.job(resume_job(box.shared_dataset("small"), **changes))
    running = box.start("run", path)
    running.until(lambda: checkpoints(box) and int(checkpoints(box)[-1]) >= update, "a checkpoint")
    kill_everything(box)
    running.wait(5)
    result, report = box.run(json.load(open(path)))
    result.ok()
    assert "going on from update" in result.err, str(result)
    assert fingerprint(report) == wanted
    (resume,) = report["resumes"]
    assert resume["update"] >= update, resume
    with open(box.path("runs/job/metrics.jsonl")) as file:
        epochs = [json.loads(line)["epoch"] for line in file]
    assert epochs == list(range(EPOCHS)), epochs


@cases(signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP)
def test_stopped_by_a_signal(box, number):
    """Every process gets it at once, as a batch system does it."""
    wanted = undisturbed(box, "each")
    config = resume_job(
        box.shared_dataset("small"),
        **{"checkpoint": {"every_seconds": 1000}, "throttle.train": 0.02},
    )
    path = box.job(config)
    running = box.start("run", path)
    until_ready(box, running, 0)
    time.sleep(0.2)
    for pid in list(box.processes()):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass
    result = running.wait(20)
    assert result.rc == 130, str(result)
    (error,) = result.errors()
    assert "the same command goes on" in error, error
    assert len(checkpoints(box)) == 1, checkpoints(box)
    assert read_json(box.path("runs/job/report.json"))["status"] == "stopped"
    box.until_gone()
    result, report = box.run(config)
    result.ok()
    assert f"going on from update {int(report['resumes'][0]['update'])}," in result.err, str(result)
    assert fingerprint(report) == wanted


def test_stopped_again_and_again(box):
    wanted = undisturbed(box, "four_a_update", **CASES["four_a_update"])
    config = resume_job(
        box.shared_dataset("small"),
        **{**CASES["four_a_update"], "checkpoint": {"every_seconds": 1000}, "throttle.train": 0.02},
    )
    path, report = box.job(config), box.path("job.report.json")
    for turn in range(60):
        before = ready_count(box)
        running = box.start("run", path, "--report", report)
        until_ready(box, running, before)
        time.sleep(0.1)
        if not running.finished():
            running.process.send_signal(signal.SIGUSR1)
        result = running.wait(20)
        assert result.rc in (0, 130), str(result)
        if result.rc == 0:
            break
    assert turn > 0, "it was never stopped"
    found = read_json(report)
    assert len(found["resumes"]) >= 1
    assert fingerprint(found) == wanted


@timeout(120)
def test_async_updates_go_on_and_train_every_batch_once(box):
    config = resume_job(
        box.shared_dataset("small"),
        **{
            "updates": {"mode": "async", "staleness": 2},
            "allocation": {"samplers": 1, "trainers": 3},
            "throttle.train": 0.03,
        },
    )
    path = box.job(config)
    result, _, resumes = killed_until_done(box, path, random.Random(5), 5, 0.15)
    report = read_json(box.path("job.report.json"))
    assert resumes >= 1, str(result)
    assert report["batches"]["trained"] == report["batches"]["scheduled"] == EPOCHS * BATCHES
    assert [e["batches"] for e in report["epochs"]] == [BATCHES] * EPOCHS
    assert max(e["updates"]["staleness_max"] for e in report["epochs"]) <= 2
    # What was drawn does not depend on who applied what when.
    wanted = undisturbed(box, "each")
    assert report["samples_digest"] == wanted["samples_digest"]
    assert [e["sampled_edges"] for e in report["epochs"]] == wanted["edges"]
    version = int(checkpoints(box)[-1])
    assert version == EPOCHS * BATCHES, version


@cases("broker_checkpoint", "broker_checkpoint_named")
def test_killed_while_a_checkpoint_is_written(box, point):
    wanted = undisturbed(box, "each")
    config = resume_job(box.shared_dataset("small"), **{"checkpoint": {"every_updates": 3}})
    for count in (1, 2, 3):
        result, _ = box.run(config, env={"SLUICE_FAILPOINT": f"{point}:{count}"})
        assert result.rc in (0, 1), str(result)
        box.until_gone()
    result, report = box.run(config)
    if result.rc == 2:  # it was finished before
        report = read_json(box.path("runs/job/report.json"))
    else:
        result.ok()
    assert fingerprint(report) == wanted
    hidden = [n for n in os.listdir(box.path("runs/job/checkpoints")) if n.startswith(".")]
    assert not hidden, hidden


def test_killed_before_the_first_checkpoint(box):
    """The directory stays usable, and says what it does."""
    wanted = undisturbed(box, "each")
    config = resume_job(
        box.shared_dataset("small"),
        **{"checkpoint": {"every_seconds": 1000}, "throttle.train": 0.02},
    )
    running = box.start("run", box.job(config))
    running.until(lambda: os.path.exists(box.path("runs/job/config.json")), "the run directory")
    time.sleep(0.2)
    kill_everything(box)
    running.wait(5)
    assert not checkpoints(box)
    result, report = box.run(config)
    result.ok()
    assert "begins anew" in result.err, str(result)
    assert report["resumes"] == []
    assert fingerprint(report) == wanted


@not_under("thread", "what is tested is a file system")
def test_a_full_disk_is_a_warning(box):
    """checkpoints/ can not be written: the job goes on and says so once."""
    config = resume_job(box.shared_dataset("small"))
    path = box.job(config)
    running = box.start("run", path, "--report", box.path("job.report.json"))
    running.until(lambda: os.path.isdir(box.path("runs/job/log")), "the run directory")
    # A file of that name is in the way of every directory below it.
    folder = box.path("runs/job/checkpoints")
    for _ in range(1000):
        shutil.rmtree(folder, ignore_errors=True)
        try:
            with open(folder, "x"):
                break
        except (FileExistsError, IsADirectoryError):
            continue
    result = running.wait(60)
    result.ok()
    assert result.err.count("no checkpoint of update") == 1, str(result)
    assert read_json(box.path("job.report.json"))["status"] == "done"
