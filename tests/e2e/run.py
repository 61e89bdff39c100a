#!/usr/bin/python3
"""Runs end-to-end and crash tests: run.py [OPTION]... [FOLDER | FILE.py | NAME-PART]...

Each test runs in a process of its own, with a time-out, in an empty box (harness.py), several side
by side, and prints one line: passed, FAILED or skipped (with the reason), its seconds and those of
the processor. What a failing test said follows its line. The last line counts; the exit status is
1 when anything failed.

  --list          names, nothing else
  --keep          keeps the folder of a failing test
  --jobs N        how many at once (default: three a core)
  --tier TIER     quick: of a test's cases a few; sanitized: what tests/sanitizers/e2e names; whole
                  (default)
"""

import argparse
import importlib.util
import json
import os
import re
import shutil
import sys
import tempfile
import traceback

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import harness  # noqa: E402
import pool  # noqa: E402

TIMEOUT_S = 300  # more than anything in a test waits
FOLDERS = [HERE, os.path.join(os.path.dirname(HERE), "crash")]
TIERS = ("quick", "sanitized", "whole")
QUICK_CASES = 3


class Test(pool.Case):
    """A test function, for one of its cases."""

    suite = None  # the folder of all boxes
    keep = False

    def __init__(self, name, function, arguments):
        super().__init__(name, TIMEOUT_S * harness.SLOW)
        self.function, self.arguments = function, arguments
        self.folder = self.box = None

    def begin(self, number):
        """A box for it: its folder and the mark of its processes."""
        self.folder = os.path.join(self.suite, f"box-{number}")
        self.box = harness.Box(self.folder, f"{os.getpid()}.{number}", self.suite)

    def body(self):
        whole_file = self.function.__globals__.get("NOT_UNDER", {})
        why = {**whole_file, **getattr(self.function, "not_under", {})}.get(harness.SAN)
        if why:
            print(f"SKIP: under SAN={harness.SAN}: {why}")
            return pool.SKIPPED
        try:
            self.box.enter()
            self.function(self.box, *self.arguments)
            self.box.assert_nothing_left()
            return 0
        except harness.Skip as why:
            print(f"SKIP: {why}")
            return pool.SKIPPED
        except AssertionError as error:
            frames = traceback.extract_tb(error.__traceback__)
            mine = [f for f in frames if os.path.basename(f.filename).startswith("test_")] or frames
            print(f"{os.path.relpath(mine[-1].filename, harness.ROOT)}:{mine[-1].lineno}: {error}")
            return 1

    def stuck(self):
        """Its processes, and what its commands had printed."""
        text = f"its processes then:\n{self.box.describe_processes()}\n"
        for name in sorted(os.listdir(self.box.logs)):
            with open(os.path.join(self.box.logs, name), errors="replace") as file:
                text += f"--- {name}\n{file.read()[-3000:]}\n"
        return text

    def after(self, failed):
        self.box.kill_all()
        if failed and self.keep:
            print(f"kept: {self.folder}")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


def label_of(arguments):
    """Its first argument when a case has one that is no plain value, else all of them."""
    if any(callable(a) for a in arguments):
        arguments = arguments[:1]
    text = "-".join(a if isinstance(a, str) else json.dumps(a, default=repr) for a in arguments)
    return re.sub(r"[^A-Za-z0-9_.,+-]+", "_", text)[:60]


def load(path):
    name = os.path.basename(path)[:-3]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    if os.path.dirname(path) not in sys.path:
        sys.path.append(os.path.dirname(path))
    spec.loader.exec_module(module)
    return module


def thinned(cases, tier):
    """What a tier runs of a test's cases: the first, the last, and between them evenly."""
    most = {"quick": QUICK_CASES, "sanitized": 1}.get(tier, len(cases))
    if len(cases) <= most:
        return cases
    return [cases[i * (len(cases) - 1) // max(1, most - 1)] for i in range(most)]


def worth_a_sanitizer():
    """Names of the test functions that are."""
    with open(os.path.join(harness.ROOT, "tests", "sanitizers", "e2e"), encoding="utf-8") as file:
        return {line.partition("#")[0].strip() for line in file} - {""}


def collect(folders, tier="whole"):
    """The tests of a tier in these folders, in the order of their files."""
    tests = []
    names = {n for n in worth_a_sanitizer() if n.split("/")[0] in map(os.path.basename, folders)}
    known = set()
    for folder in folders:
        for file in sorted(os.listdir(folder)):
            if not (file.startswith("test_") and file.endswith(".py")):
                continue
            module = load(os.path.join(folder, file))
            group = f"{os.path.basename(folder)}/{file[5:-3]}"
            functions = [f for n, f in vars(module).items() if n.startswith("test_")]
            for function in sorted(functions, key=lambda f: f.__code__.co_firstlineno):
                base = f"{group}.{function.__name__[5:]}"
                known.add(base)
                if tier == "quick" and hasattr(function, "whole"):
                    continue
                if tier == "sanitized" and base not in names:
                    continue
                for case in thinned(getattr(function, "cases", [None]), tier):
                    if case is None:
                        tests.append(Test(base, function, ()))
                        continue
                    arguments = case if isinstance(case, tuple) else (case,)
                    tests.append(Test(f"{base}[{label_of(arguments)}]", function, arguments))
    if names - known:
        sys.exit(f"tests/sanitizers/e2e: no test is named {', '.join(sorted(names - known))}")
    return tests


class Suite:
    """The folder in which the boxes of a run stand."""

    def __init__(self, keep=False):
        self.folder = tempfile.mkdtemp(prefix="sluice-tests-")
        os.chmod(self.folder, 0o755)  # some tests give their privileges up
        os.umask(0o022)
        self.keep = Test.keep = keep
        Test.suite = self.folder

    def close(self, failed):
        if not (self.keep and failed):
            shutil.rmtree(self.folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(
        usage=__doc__, add_help=False, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-h", "--help", action="version", version=__doc__)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--tier", choices=TIERS, default="whole")
    parser.add_argument("wanted", nargs="*")
    options = parser.parse_args()
    folders = [os.path.abspath(a) for a in options.wanted if os.path.isdir(a)]
    parts = [
        os.path.basename(a)[5:-3] + "." if a.endswith(".py") else a
        for a in options.wanted
        if not os.path.isdir(a)
    ]
    tests = collect(folders or FOLDERS, options.tier)
    if parts:
        tests = [t for t in tests if any(p in t.name for p in parts)]
    if options.list:
        print("".join(f"{test.name}\n" for test in tests), end="")
        return 0
    if not tests:
        print(f"no test matches {' '.join(options.wanted)}", file=sys.stderr)
        return 2
    if not os.access(os.path.join(harness.BIN, "sluice"), os.X_OK):
        print(f"FAILED   {harness.BIN}/sluice is not there: `make` builds it")
        print(f"0 passed, {len(tests)} failed, 0 skipped")
        return 1
    pool.ended_by_signals()
    suite = Suite(options.keep)
    try:
        runs = pool.Pool(suite.folder, options.jobs)
        runs.run(tests)
        return runs.close()
    finally:
        suite.close(runs.failed)


if __name__ == "__main__":
    sys.exit(main())
