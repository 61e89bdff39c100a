"""Cores as a pool: which workers there are, which cores they run on, what is said of it."""

import os
import re

from harness import CORES, Skip, cpu_devices, fingerprint, small_job, text_of


def job(box, /, **changes):
    return small_job(
        box.shared_dataset("small"), **{"devices": "cpu", "allocation": {}, **changes}
    )


def cores_of(pid):
    """The cores of each of its threads, as the system has them; none of one that has left."""
    found = set()
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        status = text_of(f"/proc/{pid}/task/{thread}/status")
        found |= set(re.findall(r"Cpus_allowed_list:\s*(\S+)", status))
    return found


def listed(text):
    """"0,2-4" as numbers."""
    ranges = [part.split("-") for part in text.split(",")]
    return [core for r in ranges for core in range(int(r[0]), int(r[-1]) + 1)]


def works_on_its_cores(box, name):
    """Whether threads of each worker run where the line says; others run where it began."""
    line = box.sluice("stats", name, "-o", "json").ok().json()
    (pool,) = line["devices"]
    for worker in line["workers"]:
        cores = listed(worker["cores"])
        assert set(cores) <= set(listed(pool["cores"])), line
        if cores not in [listed(c) for c in cores_of(worker["pid"])]:
            return False
    return len(line["workers"]) == line["samplers"] + line["trainers"]


def test_an_untouched_job_says_its_shape(box):
    config = job(box, digest=True)
    plan = box.sluice("run", box.job(config), "--dry-run").ok()
    assert "decided by what the first batches take" in plan.out + plan.err, plan
    result, report = box.run(config)
    guess, first = report["allocations"][:2]
    assert "until the first batches have been measured" in guess["reason"], guess
    pattern = r"a batch takes \S+ ms to sample and \S+ ms to train on one core, .* \d+ trainers? "
    assert re.search(pattern + r"on \d+ cores?, \d+ samplers? on ", first["reason"]), first
    (device,) = report["config"]["devices"]
    pool = set(listed(device["cores"]))
    (used,) = report["devices"]
    assert used["name"] == "pool" and set(used["cores"]) == pool, used
    assert len(used["workers"]) == first["samplers"] + first["trainers"], used
    # The same bits as on devices of one core.
    fixed = job(box, output="runs/fixed", devices=cpu_devices(2))
    other, of_fixed = box.run(fixed, name="fixed")
    other.ok()
    assert fingerprint(report) == fingerprint(of_fixed)


def test_workers_run_on_the_cores_that_they_were_given(box):
    name = box.unique("pool")
    # One trainer works at a time: more of them are asked for all the same.
    config = job(box, name=name, epochs=100000, digest=True)
    running = box.start("run", box.job(config))
    running.until(lambda: os.path.exists(box.path("runs/job")), "the run directory")
    running.until(lambda: works_on_its_cores(box, name), "workers on their cores")
    cores = len(set(CORES))
    assert box.sluice("stats", name, "-o", "json").ok().json()["places"] == 2 * cores
    for samplers, trainers in ((2, 2), (1, 3), (3, 1), (1, 1)):
        if samplers + trainers > 2 * cores:
            continue  # of one core
        box.sluice("scale", name, f"samplers={samplers}", f"trainers={trainers}").ok()
        running.until(lambda: works_on_its_cores(box, name), "workers on their new cores")
    refused = box.sluice("scale", name, f"samplers={2 * cores}", "trainers=1")
    assert refused.rc == 1 and "device" not in refused.err, refused
    words = f"wanted at most {2 * cores} workers on {cores} core"
    assert words in refused.err, refused
    (listed_job,) = [
        j for j in box.sluice("ps", "-o", "json").ok().json()["jobs"] if j["name"] == name
    ]
    assert len(listed(listed_job["cores"])) == cores, listed_job
    report, last, straight = box.bring_to_an_end(running, config)
    assert fingerprint(last) == fingerprint(straight)
    assert all(s["ok"] for s in report["scales"]), report["scales"]


def test_the_first_batches_move_the_split(box):
    if len(set(CORES)) < 2:
        raise Skip("one core has one shape")
    name = box.unique("first")
    # An epoch of a minute or more: it is not what its end tells that moves the split.
    throttle = {"sample": 0.1}
    config = job(box, name=name, epochs=1000, throttle=throttle, **{"sampler.batch_size": 1})
    running = box.start("run", box.job(config))
    running.until(lambda: os.path.exists(box.path("runs/job")), "the run directory")
    running.until(
        lambda: box.sluice("stats", name, "-o", "json").ok().json()["samplers"] > 1, "more samplers"
    )
    report, last, straight = box.bring_to_an_end(running, config)
    assert fingerprint(last) == fingerprint(straight)
    guess, first = report["allocations"][:2]
    assert (guess["samplers"], guess["trainers"]) == (1, 1), guess
    assert first["samplers"] > 1 and first["moved"] and first["t_sample"] >= 0.1, first
    assert first["epoch"] == 0, first
    log = text_of(box.path("runs/job/log/broker.log"))
    assert f"after the first batches: {first['reason']}" in log, first
    # To people one short line for the whole change.
    said = [line for line in running.output()[1].splitlines() if line.startswith("split: ")]
    words = rf"split: {first['samplers']} samplers \+ {first['trainers']} trainers?: about "
    time = r"[\d.]+ (ms|s|min \d\d s)"
    assert re.match(words + rf"{time} an epoch on quiet cores \(was {time}\)$", said[0]), said
    assert all(len(line) < 100 for line in said), said
    assert len(said) == sum(s["by"] == "profile" for s in report["scales"]), said


def test_an_epoch_too_short_to_tell_decides_nothing(box):
    result, report = box.run(job(box, epochs=2, **{"sampler.batch_size": 100000}))
    assert [epoch["batches"] for epoch in report["epochs"]] == [1, 1], report["epochs"]
    assert "after the first batches" not in result.ok().err, result
    (guess,) = report["allocations"]
    assert "until the first batches have been measured" in guess["reason"], guess
