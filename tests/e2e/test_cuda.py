"""Trainers on a GPU: the emulated one (tests/simt), which runs the plug-in's kernels on cores.

Samplers are on cores here: what is looked at is how mini-batches get to a GPU, what comes of them,
and what happens when the GPU or the system does not do what was asked.
"""

import os
import shutil
import re

import numpy as np

from harness import (
    BIN,
    CORES,
    Skip,
    accuracies,
    cases,
    fingerprint,
    planted,
    small_job,
    write_dataset,
)
from test_link_jobs import links

PLUGIN = os.path.join(os.path.dirname(BIN), "lib", "libsluice_cuda_simt.so")
CPU = {"kind": "cpu", "cores": str(CORES[0])}
EPOCHS = 2
# The emulation keeps its shadow of memory where a sanitizer keeps its own.
SANITIZED = "the emulation and the sanitizer both take over the stacks of threads"
NOT_UNDER = {"address": SANITIZED}


def gpu(index=0, **more):
    return {"kind": "cuda", "index": index, **more}


def gpu_job(box, devices, **changes):
    if not os.path.exists(PLUGIN):
        raise Skip(f"{PLUGIN} is not there: make tests builds it")
    dataset = box.shared_dataset("gpu", n=400)
    job = small_job(
        dataset,
        **{
            "epochs": EPOCHS,
            "model.hidden": 8,
            "sampler.fanout": [3, 3],
            "evaluate.fanout": [4, 4],
            # A standby trainer would be one on cores, whose sums are added in another order.
            "allocation": {"samplers": 1, "trainers": 1, "switching": False},
            **changes,
        },
    )
    job["devices"] = devices
    return job


def weighted_dataset(box, name, none=0.0, n_train=None, **graph):
    """A planted graph with random weights of edges, that share of them 0, for several tests."""

    def fill(path):
        arrays = planted(**graph)
        rng = np.random.default_rng(3)
        weight = rng.random(len(arrays["indices"])).astype(np.float32)
        weight[rng.random(len(weight)) < none] = 0
        arrays["edge_weight"], arrays["train_idx"] = weight, arrays["train_idx"][:n_train]
        write_dataset(path, arrays, name=name)

    return box.shared_folder(f"data-gpu-{name}", fill)


def run(box, job, fail="", seconds=100, **env):
    env = {"SLUICE_CUDA_PLUGIN": PLUGIN, "CUDA_VISIBLE_DEVICES": "0,1,2,3", **env}
    if fail:
        env["SLUICE_SIMT_FAIL"] = fail
    return box.run(job, env=env, seconds=seconds)


def trainer_log(box, number=0):
    with open(box.path("runs", "job", "log", f"trainer-{number}.log")) as file:
        return file.read()


def on_cores(box, name, **changes):
    """The report of the same job with all workers on cores."""

    def compute():
        job = gpu_job(box, [CPU, CPU], output="runs/cores", **changes)
        result, report = box.run(job, name="cores")
        result.ok()
        return report

    return box.shared_value(f"gpu-{name}", compute)


def undisturbed(box, name="plain", **changes):
    """What a run with one trainer on a GPU comes to."""

    def compute():
        job = gpu_job(box, [CPU, gpu()], output="runs/undisturbed", **changes)
        result, report = run(box, job)
        result.ok()
        return fingerprint(report)

    return box.shared_value(f"gpu-undisturbed-{name}", compute)


@cases(
    ("graphsage-cached", {"cache": {"policy": "degree", "ratio": 0.3}}),
    ("gat-full", {"model.kind": "gat", "model.heads": 2, "evaluate.fanout": "full"}),
    # Running statistics and clipped gradients are the update's, which the processor makes.
    ("gin", {"model.kind": "gin", "model.norm": "batch", "optimizer.clip_norm": 1.0}),
)
def test_a_gpu_trains_as_cores_do(box, name, changes):
    wanted = on_cores(box, name, **changes)
    result, report = run(box, gpu_job(box, [CPU, gpu()], precision="fp32", **changes))
    result.ok()
    batches = report["batches"]
    assert batches["trained"] == batches["scheduled"], batches
    assert report["samples_digest"] == wanted["samples_digest"]
    # The same sums in another order: a prediction on the border may fall to the other side.
    for found, expected in zip(accuracies(report), accuracies(wanted)):
        assert abs(found - expected) <= 0.02, (accuracies(report), accuracies(wanted))
    for found, expected in zip(report["epochs"], wanted["epochs"]):
        assert abs(found["loss"] - expected["loss"]) <= 1e-3 * expected["loss"], (found, expected)
    if "cache" in changes:
        # The last epoch's: the first batches of all may come before the cache is filled.
        hits = [r["epochs"][-1]["cache"]["hits"] for r in (report, wanted)]
        assert hits[0] == hits[1] > 0, hits


def test_bf16_learns_as_fp32_does(box):
    """With hidden rows that are bf16 from the first: in three layers they are read as such. What
    each operation makes of them: tests/kernels."""
    layers = {"model.layers": 3, "sampler.fanout": [3, 3, 3], "evaluate.fanout": [4, 4, 4]}
    found = {}
    for precision, cache in (("fp32", "none"), ("bf16", "none"), ("bf16", "degree")):
        job = gpu_job(
            box,
            [CPU, gpu()],
            output=f"runs/{precision}-{cache}",
            precision=precision,
            cache={"policy": cache, **({"ratio": 0.3} if cache == "degree" else {})},
            **{"epochs": 5, **layers},
        )
        result, report = run(box, job)
        result.ok()
        found[precision, cache] = report
    plain, half, cached = found.values()
    assert half["params_sha256"] != plain["params_sha256"], "bf16 changed nothing"
    assert fingerprint(half) == fingerprint(cached), (fingerprint(half), fingerprint(cached))
    assert abs(half["test_accuracy"] - plain["test_accuracy"]) < 0.05, (half, plain)
    losses = [r["epochs"][-1]["loss"] for r in (half, plain)]
    assert abs(losses[0] - losses[1]) <= 0.02 * losses[1], losses


def test_what_a_gpu_does_by_itself(box):
    """A cache of all rows from the first batch on, which changes no bit, and tf32, which does."""
    found = {}
    for name, changes in {
        "auto": {},
        "bare": {"cache": {"policy": "none"}, "precision": "tf32"},
        "exact": {"precision": "fp32"},
    }.items():
        job = gpu_job(box, [CPU, gpu()], output=f"runs/{name}", **wide(box), **changes)
        result, report = run(box, job, fail="noregister")
        result.ok()
        found[name] = report
        said = result.out
        assert ("chosen since a GPU" in said) == (name != "bare"), result
        used = {"auto": "tf32 (of auto)", "bare": "tf32", "exact": "fp32"}[name]
        assert f"precision   {used}\n" in said, result
    auto, bare, exact = (found[name] for name in ("auto", "bare", "exact"))
    assert fingerprint(auto) == fingerprint(bare), (fingerprint(auto), fingerprint(bare))
    assert auto["params_sha256"] != exact["params_sha256"]
    assert auto["precision"] == {"asked": "auto", "used": "tf32"}, auto["precision"]
    assert exact["precision"] == {"asked": "fp32", "used": "fp32"}, exact["precision"]
    assert auto["cache"]["policy"] == "expected" and "GPU" in auto["cache"]["why"], auto["cache"]
    # The first batches of all may come before the cache is filled.
    assert of_epochs(auto, "misses")[-1] == 0 and auto["cache"]["hit_rate"] > 0, auto["epochs"]
    assert bare["cache"] == {"policy": "none"}, bare["cache"]
    # Random walks are not foreseen; cores have the rows already.
    cores = on_cores(box, "graphsage")
    assert cores["cache"]["policy"] == "none" and "cores" in cores["cache"]["why"], cores["cache"]
    assert cores["precision"] == {"asked": "auto", "used": "fp32"}, cores["precision"]
    job = gpu_job(box, [CPU, gpu()], output="runs/dry", **{"sampler.kind": "walk"})
    job["devices"][1]["memory"] = "100MiB"
    env = {"SLUICE_CUDA_PLUGIN": PLUGIN}
    plan = box.sluice("run", box.job(job), "--dry-run", "-o", "json", env=env).ok().json()
    assert plan["cache"]["policy"] == "degree" and "foreseen" in plan["cache"]["why"], plan
    assert plan["precision"] == {"asked": "auto", "used": "tf32"}, plan
    said = box.sluice("run", box.job(job), "--dry-run", env=env).ok().out
    assert "kept        degree, chosen automatically: a GPU" in said, said
    assert "precision   tf32, chosen automatically\n" in said, said


def test_two_gpus_train_what_one_does(box):
    changes = {"updates.batches_per_update": 4}
    wanted = undisturbed(box, "updates-4", **changes)
    split = {"samplers": 1, "trainers": 2, "switching": False}
    job = gpu_job(box, [CPU, gpu(0), gpu(1)], allocation=split, **changes)
    result, report = run(box, job, SLUICE_SIMT_DEVICES="2")
    result.ok()
    assert fingerprint(report) == wanted, (fingerprint(report), wanted)


def test_trainer_of_a_faulting_gpu_is_replaced(box):
    wanted = undisturbed(box)
    # Each process's GPU faults after so many waits: a few batches after it began to work. Whether
    # it has a lease on one just then is up to its two threads, so there is more than one try.
    for waits in (26, 24, 28, 25, 27):
        shutil.rmtree(box.path("runs/job"), ignore_errors=True)
        result, report = run(box, gpu_job(box, [CPU, gpu()]), fail=f"sync:{waits}")
        result.ok()
        assert fingerprint(report) == wanted, (fingerprint(report), wanted)
        assert len(report["restarts"]) >= 1, report["restarts"]
        assert "GPU 0" in trainer_log(box), trainer_log(box)
        if report["batches"]["retrained"] >= 1:
            break
    assert report["batches"]["retrained"] >= 1, report["batches"]


def test_gpu_that_faults_at_once_ends_the_job(box):
    result, _ = run(box, gpu_job(box, [CPU, gpu()]), fail="sync:3")
    assert result.rc in (1, 2), result
    assert any("GPU 0" in line for line in result.errors()), result


def test_memory_that_can_not_be_pinned_is_copied(box):
    wanted = undisturbed(box)
    result, report = run(box, gpu_job(box, [CPU, gpu()]), fail="noregister")
    result.ok()
    assert fingerprint(report) == wanted, (fingerprint(report), wanted)
    warnings = re.findall(r"the arena cannot be pinned", trainer_log(box))
    assert len(warnings) == 1, trainer_log(box)


def test_batch_that_does_not_fit_the_gpu(box):
    job = gpu_job(box, [CPU, gpu(memory="1MiB")], **{"model.hidden": 4096})
    result, _ = run(box, job)
    assert result.rc == 2, result
    said = " ".join(result.errors())
    assert "no room" in said and "devices[].memory" in said, result


def test_streams_that_run_late_change_nothing(box):
    # The emulation then runs what is queued only when somebody waits for it, blocks shuffled.
    wanted = undisturbed(box)
    job = gpu_job(box, [CPU, gpu()])
    result, report = run(box, job, SLUICE_SIMT_SEED="7")
    result.ok()
    assert fingerprint(report) == wanted, (fingerprint(report), wanted)


def test_one_gpu_samples_and_trains(box):
    job = gpu_job(box, [gpu()], allocation={})
    result, report = run(box, job)
    result.ok()
    wanted = undisturbed(box)
    assert fingerprint(report) == wanted, (fingerprint(report), wanted)


def test_features_from_the_drive_are_those_of_memory(box):
    """By the machine's cache and pinned memory to the GPU, which may cache some of them itself."""
    cache = {"policy": "presc", "presample_epochs": 1, "ratio": 0.3}
    found = {}
    for store in ("memory", "storage"):
        job = gpu_job(
            box, [CPU, gpu()], output=f"runs/{store}", cache=cache, store={"features": store}
        )
        result, report = run(box, job)
        result.ok()
        found[store] = fingerprint(report)
    assert found["memory"] == found["storage"], found
    assert sum(e["store"]["read"] for e in report["epochs"]) > 0, report["epochs"]


def wide(box):
    """Changes for features that are worth looking for in the batch before."""
    return {"dataset": box.shared_dataset("gpu-wide", n=400, feat_dim=48)}


def of_epochs(report, key):
    return [e["cache"][key] for e in report["epochs"]]


def test_rows_of_the_batch_before_stay_on_the_gpu(box):
    """One batch an epoch, of all neighbours: it has the vertices of the one before."""
    cache = {"policy": "degree", "ratio": 0.3}
    whole = {"sampler.fanout": [-1, -1], "sampler.batch_size": 400, "epochs": 3}
    whole["evaluate.fanout"] = "full"  # no mini-batches, so none between these
    job = gpu_job(box, [CPU, gpu()], cache=cache, **whole, **wide(box))
    result, report = run(box, job, fail="noregister")  # so that rows are staged
    result.ok()
    epochs, row = report["epochs"], 48 * 4
    misses, matched = of_epochs(report, "misses"), of_epochs(report, "matched")
    assert [e["batches"] for e in epochs] == [1, 1, 1], epochs
    assert matched == [0] + misses[1:] and misses[1] > 0, (matched, misses)
    assert of_epochs(report, "matched_bytes") == [n * row for n in matched], epochs
    wanted = [(a - b) * row for a, b in zip(misses, matched)]
    assert of_epochs(report, "miss_bytes") == wanted, epochs
    assert [e["bytes"]["features"] for e in epochs] == [e["input_nodes"] * row for e in epochs]


def test_links_on_a_gpu(box):
    """The same samples, and losses and scores that differ by the order of sums."""
    more = {"task": {"kind": "link", "decoder": "mlp"}, "evaluate.fanout": "full",
            "sampler.batch_size": 512, "precision": "fp32", "model.dropout": 0}
    found = []
    for name, device in (("cores", CPU), ("gpu", gpu())):
        job = gpu_job(box, [CPU, device], output=f"runs/{name}", **more)
        job["dataset"] = links(box)
        result, report = run(box, job)
        result.ok()
        found.append(report)
    cores, on_gpu = found
    assert on_gpu["samples_digest"] == cores["samples_digest"]
    for a, b in zip(on_gpu["epochs"], cores["epochs"]):
        assert abs(a["loss"] - b["loss"]) <= 1e-3 * b["loss"], (a, b)
        assert abs(a["val"]["roc_auc"] - b["val"]["roc_auc"]) <= 0.01, (a["val"], b["val"])
