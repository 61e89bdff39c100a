"""What cannot run: exit status 2, one message that names the culprit, nothing started or left.

What is wrong with a job file alone is in tests/unit/test_cli_job_check.c, a row each."""

import json
import os
import shutil

import numpy as np

from harness import CORES, Skip, cases, metadata_of, planted, read_json, small_job, write_dataset


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


def test_job_file_missing(box):
    refused(
        box,
        box.sluice("run", "nowhere.json"),
        "nowhere.json",
        ("no such", "not found", "not there"),
    )


def test_job_file_is_a_folder(box):
    os.mkdir(box.path("folder.json"))
    refused(box, box.sluice("run", "folder.json"), "folder.json")


@cases(
    ("empty", "", []),
    ("text", "epochs: 3\n", []),
    ("cut", '{"dataset": "x", ', []),
    ("two-values", '{"epochs": 1} {"epochs": 2}', []),
    ("array", "[1, 2]", ["object"]),
    ("zero-bytes", "\0\0\0\0", []),
)
def test_job_file_is_not_a_json_object(box, name, text, words):
    with open(box.path("bad.json"), "w") as file:
        file.write(text)
    refused(box, box.sluice("run", "bad.json"), "bad.json", *words)


def test_no_job_file_given(box):
    result = box.sluice("run")
    assert result.rc == 2 and result.err.startswith("sluice: "), str(result)


def test_unknown_command(box):
    refused(box, box.sluice("runn", "job.json"), "runn", "run")


def test_unknown_option(box):
    path = box.job(small_job(box.shared_dataset("small")))
    refused(box, box.sluice("run", path, "--qiet"), "--qiet")


def test_misspelt_key(box):
    config = small_job(box.shared_dataset("small"), epoch=3)
    refuse_job(box, config, "job.json", "epoch", "did you mean", "epochs")


def test_key_that_stands_twice(box):
    text = json.dumps(small_job(box.shared_dataset("small")))[:-1] + ', "epochs": 5}'
    with open(box.path("job.json"), "w") as file:
        file.write(text)
    refused(box, box.sluice("run", "job.json"), "epochs")


def test_bad_set(box):
    path = box.job(small_job(box.shared_dataset("small")))
    refused(box, box.sluice("run", path, "--set", "epochs=many"), "epochs")


def test_bad_failpoint(box):
    path = box.job(small_job(box.shared_dataset("small")))
    result = box.sluice("run", path, env={"SLUICE_FAILPOINT": "nowhere:1"})
    refused(box, result, "SLUICE_FAILPOINT", "nowhere")


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


def test_output_is_a_file(box):
    with open(box.path("occupied"), "w") as file:
        file.write("precious")
    config = small_job(box.shared_dataset("small"), output="occupied")
    refuse_job(box, config, "occupied", output=None)
    with open(box.path("occupied")) as file:
        assert file.read() == "precious"


def test_output_under_a_file(box):
    with open(box.path("occupied"), "w") as file:
        file.write("precious")
    refuse_job(
        box, small_job(box.shared_dataset("small"), output="occupied/run"), "occupied", output=None
    )


def test_folder_with_something_else_in_it_is_kept(box):
    os.makedirs(box.path("mine"))
    with open(box.path("mine/thesis.txt"), "w") as file:
        file.write("precious")
    refuse_job(box, small_job(box.shared_dataset("small"), output="mine"), "mine", output=None)
    assert os.listdir(box.path("mine")) == ["thesis.txt"]


def test_no_permission_to_write_the_output(box):
    config = small_job(box.shared_dataset("small"), output="locked/run")
    os.makedirs(box.path("locked"), mode=0o555)
    box.without_privileges()
    refuse_job(box, config, "locked", ("permission", "denied"), output="locked/run")


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


def labels_of(task, function):
    """A mutation: other labels, and the task in metadata that they are of."""

    def mutate(folder, arrays):
        metadata(task=task)(folder, arrays)
        change("node_label", function)(folder, arrays)

    return mutate


def swap_offsets(array):
    array[100], array[101] = array[101] + 3, array[100]
    return array


BAD_DATA = [
    ("no-metadata", remove("metadata.json"), ["metadata.json"]),
    ("no-indptr", remove("indptr.npy"), ["indptr.npy"]),
    ("no-indices", remove("indices.npy"), ["indices.npy"]),
    ("no-features", remove("node_feat.npy"), ["node_feat.npy"]),
    ("no-labels", remove("node_label.npy"), ["node_label.npy"]),
    ("no-training-set", remove("train_idx.npy"), ["train_idx.npy"]),
    ("metadata-not-json", rewrite_bytes("metadata.json", lambda b: b[:20]), ["metadata.json"]),
    ("metadata-empty", rewrite_bytes("metadata.json", lambda b: b""), ["metadata.json"]),
    ("metadata-no-nodes", metadata(num_nodes=None), ["metadata.json", "num_nodes"]),
    ("metadata-text-nodes", metadata(num_nodes="many"), ["metadata.json", "num_nodes"]),
    ("metadata-negative-nodes", metadata(num_nodes=-4), ["metadata.json", "num_nodes"]),
    ("metadata-other-nodes", metadata(num_nodes=999), ["999"]),
    ("metadata-other-edges", metadata(num_edges=12), ["12"]),
    ("metadata-other-dim", metadata(feat_dim=77), ["node_feat.npy", "77"]),
    ("metadata-fewer-classes", metadata(num_classes=2), ["node_label.npy", "2"]),
    ("metadata-zero-classes", metadata(num_classes=0), ["num_classes"]),
    ("metadata-unknown-task", metadata(task="astrology"), ["metadata.json", "task", "astrology"]),
    ("too-many-vertices", metadata(num_nodes=1 << 33), ["num_nodes"]),
    ("indptr-cut", rewrite_bytes("indptr.npy", lambda b: b[:-40]), ["indptr.npy"]),
    ("indices-cut", rewrite_bytes("indices.npy", lambda b: b[: len(b) // 2]), ["indices.npy"]),
    ("features-cut", rewrite_bytes("node_feat.npy", lambda b: b[:-1]), ["node_feat.npy"]),
    ("labels-empty-file", rewrite_bytes("node_label.npy", lambda b: b""), ["node_label.npy"]),
    ("header-cut", rewrite_bytes("indices.npy", lambda b: b[:40]), ["indices.npy"]),
    ("trailing-bytes", rewrite_bytes("indices.npy", lambda b: b + b"\0" * 64), ["indices.npy"]),
    ("magic", rewrite_bytes("indptr.npy", lambda b: b"\x93NUMPZ" + b[6:]), ["indptr.npy"]),
    (
        "header-nonsense",
        rewrite_bytes("indptr.npy", lambda b: b[:10] + b"{" * 118 + b[128:]),
        ["indptr.npy"],
    ),
    (
        "header-length",
        rewrite_bytes("indptr.npy", lambda b: b[:8] + b"\xff\xff" + b[10:]),
        ["indptr.npy"],
    ),
    (
        "indptr-floats",
        change("indptr", lambda a: a.astype(np.float64)),
        ["indptr.npy", "float64", "int64"],
    ),
    (
        "indices-floats",
        change("indices", lambda a: a.astype(np.float32)),
        ["indices.npy", "float32", "int64"],
    ),
    (
        "indices-int16",
        change("indices", lambda a: (a % 100).astype(np.int16)),
        ["indices.npy", "int16"],
    ),
    (
        "features-double",
        change("node_feat", lambda a: a.astype(np.float64)),
        ["node_feat.npy", "float64", "float32"],
    ),
    ("features-ints", change("node_feat", lambda a: a.astype(np.int32)), ["node_feat.npy"]),
    (
        "labels-floats",
        change("node_label", lambda a: a.astype(np.float32) + 0.5),
        ["node_label.npy", "whole number", "regression"],
    ),
    (
        "labels-matrix",
        change("node_label", lambda a: np.eye(4, dtype=np.int8)[a % 4]),
        ["node_label.npy", "multilabel"],
    ),
    (
        "labels-not-binary",
        labels_of("multilabel", lambda a: np.repeat(a[:, None], 4, axis=1)),
        ["node_label.npy", "vertex", "0 or 1"],
    ),
    (
        "labels-other-columns",
        labels_of("multilabel", lambda a: np.zeros((len(a), 7), np.int8)),
        ["node_label.npy", "7 labels", "num_classes = 4"],
    ),
    (
        "targets-infinite",
        labels_of("regression", lambda a: np.where(a[:, None] == 1, np.inf, [0.0, 1, 2, 3])),
        ["node_label.npy", "inf", "NaN"],
    ),
    ("big-endian", change("indices", lambda a: a.astype(">i4")), ["indices.npy"]),
    (
        "fortran-order",
        change("node_feat", np.asfortranarray),
        ["node_feat.npy", ("fortran", "order")],
    ),
    (
        "features-flat",
        change("node_feat", lambda a: a.reshape(-1)),
        ["node_feat.npy", "(6400,)"],
    ),
    (
        "indptr-matrix",
        change("indptr", lambda a: a.reshape(1, -1)),
        ["indptr.npy", ("shape", "dimension")],
    ),
    ("indptr-short", change("indptr", lambda a: a[:-1]), ["indptr.npy"]),
    ("indices-short", change("indices", lambda a: a[:-5]), ["indices.npy"]),
    ("features-short", change("node_feat", lambda a: a[:-1]), ["node_feat.npy"]),
    ("labels-short", change("node_label", lambda a: a[:-1]), ["node_label.npy"]),
    ("not-monotone", change("indptr", swap_offsets), ["indptr.npy"]),
    ("first-offset", put("indptr", 0, 1), ["indptr.npy", "0"]),
    ("negative-offset", put("indptr", 5, -1), ["indptr.npy"]),
    (
        "last-offset",
        change("indptr", lambda a: np.concatenate([a[:-1], a[-1:] + 1])),
        ["indptr.npy"],
    ),
    ("neighbour-too-large", put("indices", 500, 400), ["indices.npy", "400", "500"]),
    ("neighbour-negative", put("indices", 500, -1), ["indices.npy", "-1", "500"]),
    ("train-too-large", put("train_idx", 3, 400), ["train_idx.npy", "400"]),
    ("train-negative", put("train_idx", 0, -7), ["train_idx.npy", "-7"]),
    ("train-empty", change("train_idx", lambda a: a[:0]), ["train_idx.npy", "empty"]),
    ("train-floats", change("train_idx", lambda a: a.astype(np.float64)), ["train_idx.npy"]),
    ("val-too-large", put("val_idx", 2, 1 << 40), ["val_idx.npy"]),
    ("test-too-large", put("test_idx", 2, 400), ["test_idx.npy", "400"]),
    (
        "validated-on-what-was-trained-on",
        lambda folder, arrays: np.save(os.path.join(folder, "val_idx.npy"), arrays["train_idx"]),
        ["train_idx.npy and val_idx.npy share 200 vertices", '"splits": "overlap"'],
    ),
    ("label-too-large", put("node_label", 7, 9), ["node_label.npy", "9", "7"]),
    ("label-negative", put("node_label", 7, -2), ["node_label.npy", "-2", "7"]),
    ("nan", put("node_feat", (11, 3), np.nan), ["node_feat.npy", "nan", "11"]),
    ("infinite", put("node_feat", (11, 3), np.inf), ["node_feat.npy", "inf", "11"]),
    ("nan-last", put("node_feat", (-1, -1), np.nan), ["node_feat.npy", "nan"]),
]


@cases(*BAD_DATA)
def test_data(box, name, mutate, words):
    """One thing is wrong in an otherwise good data set of 400 vertices."""
    good = box.shared_dataset("bad-base", n=400)
    folder = box.path("data")
    shutil.copytree(good, folder)
    arrays = {
        n[:-4]: np.load(os.path.join(good, n)) for n in os.listdir(good) if n.endswith(".npy")
    }
    mutate(folder, arrays)
    refuse_job(box, small_job(folder), *words)


@cases("missing", "a-file", "empty-folder")
def test_dataset_is(box, what):
    path = box.path("data")
    if what == "a-file":
        with open(path, "w") as file:
            file.write("x")
    elif what == "empty-folder":
        os.mkdir(path)
    refuse_job(box, small_job(path), "data")


def test_validation_is_not_remembered_for_changed_files(box):
    """A data set that passed and is changed afterwards is validated again."""
    folder = write_dataset(box.path("data"), planted(n=400))
    box.run(small_job(folder, output="runs1"), name="good")[0].ok()
    path = os.path.join(folder, "node_feat.npy")
    feat = np.load(path)
    feat[5, 5] = np.nan
    np.save(path, feat)
    refuse_job(box, small_job(folder), "node_feat.npy", "nan")


def test_a_bad_data_set_stays_bad(box):
    """A failed validation is not remembered as a passed one."""
    arrays = planted(n=400)
    arrays["indices"][17] = 400
    folder = write_dataset(box.path("data"), arrays)
    for _ in range(2):
        refuse_job(box, small_job(folder), "indices.npy", "400")


def test_inspect_refuses_a_bad_data_set(box):
    arrays = planted(n=400)
    meta = metadata_of(arrays)
    arrays["node_label"][17] = 77
    result = box.sluice("inspect", write_dataset(box.path("data"), arrays, metadata=meta))
    refused(box, result, "node_label.npy", "77", "17")
