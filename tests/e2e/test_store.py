"""Features that are read from the drive: the same results as from memory, whatever happens."""

import glob
import json
import os
import signal

import numpy as np

from harness import (
    cases,
    cpu_devices,
    fingerprint,
    planted,
    small_job,
    text_of,
    timeout,
    write_dataset,
)

PRESC = {"policy": "presc", "presample_epochs": 1, "ratio": 0.2}


def half(box):
    """A data set of float16 features, whose rows lie across the drive's blocks."""
    arrays = planted(n=900, feat_dim=331)
    arrays["node_feat"] = arrays["node_feat"].astype(np.float16)
    return write_dataset(box.path("half"), arrays)


@timeout(120)
@cases(("small", "none"), ("small", "presc"), ("half", "none"), ("half", "presc"))
def test_results_are_those_of_memory(box, data, cache):
    dataset = half(box) if data == "half" else box.shared_dataset("small")
    found = {}
    for store in ("memory", "storage"):
        config = small_job(
            dataset,
            output=f"runs/{store}",
            **{
                "store": {"features": store},
                "cache": PRESC if cache == "presc" else {"policy": "none"},
                "allocation": {"samplers": 1, "trainers": 2},
                "updates.batches_per_update": 2,
            },
        )
        result, report = box.run(config, name=store)
        result.ok()
        arrays = os.path.join(dataset, "node_feat.npy")
        assert report["store"] == {
            "features": store,
            "feature_bytes": np.load(arrays, mmap_mode="r").nbytes,
        }
        found[store] = fingerprint(report)
    assert found["memory"] == found["storage"], found
    logs = glob.glob(box.path("runs/storage/log/trainer-*.log"))
    assert any("rows are read from the drive" in text_of(log) for log in logs), logs


@cases("trainer_claimed:9", "trainer_extracted:4", "trainer_cache:1")
def test_a_killed_trainer_changes_nothing(box, point):
    config = small_job(
        box.shared_dataset("small"), **{"store": {"features": "storage"}, "cache": PRESC}
    )
    result, report = box.run(dict(config, output="runs/calm"), name="calm")
    result.ok()
    killed, after = box.run(dict(config, output="runs/killed"), env={"SLUICE_FAILPOINT": point})
    killed.ok()
    assert len(after["restarts"]) == 1, after["restarts"]
    assert fingerprint(after) == fingerprint(report)


def test_a_dry_run_says_where_features_are(box):
    config = small_job(box.shared_dataset("small"))
    for asked, found in ((None, "memory"), ("auto", "memory"), ("storage", "storage")):
        if asked:
            config["store"] = {"features": asked}
        path = box.job(config)
        plan = json.loads(box.sluice("run", path, "--dry-run", "-o", "json").ok().out)
        assert plan["store"]["features"] == found, plan["store"]
        assert plan["config"]["store"] == {"features": asked or "auto"}
        text = box.sluice("run", path, "--dry-run").ok().out
        assert ("read from the drive" in text) == (found == "storage"), text


def test_a_wrong_word_is_refused(box):
    config = small_job(box.shared_dataset("small"), **{"store": {"features": "disk"}})
    result, _ = box.run(config)
    assert result.rc == 2, str(result)
    assert "store.features" in result.err and '"storage"' in result.err, str(result)


def test_features_that_are_cut_end_the_job(box):
    """A file that becomes shorter while it is read is told, with its name and where it ends."""
    arrays = planted(n=4000, feat_dim=64)
    dataset = write_dataset(box.path("data"), arrays)
    config = small_job(  # one trainer: another one might open the file when it is cut already
        dataset,
        devices=cpu_devices(2),
        allocation={"samplers": 1, "trainers": 1, "switching": False},
        store={"features": "storage"},
        epochs=500,
        **{"evaluate.fanout": [3, 3]},
    )
    running = box.start("run", box.job(config), env={"SLUICE_FAILPOINT": "trainer_claimed:30:stop"})
    trainer = box.until_stopped(running, "trainer")
    os.truncate(os.path.join(dataset, "node_feat.npy"), 4096)
    os.kill(trainer, signal.SIGCONT)
    result = running.wait()
    assert result.rc != 0, str(result)
    assert "node_feat.npy: ends at byte 4096, wanted" in result.err, str(result)
