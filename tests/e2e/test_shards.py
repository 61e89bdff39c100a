"""`sluice partition --out DIR2`: a data set for each node, whole or not at all."""

import os
import resource
import signal
import subprocess

import numpy as np

from harness import BIN, Skip, cases, planted, read_json, small_job, write_dataset
from test_bad_input import refused
from test_data_tools import leftovers, load

WORDS = ("partition", "data", "--parts", "3", "--method", "stream", "--batch", "50")


def spread(box, *options, out="shards", **arrays):
    if not os.path.exists(box.path("data")):
        write_dataset(box.path("data"), {**planted(n=2000), **arrays})
    return box.sluice(*WORDS, "--out", out, *options, "-o", "json").ok().json()


def check_shards(box, folder, said):
    whole = load(box.path("data"))
    places = load(box.path(folder, "0"))
    for i in range(3):
        shard, meta = load(box.path(folder, str(i))), read_json(
            box.path(folder, str(i), "metadata.json")
        )
        mine = np.flatnonzero(shard["node_part"] == i)
        assert (shard["node_feat"] == whole["node_feat"][mine]).all()
        assert shard["node_feat"].dtype == whole["node_feat"].dtype
        assert (shard["node_row"][mine] == np.arange(len(mine))).all()
        for name in shard:
            if name in whole and name != "node_feat":
                assert (shard[name] == whole[name]).all(), name
            assert name == "node_feat" or (shard[name] == places[name]).all(), name
        assert set(shard) == set(whole) | {"node_part", "node_row"}, shard.keys()
        assert meta["shard"]["rows"] == len(mine) and meta["shard"]["index"] == i, meta
        assert meta["shard"]["digest"] == said["shards"]["digest"], (meta, said)
        seen = box.sluice("inspect", f"{folder}/{i}", "-o", "json").ok().json()
        assert seen["shard"]["count"] == 3 and seen["shard"]["rows"] == len(mine), seen
    text = box.sluice("inspect", f"{folder}/2").ok().out
    assert "2 of 3 (the first is 0)" in text and said["shards"]["digest"] in text, text


@cases("float32", "float16")
def test_shards(box, dtype):
    x = np.random.default_rng(1).random((2000, 5)).astype(dtype)
    weights = np.ones(len(planted(n=2000)["indices"]), np.float32)
    said = spread(box, node_feat=x, edge_weight=weights, node_mine=np.arange(2000))
    assert said["shards"]["directory"] == "shards" and "file" not in said, said
    assert said["shards"]["copied"] == 0 and said["shards"]["linked"] > 0, said
    check_shards(box, "shards", said)
    assert not leftovers(box, "data", "shards") and "node_part.npy" not in os.listdir(
        box.path("data")
    )
    again = box.sluice(*WORDS, "--out", "again", "-o", "json").ok().json()
    assert again["shards"]["digest"] == said["shards"]["digest"]


def test_copies_for_another_drive(box):
    with box.small_disk("16m"):
        for out, topology in (("disk/a", "link"), ("disk/b", "copy")):
            said = spread(box, "--topology", topology, out=out)
            # Within the drive the files of places are links to those of the first shard.
            linked = 4 if topology == "link" else 0
            assert said["shards"]["linked"] == linked and said["shards"]["copied"] > 0, said
            assert ("why_copied" in said["shards"]) == (topology == "link"), said
            check_shards(box, out, said)
        text = box.sluice(*WORDS, "--out", "disk/c").ok().out
        assert "copied: Invalid cross-device link" in text, text


def test_a_drive_without_room_is_told_before_anything_is_written(box):
    with box.small_disk("256k"):
        write_dataset(box.path("data"), planted(n=2000, feat_dim=200))
        result = box.sluice(*WORDS, "--out", "disk/shards", "--quiet")
        assert result.rc == 1 and "found room for" in result.err, result
        assert "wanted 1.92 MiB, as each shard has a copy" in result.err, result
        assert os.listdir(box.path("disk")) == []


def test_a_file_that_may_not_grow(box):
    write_dataset(box.path("data"), planted(n=3000, feat_dim=64))
    os.makedirs(box.path("disk"))
    done = subprocess.run(
        [os.path.join(BIN, "sluice"), *WORDS, "--out", "disk/shards"],
        cwd=box.folder,
        env=box.environment(),
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000)),
    )
    assert done.returncode == 1 and "node_feat.npy: reserve" in done.stderr, done
    assert os.listdir(box.path("disk")) == [], os.listdir(box.path("disk"))


def test_killed_anywhere_nothing_has_its_name(box):
    """At each look at Ctrl-C; the next attempt removes what was left."""
    write_dataset(box.path("data"), planted(n=300))
    os.makedirs(box.path("disk"))
    killed = partial = 0
    while True:
        env = {"SLUICE_FAILPOINT": f"command_staged:{killed + 1}"}
        result = box.sluice(*WORDS, "--out", "disk/shards", "--quiet", env=env)
        if result.rc == 0:
            break
        assert result.rc == -signal.SIGKILL, result
        killed += 1
        left = os.listdir(box.path("disk"))
        assert len(left) <= 1 and all(name.startswith(".shards.partial-") for name in left), left
        partial += any(os.listdir(box.path("disk", name)) for name in left)
    assert killed > 20 and partial > 10, (killed, partial)
    assert os.listdir(box.path("disk")) == ["shards"]
    assert os.stat(box.path("data", "indptr.npy")).st_nlink == 4, "of killed ones nothing is left"


def test_interrupted(box):
    write_dataset(box.path("data"), planted(n=300))
    os.makedirs(box.path("disk"))
    running = box.start(
        *WORDS, "--out", "disk/shards", env={"SLUICE_FAILPOINT": "command_staged:30:stop"}
    )
    held = box.until_stopped(running)
    running.interrupt()
    os.kill(held, signal.SIGCONT)
    assert running.wait().rc == 130
    assert os.listdir(box.path("disk")) == []


def test_who_wants_a_whole_data_set_is_refused_a_shard(box):
    spread(box)
    words = ("is shard 1 of 3", "on other nodes", '"nodes": "auto"', box.path("data"))
    refused(box, box.sluice("run", box.job(small_job("shards/1"))), *words)
    refused(box, box.sluice("reorder", "shards/1", "--by", "degree", "--out", "x"), *words)
    refused(box, box.sluice("partition", "shards/1", "--parts", "2"), *words)
    refused(box, box.sluice("stripe", "shards/1", "--to", "."), *words)
    for command in (["inspect", "shards"], ["run", box.job(small_job("shards"))]):
        refused(box, box.sluice(*command), "holds 3 shards", '"nodes": "auto"', box.path("data"))


def test_a_run_whose_data_set_became_a_shard(box):
    """What a run is asked for afterwards reads features, too."""
    spread(box)
    box.sluice("run", box.job(small_job("data", epochs=1))).ok()
    os.rename(box.path("data"), box.path("aside"))
    os.rename(box.path("shards", "0"), box.path("data"))
    result = box.sluice("predict", "runs/job", "--out", "p.npy")
    refused(box, result, "is shard 0 of 3", output=None)


def test_names_that_cannot_be(box):
    write_dataset(box.path("data"), planted(n=300))
    os.makedirs(box.path("there"))
    with open(box.path("there", "mine"), "w") as file:
        file.write("mine")
    for out, words in (("there", ("there", "--force")), ("none/x", ("none",)), ("", ("--out",))):
        result = box.sluice(*WORDS, "--out", out)
        assert result.rc == 2, result
        refused(box, result, *words)
    result = box.sluice(*WORDS, "--out", "there", "--force")
    refused(box, result, "not a data set")
    assert os.listdir(box.path("there")) == ["mine"]


def test_somebody_elses_data_set(box):
    """Links to files of others are forbidden: they are copied."""
    with open("/proc/sys/fs/protected_hardlinks") as file:
        if os.geteuid() != 0 or file.read().strip() == "0":
            raise Skip("there is nobody whose files may not be linked")
    write_dataset(box.path("data"), planted(n=2000))
    box.without_privileges()
    said = box.sluice(*WORDS, "--out", "shards", "-o", "json").ok().json()["shards"]
    assert said["linked"] == 4 and said["why_copied"] == "Operation not permitted", said
