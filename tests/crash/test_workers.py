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
    return box.undisturbed(name, crash_job(box.shared_dataset("small"), **changes))


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


SAMPLER = ("sampler_claimed", "sampler_allocated", "sampler_drawn", "sampler_published")
TRAINER = ("trainer_claimed", "trainer_extracted", "trainer_gradient", "trainer_done")


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
    box.until_epoch(running)
    (trainer,) = box.processes("trainer")
    os.kill(trainer, signal.SIGSEGV)
    running.until(
        lambda: trainer not in box.processes("trainer") and box.processes("trainer"),
        "a replacement of the trainer",
    )
    seen = text_of(box.path("runs/job/metrics.jsonl")).count("\n")
    box.until_epoch(running, seen + 1)  # after the death
    (replacement,) = box.processes("trainer")
    result = running.stop()
    told = rf"trainer 0 \(process {trainer}\) was killed by SIGSEGV"
    assert re.search(told, log_text(box)), log_text(box)
    # The terminal says both, in this order.
    works = rf"trainer 0 \(process {replacement}\) works now in place of process {trainer}, "
    assert re.search(rf"(?s)warning: broker: {told}.*\n{works}", result.err), result.err
    # ... and what had been reached, below what was left of it.
    assert re.search(r"(?m)^validation  accuracy 0\.\d+, .*the best by accuracy", result.out)


def test_stopping_while_a_worker_is_being_replaced(box):
    """Who has just been started in its place does not know of the job yet, and holds up nothing."""
    config = small_job(
        box.shared_dataset("small"), epochs=1000000, **{"allocation.switching": False}
    )
    running = box.start(
        "run", box.job(config), env={"SLUICE_FAILPOINT": "trainer_done:20,trainer_start:2:stop"}
    )
    box.until_stopped(running, "trainer")
    running.stop()
    box.nothing_runs()
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
    box.until_epoch(running)
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
