"""A data set is replaced or rewritten under a job, and what comes of it names the file."""

import os
import signal

import numpy as np

from harness import (
    cases,
    fingerprint,
    go_on,
    planted,
    read_json,
    small_job,
    write_dataset,
)


def replaced(box, seed=2):
    """A data set, and another one of the same sizes that is to stand in its place."""
    arrays = planted(n=1200, seed=1)
    data = write_dataset(box.path("data"), arrays)
    # The same shapes, and another graph: no check of sizes can tell them apart.
    other = dict(arrays, node_label=(arrays["node_label"] + 1) % 4)
    rng = np.random.default_rng(seed)
    other["indices"] = rng.integers(0, 1200, len(arrays["indices"])).astype(np.int32)
    other["node_feat"] = rng.normal(size=arrays["node_feat"].shape).astype(np.float32)
    return data, write_dataset(box.path("new"), other)


def refused(result, report, path):
    """The job has ended, and says of which file it did."""
    assert result.rc == 1, str(result)
    assert path in result.err and "since it was checked" in result.err, str(result)
    assert report["status"] == "failed" and path in report["message"], report["message"]


@cases("trainer", "sampler")
def test_replaced_while_a_worker_dies(box, role):
    """The dead worker's replacement finds other files: none of them comes into the job, and with
    the old ones in their place the same command goes on."""
    data, new = replaced(box)
    point = {"trainer": "trainer_extracted:9:stop", "sampler": "sampler_drawn:9:stop"}[role]
    # No standby trainer that has loaded already: the work is its replacement's.
    config = small_job(data, **{"allocation.switching": False})
    report = box.path("report.json")
    job = box.job(config)
    running = box.start("run", job, "--report", report, env={"SLUICE_FAILPOINT": point})
    pid = box.until_stopped(running, role)
    os.rename(data, box.path("old"))
    os.rename(new, data)
    os.kill(pid, signal.SIGKILL)
    refused(running.wait(), read_json(report), os.path.join(data, "indptr.npy"))
    restarts = read_json(report)["restarts"]
    assert len(restarts) <= 2, restarts  # whoever is refused is not started again

    refused_again = box.sluice("run", job)
    assert refused_again.rc == 2 and "is not the data set" in refused_again.err, refused_again
    os.rename(data, new)
    os.rename(box.path("old"), data)
    result, last = box.run(config)
    result.ok()
    straight = box.run(dict(config, output="runs/straight"))[1]
    assert fingerprint(last) == fingerprint(straight)


def test_replaced_before_the_broker_opens_it(box):
    """What `sluice run` has checked is not what its broker finds: nothing is begun."""
    data, new = replaced(box)
    env = {"SLUICE_FAILPOINT": "run_checked:1:stop"}
    running = box.start("run", box.job(small_job(data)), env=env)
    pid = box.until_stopped(running)
    os.rename(data, box.path("old"))
    os.rename(new, data)
    go_on(pid)
    result = running.wait()
    assert result.rc == 2 and os.path.join(data, "indptr.npy") in result.err, str(result)
    box.assert_no_run()
