"""When the test set is evaluated, and where activations lie meanwhile. Training is the same."""

import os

from harness import cases, small_job, text_of


def ran(box, dataset, test, **changes):
    """The command's output and the report of a job with that evaluate.test."""
    output = f"runs/{box.next_number()}"
    config = small_job(dataset, output=output, **{"evaluate.test": test, **changes})
    result, report = box.run(config)
    result.ok()
    return result, report


def without(evaluation):
    """An epoch's or a report's results but for its test."""
    return {key: evaluation[key] for key in ("loss", "val", "val_accuracy", "train_accuracy")}


@cases("full", "sampled")
def test_the_test_changes_nothing_else(box, fanout):
    dataset = box.shared_dataset("small")
    changes = {} if fanout == "full" else {"evaluate.fanout": [5, 5], "evaluate.batch_size": 50}
    runs = {test: ran(box, dataset, test, **changes) for test in ("final", "each", "never")}
    final = runs["final"][1]
    for test, (result, report) in runs.items():
        for key in ("params_sha256", "samples_digest", "best_epoch", "best_metric"):
            assert report[key] == final[key], (test, key)
        assert [without(e) for e in report["epochs"]] == [without(e) for e in final["epochs"]], test
        assert all((e["test"] is not None) == (test == "each") for e in report["epochs"]), test
        assert report["config"]["evaluate"]["test"] == test
        lines = [line for line in result.err.splitlines() if line.startswith("epoch ")]
        assert len(lines) == 3 and all((" test 0." in x) == (test == "each") for x in lines), lines
    assert runs["each"][1]["test"] == final["test"] and final["test"]["accuracy"] > 0
    result, report = runs["never"]
    assert report["test"] is None and report["test_accuracy"] is None
    assert report["test_seconds"] == 0
    assert "test        left out, as evaluate.test says" in result.out, result.out
    assert "test        accuracy" in runs["final"][0].out
    if fanout == "full":  # the best epoch's own test is the test of its parameters
        assert runs["each"][1]["epochs"][final["best_epoch"]]["test"] == final["test"]


MODELS = {
    "jumping": {"model.layers": 3, "sampler.fanout": [5, 5, 5], "model.jumping": "cat"},
    "one": {"model.layers": 1, "sampler.fanout": [5]},
}


@cases(*MODELS)
def test_activations_in_a_file_change_nothing(box, kind):
    dataset = box.shared_dataset("small")
    found = {}
    for place in ("auto", "memory", "file"):
        changes = {"arena.activations": place, "arena.memory": "8MiB", **MODELS[kind]}
        _, found[place] = ran(box, dataset, "final", **changes)
    arena, other = found["memory"]["arena"], found["file"]["arena"]
    assert found["auto"]["arena"] == arena and arena["file_bytes"] == 0
    assert (other["file_bytes"] == 0) == (kind == "one"), other
    assert 0 <= arena["bytes"] - other["bytes"] - other["file_bytes"] < 4096
    for key in ("params_sha256", "test", "best_metric"):
        assert found["file"][key] == found["memory"][key], key
    for key in ("val", "loss"):
        assert [e[key] for e in found["file"]["epochs"]] == [
            e[key] for e in found["memory"]["epochs"]
        ]


def test_the_file_has_no_name_and_ends_with_the_job(box):
    dataset = box.shared_dataset("small")
    os.makedirs(box.path("disk"))
    changes = {"epochs": 100000, "arena.activations": "file"}
    config = small_job(dataset, output="disk/runs/a", **changes)
    running = box.start("run", box.write_json("job.json", config))

    def mapped():
        for pid in box.processes("trainer"):
            for line in text_of(f"/proc/{pid}/maps").splitlines():
                if "(deleted)" in line and f" {box.path('disk')}/" in line and " rw-s " in line:
                    return True
        return False

    running.until(lambda: text_of(box.path("disk/runs/a/metrics.jsonl")), "an epoch")
    assert mapped(), "no trainer has the file"
    assert os.listdir(box.path("disk")) == ["runs"], os.listdir(box.path("disk"))
    running.stop()
    assert os.listdir(box.path("disk")) == ["runs"]


def test_a_disk_without_room_for_the_file_is_refused(box):
    dataset = box.shared_dataset("small")
    with box.small_disk("160k") as disk:
        changes = {"arena.activations": "file", "model.hidden": 256, "model.kind": "gin"}
        config = small_job(dataset, output="disk/a", **changes)
        result, _ = box.run(config)
        assert result.rc == 2, str(result)
        for words in ("activations", "disk/a", "No space left on device", "evaluate.fanout"):
            assert words in result.err, str(result)
        assert os.listdir(disk) == []
