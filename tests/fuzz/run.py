#!/usr/bin/python3
"""Runs fuzz targets at the same time and says what they found: run.py --seconds 10 PROGRAM...

Each program starts from tests/fuzz/corpus/TARGET and from what earlier runs have found worth
keeping (FOLDER/corpus/TARGET, where libFuzzer adds to it). An input that ends a program is left in
FOLDER/found: when the fault is mended it belongs into tests/fuzz/corpus.

The seconds or runs (--runs 20000: the same inputs each time) are how long a program looks, and not
part of any verdict: it fails when an input ended it.
"""

import argparse
import concurrent.futures
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TAIL_LINES = 60
# An input that takes this long has met something that does not end.
ENDLESS_S = 300


def environment():
    env = dict(os.environ)
    supp = os.path.join(ROOT, "tests", "sanitizers", "lsan.supp")
    env["ASAN_OPTIONS"] = "detect_leaks=1:exitcode=99:allocator_may_return_null=1"
    env["UBSAN_OPTIONS"] = "print_stacktrace=1:halt_on_error=1:exitcode=99"
    env["LSAN_OPTIONS"] = f"suppressions={supp}:print_suppressions=0"
    return env


def run(program, options):
    """(the target's name, its exit status, what it did, its output)."""
    target = os.path.basename(program)
    kept = os.path.join(options.folder, "corpus", target)
    found = os.path.join(options.folder, "found")
    os.makedirs(kept, exist_ok=True)
    os.makedirs(found, exist_ok=True)
    command = [
        os.path.abspath(program),
        f"-runs={options.runs}" if options.runs else f"-max_total_time={options.seconds}",
        f"-seed={options.seed}",
        f"-timeout={ENDLESS_S}",
        f"-artifact_prefix={os.path.abspath(found)}/{target}-",
        "-print_final_stats=1",
        os.path.abspath(kept),
        os.path.join(HERE, "corpus", target),
    ]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    text = done.stdout.decode(errors="replace")
    runs = re.search(r"number_of_executed_units: (\d+)|(\d+) changed ones", text)
    covered = re.findall(r"cov: (\d+) ft: (\d+) corp: (\d+)", text)
    what = f"{int(runs[1] or runs[2]):>10} inputs" if runs else f"{'?':>10} inputs"
    if covered:
        edges, features, kept_inputs = covered[-1]
        what += f", {edges:>5} edges, {features:>6} features, corpus {kept_inputs}"
    return target, done.returncode, what, text


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    options.add_argument("--seconds", type=int, default=10, help="of each target")
    options.add_argument("--runs", type=int, default=0, help="inputs of each target, not seconds")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--folder", default=os.path.join(ROOT, "build", "fuzz"))
    options.add_argument("--jobs", type=int, default=os.cpu_count())
    options.add_argument("programs", nargs="+")
    options = options.parse_args()
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for target, status, what, text in pool.map(lambda p: run(p, options), options.programs):
            print(f"{'passed' if status == 0 else 'FAILED'} {target:20} {what}", flush=True)
            if status != 0:
                failed += 1
                for line in text.splitlines()[-TAIL_LINES:]:
                    print(f"    | {line}")
    print(f"{len(options.programs) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
