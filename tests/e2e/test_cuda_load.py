"""How busy a GPU is, from the driver's library to /metrics; and how often a trainer pins memory.

The GPU is the emulated one (tests/simt), and what its NVML says is tests/unit/fake_nvml.c.
"""

import json
import os
import re

from harness import BIN, cases
from test_cuda import CPU, PLUGIN, SANITIZED, gpu, gpu_job, run, trainer_log
from test_http import ask, page_of, parse_prometheus

NOT_UNDER = {"address": SANITIZED}

FAKE_NVML = os.path.join(os.path.dirname(BIN), "lib", "fake_nvml.so")
SAYS = {"SLUICE_NVML": FAKE_NVML, "FAKE_NVML": "37,12,500000000"}  # percent, percent, bytes free
LOAD, MEMORY_LOAD = "sluice_device_gpu_load_ratio", "sluice_device_gpu_memory_load_ratio"


def shown(box, devices, split, **env):
    """A slow job on a GPU, with a page: (its command, port)."""
    job = gpu_job(
        box,
        devices,
        name="load",
        epochs=500,
        digest=False,
        allocation={**split, "switching": False},
        throttle={"sample": 0.02, "train": 0.04},
    )
    env = {"SLUICE_CUDA_PLUGIN": PLUGIN, "CUDA_VISIBLE_DEVICES": "0", **env}
    running = box.start("run", box.job(job), "--http", "0", env=env)
    return running, int(page_of(running).group(1))


def told(port, name):
    """{device: value} of a family of devices."""
    samples = parse_prometheus(ask(port, "/metrics")[2])[name][1]
    return {int(re.search(r'device="(\d+)"', labels)[1]): v for (_, labels), v in samples.items()}


def devices_of(box):
    result = box.sluice("stats", "load", "-o", "json")
    result.ok()
    return json.loads(result.out)["devices"]


@cases(
    ("trainer", [CPU, gpu()], 1),
    ("sampler", [gpu(), CPU], 0),
)
def test_the_load_of_a_gpu_reaches_the_metrics(box, who, devices, at):
    split = {"samplers": 1, "trainers": 1}
    running, port = shown(box, devices, split, **SAYS)
    running.until(lambda: told(port, LOAD), f"load said by a {who}", 60)
    found = told(port, LOAD), told(port, MEMORY_LOAD)
    assert all(list(f) == [at] for f in found), found  # and none of the cores
    assert abs(found[0][at] - 0.37) < 1e-6 and abs(found[1][at] - 0.12) < 1e-6, found
    device = devices_of(box)[at]
    assert abs(device["gpu_load"] - 0.37) < 1e-6, device
    assert abs(device["gpu_memory_load"] - 0.12) < 1e-6, device
    running.stop()


@cases("none", "slices")
def test_a_load_that_nobody_says_is_null(box, nvml):
    env = {} if nvml == "none" else {"SLUICE_NVML": FAKE_NVML, "FAKE_NVML": nvml}
    split = {"samplers": 1, "trainers": 1}
    running, port = shown(box, [CPU, gpu()], split, **env)
    running.until(lambda: told(port, "sluice_device_gpu_memory_bytes"), "figure of the GPU", 60)
    assert told(port, LOAD) == told(port, MEMORY_LOAD) == {}
    device = devices_of(box)[1]
    assert device["gpu_load"] is None and device["gpu_memory_load"] is None, device
    assert device["gpu_memory_total"] > 0, device
    running.stop()
    assert " W " not in trainer_log(box), trainer_log(box)


@cases(
    (False, {"cache.policy": "none", "evaluate.fanout": "full"}),
    (True, {"cache": {"policy": "degree", "ratio": 0.3}}),
)
def test_a_trainer_pins_nothing_twice(box, maps_files, changes):
    pinned = box.path("pinned")
    job = gpu_job(box, [CPU, gpu()], **changes)
    files = {"SLUICE_SIMT_READ_ONLY": "1"} if maps_files else {}
    result, report = run(box, job, SLUICE_SIMT_REGISTERED=pinned, **files)
    result.ok()
    assert report["batches"]["trained"] == report["batches"]["scheduled"], report["batches"]
    with open(pinned) as file:
        ranges = [line.split() for line in file]
    # The arena in two parts, and the store: the file, or the copy of it.
    assert len(ranges) == 3, ranges
    assert len({process for process, _, _ in ranges}) == 1, ranges
    assert len({address for _, address, _ in ranges}) == 3, ranges
    assert maps_files != ("the files cannot be read in place" in trainer_log(box))
    assert (report["store"]["copy_bytes"] > 0) != maps_files, report["store"]
