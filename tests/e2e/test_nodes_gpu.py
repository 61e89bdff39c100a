"""One job on several nodes whose trainers are on GPUs, emulated (tests/simt): it comes to what it
comes to on one node with such a GPU. Each node has the whole data set, or a shard of it."""

import json
import os

from harness import cases, fingerprint, whole
from nodes import Ranks
from test_cuda import CPU, PLUGIN, SANITIZED, gpu, gpu_job
from test_nodes_run import MPIS, ended, log_of_node, report_of, start
from test_nodes_shards import shards_of

NOT_UNDER = {"address": SANITIZED}

GPUS = {"SLUICE_CUDA_PLUGIN": PLUGIN, "CUDA_VISIBLE_DEVICES": "0,1,2,3", "SLUICE_SIMT_DEVICES": "4"}
STAND_IN = os.path.join(os.path.dirname(PLUGIN), "standin", "libcublasLt.so.13")
TWO = {
    "devices": [CPU, gpu(0), gpu(1)],
    "allocation": {"samplers": 1, "trainers": 2, "switching": False},
}
PRESC = {"cache": {"policy": "presc", "presample_epochs": 1, "ratio": 0.2}}
GAT = {"model.kind": "gat", "model.heads": 2, **PRESC}
GIN = {"model.kind": "gin", "model.norm": "batch", "optimizer.clip_norm": 1.0}
BF16 = {"precision": "bf16", "cache": {"policy": "degree", "ratio": 0.3}}
SHARED = {**TWO, **PRESC, "store.placement": "solver"}
SAMPLED = {"devices": [gpu(0), gpu(1)]}
ALONE = {"devices": [gpu(0)], "allocation": {}}
DRIVE = {"store.features": "storage"}


def data(box, n):
    """The data set of these jobs, whole (n = 1) or in n shards."""
    path = box.shared_dataset("gpu-wide", n=400, feat_dim=48)
    return path if n == 1 else shards_of(box, path, "gpu", n)


def nodes_job(box, parts=1, **changes):
    wanted = {"nodes": "auto", "updates.batches_per_update": 4, **changes}
    devices = wanted.pop("devices", [CPU, gpu()])
    return gpu_job(box, devices, dataset=data(box, parts), **wanted)


def run_on(box, n, config, only=None, **env):
    nodes = Ranks(box, MPIS[0], n)
    return ended(nodes, start(box, nodes, config, only=only, more={**GPUS, **env}))


def alone(box, kind, **changes):
    """What the job comes to on one node."""

    def compute():
        result, report = box.run(nodes_job(box, output="runs/alone", **changes), env=GPUS)
        result.ok()
        return fingerprint(report)

    return box.shared_value(f"nodes-gpu-{kind}", compute)


def check_same(box, kind, n, parts, changes, **env):
    run_on(box, n, nodes_job(box, parts, **changes), **env).ok()
    report = report_of(box)
    assert fingerprint(report) == alone(box, kind, **changes)
    assert report["precision"]["used"] == changes.get("precision", "tf32"), report["precision"]
    if "cache" in changes:
        assert report["epochs"][-1]["cache"]["hits"] > 0, report["epochs"]
    if parts > 1:
        assert all(node["remote_rows"] > 0 for node in report["nodes"]), report["nodes"]
    return report


@cases(("gat", 2, 1, GAT), ("shared", 2, 2, SHARED))
def test_bits_are_those_of_one_node_with_a_gpu(box, kind, n, parts, changes):
    check_same(box, kind, n, parts, changes)


@whole
@cases(
    ("graphsage", 3, 1, {}),
    ("graphsage", 3, 3, {}),
    ("gat", 3, 3, GAT),
    ("gin", 2, 1, GIN),
    ("gin", 2, 2, GIN),
    ("bf16", 2, 2, BF16),
    ("sampled", 2, 1, SAMPLED),
    ("sampled", 2, 2, SAMPLED),
    ("one", 2, 1, ALONE),
    ("one", 2, 2, ALONE),
    ("shared", 2, 1, SHARED),
    ("drive", 2, 1, DRIVE),
    ("drive", 2, 2, DRIVE),
)
def test_bits_are_those_of_one_node_whatever_its_gpus_do(box, kind, n, parts, changes):
    check_same(box, kind, n, parts, changes)


def test_what_gpus_hold_is_not_asked_for_again(box):
    """The machine's memory has room for half of the 200 rows of the other node."""
    job = {
        "store.cache": 400 * 8 + 100 * (48 * 4 + 8),
        "store.window": 2,
        "sampler.batch_size": 16,
        "cache": {"policy": "degree", "ratio": 1},
        "epochs": 4,
    }
    rows = [e["store"] for e in check_same(box, "held", 2, 2, job)["epochs"]]
    assert rows[-1]["read"] == rows[-1]["beside"] == rows[-1]["remote_rows"] == 0, rows


@whole
@cases(
    *[
        (parts, env)
        for parts in (1, 2)
        for env in (
            {"SLUICE_SIMT_READ_ONLY": "1"},
            {"SLUICE_SIMT_FAIL": "noregister"},
            {"SLUICE_SIMT_SEED": "7"},  # queues run late
        )
    ]
)
def test_bits_are_those_of_one_node_whatever_its_driver_can(box, parts, env):
    check_same(box, "gat", 2, parts, GAT, **env)


# ---- what dies ----------------------------------------------------------------------------------


def check_death(box, parts, point):
    only = {1: f"export SLUICE_FAILPOINT={point}"}
    run_on(box, 2, nodes_job(box, parts, **GAT), only=only).ok()
    assert "was killed by SIGKILL" in log_of_node(box, 1)
    assert fingerprint(report_of(box)) == alone(box, "gat", **GAT)


def test_a_trainer_of_a_gpu_that_dies_on_one_node_changes_nothing(box):
    check_death(box, 2, "trainer_gradient:2")


@whole
@cases(
    (1, "trainer_extracted:2"),
    (2, "trainer_extracted:2"),
    (2, "trainer_fetched:2"),
    (2, "trainer_applied:1"),
    (2, "trainer_cache"),
)
def test_a_trainer_of_a_gpu_that_dies_anywhere_changes_nothing(box, parts, point):
    check_death(box, parts, point)


# ---- what is refused ----------------------------------------------------------------------------


def test_nodes_that_train_on_other_devices_are_refused(box):
    """Results would be those of neither kind. Then by the advice of the message."""
    cores = json.dumps([CPU, CPU])
    only = {1: f"set -- \"$@\" --set 'devices={cores}'"}
    result = run_on(box, 2, nodes_job(box), only=only)
    assert result.rc == 2, str(result)
    host = os.uname().nodename
    words = f"devices: host {host} (rank 1) trains on cores, wanted Emulated GPU (capability 9.0)"
    assert words in result.err and 'set devices to "cpu"' in result.err, str(result)
    box.assert_no_run()
    job = nodes_job(box)
    job["devices"] = "cpu"
    run_on(box, 2, job).ok()


def test_nodes_with_another_library_of_products_are_refused(box):
    only = {1: f"export SLUICE_SIMT_CUBLAS={STAND_IN}"}
    result = run_on(box, 2, nodes_job(box), only=only)
    assert result.rc == 2, str(result)
    assert "trains on Emulated GPU (capability 9.0), cuBLASLt " in result.err, str(result)
    assert "wanted Emulated GPU (capability 9.0), no cuBLASLt, as on" in result.err, str(result)
    box.assert_no_run()


def test_trainers_on_cores_and_on_gpus_are_refused(box):
    both = {"devices": [CPU, CPU, gpu()], "allocation": TWO["allocation"]}
    result = run_on(box, 2, nodes_job(box, **both))
    assert result.rc == 2, str(result)
    assert "the nodes train on cores and Emulated GPU" in result.err, str(result)
    box.assert_no_run()
    fewer = {"samplers": 2, "trainers": 1, "switching": False}
    run_on(box, 2, nodes_job(box, devices=both["devices"], allocation=fewer)).ok()


def test_sums_from_gpu_to_gpu_are_refused(box):
    updates = {"exchange": "nccl", "batches_per_update": 4}
    result = run_on(box, 2, nodes_job(box, **TWO, updates=updates))
    assert result.rc == 2, str(result)
    words = 'updates.exchange: found "nccl" with 2 nodes, wanted "board"'
    assert words in result.err, str(result)
    box.assert_no_run()
