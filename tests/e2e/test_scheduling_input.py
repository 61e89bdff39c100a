"""Splits, caches, weights, schedules that can not be: status 2, one message, nothing left."""

import os
import re

import numpy as np

from harness import CORES, cases, cpu_devices, planted, small_job, timeout, write_dataset
from test_bad_input import refuse_job, refused

ENTRY = {"epoch": 1, "samplers": 1, "trainers": 2}


def entry(**changes):
    return {**ENTRY, **changes}


# ---- the job file -------------------------------------------------------------------------------


CACHES = {
    "presample-zero": ({"policy": "presc", "presample_epochs": 0}, ["presample_epochs", "0", "1"]),
    "presample-half": ({"policy": "presc", "presample_epochs": 0.5}, ["presample_epochs", "0.5"]),
    "presample-all": ({"policy": "presc", "presample_epochs": 3}, ["presample_epochs", "most 2"]),
    "presample-degree": ({"policy": "degree", "presample_epochs": 2}, ["presc"]),
    "ratio-zero": ({"policy": "presc", "ratio": 0}, ["cache.ratio", "above 0", "auto"]),
    "ratio-percent": ({"policy": "presc", "ratio": 10}, ["cache.ratio", "10", "at most 1"]),
    "ratio-text": ({"policy": "presc", "ratio": "10%"}, ["cache.ratio", "10%"]),
    "ratio-without-cache": ({"ratio": 0.1}, ["cache.ratio", "policy", "none", "presc"]),
    "optimal-without-cache": ({"report_optimal": True}, ["cache.report_optimal", "policy"]),
    "policy": ({"policy": "prescc"}, ["cache.policy", "did you mean", "presc"]),
}


@cases(*CACHES)
def test_cache(box, name):
    cache, words = CACHES[name]
    refuse_job(box, small_job(box.shared_dataset("small"), cache=cache), "job.json", *words)


def test_presampling_needs_an_epoch_after_it(box):
    config = small_job(box.shared_dataset("small"), epochs=1, cache={"policy": "presc"})
    refuse_job(box, config, "presample_epochs", "1 epoch", "raise epochs")


UPDATES = {
    "batches": ({"mode": "async", "batches_per_update": 4}, ["batches_per_update", "ordered"]),
    "ordered-staleness": ({"mode": "ordered", "staleness": 2}, ["staleness", "async"]),
    "negative": ({"mode": "async", "staleness": -1}, ["staleness", "-1"]),
    "too-large": ({"mode": "async", "staleness": 100000}, ["staleness", "1024"]),
}


@cases(*UPDATES)
def test_updates(box, name):
    updates, words = UPDATES[name]
    refuse_job(box, small_job(box.shared_dataset("small"), updates=updates), "job.json", *words)


SAMPLERS = {
    "paths-without-walk": ({"paths": 4}, ["sampler.paths", "walk"]),
    "no-paths": ({"kind": "walk", "paths": 0}, ["sampler.paths", "0"]),
    "no-steps": ({"kind": "walk", "length": 0}, ["sampler.length", "0"]),
    "always-back": ({"kind": "walk", "restart": 1}, ["sampler.restart", "below 1"]),
    "kind": ({"kind": "wheighted"}, ["sampler.kind", "did you mean", "weighted"]),
}


@cases(*SAMPLERS)
def test_sampler(box, name):
    changes, words = SAMPLERS[name]
    config = small_job(box.shared_dataset("small"))
    config["sampler"].update(changes)
    refuse_job(box, config, "job.json", *words)


@cases(("sample", -1), ("train", 11), ("standby", "1s"))
def test_throttle(box, stage, value):
    config = small_job(box.shared_dataset("small"), throttle={stage: value})
    refuse_job(box, config, "job.json", f"throttle.{stage}")


# ---- roles and devices --------------------------------------------------------------------------


@cases(
    (3, 2, 4, ["3 samplers and 2 trainers", "at most 4 roles on 4 devices"]),
    (4, "auto", 4, ["4 samplers and at least 1 trainer", "4 devices"]),
    ("auto", 4, 4, ["1 sampler and 4 trainers", "4 devices"]),
    (1, 1, 1, ["1 sampler and 1 trainer", "1 device"]),
)
def test_more_roles_than_devices(box, samplers, trainers, devices, words):
    config = small_job(
        box.shared_dataset("small"), allocation={"samplers": samplers, "trainers": trainers}
    )
    config["devices"] = cpu_devices(devices)
    refuse_job(box, config, "job.json", "allocation", "list more devices", *words)


def test_more_roles_than_there_can_be_devices(box):
    config = small_job(box.shared_dataset("small"), allocation={"samplers": 40, "trainers": 40})
    config["devices"] = "auto"
    refuse_job(box, config, "allocation", "40 samplers and 40 trainers", "64")


def test_one_device_that_may_not_switch(box):
    config = small_job(box.shared_dataset("small"), allocation={"switching": False})
    config["devices"] = cpu_devices(1)
    refuse_job(box, config, "allocation.switching", "1 device", "second device")


@cases("samplers", "trainers")
def test_nobody(box, role):
    config = small_job(box.shared_dataset("small"), **{f"allocation.{role}": 0})
    refuse_job(box, config, f"allocation.{role}", "0", "from 1")
    config = small_job(box.shared_dataset("small"))
    refuse_job(box, config, f"allocation.{role}", arguments=["--set", f"allocation.{role}=0"])


# ---- the schedule -------------------------------------------------------------------------------


SCHEDULES = {
    "object": (ENTRY, ["schedule", "list"]),
    "number": ([3], ["schedule[0]", "object", "epoch"]),
    "empty-entry": ([{}], ["schedule[0].epoch", "missing"]),
    "no-trainers-said": ([{"epoch": 1, "samplers": 1}], ["schedule[0].trainers", "missing"]),
    "misspelt": ([entry(trainer=1)], ["schedule[0].trainer", "did you mean"]),
    "zero-trainers": ([ENTRY, entry(epoch=2, trainers=0)], ["schedule[1].trainers", "0"]),
    "zero-samplers": ([entry(samplers=0)], ["schedule[0].samplers", "0"]),
    "negative-epoch": ([entry(epoch=-1)], ["schedule[0].epoch", "-1"]),
    "half-an-epoch": ([entry(epoch=1.5)], ["schedule[0].epoch", "1.5"]),
    "after-the-end": ([entry(epoch=3)], ["schedule[0].epoch", "3 epochs", "most 2"]),
    "backwards": ([entry(epoch=2), ENTRY], ["schedule[1]", "epoch 1", "epoch 2", "ascending"]),
    "twice": ([ENTRY, entry(trainers=1)], ["schedule[1]", "ascending"]),
    "roles": ([entry(trainers=4)], ["schedule[0]", "1 sampler and 4 trainers", "4 devices"]),
    "text": ([entry(batch="first")], ["schedule[0].batch", "first"]),
}


@cases(*SCHEDULES)
def test_schedule(box, name):
    schedule, words = SCHEDULES[name]
    config = small_job(box.shared_dataset("small"), schedule=schedule)
    refuse_job(box, config, "job.json", *words)


def test_schedule_beyond_the_batches_of_an_epoch(box):
    """750 training vertices are 12 batches of 64: the data set decides, so the job file can not."""
    config = small_job(box.shared_dataset("small"), schedule=[entry(batch=13)])
    refuse_job(box, config, "schedule[0].batch", "13", "12")


def test_schedule_from_the_command_line(box):
    path = box.job(small_job(box.shared_dataset("small")))
    text = 'schedule=[{"epoch": 1, "samplers": 9, "trainers": 9}]'
    refused(box, box.sluice("run", path, "--set", text), "schedule[0]", "9 samplers", "4 devices")


# ---- weights ------------------------------------------------------------------------------------


def negative(weight):
    weight[1234] = -0.5
    return weight


def not_a_number(weight):
    weight[77] = np.nan
    return weight


def endless(weight):
    weight[-1] = np.inf
    return weight


WEIGHTS = {
    "missing": (None, ["weighted"]),
    "negative": (negative, ["1234", "-0.5"]),
    "nan": (not_a_number, ["77", "nan"]),
    "infinite": (endless, ["inf"]),
    "short": (lambda weight: weight[:-1], ["num_edges"]),
    "matrix": (lambda weight: weight.reshape(-1, 1), ["dimension"]),
    "integers": (lambda weight: weight.astype(np.int64), ["int64", "float32"]),
    "doubles": (lambda weight: weight.astype(np.float64), ["float64", "float32"]),
}


@cases(*WEIGHTS)
def test_weights(box, name):
    change, words = WEIGHTS[name]
    folder = box.path("data")
    arrays = planted(n=1000)
    write_dataset(folder, arrays)
    if change:
        weight = np.linspace(0, 1, len(arrays["indices"]), dtype=np.float32)
        np.save(os.path.join(folder, "edge_weight.npy"), change(weight))
    config = small_job(folder, **{"sampler.kind": "weighted"})
    refuse_job(box, config, "edge_weight.npy", *words)


def test_a_bad_weight_is_found_after_a_job_that_reads_none(box):
    """That a data set has passed once says nothing of what was not looked at."""
    folder = box.path("data")
    arrays = planted(n=1000)
    write_dataset(folder, arrays)
    box.run(small_job(folder, output="first"), name="first")[0].ok()
    weight = np.ones(len(arrays["indices"]), np.float32)
    np.save(os.path.join(folder, "edge_weight.npy"), negative(weight))
    config = small_job(folder, **{"sampler.kind": "weighted"})
    refuse_job(box, config, "edge_weight.npy", "1234", "-0.5")


# ---- memory of a device -------------------------------------------------------------------------


def wide_dataset(box, n=40000, dim=256, degree=4):
    """Features of 40 MiB, topology of less than 1 MiB; few training vertices."""
    rng = np.random.default_rng(5)
    order = rng.permutation(n)
    arrays = {
        "indptr": np.arange(n + 1, dtype=np.int64) * degree,
        "indices": rng.integers(0, n, n * degree).astype(np.int32),
        "node_feat": rng.random((n, dim), np.float32),
        "node_label": rng.integers(0, 4, n),
        "train_idx": order[:256],
        "val_idx": order[256:300],
        "test_idx": order[300:344],
    }
    return write_dataset(box.path("wide"), arrays, name="wide")


def wide_job(dataset, memory, **changes):
    config = small_job(
        dataset,
        **{
            "sampler.batch_size": 32,
            "sampler.fanout": [3, 3],
            "evaluate": {"every": 0, "fanout": [3, 3]},
            **changes,
        },
    )
    config["devices"] = [
        {"kind": "cpu", "cores": str(CORES[i % 2]), "memory": memory} for i in range(2)
    ]
    return config


@timeout(120)
@cases("degree", "presc")
def test_cache_ratio_that_does_not_fit(box, policy):
    """The message has the ratio that would, which does fit; a little more does not."""
    dataset = wide_dataset(box)
    cache = {"policy": policy, "ratio": 1}
    config = wide_job(dataset, "32MiB", cache=cache)
    path = box.job(config)
    result = box.sluice("run", path)
    refused(box, result, "cache.ratio", "memory", "device 1")
    fits = [float(x) for x in re.findall(r"(?<![\d.])0\.\d+", result.err)]
    assert len(fits) == 1, f"wanted the one ratio that would fit\n{result}"
    assert fits[0] < 32 / 39, f"that can not fit either\n{result}"
    more = wide_job(dataset, "32MiB", cache=dict(cache, ratio=min(1, fits[0] * 1.1)))
    refused(box, box.sluice("run", box.job(more)), "cache.ratio")
    config["cache"]["ratio"] = fits[0]
    box.run(config)[0].ok()


@timeout(120)
def test_device_smaller_than_its_work(box):
    """Each device by itself: the message names it and a size; the others are large."""
    dataset = wide_dataset(box)
    for device in (0, 1):
        config = wide_job(dataset, "1GiB")
        config["devices"][device]["memory"] = "64KiB"
        refuse_job(box, config, f"devices[{device}]", "memory", ("64KiB", "64.0 KiB"), "MiB")


def test_one_device_smaller_than_a_block(box):
    """The device that samples and trains in turn."""
    config = small_job(box.shared_dataset("small"), allocation={})
    config["devices"] = [{"kind": "cpu", "cores": str(CORES[0]), "memory": "8KiB"}]
    refuse_job(box, config, "devices[0]", "memory", ("8KiB", "8.0 KiB"))


@timeout(120)
def test_an_automatic_ratio_fits(box):
    """The same device, which can not hold all features: auto takes what is left."""
    config = wide_job(wide_dataset(box), "32MiB", cache={"policy": "degree"})
    result, report = box.run(config)
    result.ok()
    cache = report["epochs"][-1]["cache"]
    assert cache["hits"] > 0 and cache["misses"] > 0, cache
