#!/usr/bin/python3
"""Runs end-to-end and crash tests: run.py [--list] [--keep] [FOLDER | FILE.py | NAME-PART]...

Each test runs in a process of its own, with a time-out, in an empty box (harness.py), and prints
one line: passed, FAILED or skipped (with the reason), and its seconds. What a failing test said
follows its line. The last line counts; the exit status is 1 when anything failed.
"""

import importlib.util
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402

SKIPPED = 77
DEFAULT_TIMEOUT = 60


class Test:
    def __init__(self, name, function, arguments):
        self.name, self.function, self.arguments = name, function, arguments


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


def collect(folders):
    tests = []
    for folder in folders:
        for file in sorted(os.listdir(folder)):
            if not (file.startswith("test_") and file.endswith(".py")):
                continue
            module = load(os.path.join(folder, file))
            group = f"{os.path.basename(folder)}/{file[5:-3]}"
            functions = [f for n, f in vars(module).items() if n.startswith("test_")]
            for function in sorted(functions, key=lambda f: f.__code__.co_firstlineno):
                base = f"{group}.{function.__name__[5:]}"
                for case in getattr(function, "cases", [None]):
                    if case is None:
                        tests.append(Test(base, function, ()))
                        continue
                    arguments = case if isinstance(case, tuple) else (case,)
                    tests.append(Test(f"{base}[{label_of(arguments)}]", function, arguments))
    return tests


def body(test, box):
    """In the child: runs the test and turns what happens into an exit status."""
    try:
        test.function(box, *test.arguments)
        box.assert_nothing_left()
        return 0
    except harness.Skip as why:
        print(f"SKIP: {why}")
        return SKIPPED
    except AssertionError as error:
        frames = traceback.extract_tb(error.__traceback__)
        mine = [f for f in frames if os.path.basename(f.filename).startswith("test_")] or frames
        print(f"{os.path.relpath(mine[-1].filename, harness.ROOT)}:{mine[-1].lineno}: {error}")
        return 1
    except BaseException:  # noqa: B902 - a broken test is a failed one
        traceback.print_exc(file=sys.stdout)
        return 1


def run(test, number, suite, keep):
    """(verdict, seconds, what it said)"""
    skip = getattr(test.function, "not_under", {}).get(harness.SAN)
    if skip:
        return "skipped", 0.0, f"SKIP: under SAN={harness.SAN}: {skip}"
    limit = getattr(test.function, "timeout", DEFAULT_TIMEOUT) * harness.SLOW
    folder = os.path.join(suite, f"box-{number}")
    mark = f"{os.getpid()}.{number}.{time.time_ns()}"
    box = harness.Box(folder, mark, suite)
    said_path = os.path.join(suite, f"said-{number}")
    begin = time.monotonic()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            said = os.open(said_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(said, 1)
            os.dup2(said, 2)
            os.setsid()
            status = body(test, box)
            sys.stdout.flush()
        finally:
            os._exit(status)
    status, timed_out = None, False
    try:
        while status is None:
            done, raw = os.waitpid(pid, os.WNOHANG)
            if done:
                status = os.waitstatus_to_exitcode(raw)
            elif time.monotonic() - begin > limit:
                timed_out = True
                stuck = box.describe_processes()
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                status = -signal.SIGKILL
            else:
                time.sleep(0.002)
    finally:
        box.kill_all()
    seconds = time.monotonic() - begin
    with open(said_path, errors="replace") as file:
        said = file.read()
    if timed_out:
        said += f"time-out after {limit} s; its processes then:\n{stuck}\n" + last_output(box)
    verdict = {0: "passed", SKIPPED: "skipped"}.get(status, "FAILED")
    if keep and verdict == "FAILED":
        said += f"kept: {folder}\n"
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return verdict, seconds, said


def last_output(box):
    """What the commands of a test that ran into its time-out had printed."""
    text = ""
    for name in sorted(os.listdir(box.logs)):
        with open(os.path.join(box.logs, name), errors="replace") as file:
            text += f"--- {name}\n{file.read()[-3000:]}\n"
    return text


def main(arguments):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # still ends processes and folders
    keep = "--keep" in arguments
    listing = "--list" in arguments
    wanted = [a for a in arguments if not a.startswith("--")]
    here = os.path.dirname(os.path.abspath(__file__))
    every = [here, os.path.join(os.path.dirname(here), "crash")]
    folders, parts = [], []
    for a in wanted:
        if os.path.isdir(a):
            folders.append(os.path.abspath(a))
        elif a.endswith(".py"):
            parts.append(os.path.basename(a)[5:-3] + ".")
        else:
            parts.append(a)
    tests = collect(folders or [f for f in every if os.path.isdir(f)])
    if parts:
        tests = [t for t in tests if any(p in t.name for p in parts)]
    if listing:
        for test in tests:
            print(test.name)
        return 0
    if not tests:
        print(f"no test matches {' '.join(wanted)}", file=sys.stderr)
        return 2
    if not os.access(os.path.join(harness.BIN, "sluice"), os.X_OK):
        print(f"FAILED   {harness.BIN}/sluice is not there: `make` builds it")
        print(f"0 passed, {len(tests)} failed, 0 skipped")
        return 1
    suite = tempfile.mkdtemp(prefix="sluice-tests-")
    os.chmod(suite, 0o755)  # some tests give their privileges up
    count = {"passed": 0, "FAILED": 0, "skipped": 0}
    begin = time.monotonic()
    try:
        for number, test in enumerate(tests):
            verdict, seconds, said = run(test, number, suite, keep)
            count[verdict] += 1
            why = ""
            if verdict == "skipped":
                why = "  " + said.strip().splitlines()[-1]
            print(f"{verdict:8}{seconds:7.2f} s  {test.name}{why}", flush=True)
            if verdict == "FAILED":
                print(
                    "".join(f"    | {line}\n" for line in said.rstrip().splitlines()),
                    end="",
                    flush=True,
                )
    finally:
        if not (keep and count["FAILED"]):
            shutil.rmtree(suite, ignore_errors=True)
    print(f"{time.monotonic() - begin:.1f} s")
    print(f"{count['passed']} passed, {count['FAILED']} failed, {count['skipped']} skipped")
    return 1 if count["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
