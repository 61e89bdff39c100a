"""`sluice pause` and `sluice resume`: nothing is done, nothing is lost, nothing is different."""

import json
import os
import signal

from harness import go_on, json_lines, read_json, small_job

ROUND_S = 0.1  # SL_ARENA_WAIT_MS: how long a worker waits before it looks around again


def me(box):
    return box.unique("sleeper")


def job(box, **changes):
    return small_job(
        box.shared_dataset("small"),
        **{
            "name": me(box),
            "epochs": 6,
            "digest": True,
            "sampler.batch_size": 48,
            "updates.batches_per_update": 4,
            **changes,
        },
    )


def start(box, config, points=""):
    """The job, once it trains. At these points a trainer stands still: it does not end first."""
    running = box.start(
        "run",
        box.job(config),
        "--report",
        box.path("report.json"),
        env={"SLUICE_FAILPOINT": points},
    )
    running.until(lambda: os.path.exists(box.path("runs/job/metrics.jsonl")), "a run directory")
    return running


def describe(box):
    return box.sluice("stats", me(box), "-o", "json").ok().json()


def events(box):
    with open(box.path("runs/job/events.jsonl")) as file:
        return [json.loads(line) for line in file]


def forever(box):
    return job(box, epochs=100000, throttle={"sample": 0.004, "train": 0.02, "standby": 0.02})


def test_a_pause_changes_no_bit_of_the_result(box):
    straight, report = box.run(job(box, **{"output": "runs/straight"}), name="straight")
    straight.ok()
    # Epochs have four updates of four batches.
    points = "trainer_gradient:7:stop,trainer_gradient:40:stop,trainer_gradient:60:stop"
    running = start(box, job(box), points)
    for _ in range(3):
        pid = box.until_stopped(running, "trainer")
        box.sluice("pause", me(box)).ok()
        go_on(pid)
        running.until(lambda: all_rest(describe(box)), "workers with nothing in hand", 60)
        box.sluice("resume", me(box)).ok()
    running.wait().ok()
    paused = read_json(box.path("report.json"))
    assert paused["params_sha256"] == report["params_sha256"]
    assert paused["samples_digest"] == report["samples_digest"]
    # In the epochs in which it was, and nowhere else.
    seconds = [epoch["paused_seconds"] for epoch in paused["epochs"]]
    held = {int(event["epoch"]) for event in events(box) if event["kind"] == "pause"}
    assert {i for i, s in enumerate(seconds) if s > 0} == held, (seconds, held)
    assert abs(sum(seconds) - paused["paused_seconds"]) < 1e-6, (seconds, paused["paused_seconds"])
    assert report["paused_seconds"] == 0
    kinds = [event["kind"] for event in events(box)]
    assert kinds.count("pause") == kinds.count("resume") == 3, kinds


def claimed(line):
    """Batches that are trained, in a hand, or between two."""
    queue = line["queue"]
    return line["totals"]["batches"] + sum(queue[k] for k in ("batches", "sampling", "training"))


def all_rest(line):
    return {w["state"] for w in line["workers"]} == {"paused"}


def test_a_paused_job_does_nothing(box):
    """Its samplers would have enough to do: they fill no queue."""
    changes = {"epochs": 100000, "updates.batches_per_update": 1, "throttle": {"sample": 0.2}}
    running = start(box, job(box, **changes))
    said = box.sluice("pause", me(box)).ok()
    assert "pausing at update" in said.out, str(said)
    begun = claimed(describe(box))
    follower = box.start("stats", me(box), "--follow", "-o", "json")
    # One may still be on its way from hand to hand: it is at work for a line.
    rest = lambda: [all_rest(line) for line in json_lines(follower)[-5:]] == [True] * 5
    follower.until(rest, "lines of a pause", 60)
    before, *_, after = lines = json_lines(follower)[-5:]
    assert all(line["state"] == "paused" for line in lines), lines
    for was, now in zip(lines, lines[1:]):
        for part in ("updates", "totals", "queue"):
            assert now[part] == was[part], (part, was, now)
    assert claimed(after) <= begun + 2, "one that was on its way from hand to hand for each worker"
    # Nobody looks for work: two threads of each wait, and wake for the longest wait that there is.
    waits = (after["seconds"] - before["seconds"]) / ROUND_S + 1
    for was, now in zip(before["workers"], after["workers"]):
        assert now["rounds"] - was["rounds"] <= 2 * waits, (waits, was, now)
    again = box.sluice("pause", me(box)).ok()
    assert "already" in again.out, str(again)
    went_on = box.sluice("resume", me(box)).ok()
    assert "going on" in went_on.out, str(went_on)
    version = after["updates"]["version"]
    running.until(lambda: describe(box)["updates"]["version"] > version, "an update", 60)
    running.interrupt()
    assert running.wait().rc == 130
    follower.wait()


def test_a_paused_job_is_scaled_and_loses_a_worker(box):
    running = start(box, forever(box))
    box.sluice("pause", me(box)).ok()
    answer = box.sluice("scale", me(box), "samplers=2", "trainers=2", "-o", "json").ok().json()
    assert answer["ok"] and describe(box)["state"] == "paused"
    victim = next(w for w in describe(box)["workers"] if w["role"] == "trainer")
    os.kill(victim["pid"], signal.SIGKILL)

    def replaced():
        now = next(w for w in describe(box)["workers"] if w["name"] == victim["name"])
        return now["restarts"] == 1 and now["state"] == "paused"

    running.until(replaced, "another trainer in its seat")
    box.sluice("resume", me(box)).ok()
    version = describe(box)["updates"]["version"]
    running.until(lambda: describe(box)["updates"]["version"] > version + 8, "more updates")
    running.interrupt()
    assert running.wait().rc == 130
    report = read_json(box.path("report.json"))
    assert report["batches"]["trained"] <= report["batches"]["scheduled"]


def test_a_paused_job_is_stopped_and_goes_on(box):
    config = job(box, **{"epochs": 8, "checkpoint": {"every_updates": 4}})
    running = start(box, config, "trainer_gradient:30:stop")
    pid = box.until_stopped(running, "trainer")
    box.sluice("pause", me(box)).ok()
    go_on(pid)
    broker = next(iter(box.processes("broker")))
    os.kill(broker, signal.SIGTERM)
    assert running.wait().rc == 130
    report = read_json(box.path("report.json"))
    assert report["status"] == "stopped" and report["paused_seconds"] > 0
    result, went_on = box.run(config, name="again")
    result.ok()
    straight, whole = box.run(job(box, epochs=8, output="runs/straight"), name="straight")
    straight.ok()
    assert went_on["params_sha256"] == whole["params_sha256"]
    kinds = [event["kind"] for event in events(box)]
    assert kinds.count("start") == kinds.count("end") == 2, kinds
