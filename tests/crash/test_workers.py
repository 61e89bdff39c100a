"""Workers die, the run goes on, and its result is that of an undisturbed run."""

import os
import random
import re
import signal

from harness import (
    cases,
    fingerprint,
    go_on,
    gone,
    not_under,
    read_json,
    small_job,
    stop_process,
    text_of,
    timeout,
)

EPOCHS = 4
BATCHES = 12  # of an epoch: 750 training vertices, 64 a batch


def crash_job(dataset, **changes):
    return small_job(
        dataset,
        **{
            "epochs": EPOCHS,
            "allocation": {"samplers": 2, "trainers": 2},
            "updates.batches_per_update": 2,
            **changes,
        },
    )


def undisturbed(box, name="crash", **changes):
    dataset = box.shared_dataset("small")

    def compute():
        result, report = box.run(
            crash_job(dataset, output="runs/undisturbed", **changes), name="undisturbed"
        )
        result.ok()
        return fingerprint(report)

    return box.shared_value(name, compute)


def log_text(box, output="runs/job"):
    text = ""
    for folder, _, files in os.walk(box.path(output, "log")):
        for name in files:
            with open(os.path.join(folder, name), errors="replace") as file:
                text += file.read()
    return text


def survived(box, result, report, wanted):
    result.ok()
    assert fingerprint(report) == wanted


# With a cache, standby trainers and a change of the split in the middle of an epoch.
SCHEDULED = {
    "cache": {"policy": "presc", "presample_epochs": 1, "ratio": 0.2},
    "throttle": {"train": 0.01, "standby": 0.01},
    "schedule": [
        {"epoch": 1, "batch": 3, "samplers": 1, "trainers": 3},
        {"epoch": 2, "batch": 5, "samplers": 2, "trainers": 1},
    ],
    "updates.batches_per_update": 4,
}
SCHEDULED_POINTS = [
    "sampler_marked:20",
    "trainer_gradient:21",
    "trainer_flipped:8",
    "trainer_cache:1",
    "standby_asleep:3",
    "standby_woken:2",
]


@cases(*SCHEDULED_POINTS)
def test_failpoint_while_everything_changes(box, point):
    config = crash_job(box.shared_dataset("small"), **SCHEDULED, epochs=100000)
    running = box.start("run", box.job(config), env={"SLUICE_FAILPOINT": point})
    events = box.path("runs/job/events.jsonl")

    def has_happened():
        split = text_of(events).count('"kind":"split"') == 2
        stats = split and box.sluice("stats", box.path("runs/job"), "-o", "json").ok().json()
        return split and stats["totals"]["restarts"] == 1

    running.until(has_happened, "two changes of the split and a death")
    report, last, straight = box.bring_to_an_end(running, config)
    assert fingerprint(last) == fingerprint(straight)
    assert [s["ok"] for s in report["scales"]] == [True, True], report["scales"]
    assert len(report["restarts"]) == 1, report["restarts"]


@timeout(120)
@cases("trainer_apply", "trainer_infer")
def test_failpoint_in_every_epoch(box, name):
    wanted = undisturbed(box)
    per_epoch = {"trainer_apply": BATCHES // 2, "trainer_infer": 2}.get(name, BATCHES)
    points = ",".join(f"{name}:{epoch * per_epoch + 2}" for epoch in range(EPOCHS))
    result, report = box.run(
        crash_job(box.shared_dataset("small")), env={"SLUICE_FAILPOINT": points}
    )
    survived(box, result, report, wanted)


@timeout(120)
def test_both_roles_die_in_every_epoch(box):
    wanted = undisturbed(box)
    points = [
        f"sampler_drawn:{e * BATCHES + 3},trainer_extracted:{e * BATCHES + 7}"
        for e in range(EPOCHS)
    ]
    result, report = box.run(
        crash_job(box.shared_dataset("small")), env={"SLUICE_FAILPOINT": ",".join(points)}
    )
    survived(box, result, report, wanted)
    assert report["batches"]["resampled"] >= EPOCHS
    assert report["batches"]["retrained"] >= EPOCHS


def test_the_only_workers_die(box):
    """One sampler and one trainer: nobody else carries on meanwhile."""
    wanted = undisturbed(box)
    config = crash_job(box.shared_dataset("small"), allocation={"samplers": 1, "trainers": 1})
    points = "sampler_drawn:4,sampler_published:20,trainer_gradient:6,trainer_done:22"
    result, report = box.run(config, env={"SLUICE_FAILPOINT": points})
    survived(box, result, report, wanted)


def test_deaths_in_sampled_evaluation(box):
    changes = {"evaluate.fanout": [4, 4]}
    wanted = undisturbed(box, "crash-sampled", **changes)
    points = ",".join(
        f"{name}:{BATCHES + 2 + 5 * i}"
        for i, name in enumerate(["sampler_drawn", "trainer_extracted", "trainer_done"])
    )
    result, report = box.run(
        crash_job(box.shared_dataset("small"), **changes), env={"SLUICE_FAILPOINT": points}
    )
    survived(box, result, report, wanted)


def long_job(box, **changes):
    """About 8 seconds of training in a few epochs, so that kills from outside meet it."""
    return small_job(
        box.shared_dataset("middle", n=20000, degree=12, feat_dim=64),
        **{
            "epochs": 4,
            "model.hidden": 192,
            "sampler.fanout": [15, 10],
            "sampler.batch_size": 32,
            "throttle": {"train": 0.008},
            "allocation": {"samplers": 2, "trainers": 2},
            "updates.batches_per_update": 2,
            **changes,
        },
    )


SAMPLER = ("sampler_claimed", "sampler_allocated", "sampler_drawn", "sampler_published")
TRAINER = ("trainer_claimed", "trainer_extracted", "trainer_gradient", "trainer_done")


@timeout(120)
def test_kill_9_from_outside_in_every_epoch(box):
    """A sampler and a trainer of each epoch, at random steps of their work; each death is told."""
    wanted = undisturbed(box)
    chance = random.Random(5)
    held = [
        f"{chance.choice(names)}:{epoch * BATCHES + chance.randint(1, BATCHES)}:stop"
        for epoch in range(EPOCHS)
        for names in (SAMPLER, TRAINER)
    ]
    running = box.start(
        "run",
        box.job(crash_job(box.shared_dataset("small"))),
        "--report",
        box.path("report.json"),
        env={"SLUICE_FAILPOINT": ",".join(held)},
    )
    killed = []

    def ended():
        pid = box.stopped()
        if pid:
            os.kill(pid, signal.SIGKILL)
            gone(pid)
            killed.append(pid)
        return running.finished()

    running.until(ended, "an end")
    report = read_json(box.path("report.json"))
    survived(box, running.wait(), report, wanted)
    assert len(killed) == 2 * EPOCHS, killed
    told = {death["pid"]: death["cause"] for death in report["restarts"]}
    assert sorted(told) == sorted(killed), (told, killed)
    assert all("SIGKILL" in cause for cause in told.values()), told
    for pid in killed:
        assert re.search(
            rf"(sampler|trainer) \d \(process {pid}\) was killed by SIGKILL", log_text(box)
        ), pid


@not_under("address", "it catches the signal itself")
def test_segmentation_fault_is_named(box):
    config = small_job(
        box.shared_dataset("small"), epochs=1000000, **{"allocation.switching": False}
    )
    running = box.start("run", box.job(config))
    metrics = box.path("runs/job/metrics.jsonl")
    running.until(lambda: os.path.exists(metrics) and os.path.getsize(metrics), "the first epoch")
    (trainer,) = box.processes("trainer")
    os.kill(trainer, signal.SIGSEGV)
    running.until(
        lambda: trainer not in box.processes("trainer") and box.processes("trainer"),
        "a replacement of the trainer",
    )
    size = os.path.getsize(metrics)
    running.until(lambda: os.path.getsize(metrics) > size, "an epoch after the death")
    (replacement,) = box.processes("trainer")
    running.interrupt()
    result = running.wait()
    assert result.rc == 130
    told = rf"trainer 0 \(process {trainer}\) was killed by SIGSEGV"
    assert re.search(told, log_text(box)), log_text(box)
    # The terminal says both, in this order.
    works = rf"trainer 0 \(process {replacement}\) works now in place of process {trainer}, "
    assert re.search(rf"(?s)warning: broker: {told}.*\n{works}", result.err), result.err
    # ... and what had been reached, below what was left of it.
    assert re.search(r"(?m)^validation  accuracy 0\.\d+, .*the best by accuracy", result.out)


def many(name, count=12):
    return ",".join(f"{name}:{i + 1}" for i in range(count))


@cases("sampler_start", "trainer_claimed", "trainer_infer")
def test_a_worker_that_keeps_dying_ends_the_job(box, name):
    """Every replacement falls at once: the job gives up, says why, and leaves nothing."""
    config = crash_job(box.shared_dataset("small"), allocation={"samplers": 1, "trainers": 1})
    result, _ = box.run(config, env={"SLUICE_FAILPOINT": many(name, 40)})
    box.nothing_runs()
    assert result.rc == 1, str(result)
    (error,) = result.errors()
    assert f"{name.split('_')[0]} 0 died 5 times in a row" in error, error
    assert "was killed by SIGKILL" in error, error


def test_stopping_while_a_worker_is_being_replaced(box):
    """Who has just been started in its place does not know of the job yet, and holds up nothing."""
    config = small_job(
        box.shared_dataset("small"), epochs=1000000, **{"allocation.switching": False}
    )
    running = box.start(
        "run", box.job(config), env={"SLUICE_FAILPOINT": "trainer_done:20,trainer_start:2:stop"}
    )
    box.until_stopped(running, "trainer")
    running.interrupt()
    result = running.wait()
    box.nothing_runs()
    assert result.rc == 130, str(result)
    assert re.search(r"trainer 0 \(process \d+\) had 0 ms to leave", log_text(box)), log_text(box)


@cases("somebody", "the broker")
def test_a_death_while_the_job_ends_is_told(box, killer):
    """Whoever is killed from outside then is named; whom the broker kills itself is not."""
    job = small_job(box.shared_dataset("small"), epochs=1000000)
    running = box.start(
        "run",
        box.job(job),
        "--report",
        box.path("report.json"),
        env={"SLUICE_FAILPOINT": "broker_stop:stop"},
    )
    metrics = box.path("runs/job/metrics.jsonl")
    running.until(lambda: os.path.exists(metrics) and os.path.getsize(metrics), "the first epoch")
    (sampler,) = box.processes("sampler")
    stop_process(sampler)
    running.interrupt()
    broker = box.until_stopped(running, "broker")
    if killer == "somebody":
        os.kill(sampler, signal.SIGKILL)
        gone(sampler)
    go_on(broker)
    if killer != "somebody":
        running.interrupt()  # once more: at once
    result = running.wait()
    assert result.rc == 130, str(result)
    report, log = read_json(box.path("report.json")), log_text(box)
    wanted = ["sampler 0"] if killer == "somebody" else []
    assert [r["worker"] for r in report["restarts"]] == wanted, report["restarts"]
    told = re.search(rf"sampler 0 \(process {sampler}\) was killed by SIGKILL.* job ended", log)
    assert bool(told) == bool(wanted), log


def stalling(box, **changes):
    """A job that is running, and whose workers are given up as soon as may be. None stands by: it
    would sleep for longer."""
    split = {"samplers": 2, "trainers": 2, "switching": False}
    job = long_job(box, **{"stall_seconds": 3, "allocation": split, **changes})
    env = {"SLUICE_STALL_LEAST": "0"}
    running = box.start("run", box.job(job), "--report", box.path("report.json"), env=env)
    metrics = box.path("runs/job/metrics.jsonl")
    running.until(lambda: os.path.exists(metrics) and os.path.getsize(metrics), "an epoch", 60)
    return running


@timeout(300)
@cases("sampler", "trainer")
def test_a_worker_that_hangs_is_killed_and_replaced(box, role):
    """Stopped, it keeps what it has in hand, and everybody comes to wait for it. On a busy machine
    others may be taken for dead in so short a time, too: how exactly time is counted is shown by
    tests/unit/test_broker_stalls.c, where it is the test's."""
    running = stalling(box, epochs=100000)
    pid = next(iter(box.processes(role)))
    os.kill(pid, signal.SIGSTOP)
    gone(pid)
    running.until(lambda: f"(process {pid}) has not moved for" in log_text(box), "a verdict", 60)
    metrics = box.path("runs/job/metrics.jsonl")
    before = os.path.getsize(metrics)
    running.until(lambda: os.path.getsize(metrics) > before + 2000, "further epochs", 120)
    running.interrupt()
    assert running.wait(60).rc == 130
    restarts = read_json(box.path("report.json"))["restarts"]
    assert ["hung and was killed"] == [r["cause"] for r in restarts if r["pid"] == pid], restarts
