"""Live statistics of real jobs: they add up, say who waits for whom, and never go backwards."""

import json
import math
import os
import re
import signal

from harness import json_lines, not_under, read_json, small_job, timeout


def job(box, **changes):
    return small_job(
        box.shared_dataset("small"),
        **{
            "name": "live",
            "epochs": 100000,
            "sampler.batch_size": 48,
            "updates.batches_per_update": 4,
            "allocation.switching": False,
            **changes,
        },
    )


def follow(box, config):
    """A running job and a reader of its lines."""
    running = box.start("run", box.job(config), "--report", box.path("report.json"))
    running.until(lambda: os.path.exists(box.path("runs/job/metrics.jsonl")), "a run directory")
    follower = box.start("stats", "live", "--follow", "-o", "json")
    return running, follower


def stop(box, running, follower):
    running.interrupt()
    assert running.wait(15).rc == 130
    follower.wait(10)
    return read_json(box.path("report.json"))


def numbers(value, path=""):
    """Every number of a JSON value, with where it is."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return
    if isinstance(value, (int, float)):
        yield path, value
    else:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from numbers(item, f"{path}.{key}")


def check(line):
    """What holds of every line, whatever the job does."""
    for path, number in numbers(line):
        assert math.isfinite(number) and number >= 0, (path, number)
    for name, stage in line["stages"].items():
        assert 0 <= stage["busy"] <= 1, (name, stage)
        assert (stage["p50"] is None) == (stage["count"] == 0), (name, stage)
        assert stage["p50"] is None or stage["p50"] <= stage["p99"], (name, stage)
    for worker in line["workers"]:
        assert worker["busy"] + worker["wait"] <= 1.001, worker
    bounds = line["histograms"]["le"]
    assert bounds == sorted(bounds)
    for name in ("sample", "extract", "train", "wait"):
        histogram = line["histograms"][name]
        assert len(histogram["counts"]) == len(bounds) + 1
        assert sum(histogram["counts"]) == histogram["count"] == line["stages"][name]["count"]
    assert line["queue"]["used_bytes"] <= line["queue"]["capacity_bytes"]
    assert 0 <= line["done"] <= line["total"] or line["total"] == 0


def names(follower, role):
    """Whether the newest line says that it is them, and what would be better."""
    lines = json_lines(follower)
    return lines and lines[-1]["bottleneck_role"] == role and lines[-1]["advice"]


def rates_counted(lines):
    """Batches a second between one line and the next, by their totals."""
    return [
        (b["totals"]["batches"] - a["totals"]["batches"]) / (b["time"] - a["time"])
        for a, b in zip(lines, lines[1:])
    ]


@timeout(60)
def test_lines_add_up(box):
    config = job(box, **{"throttle": {"sample": 0.004, "train": 0.02}, "cache.policy": "degree"})
    running, follower = follow(box, config)
    follower.until(lambda: len(json_lines(follower)) >= 5, "five lines")
    report = stop(box, running, follower)
    lines = json_lines(follower)
    for before, line in zip([None, *lines], lines):
        check(line)
        if before is None or before["state"] == "starting":
            continue
        for key, total in line["totals"].items():
            assert total >= before["totals"][key], (key, before["totals"], line["totals"])
        assert line["updates"]["version"] >= before["updates"]["version"]
    last = [line for line in lines if line["state"] == "running"][-1]
    assert last["totals"]["batches"] <= report["batches"]["trained"]
    per_epoch = report["epochs"][0]["batches"]
    assert last["totals"]["batches"] >= per_epoch * last["totals"]["epochs"]
    # One trainer, at least 20 ms a batch.
    assert 25 < last["rates"]["batches"] < 52, last["rates"]
    counted = rates_counted([line for line in lines if line["state"] == "running"])
    assert 0.8 * min(counted) < last["rates"]["batches"] < 1.2 * max(counted), (last, counted)
    assert 0.019 < last["stages"]["train"]["p50"] < 0.04, last["stages"]
    assert 0.0039 < last["stages"]["sample"]["p50"] < 0.02, last["stages"]
    assert last["stages"]["train"]["busy"] > 0.5 > last["stages"]["wait"]["busy"], last["stages"]
    assert last["cache"]["hit_rate"] is not None and last["cache"]["ranked"]
    done = report["epochs"][: last["totals"]["epochs"]]
    known = sum(epoch["stages"]["train"]["seconds"] for epoch in done)
    assert last["stages"]["train"]["seconds"] >= known * 0.999


@timeout(60)
def test_starved_trainers_wait_for_samplers(box):
    config = job(
        box,
        **{
            "allocation": {"samplers": 1, "trainers": 3, "switching": False},
            "throttle": {"sample": 0.03, "train": 0.005},
        },
    )
    running, follower = follow(box, config)
    follower.until(lambda: names(follower, "samplers"), "the samplers as the bottleneck")
    line = json_lines(follower)[-1]
    stop(box, running, follower)
    assert re.match(r"trainers wait for samplers \d+ % of the time: ", line["bottleneck"]), line
    assert line["stages"]["wait"]["busy"] > 0.4, line["stages"]
    advice = line["advice"]
    assert advice["samplers"] > 1 and advice["samplers"] + advice["trainers"] == 4, advice
    assert advice["epoch_seconds_then"] < 0.6 * advice["epoch_seconds_now"], advice
    gain = advice["epoch_seconds_now"] - advice["epoch_seconds_then"]
    said = float(re.search(r"by about (\S+) s", line["bottleneck"]).group(1))
    assert abs(said - gain) < 0.06 * gain, (said, gain)


@timeout(60)
def test_busy_trainers_are_named(box):
    config = job(
        box,
        **{
            "allocation": {"samplers": 3, "trainers": 1, "switching": False},
            "throttle": {"sample": 0.002, "train": 0.03},
        },
    )
    running, follower = follow(box, config)
    follower.until(lambda: names(follower, "trainers"), "the trainers as the bottleneck")
    line = json_lines(follower)[-1]
    stop(box, running, follower)
    assert re.match(r"trainers compute (9\d|100) % of the time, ", line["bottleneck"]), line
    # Updates of four batches: a third trainer would have their last round for itself.
    assert (line["advice"]["samplers"], line["advice"]["trainers"]) == (2, 2), line
    wanted = "a second trainer in place of the third sampler would shorten"
    assert wanted in line["bottleneck"], line


@timeout(90)
@not_under("address", "its stages take what the sanitizer takes, and differently in each epoch")
def test_live_and_final_agree_beside_standby_trainers(box):
    """Trainers compute all the time; the standby trainers beside them wait for what is left."""
    config = job(
        box,
        **{
            "allocation": {"samplers": 1, "trainers": 3, "switching": True},
            # Long against what a loaded machine makes a thread wait for its core.
            "throttle": {"sample": 0.005, "train": 0.25, "standby": 0},
            "evaluate.every": 0,
        },
    )
    running, follower = follow(box, config)
    follower.until(
        lambda: [s for s in json_lines(follower) if s["epoch"] >= 5], "five epochs", 60
    )
    report = stop(box, running, follower)
    lines = [s for s in json_lines(follower) if s["state"] == "running" and s["epoch"] >= 2]
    assert lines
    for line in lines:
        roles = {w["name"]: w for w in line["workers"] if w["role"] == "trainer"}
        wait = sum(w["wait"] for w in roles.values()) / len(roles)
        assert abs(line["stages"]["wait"]["busy"] - wait) < 0.15, (line["stages"], roles)
        # What is expected of other splits is of the size of what was measured.
        if line["advice"] is not None and line["epoch_seconds"] is not None:
            now = line["advice"]["epoch_seconds_now"]
            assert 0.9 < now / line["epoch_seconds"] < 1.1, line
    final = [e["bottleneck"].split(":")[0] for e in report["epochs"][1:]]
    said = [line["bottleneck_role"] for line in lines]
    # Whatever is said while it runs, an epoch's own figures say too.
    assert set(said) <= set(final) and "samplers" not in said, (final, said)
    events = [json.loads(e) for e in open(box.path("runs/job/events.jsonl"), encoding="utf-8")]
    switches = [e for e in events if e["kind"] == "switch"]
    assert switches, [e["kind"] for e in events]
    gaps = [b["time"] - a["time"] for a, b in zip(switches[:-1], switches[1:-1])]
    assert all(gap > 9.9 for gap in gaps), gaps
    pattern = r"standby trainers were switched on \d+ times? in epochs? [1-9].* \(\d+ batch(es)?\)"
    for event in switches:
        assert re.fullmatch(pattern, event["text"]), event


def trains(follower):
    lines = json_lines(follower)
    return lines and lines[-1]["rates"]["batches"] > 0


@timeout(60)
def test_a_killed_worker_makes_no_number_negative(box):
    config = job(box, **{"throttle": {"sample": 0.004, "train": 0.02}})
    running, follower = follow(box, config)
    for name in ("sampler 0", "trainer 0"):
        follower.until(lambda: trains(follower), "batches")
        lines = json_lines(follower)
        worker = next(w for w in lines[-1]["workers"] if w["name"] == name)
        os.kill(worker["pid"], signal.SIGKILL)
        follower.until(lambda n=len(lines): len(json_lines(follower)) >= n + 3, "three lines")
    report = stop(box, running, follower)
    lines = json_lines(follower)
    for line in lines:
        check(line)
    last = [line for line in lines if line["state"] == "running"][-1]
    assert last["totals"]["restarts"] == len(report["restarts"]) == 2
    restarts = {w["name"]: w["restarts"] for w in last["workers"]}
    assert restarts["sampler 0"] == restarts["trainer 0"] == 1, restarts
    assert last["totals"]["resampled"] + last["totals"]["retrained"] >= 1
    events = [json.loads(line) for line in open(box.path("runs/job/events.jsonl"))]
    deaths = [event for event in events if event["kind"] == "death"]
    assert len(deaths) == 2 and all("SIGKILL" in event["text"] for event in deaths), deaths


@timeout(60)
def test_looking_costs_next_to_nothing(box):
    config = job(box, **{"throttle": {"sample": 0.001, "train": 0.002}})
    running, follower = follow(box, config)
    follower.until(lambda: len(json_lines(follower)) >= 4, "four lines")
    stop(box, running, follower)
    log = open(box.path("runs/job/log/broker.log")).read()
    said = re.search(r"statistics: (\d+) looks of (\d+) us on average, (\d+) us of a core", log)
    assert said and int(said.group(1)) > 20, log[-2000:]
    # Ten looks a second: 1000 us each would be one per cent of a core.
    assert int(said.group(2)) < 1000, said.group(0)
    assert 0 < int(said.group(3)) <= int(said.group(2)) + 1, said.group(0)
