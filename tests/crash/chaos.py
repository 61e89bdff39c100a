#!/usr/bin/python3
"""Random jobs under random deaths, for as long as you like: chaos.py [--seconds 60] [--seed N]

Each round draws a job (model, fanout, batch size, updates, evaluation, arena, split), runs it in
peace on one sampler and one trainer, and again on a random split, with standby trainers, a cache
and changes of the split, while random workers are killed from outside and at failpoints.
Parameters, samples and accuracies must be equal, every batch must have been trained exactly once,
and nothing may be left. Prints a line a round; a failing round
prints the command line that repeats it. `make check` has the chosen cases (test_workers.py,
test_failpoints.py); this looks for those that nobody thought of.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import harness  # noqa: E402

WORKER_POINTS = [
    "sampler_claimed",
    "sampler_allocated",
    "sampler_drawn",
    "sampler_published",
    "trainer_claimed",
    "trainer_extracted",
    "trainer_gradient",
    "trainer_done",
    "trainer_apply",
    "trainer_flipped",
    "trainer_infer",
    "trainer_cache",
    "sampler_marked",
    "standby_asleep",
    "standby_woken",
]

CACHES = [
    {"policy": "none"},
    {"policy": "degree", "ratio": 0.2},
    {"policy": "random", "ratio": 1.0},
    {"policy": "optimal", "ratio": 0.01, "report_optimal": True},
]


def random_job(chance, dataset):
    layers = chance.choice([1, 2, 2, 3])
    fanout = [chance.choice([1, 3, 5, 10, -1]) for _ in range(layers)]
    sampled = [chance.choice([2, 5, 10]) for _ in range(layers)]
    job = harness.small_job(
        dataset,
        **{
            "model": {
                "kind": chance.choice(["graphsage", "gcn"]),
                "layers": layers,
                "hidden": chance.choice([1, 7, 16, 48]),
                "dropout": chance.choice([0, 0.3, 0.6]),
                "input_dropout": chance.choice([0, 0.2]),
            },
            "sampler.kind": chance.choice(["khop", "khop", "walk"]),
            "sampler.fanout": fanout,
            "sampler.batch_size": chance.choice([1, 7, 32, 64, 300]),
            "updates.batches_per_update": chance.choice([1, 1, 2, 3, 8]),
            "evaluate": {
                "every": chance.choice([0, 1, 1, 2]),
                "fanout": chance.choice(["full", "full", sampled]),
            },
            "epochs": chance.choice([1, 2, 4]),
            "seed": chance.randrange(1000),
            "precision": chance.choice(["fp32", "fp32", "fp32", "bf16"]),
        },
    )
    if job["sampler"]["batch_size"] == 1:
        job["epochs"] = 1
    return job


def disturbed(box, chance, job):
    """The job again on another split, with deaths; (result, report, kills from outside)."""
    job = dict(job, output="runs/disturbed")
    job["devices"] = harness.cpu_devices(6)
    job["allocation"] = {
        "samplers": chance.choice([1, 2, 3]),
        "trainers": chance.choice([1, 2, 3]),
        "switching": chance.random() < 0.7,
    }
    if chance.random() < 0.2:
        job["allocation"] = {"samplers": "auto", "trainers": "auto"}
        job["devices"] = harness.cpu_devices(chance.choice([1, 2, 5]))
    elif chance.random() < 0.5:
        job["schedule"] = [
            {"epoch": e, "samplers": chance.choice([1, 2, 3]), "trainers": 1 + e % 3}
            for e in range(job["epochs"])
        ]
    job["cache"] = chance.choice(CACHES)
    if job["epochs"] > 1 and chance.random() < 0.4:
        job["cache"] = {"policy": "presc", "ratio": chance.choice([0.1, 0.5, "auto"])}
    if chance.random() < 0.3:
        job["arena"] = {"memory": "4MiB"}
    points = []
    for _ in range(chance.choice([0, 1, 3, 6])):
        points.append(f"{chance.choice(WORKER_POINTS)}:{chance.randrange(1, 40)}")
    env = {"SLUICE_FAILPOINT": ",".join(sorted(set(points)))} if points else {}
    report_path = box.path("disturbed.json")
    running = box.start("run", box.job(job), "--report", report_path, env=env)
    wanted_kills = chance.choice([0, 0, 2, 5])
    kills, pause = 0, chance.choice([0.01, 0.05, 0.2])
    end = time.monotonic() + harness.PATIENCE * harness.SLOW
    while kills < wanted_kills and not running.finished() and time.monotonic() < end:
        time.sleep(pause * (0.5 + chance.random()))
        if not os.path.isdir(box.path("runs/disturbed/log")):
            continue  # still starting
        pids = list(box.processes("sampler")) + list(box.processes("trainer"))
        if pids:
            try:
                os.kill(chance.choice(pids), signal.SIGKILL)
                kills += 1
            except ProcessLookupError:
                pass
    result = running.wait()
    report = harness.read_json(report_path) if os.path.exists(report_path) else None
    return result, report, kills, job, points


def random_round(box, chance):
    """A line that says what it was; an AssertionError where something was wrong."""
    job = random_job(chance, box.shared_dataset("small"))
    calm = dict(job, output="runs/calm")
    result, report = box.run(calm, name="calm", seconds=120)
    result.ok()
    wanted = harness.fingerprint(report)
    result, report, kills, job, points = disturbed(box, chance, job)
    said = f"{job['model']} {job['sampler']} {job['updates']} {job['evaluate']} "
    said += f"{job['allocation']} {job.get('arena')} {job['cache']} {job.get('schedule')} "
    said += f"{points}, {kills} kills"
    assert result.rc == 0, f"{said}\n{result}"
    batches = report["batches"]
    found = harness.fingerprint(report)
    assert found == wanted, f"{said}\nfound  {found}\nwanted {wanted}\n{result}"
    box.assert_nothing_left()
    return (
        f"{job['model']['kind']}, {batches['scheduled']} batches, "
        f"{len(points)} failpoints, {kills} kills, {batches['resampled']} resampled, "
        f"{batches['retrained']} retrained, {result.seconds:.2f} s: equal"
    )


def one_round(suite, number, seed, options):
    folder = os.path.join(suite, f"box-{number}")
    box = harness.Box(folder, f"{os.getpid()}.{number}.{time.time_ns()}", suite)
    box.enter()
    try:
        line = random_round(box, random.Random(seed))
        print(f"seed {seed}: {line}", flush=True)
        return True
    except AssertionError as error:
        again = f"chaos.py --seconds 0 --seed {seed}"
        print(f"seed {seed}: FAILED ({again})\n{error}", flush=True)
        if options.keep:
            shutil.copytree(folder, f"{options.keep}-{seed}", symlinks=True, dirs_exist_ok=True)
        return False
    finally:
        box.kill_all()
        shutil.rmtree(folder, ignore_errors=True)


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--seed", type=int, default=int(time.time()))
    options.add_argument("--keep", help="folder to copy failing rounds to, with -SEED behind it")
    options = options.parse_args()
    suite = tempfile.mkdtemp(prefix="sluice-chaos-")
    passed = failed = 0
    end = time.monotonic() + options.seconds
    try:
        while True:
            ok = one_round(suite, passed + failed, options.seed + passed + failed, options)
            passed, failed = passed + ok, failed + (not ok)
            if time.monotonic() >= end:
                break
    finally:
        shutil.rmtree(suite, ignore_errors=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
