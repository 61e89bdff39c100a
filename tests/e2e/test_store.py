"""Features that are read from the drive: the same results as from memory, whatever happens."""

import glob
import json
import os
import re

import numpy as np

from harness import cases, cpu_devices, fingerprint, planted, small_job, text_of, write_dataset

SMALL_CACHE = 280 * 1024
PRESC = {"policy": "presc", "presample_epochs": 1, "ratio": 0.2}


def half(box):
    """A data set of float16 features, whose rows lie across the drive's blocks."""
    arrays = planted(n=900, feat_dim=331)
    arrays["node_feat"] = arrays["node_feat"].astype(np.float16)
    return write_dataset(box.path("half"), arrays)


def check_rows(report, reads):
    """Every input node's row comes from somewhere."""
    rows = [e["store"] for e in report["epochs"]]
    for epoch, found in zip(report["epochs"], rows):
        all_rows = found["cached"] + found["read"] + found["beside"]
        assert all_rows == (epoch["input_nodes"] if reads else 0), epoch
    if reads:
        assert sum(r["read"] for r in rows) > 0
        assert rows[0]["read_bytes"] >= rows[0]["read"] and rows[0]["seconds"] > 0, rows
        assert report["store"]["depth"] > 0 and report["store"]["window"] == 16, report["store"]


@cases(("small", "presc"), ("half", "none"))
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
        size = np.load(arrays, mmap_mode="r").nbytes
        assert (report["store"]["features"], report["store"]["feature_bytes"]) == (store, size)
        found[store] = fingerprint(report)
        check_rows(report, store == "storage")
    assert found["memory"] == found["storage"], found
    logs = glob.glob(box.path("runs/storage/log/trainer-*.log"))
    assert any("rows are read from the drive" in text_of(log) for log in logs), logs


TWO = {"allocation": {"samplers": 1, "trainers": 2, "switching": False}}


def test_a_small_cache_changes_nothing_but_time(box):
    """Room for one mini-batch, while several are under way: some rows find no slot."""
    dataset = write_dataset(box.path("data"), planted(n=3000, feat_dim=40))
    config = small_job(
        dataset,
        devices=cpu_devices(3),
        **TWO,
        **{"cache": {"policy": "expected"}, "updates.batches_per_update": 2},
    )
    found = {}
    for name, store in (
        ("memory", {"features": "memory"}),
        ("storage", {"features": "storage", "cache": SMALL_CACHE, "window": 1}),
    ):
        result, report = box.run(dict(config, output=f"runs/{name}", store=store), name=name)
        result.ok()
        found[name] = fingerprint(report)
    assert found["memory"] == found["storage"], found
    rows = [e["store"] for e in report["epochs"]]
    assert sum(r["read"] for r in rows) > report["store"]["cache_rows"], rows  # some went
    assert 0 < report["store"]["hit_rate"] < 1, report["store"]
    assert report["store"]["cache_bytes"] <= SMALL_CACHE + 5 * 4096, report["store"]


def test_a_cache_that_is_too_small_is_refused(box):
    config = small_job(
        write_dataset(box.path("data"), planted(n=3000, feat_dim=40)),
        store={"features": "storage", "cache": 8192},
    )
    result, _ = box.run(config)
    assert result.rc != 0, str(result)
    least = re.search(r"store.cache: found 8192 bytes .* set store.cache to (\d+)", result.err)
    assert least, str(result)
    # The rows of the seeds fit now, and those of their neighbours do not.
    config["store"]["cache"] = int(least[1])
    result, _ = box.run(config)
    assert result.rc != 0, str(result)
    least = re.search(r"a mini-batch has: set store.cache to (\d+)", result.err)
    assert least, str(result)
    config["store"]["cache"] = int(least[1])
    box.run(config)[0].ok()


def test_a_dry_run_says_where_features_are(box):
    config = small_job(box.shared_dataset("small"))
    for asked, found in ((None, "memory"), ("auto", "memory"), ("storage", "storage")):
        if asked:
            config["store"] = {"features": asked}
        path = box.job(config)
        plan = json.loads(box.sluice("run", path, "--dry-run", "-o", "json").ok().out)
        assert plan["store"]["features"] == found, plan["store"]
        assert plan["config"]["store"]["features"] == (asked or "auto")
        rows = plan["store"]
        assert (rows["cache_rows"] > 0) == (found == "storage"), rows
        if found == "storage":  # all fit: each is there once it was read
            assert rows["hit_rate"] == 1 and 0 < rows["input_nodes"] <= plan["num_nodes"], rows
        text = box.sluice("run", path, "--dry-run").ok().out
        assert ("input nodes" in text) == (found == "storage"), text
        assert ("read from the drive" in text) == (found == "storage"), text


def test_a_dry_run_foresees_what_a_cache_is_worth(box):
    """At most so many input nodes; of these the hot rows cover about what the cache has."""
    dataset = write_dataset(box.path("data"), planted(n=3000, feat_dim=40))
    config = small_job(
        dataset,
        store={"features": "storage", "cache": SMALL_CACHE},
        epochs=4,
        **{"sampler.fanout": [3, 2], "sampler.batch_size": 32},
    )
    path = box.job(config)
    store = json.loads(box.sluice("run", path, "--dry-run", "-o", "json").ok().out)["store"]
    result, report = box.run(config)
    result.ok()
    last = report["epochs"][-1]
    assert store["cache_rows"] == report["store"]["cache_rows"]
    inputs = last["input_nodes"] / last["batches"]
    assert 0.7 * store["input_nodes"] < inputs <= store["input_nodes"], (store, last)
    hit_rate = last["store"]["cached"] / last["input_nodes"]
    assert abs(store["hit_rate"] - hit_rate) < 0.2, (store, last)
