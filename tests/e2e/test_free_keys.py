"""Keys that change no result, as the schema says of them: parameters, samples, losses and metrics
are those of a run that nobody touched.

A run is trained in parts. Each has other values of some keys and is killed in the middle, and the
next one goes on. So every key acts on training, and changes while a run goes on.
"""

import os

import numpy as np

from harness import CORES, fingerprint, not_under, small_job, whole
from test_cuda import CPU, PLUGIN, SANITIZED, gpu, gpu_job

TWO_AND_TWO = {"samplers": 2, "trainers": 2}
BOTH = ",".join(f"{core}-{core}" for core in sorted(set(CORES)))

# Every key but those of GPUs has another value than the untouched job in one part at least.
PARTS = [
    {
        "name": "other",
        "allocation": {"samplers": 3, "trainers": 1, "cores": "fixed", "switching": False},
        "throttle": {"sample": 0.001, "train": 0.002, "standby": 0.003},
        "arena": {"memory": "3MiB", "activations": "file"},
    },
    {
        "store": {"features": "storage", "cache": "1MiB", "window": 3},
        "devices": [{"kind": "cpu", "cores": BOTH, "memory": "64MiB"}] * 2,
        "allocation": {"samplers": 1, "trainers": 1},
        "checkpoint.every_updates": 1,
        "checkpoint.keep": 3,
        "stall_seconds": 60,
    },
    {
        "devices": "cpu",
        "allocation": {"cores": "pool"},
        "memory": "1GiB",
        "nodes": "auto",  # of several: test_nodes_run.py
        "evaluate.overlap": False,
        "evaluate.test": "each",
    },
    {
        "dataset": "linked",
        "cache": {"policy": "presc", "presample_epochs": 2, "ratio": 0.3, "report_optimal": True},
        "schedule": [{"epoch": e, "batch": 1, **TWO_AND_TWO} for e in range(2, 6)],
        "checkpoint.every_seconds": 1000,
        "resume": "auto",
        "output": "runs/elsewhere",
    },
]

# Of learned rows, beside features.
LEARNED = {"features": {"kind": "both", "dim": 4}}
LEARNED_PARTS = [
    {"features": {**LEARNED["features"], "place": "file"}},
    {**LEARNED, "store": {"features": "storage"}, "cache": {"policy": "degree", "ratio": 0.3}},
    {"features": {**LEARNED["features"], "place": "file"}, "allocation.trainers": 1},
]

# What only GPUs have.
GPU_PARTS = [
    {"store": {"placement": "one_copy", "feature_ratio": 0.5}, "cache": {"policy": "degree"}},
    {"store": {"placement": "alone", "graph_ratio": 0.5, "prefer": "graph"}},
    {"devices": [CPU, gpu(1), gpu(0)]},
]


def free_keys(schema, path=""):
    """The keys that hold a value and are free, by the schema."""
    for name, key in schema.get("properties", {}).items():
        if key.get("x-sluice-change") == "free":
            yield path + name
        for kind in (key, *key.get("anyOf", [])):
            yield from free_keys(kind, f"{path}{name}.")
            yield from free_keys(kind.get("items", {}), f"{path}{name}[].")


def values(job, path=""):
    """A job's values and their keys."""
    for name, value in job.items():
        yield path + name, value
        for entry in value if isinstance(value, list) else [value]:
            if isinstance(entry, dict):
                yield from values(entry, path + name + ("[]." if entry is not value else "."))


def in_parts(box, jobs, **env):
    """The report of a run that each of these jobs but the last is killed in the middle of."""
    done, output = "", jobs[0]["output"]

    def newest():
        folder = box.path(output, "checkpoints")
        names = os.listdir(folder) if os.path.isdir(folder) else []
        return max((name for name in names if name.isdigit()), default="")

    for job in jobs[:-1]:
        # Each trainer stands still there, with updates behind it.
        fail = {"SLUICE_FAILPOINT": "trainer_gradient:8:stop"}
        running = box.start("run", box.job(job), env={**env, **fail})
        running.until(lambda: box.stopped("trainer") and newest() > done, "a checkpoint")
        box.kill_everything()
        running.wait()
        box.until_gone()
        done = newest()
    if jobs[-1]["output"] != output:
        os.rename(box.path(output), box.path(jobs[-1]["output"]))
    result, report = box.run(jobs[-1], env=env)
    result.ok()
    return report


def check_parts(untouched, report, n_parts):
    updates = [resume["update"] for resume in report["resumes"]]
    assert len(set(updates)) == n_parts - 1 and updates == sorted(updates), updates
    assert updates[-1] < untouched["batches"]["trained"] // 2, updates  # all parts had work
    found, wanted = fingerprint(report), fingerprint(untouched)
    differ = [name for name in wanted if found[name] != wanted[name]]
    assert not differ, f"a key that is FREE in config/keys.c changed the result: {differ}"


def free_job(box, part):
    return small_job(
        box.shared_dataset("small"),
        **{
            "updates.batches_per_update": 2,
            "epochs": 6,
            "allocation": TWO_AND_TWO,
            "checkpoint.every_updates": 2,
            **part,
        },
    )


def test_every_free_key_has_a_value_here(box):
    before = set(map(str, values(free_job(box, {}))))
    tried = {
        key
        for part in PARTS + GPU_PARTS + LEARNED_PARTS
        for key, value in values(free_job(box, part))
        if str((key, value)) not in before
    }
    free = set(free_keys(box.sluice("schema").ok().json()))
    missing = sorted(free - tried)
    assert not missing, f"FREE in config/keys.c, but no part of this test changes {missing}"


def test_the_result_is_that_of_a_run_that_nobody_touched(box):
    os.symlink(box.shared_dataset("small"), box.path("linked"))
    untouched = box.run(free_job(box, {"output": "runs/untouched"}), name="untouched")[1]
    report = in_parts(box, [free_job(box, part) for part in PARTS])
    check_parts(untouched, report, len(PARTS))


@whole
def test_the_result_of_learned_rows_is_too(box):
    untouched = box.run(free_job(box, {**LEARNED, "output": "runs/untouched"}), name="untouched")[1]
    report = in_parts(box, [free_job(box, part) for part in LEARNED_PARTS])
    check_parts(untouched, report, len(LEARNED_PARTS))
    for name in ("embedding.npy", "embedding.best.npy"):
        wanted, found = (np.load(box.path("runs", run, name)) for run in ("untouched", "job"))
        assert np.array_equal(wanted, found), name


@not_under("address", SANITIZED)
def test_the_result_on_gpus_is_too(box):
    def job(part):
        changes = {
            "sampler.batch_size": 16,
            "updates.batches_per_update": 2,
            "epochs": 6,
            "allocation": {"samplers": 1, "trainers": 2, "switching": False},
            "checkpoint.every_updates": 2,
            **part,
        }
        return gpu_job(box, changes.pop("devices", [CPU, gpu(0), gpu(1)]), **changes)

    env = {
        "SLUICE_CUDA_PLUGIN": PLUGIN,
        "SLUICE_SIMT_DEVICES": "2",
        "CUDA_VISIBLE_DEVICES": "0,1",
    }
    untouched = box.run(job({"output": "runs/untouched"}), env=env, name="untouched")[1]
    report = in_parts(box, [job(part) for part in GPU_PARTS], **env)
    check_parts(untouched, report, len(GPU_PARTS))
