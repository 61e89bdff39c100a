"""`sluice pause` and `sluice resume`: nothing is done, nothing is lost, nothing is different."""

import json
import os

from harness import go_on, read_json, steady_job


def me(box):
    return box.unique("sleeper")


def job(box, **changes):
    return steady_job(box, "sleeper", epochs=6, **changes)


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


def all_rest(line):
    return {w["state"] for w in line["workers"]} == {"paused"}
