"""Allocation, standby trainers, switching, scaling, caches, sampling algorithms, async updates."""

import os
import re
import signal
import time

import numpy as np

from harness import (
    cases,
    cpu_devices,
    fingerprint,
    not_under,
    read_json,
    small_job,
    text_of,
    timeout,
    write_dataset,
)
from harness import planted

BATCHES = 16  # of an epoch: 750 training vertices, 48 a batch


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
    "switching": {"allocation.switching": True},
    "switching-two-samplers": {"allocation": {"samplers": 2, "trainers": 2, "switching": True}},
    "auto": {"allocation": AUTO},
    "auto-eight": {"allocation": AUTO, "devices": cpu_devices(8)},
    "one-device": {"allocation": AUTO, "devices": cpu_devices(1)},
    "small-arena": {"allocation.switching": True, "arena": {"memory": "2MiB"}},
    "schedule": {
        "allocation.switching": True,
        "schedule": [
            {"epoch": 1, "batch": 5, "samplers": 3, "trainers": 1},
            {"epoch": 2, "batch": 3, "samplers": 1, "trainers": 3},
        ],
        "throttle": {"train": 0.06, "standby": 0.06},
    },
    "schedule-without-switching": {
        "allocation.switching": False,
        "schedule": [
            {"epoch": 0, "batch": 4, "samplers": 1, "trainers": 3},
            {"epoch": 2, "samplers": 2, "trainers": 1},
        ],
        "throttle": {"train": 0.02},
    },
    "presc": {"cache": {"policy": "presc", "presample_epochs": 1, "ratio": 0.3}},
    "presc-2-switching": {
        "allocation.switching": True,
        "cache": {"policy": "presc", "presample_epochs": 2, "ratio": 0.1, "report_optimal": True},
    },
    "degree": {"cache": {"policy": "degree", "ratio": 0.2}},
    "random": {"cache": {"policy": "random", "ratio": 0.2}},
    "optimal": {"cache": {"policy": "optimal", "ratio": 0.2, "report_optimal": True}},
    "cache-auto-one-device": {
        "allocation": AUTO,
        "devices": [dict(cpu_devices(1)[0], memory="8MiB")],
        "cache": {"policy": "presc", "ratio": "auto"},
    },
}


@timeout(90)
@cases(*WAYS)
def test_the_result_does_not_depend_on(box, way):
    wanted = reference(box)
    result, report = box.run(job(box, **WAYS[way]))
    result.ok()
    assert fingerprint(report) == wanted
    if "schedule" in WAYS[way]:
        scales = report["scales"]
        assert len(scales) == 2 and all(s["ok"] for s in scales), scales
        assert all(s["by"] == "schedule" for s in scales), scales
        last = WAYS[way]["schedule"][1]
        assert report["epochs"][-1]["samplers"] == last["samplers"], report["epochs"][-1]
        assert report["epochs"][-1]["trainers"] == last["trainers"], report["epochs"][-1]


@timeout(90)
def test_scaling_by_hand_in_the_middle_of_epochs(box):
    wanted = reference(box)
    slow = {"train": 0.12, "standby": 0.12}
    path = box.job(job(box, name="by-hand", throttle=slow))
    running = box.start("run", path, "--report", box.path("report.json"))
    running.until(lambda: os.path.exists(box.path("runs/job")), "the run directory")
    for samplers, trainers in ((1, 3), (2, 1), (3, 1), (1, 1)):
        done = box.sluice("scale", "by-hand", f"samplers={samplers}", f"trainers={trainers}").ok()
        wanted_words = rf"{samplers} samplers? and {trainers} trainers? work now"
        assert re.search(wanted_words, done.out), str(done)
        seats = len(box.processes("sampler"))
        assert seats == samplers, f"{seats} samplers run after {done}"
    running.wait(60).ok()
    report = read_json(box.path("report.json"))
    assert fingerprint(report) == wanted
    assert [s["by"] for s in report["scales"]] == ["user"] * 4, report["scales"]
    assert all(s["ok"] for s in report["scales"]), report["scales"]


@timeout(60)
def test_scale_refuses_with_the_reason(box):
    running = box.start("run", box.job(job(box, name="refuse", epochs=100000)))
    running.until(lambda: os.path.exists(box.path("runs/job")), "the run directory")

    def refused(rc, pattern, *arguments):
        result = box.sluice("scale", *arguments)
        assert result.rc == rc, str(result)
        assert len(result.errors()) == 1 and re.search(pattern, result.errors()[0]), str(result)

    refused(1, r"found 4 samplers and 4 trainers, wanted at most 4 roles on 4 devices", "refuse",
            "samplers=4", "trainers=4")
    refused(2, r"trainers=0.*wanted at least 1", "refuse", "trainers=0")
    refused(2, r"samplers=0.*wanted at least 1", "refuse", "samplers=0", "trainers=2")
    refused(2, r"found 'trainer=2', wanted samplers=N or trainers=M", "refuse", "trainer=2")
    refused(2, r"trainers=two.*whole number", "refuse", "trainers=two")
    refused(2, r"no running job.*'refuse'", "nobody", "trainers=2")
    box.sluice("scale", box.path("runs/job"), "trainers=2").ok()  # by run directory
    running.interrupt()
    assert running.wait(10).rc == 130
    refused(2, r"no running job", "refuse", "trainers=1")


@timeout(60)
def test_a_scale_request_during_another(box):
    """The first one waits for a trainer that can not leave: it is stopped."""
    config = job(box, name="busy", epochs=100000, throttle={"train": 0.02})
    config["allocation"] = {"samplers": 1, "trainers": 2, "switching": False}
    running = box.start("run", box.job(config))
    running.until(lambda: os.path.exists(box.path("runs/job/metrics.jsonl")), "the run directory")
    trainers = {
        line.split("--role-index\0")[1].split("\0")[0]: pid
        for pid, line in box.processes("trainer").items()
    }
    os.kill(trainers["1"], signal.SIGSTOP)
    first = box.start("scale", "busy", "samplers=1", "trainers=1")
    log = box.path("runs/job/log/broker.log")
    running.until(lambda: "split: from" in text_of(log), "the first request")
    second = box.sluice("scale", "busy", "samplers=2", "trainers=1")
    assert second.rc == 1 and "is under way" in second.errors()[0], str(second)
    os.kill(trainers["1"], signal.SIGCONT)
    first.wait(30).ok()
    running.interrupt()
    assert running.wait(10).rc == 130


@timeout(60)
@not_under("address", "its processes are too slow for a comparison of times")
def test_switching_helps_where_training_is_slow(box):
    """The shape of the paper's figure 16a: one sampler, one trainer, T_t much larger than T_s."""
    seconds = {}
    for switching in (False, True):
        config = job(
            box,
            output=f"runs/{switching}",
            throttle={"train": 0.03, "standby": 0.03},
            devices=cpu_devices(2),
            **{"allocation": {"samplers": 1, "trainers": 1, "switching": switching}},
        )
        result, report = box.run(config, name=str(switching))
        result.ok()
        seconds[switching] = sum(e["seconds"] for e in report["epochs"])
        helped = report["switching"]
        if switching:
            assert helped["switches"] >= 1 and helped["batches"] >= BATCHES, helped
            assert helped["seconds_saved"] > 0, helped
        else:
            assert helped["switches"] == 0 and helped["batches"] == 0, helped
    assert seconds[True] < 0.8 * seconds[False], seconds


def standby_trainers(box):
    """The one beside the sampler on device 0, once it is there."""
    return [pid for pid, line in box.processes("trainer").items() if "--device\x000" in line]


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


@timeout(60)
def test_a_sleeping_standby_trainer_uses_no_cpu(box):
    """Updates of one batch: a second trainer could only wait, so it never wakes."""
    config = job(
        box,
        epochs=100000,
        devices=cpu_devices(2),
        throttle={"train": 0.01},
        **{"updates.batches_per_update": 1, "evaluate.every": 0},
    )
    running = box.start("run", box.job(config))
    running.until(lambda: os.path.exists(box.path("runs/job/metrics.jsonl")), "the run directory")
    (standby,) = running.until(lambda: standby_trainers(box), "a standby trainer")
    time.sleep(0.5)
    before = cpu_ticks(standby)
    time.sleep(2)
    used = cpu_ticks(standby) - before
    running.interrupt()
    assert running.wait(10).rc == 130
    assert used <= 1, f"{used} ticks in 2 s"


@timeout(60)
def test_a_standby_trainer_that_dies_asleep_is_replaced(box):
    config = job(
        box,
        devices=cpu_devices(2),
        throttle={"train": 0.05},
        **{"updates.batches_per_update": 1},
    )
    running = box.start("run", box.job(config), "--report", box.path("report.json"))
    running.until(lambda: os.path.exists(box.path("runs/job/metrics.jsonl")), "the run directory")

    (first,) = running.until(lambda: standby_trainers(box), "a standby trainer")
    os.kill(first, signal.SIGKILL)
    running.until(lambda: set(standby_trainers(box)) - {first}, "another standby trainer")
    running.wait(60).ok()
    report = read_json(box.path("report.json"))
    fingerprint(report)
    assert [r["resampled"] + r["retrained"] for r in report["restarts"]] == [0]


@timeout(60)
@cases((10, 40, 2), (20, 10, 6), (10, 100, 1))
def test_the_formula_chooses_the_split(box, sample_ms, train_ms, samplers):
    config = job(
        box,
        epochs=2,
        devices=cpu_devices(8),
        throttle={"sample": sample_ms / 1e3, "train": train_ms / 1e3, "standby": train_ms / 1e3},
        **{"allocation": AUTO, "evaluate.every": 0},
    )
    result, report = box.run(config)
    result.ok()
    first = report["allocations"][0]
    assert (first["samplers"], first["trainers"]) == (samplers, 8 - samplers), first
    assert abs(first["t_sample"] * 1e3 - sample_ms) < 0.3 * sample_ms, first
    assert abs(first["t_train"] * 1e3 - train_ms) < 0.3 * train_ms, first
    assert "K = " in first["reason"], first


# ---- caches -------------------------------------------------------------------------------------


@timeout(90)
def test_presampling_is_near_the_optimum(box):
    found = {}
    for policy in ("presc", "degree", "random", "optimal"):
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


@timeout(60)
def test_no_hits_before_presampling_is_over(box):
    cache = {"policy": "presc", "presample_epochs": 2, "ratio": 1.0}
    result, report = box.run(job(box, cache=cache))
    result.ok()
    rates = [e["cache"]["hit_rate"] for e in report["epochs"]]
    assert rates[0] == rates[1] == 0, rates
    assert rates[3] == 1, rates
    assert report["cache"]["presample_cost_epochs"] is not None, report["cache"]


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


@timeout(90)
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
        config["epochs"] = 8
        result, report = box.run(config, name=label)
        result.ok()
        found.append(fingerprint(report))
    assert found[0] == found[1]
    assert found[0]["accuracy"][-1] > 0.6, found[0]


# ---- async updates ------------------------------------------------------------------------------


@timeout(90)
@cases((0, 1, 1), (1, 1, 3), (4, 1, 3), (4, 2, 2))
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


@timeout(90)
@cases("trainer_joined", "trainer_offered", "trainer_gradient", "trainer_done", "trainer_apply",
       "trainer_flipped", "standby_woken")
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
