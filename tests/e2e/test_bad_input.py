"""What cannot run: exit status 2, one message that names the culprit, nothing started or left.

What is wrong with a job file alone is in tests/unit/test_cli_job_check.c, a row each."""

import json
import os
import shutil

import numpy as np

from harness import CORES, Skip, metadata_of, planted, read_json, small_job, write_dataset


def refused(box, result, *words, output="runs"):
    """The contract of every refusal; `words` must all be in the message."""
    assert result.rc == 2, f"wanted exit status 2\n{result}"
    lines = [line for line in result.err.splitlines() if line.strip()]
    assert len(lines) == 1 and lines[0].startswith(
        "sluice: "
    ), f"wanted exactly one line on standard error that starts with 'sluice: '\n{result}"
    message = lines[0].lower()
    for word in words:
        alternatives = [word] if isinstance(word, str) else word
        assert any(
            str(a).lower() in message for a in alternatives
        ), f"the message does not say {word!r}\n{result}"
    if output:
        assert not os.path.lexists(box.path(output)), f"{output} was made\n{result}"
    # Nothing was started, so nothing needs time to go.
    box.assert_nothing_left()


def refuse_job(box, config, *words, arguments=(), output="runs"):
    path = box.job(config)
    report = box.path("refused.report.json")
    result = box.sluice("run", path, "--report", report, *arguments)
    refused(box, result, *words, output=output)
    assert not os.path.exists(report), "a job that cannot run wrote a report"


# ---- the job file -------------------------------------------------------------------------------


def test_job_and_command_line(box):
    """One of each kind; what else may be wrong is in unit tests."""
    good = small_job(box.shared_dataset("small"))
    path = box.job(good)
    twice = json.dumps(good)[:-1] + ', "epochs": 5}'
    for name, text in ("cut", '{"dataset": "x", '), ("array", "[1, 2]"), ("twice", twice):
        with open(box.path(f"{name}.json"), "w") as file:
            file.write(text)
    for command, env, words in (
        (["run", "nowhere.json"], {}, ["nowhere.json", ("no such", "not found", "not there")]),
        (["run", "cut.json"], {}, ["cut.json"]),
        (["run", "array.json"], {}, ["array.json", "object"]),
        (["run", "twice.json"], {}, ["epochs"]),
        (["runn", path], {}, ["runn", "run"]),
        (["run", path, "--qiet"], {}, ["--qiet"]),
        (["run", path, "--set", "epochs=many"], {}, ["epochs"]),
        (["run", path, "--set", "epoch=3"], {}, ["epoch", "did you mean", "epochs"]),
        (["run", path], {"SLUICE_FAILPOINT": "nowhere:1"}, ["SLUICE_FAILPOINT", "nowhere"]),
    ):
        refused(box, box.sluice(*command, env=env), *words)
    result = box.sluice("run")
    assert result.rc == 2 and result.err.startswith("sluice: "), str(result)


# ---- the machine --------------------------------------------------------------------------------


def test_core_that_this_process_may_not_use(box):
    if os.cpu_count() < 2 or len(set(CORES)) < 2:
        raise Skip("one core only")
    config = small_job(box.shared_dataset("small"))
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {CORES[0]})
    try:
        refuse_job(box, config, "cores", str(CORES[1]))
    finally:
        os.sched_setaffinity(0, before)


def test_too_little_memory_for_the_arena(box):
    """One block does not fit: the message says how much would do, and that much does."""
    import re

    config = small_job(
        box.shared_dataset("small"),
        **{"arena": {"memory": "64KiB"}, "sampler.batch_size": 700, "sampler.fanout": [-1, -1]},
    )
    path = box.job(config)
    result = box.sluice("run", path)
    refused(box, result, "arena", ("KiB", "MiB", "bytes"))
    sizes = re.findall(r"(\d+(?:\.\d+)?) ?(KiB|MiB|GiB|bytes)", result.err)
    unit = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
    largest = max(float(n) * unit[u] for n, u in sizes)
    assert largest > 64 << 10, f"no number that would fit\n{result}"
    config["arena"]["memory"] = int(largest)
    box.run(config)[0].ok()


def test_arena_larger_than_the_machine(box):
    config = small_job(box.shared_dataset("small"), **{"arena": {"memory": "100TiB"}})
    refuse_job(box, config, "arena")


# ---- the output ---------------------------------------------------------------------------------


def test_output_of_an_earlier_run(box):
    config = small_job(box.shared_dataset("small"))
    box.run(config)[0].ok()
    before = read_json(box.path("runs/job/report.json"))
    os.remove(box.path("job.report.json"))
    refuse_job(box, config, "runs/job", ("exist", "earlier"), output=None)
    assert read_json(box.path("runs/job/report.json")) == before


def test_no_permission_to_write_the_report(box):
    config = small_job(box.shared_dataset("small"))
    os.makedirs(box.path("locked"), mode=0o555)
    path = box.job(config)
    box.without_privileges()
    result = box.sluice("run", path, "--report", "locked/report.json")
    refused(box, result, "--report", "locked", ("permission", "denied"))


def test_no_permission_to_read_the_data(box):
    dataset = write_dataset(box.path("data"), planted(n=200))
    os.chmod(os.path.join(dataset, "node_feat.npy"), 0)
    path = box.job(small_job(dataset))
    box.without_privileges()
    refused(box, box.sluice("run", path), "node_feat.npy", ("permission", "denied"))


# ---- the data set -------------------------------------------------------------------------------


def change(name, function):
    """A mutation: replaces one array of the data set."""

    def mutate(folder, arrays):
        np.save(os.path.join(folder, f"{name}.npy"), function(arrays[name].copy()))

    return mutate


def put(name, where, value):
    def write(array):
        array[where] = value
        return array

    return change(name, write)


def remove(name):
    return lambda folder, arrays: os.remove(os.path.join(folder, name))


def rewrite_bytes(name, function):
    def mutate(folder, arrays):
        path = os.path.join(folder, name)
        with open(path, "rb") as file:
            blob = file.read()
        with open(path, "wb") as file:
            file.write(function(blob))

    return mutate


def metadata(**changes):
    def mutate(folder, arrays):
        value = metadata_of(arrays)
        for key, item in changes.items():
            if item is None:
                del value[key]
            else:
                value[key] = item
        with open(os.path.join(folder, "metadata.json"), "w") as file:
            json.dump(value, file)

    return mutate


BAD_DATA = [
    (remove("node_label.npy"), ["node_label.npy"]),
    (metadata(num_nodes="many"), ["metadata.json", "num_nodes"]),
    (metadata(feat_dim=77), ["node_feat.npy", "77"]),
    (rewrite_bytes("indices.npy", lambda b: b[: len(b) // 2]), ["indices.npy"]),
    (change("indices", lambda a: a.astype(np.float32)), ["indices.npy", "float32", "int64"]),
    (change("node_feat", np.asfortranarray), ["node_feat.npy", ("fortran", "order")]),
    (
        change("node_label", lambda a: a.astype(np.float32) + 0.5),
        ["node_label.npy", "whole number", "regression"],
    ),
    (put("indices", 500, 400), ["indices.npy", "400", "500"]),
    (change("train_idx", lambda a: a[:0]), ["train_idx.npy", "empty"]),
    (
        lambda folder, arrays: np.save(os.path.join(folder, "val_idx.npy"), arrays["train_idx"]),
        ["train_idx.npy and val_idx.npy share 200 vertices", '"splits": "overlap"'],
    ),
    (put("node_feat", (-1, -1), np.nan), ["node_feat.npy", "nan"]),
]


def test_data(box):
    """One thing is wrong in an otherwise good data set of 400 vertices, of each kind one; what else
    may be is in tests/unit/test_data_validate.c."""
    good = box.shared_dataset("bad-base", n=400)
    folder = box.path("data")
    arrays = {
        n[:-4]: np.load(os.path.join(good, n)) for n in os.listdir(good) if n.endswith(".npy")
    }
    for mutate, words in BAD_DATA:
        shutil.copytree(good, folder)
        mutate(folder, arrays)
        refuse_job(box, small_job(folder), *words)
        shutil.rmtree(folder)


def test_validation_is_not_remembered_for_changed_files(box):
    """A data set that passed and is changed afterwards is validated again."""
    folder = write_dataset(box.path("data"), planted(n=400))
    box.run(small_job(folder, output="runs1"), name="good")[0].ok()
    path = os.path.join(folder, "node_feat.npy")
    feat = np.load(path)
    feat[5, 5] = np.nan
    np.save(path, feat)
    refuse_job(box, small_job(folder), "node_feat.npy", "nan")
