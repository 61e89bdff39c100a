#!/usr/bin/python3
"""Kills jobs at random moments and goes on: moments.py [--moments 20] [--seed N] [CASE]...

Every process of a job is killed at once (SIGKILL), again and again, and the job is started again
with the same command until it is done. It must end with the parameters, samples, losses and
accuracies of a run that nobody disturbed. Cases are those of test_resume.py, which kills at chosen
steps; this kills whenever a clock says so. A case that no death met has failed. Prints a line a
case; exit status 1 when one has failed.
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
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "e2e"), HERE]
import harness  # noqa: E402
import test_resume  # noqa: E402

STEP = 0.01  # seconds a batch takes: some moments lie within an epoch
RUNS_MAX = 200


def ready_count(box):
    """How many runs have begun to train in the directory, by the broker's log."""
    log = harness.text_of(box.path("runs", "job", "log", "broker.log"))
    return log.count("all workers are ready")


def killed_until_done(box, path, chance, kills, longest):
    """Runs the job, killing all of it at random moments; (deaths, how often it went on)."""
    report = box.path("job.report.json")
    deaths = resumes = 0
    for turn in range(RUNS_MAX):
        before = ready_count(box)
        running = box.start("run", path, "--report", report)
        if turn < kills:
            if turn % 4 != 3:  # else at any moment of the start
                running.until(lambda: ready_count(box) > before or running.finished(), "training")
            # The first death comes once there is something to go on from, the others whenever.
            end = time.monotonic() + (10 if turn == 0 else chance.random() * longest) * harness.SLOW
            while time.monotonic() < end and not running.finished():
                if turn == 0 and test_resume.checkpoints(box):
                    break
                time.sleep(0.002)
            box.kill_everything()
        result = running.wait()
        box.until_gone()
        deaths += result.rc == -signal.SIGKILL
        resumes += "going on from update" in result.err
        if result.rc == 2 and "is finished" in result.err:
            # Killed after it had left everything but its last word.
            shutil.copy(box.path("runs", "job", "report.json"), report)
            return deaths, resumes
        if result.rc == 0:
            return deaths, resumes
        assert turn < kills and result.rc < 0, str(result)
    raise AssertionError("it never ended")


def moments(box, name, n, seed):
    """The job, killed at up to n moments, must equal the undisturbed one; (deaths, goings-on)."""
    changes = test_resume.CASES[name]
    wanted = test_resume.undisturbed(box, name, **changes)
    slow = {"throttle": {"train": STEP, "standby": STEP}}
    job = test_resume.resume_job(box.shared_dataset("small"), **changes, **slow)
    # So long that the last of n moments is likely to lie near the end, if it gets on at all.
    every, batches = job["checkpoint"]["every_updates"], job["updates"]["batches_per_update"]
    epochs = test_resume.EPOCHS * test_resume.BATCHES * STEP
    longest = max(2 * epochs / n, 3 * every * batches * STEP)
    found = killed_until_done(box, box.job(job), random.Random(seed), n, longest)
    report = harness.read_json(box.path("job.report.json"))
    assert harness.fingerprint(report) == wanted, (harness.fingerprint(report), wanted)
    return found


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    options.add_argument("--moments", type=int, default=20)
    options.add_argument("--seed", type=int, default=int(time.time()))
    options.add_argument("cases", nargs="*", metavar="CASE", default=list(test_resume.CASES))
    options = options.parse_args()
    suite = tempfile.mkdtemp(prefix="sluice-moments-")
    failed = 0
    try:
        for name in options.cases:
            mark = f"{os.getpid()}.{time.time_ns()}"
            box = harness.Box(os.path.join(suite, name), mark, suite)
            box.enter()
            begin = time.monotonic()
            try:
                deaths = resumes = runs = 0
                while deaths < options.moments:
                    left = options.moments - deaths
                    found = moments(box, name, left, options.seed + runs)
                    assert found[0] > 0, "no death met it"
                    deaths, resumes, runs = deaths + found[0], resumes + found[1], runs + 1
                    shutil.rmtree(box.path("runs/job"))
                box.assert_nothing_left()
                said = f"equal; {deaths} deaths in {runs} runs, {resumes} goings-on"
            except AssertionError as error:
                failed += 1
                said = f"FAILED (--seed {options.seed}): {error}"
            finally:
                box.kill_all()
            print(f"{name}: {said}, {time.monotonic() - begin:.1f} s", flush=True)
    finally:
        shutil.rmtree(suite, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
