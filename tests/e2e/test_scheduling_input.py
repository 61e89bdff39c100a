"""Schedules, weights and memory that cannot be: status 2, one message, nothing left.

What is wrong with a job file alone is in tests/unit/test_cli_job_check.c, a row each."""

import os
import re

import numpy as np

from harness import CORES, planted, small_job, timeout, write_dataset
from test_bad_input import refuse_job, refused


# ---- weights ------------------------------------------------------------------------------------


def negative(weight):
    weight[1234] = -0.5
    return weight


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
def test_cache_ratio_that_does_not_fit(box):
    """The message has the ratio that would, which does fit; a little more does not."""
    dataset = wide_dataset(box)
    cache = {"policy": "presc", "ratio": 1}
    config = wide_job(dataset, "32MiB", cache=cache)
    path = box.job(config)
    result = box.sluice("run", path)
    refused(box, result, "cache.ratio", "memory", "device 1")
    fits = [float(x) for x in re.findall(r"(?<![\d.])0\.\d+", result.err)]
    assert len(fits) == 1, f"wanted the one ratio that would fit\n{result}"
    assert fits[0] < 32 / 39, f"that cannot fit either\n{result}"
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
    """The same device, which cannot hold all features: auto takes what is left."""
    config = wide_job(wide_dataset(box), "32MiB", cache={"policy": "degree"})
    result, report = box.run(config)
    result.ok()
    cache = report["epochs"][-1]["cache"]
    assert cache["hits"] > 0 and cache["misses"] > 0, cache
