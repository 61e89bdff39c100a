"""Workers die, the run goes on, and its result is that of an undisturbed run."""

import os
import random
import re
import signal
import time

from harness import cases, fingerprint, not_under, read_json, small_job, timeout

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


# Where in the run, by count of reaches, and what must then have been done again.
POINTS = [
    ("sampler_claimed", 5, "resampled"),
    ("sampler_allocated", 5, "resampled"),
    ("sampler_drawn", 5, "resampled"),
    ("sampler_published", 5, None),
    ("trainer_claimed", 5, "retrained"),
    ("trainer_extracted", 5, "retrained"),
    ("trainer_gradient", 5, "retrained"),
    ("trainer_done", 5, None),
    ("trainer_apply", 3, None),
    ("trainer_flipped", 3, None),
    ("trainer_infer", 2, None),
    ("sampler_start", 1, None),
    ("trainer_start", 1, None),
]


@cases(*POINTS)
def test_failpoint(box, name, count, again):
    wanted = undisturbed(box)
    config = crash_job(box.shared_dataset("small"))
    result, report = box.run(config, env={"SLUICE_FAILPOINT": f"{name}:{count}"})
    survived(box, result, report, wanted)
    said = result.err + result.out + log_text(box)
    assert re.search(r"SIGKILL|signal 9", said), f"the log does not name the signal\n{said}"
    role = name.split("_")[0]
    assert re.search(rf"{role} \d", said), f"the log does not name the worker\n{said}"
    if again:
        assert report["batches"][again] >= 1, report["batches"]


# The same with a cache, standby trainers and a change of the split in the middle of an epoch.
SCHEDULED = {
    "cache": {"policy": "presc", "presample_epochs": 1, "ratio": 0.2},
    "throttle": {"train": 0.12, "standby": 0.12},
    "schedule": [
        {"epoch": 1, "batch": 3, "samplers": 1, "trainers": 3},
        {"epoch": 2, "batch": 5, "samplers": 2, "trainers": 1},
    ],
    "updates.batches_per_update": 4,
}
SCHEDULED_POINTS = [
    "sampler_marked:20",
    "sampler_drawn:17",
    "sampler_published:30",
    "trainer_claimed:14",
    "trainer_extracted:20",
    "trainer_gradient:21",
    "trainer_done:25",
    "trainer_apply:7",
    "trainer_flipped:8",
    "trainer_cache:1",
    "standby_asleep:1",
    "standby_asleep:3",
    "standby_woken:1",
    "standby_woken:2",
]


@timeout(90)
@cases(*SCHEDULED_POINTS)
def test_failpoint_while_everything_changes(box, point):
    wanted = undisturbed(box, "crash-four", **{"updates.batches_per_update": 4})
    config = crash_job(box.shared_dataset("small"), **SCHEDULED)
    result, report = box.run(config, env={"SLUICE_FAILPOINT": point})
    survived(box, result, report, wanted)
    assert [s["ok"] for s in report["scales"]] == [True, True], report["scales"]
    assert len(report["restarts"]) == 1, report["restarts"]


@timeout(120)
@cases("sampler_drawn", "trainer_gradient", "trainer_apply", "trainer_infer")
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


@timeout(180)
def test_kill_9_from_outside_in_every_epoch(box):
    """One sampler and one trainer, at a moment nobody chose, in every epoch."""

    def compute():
        result, report = box.run(long_job(box, output="runs/calm"), name="calm", seconds=120)
        result.ok()
        return fingerprint(report)

    wanted = box.shared_value("middle", compute)
    path = box.job(long_job(box))
    report_path = box.path("report.json")
    running = box.start("run", path, "--report", report_path)
    metrics = box.path("runs/job/metrics.jsonl")
    chance = random.Random(5)
    killed = 0

    def epochs_done():
        try:
            with open(metrics) as file:
                return sum('"epoch"' in line for line in file)
        except FileNotFoundError:
            return 0

    running.until(lambda: os.path.exists(box.path("runs/job")), "the run directory")
    for epoch in range(4):
        running.until(
            lambda e=epoch: epochs_done() >= e or running.finished(), f"epoch {epoch}", 60
        )
        time.sleep(0.05 + 0.3 * chance.random())
        for role in ("sampler", "trainer"):
            pids = list(box.processes(role))
            if pids:
                os.kill(chance.choice(pids), signal.SIGKILL)
                killed += 1
    result = running.wait(120)
    result.ok()
    from harness import read_json

    report = read_json(report_path)
    assert killed == 8, f"only {killed} kills: the job is too quick for this test"
    assert report["batches"]["trained"] == report["batches"]["scheduled"], report["batches"]
    assert fingerprint(report) == wanted
    said = result.err + log_text(box)
    assert len(re.findall(r"SIGKILL|signal 9", said)) >= 1, said[-3000:]


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
    running.interrupt()
    result = running.wait(10)
    said = result.err + log_text(box)
    assert re.search(r"SIGSEGV|signal 11", said), said


def many(name, count=12):
    return ",".join(f"{name}:{i + 1}" for i in range(count))


@cases("sampler_start", "trainer_start", "sampler_claimed", "trainer_claimed", "trainer_infer")
def test_a_worker_that_keeps_dying_ends_the_job(box, name):
    """Every replacement falls at once: the job gives up, says why, and leaves nothing."""
    config = crash_job(box.shared_dataset("small"), allocation={"samplers": 1, "trainers": 1})
    result, _ = box.run(config, env={"SLUICE_FAILPOINT": many(name, 40)}, seconds=40)
    assert result.rc in (1, 2), str(result)
    errors = result.errors()
    assert len(errors) == 1, str(result)
    assert name.split("_")[0] in errors[0], errors[0]
    assert re.search(r"SIGKILL|signal 9", result.err + log_text(box)), str(result)
    box.until_gone()


def test_stopping_while_a_worker_is_being_replaced(box):
    config = small_job(box.shared_dataset("small"), epochs=1000000)
    running = box.start("run", box.job(config))
    metrics = box.path("runs/job/metrics.jsonl")
    running.until(lambda: os.path.exists(metrics) and os.path.getsize(metrics), "the first epoch")
    for role in ("sampler", "trainer"):
        for pid in box.processes(role):
            os.kill(pid, signal.SIGKILL)
    running.interrupt()
    begin = time.monotonic()
    result = running.wait(10)
    assert result.rc == 130 and time.monotonic() - begin < 3, str(result)
    box.until_gone()


@cases("somebody", "the broker")
def test_a_death_while_the_job_ends_is_told(box, killer):
    """Whoever is killed from outside then is named; whom the broker kills itself is not."""
    job = small_job(box.shared_dataset("small"), epochs=1000000)
    running = box.start("run", box.job(job), "--report", box.path("report.json"))
    metrics = box.path("runs/job/metrics.jsonl")
    running.until(lambda: os.path.exists(metrics) and os.path.getsize(metrics), "the first epoch")
    (sampler,) = box.processes("sampler")
    os.kill(sampler, signal.SIGSTOP)  # it will not leave
    others = list(box.processes("trainer"))
    running.interrupt()
    if killer == "somebody":
        running.until(lambda: set(others).isdisjoint(box.processes("trainer")), "the stop")
        os.kill(sampler, signal.SIGKILL)
    result = running.wait(10)
    assert result.rc == 130, str(result)
    report, log = read_json(box.path("report.json")), log_text(box)
    wanted = ["sampler 0"] if killer == "somebody" else []
    assert [r["worker"] for r in report["restarts"]] == wanted, report["restarts"]
    told = re.search(rf"sampler 0 \(process {sampler}\) was killed by SIGKILL.* job ended", log)
    assert bool(told) == bool(wanted), log


def stalling(box, **changes):
    """A job that is running, and whose workers are given up as soon as may be: after 12 s."""
    job = long_job(box, **{"stall_seconds": 1, **changes})
    running = box.start("run", box.job(job), "--report", box.path("report.json"))
    metrics = box.path("runs/job/metrics.jsonl")
    running.until(lambda: os.path.exists(metrics) and os.path.getsize(metrics), "an epoch", 60)
    return running


@timeout(120)
@cases("sampler", "trainer")
def test_a_worker_that_hangs_is_killed_and_replaced(box, role):
    """Stopped, it keeps what it has in hand, and everybody comes to wait for it."""
    running = stalling(box, epochs=100000)
    os.kill(next(iter(box.processes(role))), signal.SIGSTOP)
    running.until(lambda: "has not moved for 12 s" in log_text(box), "a verdict", 40)
    metrics = box.path("runs/job/metrics.jsonl")
    before = os.path.getsize(metrics)
    running.until(lambda: os.path.getsize(metrics) > before + 2000, "further epochs", 40)
    running.interrupt()
    assert running.wait(30).rc == 130
    report = read_json(box.path("report.json"))
    assert [r["cause"] for r in report["restarts"]] == ["hung and was killed"], report["restarts"]


@timeout(120)
def test_a_job_that_was_stopped_as_a_whole_has_not_hung(box):
    running = stalling(box, **{"epochs": 30})
    everybody = [pid for role in ("broker", "sampler", "trainer") for pid in box.processes(role)]
    for pid in everybody:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(14)
    for pid in reversed(everybody):
        os.kill(pid, signal.SIGCONT)
    time.sleep(1)
    running.interrupt()
    assert running.wait(30).rc == 130
    restarts = read_json(box.path("report.json"))["restarts"]
    assert restarts == [], (restarts, log_text(box)[-2000:])


@timeout(120)
def test_a_pause_and_a_sleep_are_no_hanging(box):
    split = {"samplers": 2, "trainers": 2, "switching": True}
    running = stalling(box, **{"epochs": 100000, "allocation": split})
    box.sluice("pause", "test").ok()
    time.sleep(13)
    box.sluice("resume", "test").ok()
    time.sleep(13)
    running.interrupt()
    assert running.wait(30).rc == 130
    restarts = read_json(box.path("report.json"))["restarts"]
    assert restarts == [], (restarts, log_text(box)[-2000:])
