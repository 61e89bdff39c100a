#!/usr/bin/python3
"""Kills jobs at random moments and goes on: moments.py [--moments 20] [--seed N] [CASE]...

Every process of a job is killed at once (SIGKILL), again and again, and the job is started again
with the same command until it is done. It must end with the parameters, samples, losses and
accuracies of a run that nobody disturbed. Cases are those of test_resume.py, of which `make check`
runs a few moments each. Prints a line a case; exit status 1 when one has failed.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "e2e"), HERE]
import harness  # noqa: E402
import test_resume  # noqa: E402


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
            begin = time.monotonic()
            try:
                deaths = resumes = runs = 0
                while deaths < options.moments:
                    left = options.moments - deaths
                    found = test_resume.moments(box, name, left, options.seed + runs)
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
