"""A job runs: exit status, report, run directory, options of `sluice run`, nothing left behind."""

import json
import math
import os
import re

from harness import read_json, small_job, text_of

NUMBER = (int, float)


def train_cells(dataset, batch_size):
    import numpy as np

    return math.ceil(len(np.load(os.path.join(dataset, "train_idx.npy"))) / batch_size)


def check_types(value, shape, path=""):
    """value has every key of shape, with that type; a callable is called with the value."""
    if isinstance(shape, dict):
        assert isinstance(value, dict), f"{path}: wanted an object, found {value!r}"
        for key, inner in shape.items():
            assert key in value, f"{path}.{key} is missing; there are {sorted(value)}"
            check_types(value[key], inner, f"{path}.{key}")
    elif isinstance(shape, list):
        assert isinstance(value, list), f"{path}: wanted an array, found {value!r}"
        for i, item in enumerate(value):
            check_types(item, shape[0], f"{path}[{i}]")
    else:
        assert isinstance(value, shape) and not (
            isinstance(value, bool) and shape is not bool
        ), f"{path}: wanted {shape}, found {value!r}"


STAGE = {"seconds": NUMBER, "count": int, "p50": NUMBER, "p99": NUMBER}
REPORT = {
    "schema": str,
    "job": str,
    "status": str,
    "config": dict,
    "devices": [dict],
    "allocations": [
        {
            "epoch": int,
            "samplers": int,
            "trainers": int,
            "t_sample": NUMBER,
            "t_train": NUMBER,
            "k": NUMBER,
            "reason": str,
        }
    ],
    "epochs": [
        {
            "epoch": int,
            "seconds": NUMBER,
            "loss": NUMBER,
            "batches": int,
            "sampled_edges": int,
            "input_nodes": int,
            "val_accuracy": NUMBER,
            "stages": {
                "sample": STAGE,
                "mark": dict,
                "copy": dict,
                "extract": STAGE,
                "train": STAGE,
                "wait": STAGE,
            },
            "cache": {"hits": int, "misses": int, "hit_rate": NUMBER},
            "switches": int,
            "bottleneck": str,
        }
    ],
    "batches": {"scheduled": int, "trained": int, "resampled": int, "retrained": int},
    "test_accuracy": NUMBER,
    "params_sha256": str,
    "samples_digest": str,
    "wall_seconds": NUMBER,
    "peak_memory": int,
    "isa": str,
}


def test_done_with_a_whole_report(box):
    dataset = box.shared_dataset("small")
    result, report = box.run(small_job(dataset))
    result.ok()
    check_types(report, REPORT, "report")
    assert report["schema"] == "sluice.report/1"
    assert report["status"] == "done"
    assert report["job"] == "test"
    cells = train_cells(dataset, 64)
    assert [e["epoch"] for e in report["epochs"]] == [0, 1, 2]
    for epoch in report["epochs"]:
        assert epoch["batches"] == cells
        assert epoch["sampled_edges"] > 0 and epoch["input_nodes"] > 0
        assert epoch["seconds"] > 0 and math.isfinite(epoch["loss"])
        for name in ("sample", "extract", "train"):
            stage = epoch["stages"][name]
            assert stage["count"] == cells, f"{name}: {stage}"
            assert 0 < stage["p50"] <= stage["p99"] <= stage["seconds"] + 1e-9, f"{name}: {stage}"
        assert epoch["bottleneck"], "the bottleneck has no name"
    assert report["batches"] == {
        **report["batches"],
        "scheduled": 3 * cells,
        "trained": 3 * cells,
        "resampled": 0,
        "retrained": 0,
    }
    assert len(report["params_sha256"]) == 64
    assert int(report["samples_digest"], 16) != 0
    assert 0 < sum(epoch["seconds"] for epoch in report["epochs"]) <= report["wall_seconds"]
    assert report["peak_memory"] > 1 << 20


def test_report_config_runs_again_to_the_same_parameters(box):
    """The resolved configuration of the report is a job file of its own."""
    result, report = box.run(small_job(box.shared_dataset("small")))
    result.ok()
    again = dict(report["config"], output="runs/again")
    result, second = box.run(again, name="again")
    result.ok()
    assert second["params_sha256"] == report["params_sha256"]
    assert second["samples_digest"] == report["samples_digest"]


def test_run_directory(box):
    result, report = box.run(small_job(box.shared_dataset("small"), output="runs/deep/one"))
    result.ok()
    run = box.path("runs/deep/one")
    there = set(os.listdir(run))
    wanted = {"config.json", "report.json", "metrics.jsonl", "log", "model.safetensors"}
    assert wanted <= there, f"missing: {wanted - there}; there are {there}"
    temporary = [n for n in there if n.endswith((".tmp", "~")) or n.startswith(".")]
    assert not temporary, f"temporary files are left in the run directory: {temporary}"
    assert read_json(os.path.join(run, "report.json")) == report
    assert read_json(os.path.join(run, "config.json")) == report["config"]
    with open(os.path.join(run, "metrics.jsonl")) as file:
        lines = [json.loads(line) for line in file]
    assert len(lines) >= 3, f"{len(lines)} lines of metrics for 3 epochs"
    assert os.listdir(os.path.join(run, "log")), "no log"
    assert "GPU" not in result.out, f"of a job on cores the summary speaks of GPUs:\n{result.out}"


def test_accuracy_well_above_the_features(box):
    """The planted graph: structure lifts the accuracy far above what features alone allow."""
    import numpy as np

    from harness import planted, write_dataset

    arrays = planted()
    whole = write_dataset(box.path("whole"), arrays)
    arrays["indptr"] = np.zeros(1501, np.int64)
    arrays["indices"] = np.zeros(0, np.int32)
    alone = write_dataset(box.path("alone"), arrays)
    result, report = box.run(small_job(whole, output="runs/whole", epochs=15), name="whole")
    result.ok()
    result, features = box.run(small_job(alone, output="runs/alone", epochs=15), name="alone")
    result.ok()
    assert report["test_accuracy"] > 0.85, report["test_accuracy"]
    assert report["test_accuracy"] > features["test_accuracy"] + 0.2, features["test_accuracy"]
    assert features["test_accuracy"] > 0.45, "the features say something too"
    assert report["epochs"][-1]["loss"] < 0.6 * report["epochs"][0]["loss"]


def test_quiet_prints_no_progress(box):
    loud, _ = box.run(small_job(box.shared_dataset("small"), output="runs/loud"), name="loud")
    quiet, _ = box.run(
        small_job(box.shared_dataset("small"), output="runs/quiet"), "--quiet", name="quiet"
    )
    quiet.ok()
    text = loud.ok().out + loud.err
    assert "\r" not in text and "\x1b" not in text, repr(text[:500])  # plain lines
    assert sum("epoch" in line for line in text.splitlines()) >= 3, f"a line an epoch\n{loud}"
    assert len(quiet.out + quiet.err) < len(loud.out + loud.err), str(quiet)


def test_set_overrides_the_job_file(box):
    result, report = box.run(
        small_job(box.shared_dataset("small")),
        "--set",
        "epochs=1",
        "--set",
        "sampler.fanout=[3,2]",
        "--set",
        "name=renamed",
        "--set",
        "output=runs/elsewhere",
    )
    result.ok()
    assert len(report["epochs"]) == 1
    assert report["config"]["sampler"]["fanout"] == [3, 2]
    assert report["job"] == "renamed"
    assert os.path.isdir(box.path("runs/elsewhere")) and not os.path.exists(box.path("runs/job"))


def test_dry_run_leaves_nothing(box):
    path = box.job(small_job(box.shared_dataset("small")))
    before = sorted(os.listdir(box.folder))
    said = box.sluice("run", path, "--dry-run").ok().out
    plan = box.sluice("run", path, "--dry-run", "-o", "json").ok().json()
    assert sorted(os.listdir(box.folder)) == before
    # A summary for people; the job itself for programs, resolved.
    for line in ("job ", "data set ", "model ", "epochs ", "split ", "memory ", "output "):
        assert re.search(f"(?m)^{line}", said), (line, said)
    assert "{" not in said, said
    result, report = box.run(plan["config"])
    result.ok()
    assert report["config"] == plan["config"]
    assert report["num_params"] == plan["num_params"]
    assert f"{plan['num_params']:,} parameters" in said, said


def test_batch_larger_than_the_training_set_is_allowed_and_said(box):
    result, report = box.run(
        small_job(box.shared_dataset("small"), **{"sampler.batch_size": 100000})
    )
    result.ok()
    assert all(e["batches"] == 1 for e in report["epochs"])
    assert "batch" in result.err and "100000" in result.err, str(result)


def test_bf16_learns_as_fp32_does(box):
    dataset = box.shared_dataset("small")
    result, plain = box.run(small_job(dataset, output="runs/fp32", **{"epochs": 10}), name="fp32")
    result.ok()
    result, half = box.run(
        small_job(dataset, output="runs/bf16", **{"precision": "bf16", "epochs": 10}), name="bf16"
    )
    result.ok()
    assert half["params_sha256"] != plain["params_sha256"], "bf16 changed nothing"
    assert abs(half["test_accuracy"] - plain["test_accuracy"]) < 0.05


def test_isolated_and_hub_vertices(box):
    """Rows without in-edges, one row with every vertex, a last batch of one seed."""
    import numpy as np

    from harness import planted, write_dataset

    arrays = planted(n=300)
    n = 300
    rows = [np.arange(n) if v == 0 else np.arange(v % 3) for v in range(n)]
    arrays["indptr"] = np.concatenate([[0], np.cumsum([len(r) for r in rows])]).astype(np.int64)
    arrays["indices"] = np.concatenate(rows).astype(np.int64)
    arrays["train_idx"] = np.array([0, 3, 6, 9, 12])
    for name in ("val_idx", "test_idx"):
        arrays[name] = np.setdiff1d(arrays[name], arrays["train_idx"])
    dataset = write_dataset(box.path("hub"), arrays)
    result, report = box.run(small_job(dataset, **{"sampler.batch_size": 4}))
    result.ok()
    assert all(e["batches"] == 2 for e in report["epochs"])


def test_a_second_start_validates_nothing(box):
    """Validation is remembered, of files that are older than a tick of the kernel's clock."""
    dataset = box.shared_dataset("small")
    config = small_job(dataset, **{"epochs": 1, "evaluate": {"every": 0, "fanout": "full"}})

    def validations(name):
        output = f"runs/{name}"
        done, _ = box.run(dict(config, output=output), env={"SLUICE_LOG": "debug"}, name=name)
        folder = box.path(output, "log")
        logs = [os.path.join(folder, name) for name in os.listdir(folder)]
        return "\n".join([done.ok().err, *map(text_of, logs)]).count(" bytes validated in ")

    assert validations("first") == 1, "by whom the data set is opened first"
    validations("second")
    assert validations("third") == 0
