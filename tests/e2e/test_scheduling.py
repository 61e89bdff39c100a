"""Allocation, standby trainers, switching, scaling, caches, sampling algorithms, async updates."""

import os
import re

import numpy as np

from harness import (
    cases,
    cpu_devices,
    fingerprint,
    go_on,
    planted,
    read_json,
    small_job,
    text_of,
    write_dataset,
)

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
