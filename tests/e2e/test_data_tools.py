"""`sluice generate` and `inspect`: what they make is whole or not there.

What a graph is like that is generated or imported: tests/unit/test_cli_generate.c and
test_cli_import.c."""

import hashlib
import json
import os
import signal

import numpy as np

from harness import cases, go_on, planted, read_json, small_job, write_dataset


def digest_of(folder):
    """One hash of every file but metadata.json, which names the folder."""
    total = hashlib.sha256()
    for name in sorted(os.listdir(folder)):
        if name.endswith(".npy"):
            with open(os.path.join(folder, name), "rb") as file:
                total.update(name.encode() + file.read())
    return total.hexdigest()


def load(folder):
    return {
        name[:-4]: np.load(os.path.join(folder, name))
        for name in os.listdir(folder)
        if name.endswith(".npy")
    }


def check_dataset(folder):
    """What DESIGN calls a data set directory; returns (metadata, arrays)."""
    meta, arrays = read_json(os.path.join(folder, "metadata.json")), load(folder)
    n = meta["num_nodes"]
    indptr, indices = arrays["indptr"], arrays["indices"]
    assert indptr.shape == (n + 1,) and indptr[0] == 0 and indptr[-1] == len(indices)
    assert (np.diff(indptr) >= 0).all()
    assert meta["num_edges"] == len(indices)
    assert len(indices) == 0 or (indices.min() >= 0 and indices.max() < n)
    if meta.get("feat_dim"):
        assert arrays["node_feat"].shape == (n, meta["feat_dim"])
        assert np.isfinite(arrays["node_feat"]).all()
    if meta.get("num_classes"):
        label = arrays["node_label"].reshape(-1)
        assert label.shape == (n,) and label.min() >= -1 and label.max() < meta["num_classes"]
    return meta, arrays


def leftovers(box, *known):
    """Names in the box that no test made."""
    standard = {"tmp", "logs", "cache", *known}
    return [n for n in os.listdir(box.folder) if n not in standard and not n.endswith(".json")]


def test_generate_trains(box):
    box.sluice("generate", "planted", "--nodes", "3000", "--classes", "4", "--out", "made").ok()
    result, report = box.run(small_job("made", **{"epochs": 6}))
    result.ok()
    assert report["test_accuracy"] > 0.5


PLANTED = ["planted", "--feat-dim", "64", "--nodes", "4000", "--edges", "60000", "--out", "big"]


@cases(("SIGINT", 130), ("SIGKILL", -9))
def test_generate_killed_in_the_middle_leaves_nothing_under_the_name(box, name, status):
    for moment in (1, 6):
        env = {"SLUICE_FAILPOINT": f"command_staged:{moment}:stop"}
        running = box.start("generate", *PLANTED, env=env)
        pid = box.until_stopped(running)
        assert leftovers(box), "it stands still before it has begun"
        os.kill(pid, getattr(signal, name))
        go_on(pid)
        result = running.wait()
        assert result.rc == status, str(result)
        assert not os.path.exists(box.path("big")), os.listdir(box.path("big"))
        if name != "SIGKILL":
            assert not leftovers(box), leftovers(box)
    # Killed at the point, and what that left beside it does not disturb the next one.
    killed = box.sluice("generate", *PLANTED, env={"SLUICE_FAILPOINT": "command_staged:2"})
    assert killed.rc == -signal.SIGKILL, str(killed)
    box.sluice("generate", *PLANTED).ok()
    check_dataset(box.path("big"))
    assert not leftovers(box, "big"), leftovers(box)


def test_inspect_in_a_folder_that_can_not_be_written(box):
    dataset = write_dataset(box.path("data"), planted(n=300))
    os.chmod(dataset, 0o555)
    box.without_privileges()
    for _ in range(2):
        box.sluice("inspect", dataset).ok()


def test_help(box):
    for command in ("", "run", "generate", "generate planted", "import", "inspect", "doctor"):
        result = box.sluice(*command.split(), "--help").ok()
        assert not result.err and "sluice" in result.out, str(result)
        assert not command or "xample" in result.out, f"no example\n{result}"


def test_large_features_are_checked_in_a_sample(box):
    """1.2 GB of zeros, which take no room, and a NaN that only a look at all of them finds."""
    dataset = write_dataset(box.path("wide"), planted(n=300, feat_dim=4))
    features = os.path.join(dataset, "node_feat.npy")
    os.remove(features)
    wide = np.lib.format.open_memmap(features, mode="w+", dtype=np.float32, shape=(300, 1000000))
    metadata = read_json(os.path.join(dataset, "metadata.json"))
    with open(os.path.join(dataset, "metadata.json"), "w") as file:
        json.dump(dict(metadata, feat_dim=1000000), file)
    said = box.sluice("inspect", dataset).ok().out
    assert "of the features 256 MiB of 1.12 GiB, a sample: --full checks all" in said, said
    assert "a sample" not in box.sluice("inspect", dataset, "--full").ok().out
    wide.reshape(-1)[2 * (1 << 18)] = np.nan
    wide.flush()
    box.sluice("inspect", dataset).ok()
    refused = box.sluice("inspect", dataset, "--full")
    assert refused.rc == 2 and "node_feat.npy: row 0, column 524288 is NaN" in refused.err, refused
