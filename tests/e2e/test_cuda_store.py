"""How features that no cache has get to GPUs: in the files, in one pinned copy, or staged.

The GPUs are emulated (tests/simt). Without SLUICE_SIMT_READ_ONLY their driver pins no memory that
may only be read, as many do, so the files of a data set cannot be read in place.
"""

import os
import re

import numpy as np

from harness import cases, fingerprint, whole
from test_cuda import CPU, PLUGIN, SANITIZED, gpu, gpu_job, run, trainer_log, weighted_dataset

NOT_UNDER = {"address": SANITIZED}

NODES, WIDTH = 400, 1500  # more than a huge page of features
BYTES = NODES * WIDTH * 4
PAGE = 4096
PINNED = (BYTES + PAGE - 1) // PAGE * PAGE
COPY = PINNED + PAGE  # what says whether it is whole stands behind it
TWO = {"samplers": 1, "trainers": 2, "switching": False}
FILES = {"SLUICE_SIMT_READ_ONLY": "1"}


def wide_job(box, trainers=1, **changes):
    dataset = box.shared_dataset("gpu-store", n=NODES, feat_dim=WIDTH)
    job = {"dataset": dataset, "epochs": 1, "cache": {"policy": "none"}, **changes}
    job.update({"sampler.fanout": [2, 2], "evaluate.fanout": [2, 2]})
    if trainers == 2:
        job["allocation"] = TWO
    return gpu_job(box, [CPU, gpu(0), gpu(1)][: 1 + trainers], **job)


def train(box, job, **env):
    result, report = run(box, job, SLUICE_SIMT_DEVICES="2", **env)
    result.ok()
    batches = report["batches"]
    assert batches["trained"] == batches["scheduled"], batches
    return result, report


def in_place(box):
    """What the job comes to where the driver pins the files."""

    def compute():
        job = wide_job(box, output="runs/in-place")
        _, report = train(box, job, **FILES)
        assert report["store"]["copy_bytes"] == 0, report["store"]
        return fingerprint(report)

    return box.shared_value("gpu-store-in-place", compute)


def assert_way(store, way, why):
    """That way; or, where a GPU could read in place, staging was measured to be faster."""
    faster = store["gpu_way"] == "staged" and "measured to be faster" in store["gpu_reason"]
    assert (store["gpu_way"] == way and why in store["gpu_reason"]) or (
        faster and way != "staged"
    ), store


@cases(
    ("copy", {}, {}, "copy", "does not pin the files"),
    ("drive", {}, {"store": {"features": "storage"}}, "staged", "read from the drive"),
)
def test_whatever_the_way_parameters_are_the_same(box, name, env, changes, way, why):
    pinned = box.path("pinned")
    job = wide_job(box, **changes)
    result, report = train(box, job, SLUICE_SIMT_REGISTERED=pinned, **env)
    assert fingerprint(report) == in_place(box), (fingerprint(report), in_place(box))
    store = report["store"]
    assert_way(store, way, why)
    assert store["copy_bytes"] == (COPY if name == "copy" else 0), store
    assert store["gpu_reason"] in result.out, result
    lines = open(pinned).read().splitlines() if os.path.exists(pinned) else []
    large = [line for line in lines if int(line.split()[2]) == PINNED]
    assert len(large) == (name == "copy"), lines


def copies(box, role):
    """{(inode, its bytes, held)} of the files that these workers share beside the arena."""
    found = set()
    for pid in box.processes(role):
        with open(f"/proc/{pid}/maps") as file:
            inodes = re.findall(r" (\d+) +/memfd:sluice-shared", file.read())
        folder = f"/proc/{pid}/fd"
        for fd in os.listdir(folder):
            about = os.stat(f"{folder}/{fd}")
            if str(about.st_ino) in inodes and "sluice-shared" in os.readlink(f"{folder}/{fd}"):
                found.add((about.st_ino, about.st_size, about.st_blocks * 512))
    return found


def test_two_trainers_have_one_copy(box):
    pinned = box.path("pinned")
    job = wide_job(box, 2, epochs=500, throttle={"train": 0.02}, digest=False)
    env = {
        "SLUICE_CUDA_PLUGIN": PLUGIN,
        "CUDA_VISIBLE_DEVICES": "0,1",
        "SLUICE_SIMT_DEVICES": "2",
        "SLUICE_SIMT_REGISTERED": pinned,
    }
    running = box.start("run", box.job(job), env=env)

    def both_have_it():
        lines = open(pinned).read().splitlines() if os.path.exists(pinned) else []
        return len({line.split()[0] for line in lines if int(line.split()[2]) == PINNED}) == 2

    running.until(both_have_it, "two trainers that have pinned the copy")
    ((_, size, held),) = copies(box, "trainer")
    assert size == held == COPY, (size, held, COPY)
    running.until(lambda: os.path.exists(box.path("runs/job/log")), "run that has begun")
    running.stop()
    said = trainer_log(box, 0) + trainer_log(box, 1)
    assert said.count("made here") == said.count("found made") == 1, said


def test_the_copier_is_killed_half_way(box):
    """Its replacement makes the copy, or the other trainer; nothing is left (the box looks)."""
    job = wide_job(box, 2)
    _, report = train(box, job, SLUICE_FAILPOINT="shared_copy")
    assert fingerprint(report) == in_place(box), (fingerprint(report), in_place(box))
    (death,) = report["restarts"]
    assert death["worker"].startswith("trainer") and "SIGKILL" in death["cause"], death
    assert report["store"]["copy_bytes"] > BYTES, report["store"]


@whole
def test_a_bound_without_room_for_the_copy_stages(box):
    """With the least that a job may have it runs as ever; with enough more it has the copy."""
    result, _ = run(box, wide_job(box, memory="1MiB"), SLUICE_SIMT_DEVICES="2")
    assert result.rc == 2, result
    least = int(re.search(r"wanted more than (\d+) bytes", result.err).group(1))
    wanted = in_place(box)
    for more, way, why in (
        (1 << 20, "staged", "more than half of what memory leaves"),
        (1 << 30, "copy", "does not pin the files"),
    ):
        job = wide_job(box, memory=least + more, output=f"runs/{more}")
        _, report = train(box, job)
        assert fingerprint(report) == wanted, (fingerprint(report), wanted)
        assert_way(report["store"], way, why)
        assert (report["store"]["copy_bytes"] > 0) == (way == "copy"), report["store"]
        assert report["peak_held"] <= least + more, report


# ---- the graph ----------------------------------------------------------------------------------

SAMPLERS = {"samplers": 2, "trainers": 1, "switching": False}
KINDS = {"khop": {}, "weighted": {"sampler.kind": "weighted"}}


def large_graph(box):
    return weighted_dataset(box, "graph", n_train=600, n=4000, degree=120)


def graph_job(box, devices, **changes):
    job = {"epochs": 1, "evaluate.every": 0, "sampler.batch_size": 100, **changes}
    return gpu_job(box, devices, dataset=large_graph(box), **job)


def small_gpus(box, **changes):
    """Two samplers on GPUs whose memory the graph does not fit in, and a trainer on cores. A third
    of a MiB is for the graph: what is left is to do for batches."""
    devices = [gpu(0, memory="1MiB"), gpu(1, memory="1MiB"), CPU]
    changes["store.prefer"] = "features"
    return graph_job(box, devices, allocation=SAMPLERS, **changes)


def sampled_on_cores(box, name):
    def compute():
        result, report = box.run(graph_job(box, [CPU, CPU], output="runs/cores", **KINDS[name]))
        result.ok()
        return fingerprint(report)

    return box.shared_value(f"gpu-store-graph-{name}", compute)


def bytes_of_graph(box):
    offsets = np.load(os.path.join(large_graph(box), "indptr.npy"), mmap_mode="r")
    return int(offsets[-1]) * 4


@cases(("weighted", False), ("khop", True))
def test_a_graph_that_does_not_fit_is_copied_once(box, name, files):
    job = small_gpus(box, **KINDS[name])
    _, report = train(box, job, **(FILES if files else {}))
    assert fingerprint(report) == sampled_on_cores(box, name)
    store, edges = report["store"], bytes_of_graph(box)
    assert store["graph_way"] == ("file" if files else "copy"), store
    assert store["graph_copy_page_bytes"] in ((0,) if files else (4096, 2 << 20)), store
    # One copy of the neighbours and of what else there is of a vertex, whoever samples.
    least, most = (0, 0) if files else (edges, edges + 4001 * 12 + 6 * PAGE)
    assert least <= store["graph_copy_bytes"] <= most, (store, edges)
    said = "".join(sampler_log(box, n) for n in (0, 1))
    copied = said.count("one copy of the neighbours (indices.npy)")
    assert copied == (0 if files else 2) and said.count("made here") <= 3, said


def sampler_log(box, number):
    with open(box.path("runs", "job", "log", f"sampler-{number}.log")) as file:
        return file.read()
