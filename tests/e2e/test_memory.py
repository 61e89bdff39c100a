"""The job's own bound of memory: kept to, refused beforehand, and what happens beyond it."""

import os
import re

from harness import cases, cpu_devices, fingerprint, small_job


def job(box, /, **changes):
    changes = {"allocation": {"samplers": 1, "trainers": 1}, **changes}
    return small_job(box.shared_dataset("small"), **changes)


def least_of(box, config):
    """The bound that a job of far too small a one is told, once a step has been measured."""
    bound = 4 << 20
    for _ in range(8):
        result, _ = box.run(dict(config, memory=bound))
        assert result.rc == 2, str(result)
        found = re.search(r"memory: found (\d+).*wanted (at least|more than) (\d+)", result.err)
        assert found and int(found[1]) == bound, str(result)
        assert int(found[3]) > bound, "a number that would not do either"
        if found[2] == "at least":
            return int(found[3])
        bound = int(found[3]) + (1 << 20)
    raise AssertionError("no number was enough")


@cases(
    ("storage", {"store": {"features": "storage"}}),
    ("two trainers", {"allocation": {"samplers": 1, "trainers": 2}}),
)
def test_the_number_that_is_named_does(box, name, changes):
    config = job(box, **changes)
    free, report = box.run(dict(config, output="runs/free"))
    free.ok()
    least = least_of(box, dict(config, output="runs/bound"))
    result, bound = box.run(dict(config, output="runs/exact", memory=least))
    result.ok()
    assert fingerprint(bound) == fingerprint(report)
    assert 0 < bound["peak_held"] <= least, (bound["peak_held"], least)
    assert bound["peak_held"] <= bound["peak_memory"]
    # Of half as much no run directory is made.
    result, _ = box.run(dict(config, output="runs/less", memory=least // 2))
    assert result.rc == 2 and not os.path.exists(box.path("runs/less")), str(result)


def test_a_dry_run_says_it(box):
    keys = {"model.kind": "gin", "model.degrees": "block", "evaluate.fanout": "full"}
    path = box.job(job(box, memory="64MiB", **keys))
    said = box.sluice("run", path, "--dry-run").ok()
    assert "at most 64.0 MiB for all processes" in said.out, said
    assert "training sums the neighbours that were sampled" in said.err, said


def test_more_trainers_than_there_is_memory_for_are_refused(box):
    name = box.unique("bound")
    config = job(
        box,
        devices=cpu_devices(4),
        epochs=1000,
        throttle={"train": 0.01},
        **{"name": name, "updates.batches_per_update": 3},
    )
    config["memory"] = least_of(box, dict(config, output="runs/bound"))
    running = box.start("run", box.job(config))
    running.until(lambda: box.processes("trainer"), "a trainer")
    running.until(lambda: box.sluice("stats", name).rc == 0, "statistics")
    result = running.until(lambda: scaled(box, name), "an answer to scale")
    # The fourth one stands by on the sampler's device.
    assert "memory: found" in result.err and "4 trainers" in result.err, str(result)
    assert len(box.processes("trainer")) == 2
    running.interrupt()
    assert running.wait().rc == 130


def scaled(box, name):
    """The refusal, once the job trains; nothing before."""
    result = box.sluice("scale", name, "trainers=3")
    return result if result.rc != 0 and "memory" in str(result) else None
