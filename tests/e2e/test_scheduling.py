"""Allocation, standby trainers, switching, scaling, caches, sampling algorithms, async updates."""

import math
import os
import re

import numpy as np

from harness import (
    cases,
    cpu_devices,
    fingerprint,
    go_on,
    json_lines,
    planted,
    read_json,
    small_job,
    text_of,
    write_dataset,
)

STANDBY_WAIT_S = 10  # SL_STANDBY_WAIT_MS: how long a standby trainer sleeps at most


def job(box, /, **changes):
    return small_job(
        box.shared_dataset("small"),
        **{
            "epochs": 4,
            "sampler.batch_size": 48,
            "updates.batches_per_update": 4,
            "model.input_dropout": 0.1,
            **changes,
        },
    )


def reference(box):
    """What one sampler and one trainer make of the job, without switching and without a cache."""

    def compute():
        config = job(box, output="runs/reference", **{"allocation.switching": False})
        result, report = box.run(config, name="reference")
        result.ok()
        return fingerprint(report)

    return box.shared_value("scheduling", compute)


AUTO = {"samplers": "auto", "trainers": "auto", "switching": True}

# What may be different about a job without changing its result.
WAYS = {
    "switching-two-samplers": {"allocation": {"samplers": 2, "trainers": 2, "switching": True}},
    "auto-eight": {"allocation": AUTO, "devices": cpu_devices(8)},
    "one-device": {"allocation": AUTO, "devices": cpu_devices(1)},
    "small-arena": {"allocation.switching": True, "arena": {"memory": "2MiB"}},
    "presc-2-switching": {
        "allocation.switching": True,
        "cache": {"policy": "presc", "presample_epochs": 2, "ratio": 0.1, "report_optimal": True},
    },
    "optimal": {"cache": {"policy": "optimal", "ratio": 0.2, "report_optimal": True}},
    "cache-auto-one-device": {
        "allocation": AUTO,
        "devices": [dict(cpu_devices(1)[0], memory="8MiB")],
        "cache": {"policy": "presc", "ratio": "auto"},
    },
}


@cases(*WAYS)
def test_the_result_does_not_depend_on(box, way):
    wanted = reference(box)
    result, report = box.run(job(box, **WAYS[way]))
    result.ok()
    assert fingerprint(report) == wanted


def test_the_result_does_not_depend_on_a_schedule(box):
    schedule = [
        {"epoch": 0, "batch": 4, "samplers": 3, "trainers": 1},
        {"epoch": 2, "batch": 3, "samplers": 1, "trainers": 3},
    ]
    changes = {"allocation.switching": True, "schedule": schedule}
    config = job(box, epochs=100000, **changes)
    running = box.start("run", box.job(config))
    metrics = box.path("runs/job/metrics.jsonl")
    split = re.compile(r'"samplers":\s*1,\s*"trainers":\s*3\b')
    log = box.path("runs/job/log/broker.log")
    running.until(lambda: text_of(log).count("work now") == 2, "both splits", 60)
    running.until(lambda: split.search(text_of(metrics)), "an epoch with the last split", 60)
    first, last, straight = box.bring_to_an_end(running, config)
    assert fingerprint(last) == fingerprint(straight)
    scales = first["scales"]
    for done, wanted in zip(scales, schedule):
        assert done["to"] == {key: wanted[key] for key in ("samplers", "trainers")}, scales
    assert len(scales) == 2 and all(s["ok"] and s["by"] == "schedule" for s in scales), scales


def test_scaling_by_hand_in_the_middle_of_epochs(box):
    config = job(box, name=box.unique("by-hand"), epochs=100000)
    running = box.start("run", box.job(config))
    running.until(lambda: os.path.exists(box.path("runs/job")), "the run directory")
    for samplers, trainers in ((1, 3), (2, 1), (3, 1), (1, 1)):
        split = [f"samplers={samplers}", f"trainers={trainers}"]
        done = box.sluice("scale", config["name"], *split).ok()
        wanted_words = rf"{samplers} samplers? and {trainers} trainers? work now"
        assert re.search(wanted_words, done.out), str(done)
        seats = len(box.processes("sampler"))
        assert seats == samplers, f"{seats} samplers run after {done}"
    report, last, straight = box.bring_to_an_end(running, config)
    assert fingerprint(last) == fingerprint(straight)
    assert [s["by"] for s in report["scales"]] == ["user"] * 4, report["scales"]
    assert all(s["ok"] for s in report["scales"]), report["scales"]


@cases(False, True)
def test_switching_helps_where_a_trainer_is_slow(box, switching):
    """The shape of the paper's figure 16a: the only trainer stands still, its sampler has time."""
    config = job(
        box,
        name=box.unique("helped"),
        epochs=1,
        devices=cpu_devices(2),
        # A batch of the one that stands still takes long enough for help to pay, however busy the
        # machine is.
        throttle={"train": 1 if switching else 0.05, "standby": 0.05},
        **{
            "allocation": {"samplers": 1, "trainers": 1, "switching": switching},
            "updates.batches_per_update": 8,  # more than the one that stands still can hold
        },
    )
    # In the second batch, whoever has it: how long one takes is known by then.
    env = {"SLUICE_FAILPOINT": "trainer_gradient:2:stop"}
    running = box.start("run", box.job(config), env=env)
    pid = box.until_stopped(running, "trainer")
    if switching:
        running.until(lambda: helps(box, pid), "a batch of the standby trainer", 60)
    go_on(pid)
    running.wait().ok()
    report = read_json(box.path("runs/job/report.json"))
    total = report["switching"]
    assert (total["batches"] > 0) == switching, total
    assert switching or total["switches"] == 0, total  # one that never slept is not switched on
    saved = 0
    for epoch in report["epochs"]:
        batches = epoch["switching"]["batches"]
        times = epoch["profile"]
        wanted = batches * (times["t_train"] or times["t_standby"]) / 1 if batches else 0
        assert abs(epoch["switching"]["seconds_saved"] - wanted) < 1e-6, epoch["switching"]
        saved += wanted
    assert abs(total["seconds_saved"] - saved) < 1e-6, total


def helps(box, stopped):
    """The standby trainer has done a batch, or is itself the one that stands still in one."""
    workers = box.sluice("stats", box.unique("helped"), "-o", "json").ok().json()["workers"]
    return any(
        w["batches"] > 0 or w["pid"] == stopped for w in workers if w["role"] == "standby"
    )


def test_a_sleeping_standby_trainer_wakes_for_nothing(box):
    """Updates of one batch: a second trainer could only wait. It looks up for phases, not for
    batches, and never works."""
    config = job(
        box,
        name=box.unique("sleepy"),
        epochs=100000,
        devices=cpu_devices(2),
        throttle={"train": 0.01},
        **{"updates.batches_per_update": 1, "evaluate.every": 0},
    )
    running = box.start("run", box.job(config))
    running.until(lambda: os.path.exists(box.path("runs/job/metrics.jsonl")), "the run directory")
    follower = box.start("stats", box.unique("sleepy"), "--follow", "-o", "json")

    def standby(line):
        return next((w for w in line["workers"] if w["role"] == "standby"), {"state": None})

    def asleep():
        return [line for line in json_lines(follower) if standby(line)["state"] == "asleep"]

    follower.until(lambda: len(asleep()) >= 4, "lines of a standby trainer that sleeps", 60)
    running.interrupt()
    assert running.wait().rc == 130
    follower.wait()
    first, *_, last = asleep()
    assert last["totals"]["switches"] == standby(last)["batches"] == 0, last["totals"]
    epochs = last["totals"]["epochs"] - first["totals"]["epochs"] + 1
    waits = (last["seconds"] - first["seconds"]) / STANDBY_WAIT_S + 1
    rounds = standby(last)["rounds"] - standby(first)["rounds"]
    # Two threads, which are told of a phase that begins, is drawn and is over.
    assert rounds <= 2 * (3 * epochs + waits), (rounds, epochs, waits)


def test_a_standby_trainer_that_dies_asleep_is_replaced(box):
    config = job(
        box, devices=cpu_devices(2), epochs=100000, **{"updates.batches_per_update": 1}
    )
    points = {"SLUICE_FAILPOINT": "standby_asleep:1,standby_asleep:2:stop"}
    running = box.start("run", box.job(config), "--report", box.path("report.json"), env=points)
    go_on(box.until_stopped(running, "trainer"))  # the second one
    running.until(lambda: os.path.exists(box.path("runs/job/metrics.jsonl")), "the run directory")
    running.interrupt()
    assert running.wait().rc == 130
    restarts = read_json(box.path("report.json"))["restarts"]
    assert [r["resampled"] + r["retrained"] for r in restarts] == [0], restarts


def test_the_formula_chooses_the_split(box):
    """Of the times that were measured; what it makes of given times is a unit test."""
    sample_ms, train_ms = 10, 40
    config = job(
        box,
        epochs=1,
        devices=cpu_devices(8),
        throttle={"sample": sample_ms / 1e3, "train": train_ms / 1e3, "standby": train_ms / 1e3},
        **{"allocation": AUTO, "evaluate.every": 0, "updates.batches_per_update": 8},
    )
    result, report = box.run(config)
    result.ok()
    first = report["allocations"][0]
    t_sample, t_train = first["t_sample"], first["t_train"]
    assert t_sample >= sample_ms * 0.999e-3 and t_train >= train_ms * 0.999e-3, first
    assert abs(first["k"] - t_train / t_sample) < 1e-6 * first["k"], first
    samplers = min(max(math.ceil(8 / (first["k"] + 1)), 1), 7)
    assert (first["samplers"], first["trainers"]) == (samplers, 8 - samplers), first
    assert "K = " in first["reason"], first


def test_trainers_that_could_never_work_are_not_started(box):
    config = job(
        box,
        epochs=1,
        devices=cpu_devices(8),
        throttle={"sample": 0.01, "train": 0.04, "standby": 0.04},
        **{"allocation": AUTO, "evaluate.every": 0, "updates.batches_per_update": 2},
    )
    result, report = box.run(config)
    first = report["allocations"][0]
    assert (first["samplers"], first["trainers"]) == (1, 2), first
    log = text_of(box.path("runs/job/log/broker.log"))
    started = set(re.findall(r"((?:sampler|trainer) \d+) \(process", log))
    assert started == {"sampler 0", "trainer 0", "trainer 1", "trainer 7"}, log  # 7 stands by
    assert "5 of 8 devices have nothing to do" in result.ok().err, result
    assert "updates.batches_per_update 7 instead of 2 would use them" in result.err, result


# ---- caches -------------------------------------------------------------------------------------


def test_presampling_is_near_the_optimum(box):
    found = {}
    for policy in ("presc", "expected", "degree", "random", "optimal"):
        cache = {"policy": policy, "ratio": 0.1, "report_optimal": True}
        result, report = box.run(
            job(box, output=f"runs/{policy}", cache=cache, **{"sampler.fanout": [3, 3]}),
            name=policy,
        )
        result.ok()
        ranked = report["epochs"][1:]
        hits = sum(e["cache"]["hits"] for e in ranked)
        nodes = sum(e["input_nodes"] for e in ranked)
        assert nodes == hits + sum(e["cache"]["misses"] for e in ranked)
        found[policy] = hits / nodes
        for e in ranked:
            assert e["cache"]["hit_rate"] <= e["cache"]["optimal_hit_rate"] + 0.05, e["cache"]
            assert e["stages"]["mark"]["count"] == e["batches"], e["stages"]
        row = 16 * 4
        assert sum(e["cache"]["hit_bytes"] for e in ranked) == hits * row
        assert sum(e["cache"]["miss_bytes"] for e in ranked) == (nodes - hits) * row
    assert found["optimal"] >= found["presc"] > found["random"], found
    assert found["presc"] > 0.8 * found["optimal"], found
    assert found["optimal"] >= found["expected"] > found["random"], found
    assert found["expected"] > 0.8 * found["optimal"], found


def test_no_hits_before_presampling_is_over(box):
    cache = {"policy": "presc", "presample_epochs": 2, "ratio": 1.0}
    result, report = box.run(job(box, cache=cache))
    result.ok()
    rates = [e["cache"]["hit_rate"] for e in report["epochs"]]
    assert rates[0] == rates[1] == 0, rates
    assert rates[3] == 1, rates
    assert report["cache"]["presample_cost_epochs"] is not None, report["cache"]


def test_expected_visits_serve_the_first_epoch(box):
    cache = {"policy": "expected", "ratio": 0.2, "report_optimal": True}
    changes = {"sampler.fanout": [3, 3], "allocation.switching": False}
    result, report = box.run(job(box, cache=cache, **changes))
    result.ok()
    summary, rates = report["cache"], [e["cache"]["hit_rate"] for e in report["epochs"]]
    assert summary["policy"] == "expected" and summary["presample_epochs"] == 0, summary
    assert 0 < summary["hit_rate"] <= summary["optimal_hit_rate"] < 1, summary
    # The order may come between a look for it and the first batch, which then finds no cache.
    assert rates[0] > 0 and all(0.2 < rate < 1 for rate in rates[1:]), rates  # a fifth is kept


# ---- sampling algorithms ------------------------------------------------------------------------

KINDS = {
    "weighted": {"kind": "weighted", "fanout": [5, 5], "batch_size": 48},
    "walk": {"kind": "walk", "fanout": [5, 5], "batch_size": 48, "paths": 8, "length": 3,
             "restart": 0.3},
}


def weighted_dataset(box):
    final = box.path("weighted")
    arrays = planted()
    rng = np.random.default_rng(3)
    arrays["edge_weight"] = rng.random(len(arrays["indices"])).astype(np.float32)
    return write_dataset(final, arrays, name="weighted")


@cases(*KINDS)
def test_sampling_algorithms(box, kind):
    dataset = weighted_dataset(box)
    found = []
    for label, changes in {
        "one": {"allocation": {"samplers": 1, "trainers": 1, "switching": False}},
        "many": {"allocation": {"samplers": 2, "trainers": 2, "switching": True},
                 "cache": {"policy": "presc", "ratio": 0.2}},
    }.items():
        config = job(box, output=f"runs/{label}", sampler=KINDS[kind], **changes)
        config["dataset"] = dataset
        config["epochs"] = 5
        result, report = box.run(config, name=label)
        result.ok()
        found.append(fingerprint(report))
        folder = box.path("runs", label, "log")
        logs = "".join(text_of(os.path.join(folder, name)) for name in os.listdir(folder))
        made = logs.count("running sums of weights for all samplers")
        assert made == (kind == "weighted"), f"{label}: made {made} times"
    assert found[0] == found[1]
    assert found[0]["accuracy"][-1] > 0.6, found[0]


# ---- async updates ------------------------------------------------------------------------------


@cases((0, 1, 1), (4, 2, 2))
def test_async_updates(box, staleness, samplers, trainers):
    config = job(
        box,
        epochs=8,
        updates={"mode": "async", "staleness": staleness},
        allocation={"samplers": samplers, "trainers": trainers},
    )
    result, report = box.run(config)
    result.ok()
    found = fingerprint(report)
    assert found["accuracy"][-1] > 0.6, found
    for e in report["epochs"]:
        assert e["updates"]["staleness_max"] <= staleness, e["updates"]
    assert report["epochs"][-1]["loss"] < report["epochs"][0]["loss"]


@cases("trainer_offered", "trainer_apply", "standby_woken")
def test_async_survives(box, point):
    config = job(
        box,
        updates={"mode": "async", "staleness": 3},
        allocation={"samplers": 1, "trainers": 2},
        throttle={"train": 0.005},
    )
    points = ",".join(f"{point}:{1 + 9 * i}" for i in range(4))
    if point == "standby_woken":
        points = "standby_woken:1,standby_woken:3"
    result, report = box.run(config, env={"SLUICE_FAILPOINT": points})
    result.ok()
    fingerprint(report)
    assert len(report["restarts"]) >= 1, report["restarts"]
    for e in report["epochs"]:
        assert e["updates"]["staleness_max"] <= 3, e["updates"]
