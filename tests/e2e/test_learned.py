"""Learned rows of vertices: features.kind."""

import errno
import hashlib
import os

import numpy as np

from harness import (
    cases,
    fingerprint,
    metadata_of,
    planted,
    read_json,
    small_job,
    whole,
    write_dataset,
)
from test_free_keys import in_parts

FILES = ("embedding.npy", "embedding.best.npy")
DIM = 8


def learned_job(box, kind="learned", **changes):
    """On a graph that has features with `both` alone."""
    path = box.path("data", kind)
    if not os.path.exists(path):
        arrays = planted(feat_dim=16, homophily=0.9)
        metadata = metadata_of(arrays)
        if kind != "both":
            del arrays["node_feat"]
            metadata["feat_dim"] = 0
        write_dataset(path, arrays, metadata=metadata)
    return small_job(
        path,
        **{
            "features": {"kind": kind, "dim": DIM},
            "updates.batches_per_update": 2,
            "checkpoint": {"every_updates": 2},
            **changes,
        },
    )


def result_in(box, output):
    report = read_json(box.path(output, "report.json"))
    return fingerprint(report), [np.load(box.path(output, name)) for name in FILES], report


def result_of(box, config, **env):
    box.run(config, env=env, name=os.path.basename(config["output"]))[0].ok()
    return result_in(box, config["output"])


def assert_same(found, wanted):
    assert found[0] == wanted[0], (found[0], wanted[0])
    for a, b in zip(found[1], wanted[1]):
        assert a.dtype == np.float32 and np.array_equal(a, b)


def test_labels_are_learned_of_a_graph_without_features(box):
    """Four communities, of which only edges tell; predictions are the test's."""
    config = learned_job(box, epochs=12, **{"checkpoint.every_updates": 0})
    _, rows, report = result_of(box, config)
    assert report["test_accuracy"] > 0.8, report["test_accuracy"]
    assert rows[0].shape == (1500, DIM) and not np.array_equal(rows[0], rows[1])
    assert report["embedding_sha256"] == hashlib.sha256(rows[0].tobytes()).hexdigest()
    out = box.path("classes.npy")
    said = box.sluice(
        "predict", config["output"], "--classes", "--set", "test", "--out", out, "-o", "json"
    )
    assert said.ok().json()["test"]["accuracy"] == report["test_accuracy"], said
    os.remove(box.path(config["output"], FILES[1]))
    box.sluice("predict", config["output"], "--out", box.path("none.npy")).error(
        2, "learned rows", "embedding.best.npy"
    )


SPLITS = [(1, 1), (1, 3), (2, 2), (3, 1)]
WAYS = [
    {},
    {"kind": "both", "model.input_dropout": 0.2, "optimizer.clip_norm": 0.5},
    {"optimizer": {"kind": "sgd", "lr": 0.1, "momentum": 0.9}, "features.place": "file"},
    {"optimizer.kind": "adamw", "sampler.kind": "labor", "evaluate.fanout": [5, 5]},
    {"features.dim": 512, "sampler.expand": "new", "updates.batches_per_update": 3},
    {"kind": "both", "model.kind": "gat", "model.heads": 4, "model.jumping": "cat"},
]


@cases(*range(len(WAYS)))
def test_every_split_gives_the_same_bits(box, way):
    """And so does a run that is killed in the middle and goes on."""
    wanted = None
    for samplers, trainers in SPLITS if way else SPLITS[:3]:
        split = {"samplers": samplers, "trainers": trainers, "switching": False}
        config = learned_job(
            box, output=f"runs/{samplers}{trainers}", allocation=split, **WAYS[way]
        )
        found = result_of(box, config)
        wanted = wanted or found
        assert_same(found, wanted)
    config = learned_job(box, output="runs/on", **WAYS[way])
    in_parts(box, [config, config])
    found = result_in(box, "runs/on")
    assert len(found[2]["resumes"]) == 1, found[2]["resumes"]
    assert_same(found, wanted)


def test_learned_rows_are_of_one_graph(box):
    """Predictions of another one are refused; of the same one with other labels they are not."""
    config = learned_job(box, epochs=1)
    box.run(config)[0].ok()
    for seed, path in ((2, box.path("another")), (1, box.path("relabelled"))):
        arrays = planted(feat_dim=16, homophily=0.9, seed=seed)
        metadata = {**metadata_of(arrays), "feat_dim": 0}
        del arrays["node_feat"]
        arrays["node_label"] = np.zeros_like(arrays["node_label"])
        arrays["indices"] = arrays["indices"].astype(np.int64)
        write_dataset(path, arrays, metadata=metadata)
    where = ("predict", config["output"], "--out", box.path("out.npy"), "--dataset")
    box.sluice(*where, box.path("another")).error(2, "has another graph", "topology digest")
    box.sluice(*where, box.path("relabelled")).ok()


def held_at(running, pipe):
    """The pipe, once a thread stands still at a fail-point with `hold`; it goes on when that is
    closed."""

    def opened():
        try:
            return os.fdopen(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK), "wb")
        except OSError as error:  # nobody reads it yet
            assert error.errno == errno.ENXIO, error
            return None

    return running.until(opened, "the fail-point")


@cases("broker_rows_fill", "broker_rows_copy", "broker_rows_best", "broker_rows_save")
def test_the_broker_answers_while_all_rows_are_worked_on(box, point):
    """And a stop in the middle leaves what a job goes on from."""
    config = learned_job(box, epochs=3)
    wanted = result_of(box, {**config, "output": "runs/peace"})
    pipe = box.path("pipe")
    os.mkfifo(pipe)
    env = {"SLUICE_FAILPOINT": f"{point}:hold", "SLUICE_FAILPOINT_HOLD": pipe}
    running = box.start("run", box.job(config), env=env)

    def state():
        return box.sluice("stats", config["name"], "-o", "json").ok().json()["state"]

    states = {"broker_rows_fill": "starting", "broker_rows_save": "finishing"}
    with held_at(running, pipe):
        assert state() == states.get(point, "running")
        if point != "broker_rows_save":
            stopping = box.start("stop", config["name"])
        if point not in states:
            running.until(lambda: state() == "finishing", "the stop")
        if point == "broker_rows_fill":  # of which nothing is left, nor waited for
            stopping.wait().ok()
    if point == "broker_rows_save":
        running.wait().ok()
    else:
        stopping.wait().ok()
        assert running.wait().rc == 130
        box.run(config)[0].ok()
    assert_same(result_in(box, config["output"]), wanted)


@whole
@cases("learned", "both")
def test_one_after_the_other_dies_over_one_update(box, kind):
    """Each of three appliers of the same update at another point; and one in a later chunk."""
    config = learned_job(box, kind, **{"features.dim": 512})
    wanted = result_of(box, {**config, "output": "runs/peace"})
    points = (
        "trainer_rows_made:1,trainer_rows_marked:1,trainer_rows_copy:2,trainer_rows_copied:9,"
        "trainer_rows_done:2"
    )
    found = result_of(box, config, SLUICE_FAILPOINT=points)
    assert_same(found, wanted)
    assert len(found[2]["restarts"]) == 5, found[2]["restarts"]


def test_a_checkpoint_of_other_rows_is_refused(box):
    """Rows that were damaged on the disk, and a job of another width."""
    config = learned_job(box, epochs=2)
    box.run(config)[0].ok()
    config["epochs"] = 3
    wider = {**config, "features": {"kind": "learned", "dim": DIM + 1}}
    box.run(wider)[0].error(2, "features.dim: found")
    folder = box.path(config["output"], "checkpoints")
    newest = max(name for name in os.listdir(folder) if name.isdigit())
    path = os.path.join(folder, newest, "embedding.exp_avg.npy")
    with open(path, "r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"\0\0\0\1")
    box.run(config)[0].error(2, "embedding.exp_avg.npy", "it was damaged")


@cases(
    ({"updates": {"mode": "async"}}, "updates.mode"),
    ({"nodes": 2}, "nodes: found 2"),
    ({"store": {"features": "storage"}}, "store.features: found"),
    ({"cache": {"policy": "degree", "ratio": 0.1}}, "cache.policy: found"),
    ({"devices": [{"kind": "cuda", "index": 0}] * 2}, r"devices\[0\] a GPU"),
    ({"features": {"kind": "both", "dim": 4}}, "has no node_feat.npy"),
    ({"features": {"kind": "file", "dim": 4}}, "features.dim: found"),
    ({"features": {"kind": "learned", "dim": 65536}, "arena.memory": "1MiB"}, None),
)
def test_what_learned_rows_cannot_be_beside(box, change, says=""):
    config = learned_job(box, **change)
    if says is None:  # memory a vertex is told before anything is made
        plan = box.sluice("run", box.job(config), "--dry-run", "-o", "json").ok().json()
        assert plan["learned_bytes"] == 4 * 65536 * 4 * 1500, plan["learned_bytes"]
        text = box.sluice("run", box.job(config), "--dry-run").ok().out
        assert "learned     65,536 numbers a vertex" in text or "65536 numbers" in text, text
        return
    box.sluice("run", box.job(config), "--dry-run").error(2, says)
