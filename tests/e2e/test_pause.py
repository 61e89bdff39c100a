"""`sluice pause` and `sluice resume`: nothing is done, nothing is lost, nothing is different."""

import json
import os
import signal
import time

from harness import SAN, json_lines, not_under, read_json, small_job, timeout

TICKS = os.sysconf("SC_CLK_TCK")


def job(box, **changes):
    return small_job(
        box.shared_dataset("small"),
        **{
            "name": "sleeper",
            "epochs": 6,
            "digest": True,
            "sampler.batch_size": 48,
            "updates.batches_per_update": 4,
            "throttle": {"sample": 0.004, "train": 0.02, "standby": 0.02},
            **changes,
        },
    )


def start(box, config):
    running = box.start("run", box.job(config), "--report", box.path("report.json"))
    running.until(lambda: os.path.exists(box.path("runs/job/metrics.jsonl")), "a run directory")
    running.until(lambda: os.path.getsize(box.path("runs/job/metrics.jsonl")), "the first epoch")
    return running


def describe(box):
    return box.sluice("stats", "sleeper", "-o", "json").ok().json()


def finish(box, running):
    assert running.wait(60).rc == 0
    return read_json(box.path("report.json"))


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def forever(box):
    return job(box, epochs=100000)


@timeout(90)
def test_a_pause_changes_no_bit_of_the_result(box):
    straight, report = box.run(job(box, **{"output": "runs/straight"}), name="straight")
    straight.ok()
    running = start(box, job(box))
    for _ in range(3):
        box.sluice("pause", "sleeper").ok()
        time.sleep(0.3)
        box.sluice("resume", "sleeper").ok()
        time.sleep(0.25)
    paused = finish(box, running)
    assert paused["params_sha256"] == report["params_sha256"]
    assert paused["samples_digest"] == report["samples_digest"]
    assert report["paused_seconds"] == 0 and paused["paused_seconds"] >= 0.9
    told = sum(epoch["paused_seconds"] for epoch in paused["epochs"])
    assert abs(told - paused["paused_seconds"]) < 0.1, (told, paused["paused_seconds"])
    lines = open(box.path("runs/job/events.jsonl")).read().splitlines()
    kinds = [json.loads(line)["kind"] for line in lines]
    assert kinds.count("pause") == kinds.count("resume") == 3, kinds


@timeout(60)
@not_under("thread", "a sanitizer's own threads use processor time")
@not_under("address", "a sanitizer's own work uses processor time")
def test_a_paused_job_does_nothing(box):
    running = start(box, forever(box))
    said = box.sluice("pause", "sleeper").ok()
    assert "paused after update" in said.out, str(said)
    time.sleep(0.5)  # for what is in hand
    before, began = describe(box), time.monotonic()
    cpu = {pid: cpu_seconds(pid) for pid in box.processes() if pid != running.process.pid}
    time.sleep(4)
    seconds = time.monotonic() - began
    used = {pid: (cpu_seconds(pid) - was) / seconds for pid, was in cpu.items()}
    after = describe(box)
    assert before["state"] == after["state"] == "paused"
    assert after["updates"]["version"] == before["updates"]["version"]
    assert after["totals"]["batches"] == before["totals"]["batches"]
    assert {w["state"] for w in after["workers"]} == {"paused"}, after["workers"]
    # Ten milliseconds is what the kernel counts in.
    assert all(share < 0.0125 for share in used.values()), used
    again = box.sluice("pause", "sleeper").ok()
    assert "already" in again.out, str(again)
    went_on = box.sluice("resume", "sleeper").ok()
    assert "going on" in went_on.out, str(went_on)
    version = after["updates"]["version"]
    running.until(lambda: describe(box)["updates"]["version"] > version + 4, "more updates")
    running.interrupt()
    assert running.wait(15).rc == 130


@timeout(60)
def test_a_paused_job_is_scaled_and_loses_a_worker(box):
    running = start(box, forever(box))
    box.sluice("pause", "sleeper").ok()
    answer = box.sluice("scale", "sleeper", "samplers=2", "trainers=2", "-o", "json").ok().json()
    assert answer["ok"] and describe(box)["state"] == "paused"
    victim = next(w for w in describe(box)["workers"] if w["role"] == "trainer")
    os.kill(victim["pid"], signal.SIGKILL)

    def replaced():
        now = next(w for w in describe(box)["workers"] if w["name"] == victim["name"])
        return now["restarts"] == 1 and now["state"] == "paused"

    running.until(replaced, "another trainer in its seat")
    box.sluice("resume", "sleeper").ok()
    version = describe(box)["updates"]["version"]
    running.until(lambda: describe(box)["updates"]["version"] > version + 8, "more updates")
    running.interrupt()
    assert running.wait(15).rc == 130
    report = read_json(box.path("report.json"))
    assert report["batches"]["trained"] <= report["batches"]["scheduled"]


@timeout(60)
def test_a_paused_job_is_stopped_and_goes_on(box):
    config = job(box, **{"epochs": 8, "checkpoint": {"every_updates": 4}})
    running = start(box, config)
    box.sluice("pause", "sleeper").ok()
    broker = next(iter(box.processes("broker")))
    os.kill(broker, signal.SIGTERM)
    assert running.wait(15).rc == 130
    report = read_json(box.path("report.json"))
    assert report["status"] == "stopped" and report["paused_seconds"] > 0
    result, went_on = box.run(config, name="again")
    result.ok()
    straight, whole = box.run(job(box, epochs=8, output="runs/straight"), name="straight")
    straight.ok()
    assert went_on["params_sha256"] == whole["params_sha256"]
    lines = open(box.path("runs/job/events.jsonl")).read().splitlines()
    kinds = [json.loads(line)["kind"] for line in lines]
    assert kinds.count("start") == kinds.count("end") == 2, kinds


@timeout(60)
def test_followers_see_the_pause(box):
    running = start(box, forever(box))
    follower = box.start("stats", "sleeper", "--follow", "-o", "json")
    follower.until(lambda: len(json_lines(follower)) >= 2, "two lines")
    box.sluice("pause", "sleeper").ok()
    follower.until(lambda: json_lines(follower)[-1]["state"] == "paused", "a paused line")
    box.sluice("resume", "sleeper").ok()
    follower.until(lambda: json_lines(follower)[-1]["state"] == "running", "a running line")
    running.interrupt()
    assert running.wait(15).rc == 130
    follower.wait(10)
    lines = json_lines(follower)
    assert all(line["schema"] == "sluice.stats/1" for line in lines)
    gaps = [b["time"] - a["time"] for a, b in zip(lines[1:], lines[2:])]
    limit = 1.8 if not SAN else 5
    assert all(gap < limit for gap in gaps), gaps
