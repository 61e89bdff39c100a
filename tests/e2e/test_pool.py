"""The pool that runs the checks themselves: limits, the deadline, skips, and what cases inherit."""

import os
import signal
import subprocess
import sys

from harness import ROOT, Running

# Cases NAME[:LIMIT]; each name is a body. `never` ends by being killed only.
CASES = """
import os, signal, sys
sys.path.insert(0, {tests!r})
import pool

def passes(): return 0
def fails(): print("test_x.c:7:F: it is wrong"); return 1
def skips(): print("SKIP: no moon"); return pool.SKIPPED
def raises(): raise ValueError("a broken case")
def never(): signal.pause()
def dies(): os.kill(os.getpid(), signal.SIGSEGV)
def asks(): return int(signal.getsignal(signal.SIGINT) is not signal.SIG_DFL)

class Case(pool.Case):
    def body(self):
        return globals()[self.name]()

folder, deadline, skips_file, *wanted = sys.argv[1:]
pool.ended_by_signals()
holds = {{"no moon": lambda: True, "a moon": lambda: False}}
known = pool.Skips(skips_file, holds) if skips_file else None
runs = pool.Pool(folder, 2, float(deadline) or None, known)
pairs = [each.partition(":") for each in wanted]
runs.run([Case(name, float(limit or 1000)) for name, _, limit in pairs])
sys.exit(runs.close())
"""


def start(box, *names, deadline=0, skips="", **more):
    program = CASES.format(tests=os.path.join(ROOT, "tests"))
    command = [sys.executable, "-c", program, box.folder, str(deadline), skips, *names]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **more)


def run(box, *names, **more):
    process = start(box, *names, **more)
    out, _ = process.communicate()
    return process.returncode, out


def test_it_counts_and_says_how_each_failed(box):
    rc, out = run(box, "passes", "fails", "skips", "raises", "dies")
    assert rc == 1 and out.endswith("\n1 passed, 3 failed, 1 skipped\n"), out
    end = out[out.index("what failed:") :]
    for words in ("fails", "test_x.c:7:F: it is wrong", "raises", "a broken case", "dies"):
        assert words in end, (words, out)
    assert "killed by SIGSEGV" in out and "no moon" in out, out


def test_all_is_well(box):
    rc, out = run(box, "passes", "passes")
    assert rc == 0 and out.endswith("\n2 passed, 0 failed, 0 skipped\n"), out


def test_a_case_has_a_limit(box):
    rc, out = run(box, "never:0.1", "passes")
    assert rc == 1 and out.endswith("\n1 passed, 1 failed, 0 skipped\n"), out
    assert "time-out after 0 s" in out, out


def test_the_whole_has_a_deadline_and_says_what_was_running(box):
    rc, out = run(box, "never", "never", "passes", deadline=0.5)
    assert rc == 1 and out.endswith("\n0 passed, 3 failed, 0 skipped\n"), out
    assert "still running" in out and "never, never" in out and "not begun: 1" in out, out


def test_ended_by_a_signal_it_says_what_was_running(box):
    process = start(box, "passes", "never")
    line = process.stdout.readline()
    assert line.startswith("passed"), line
    process.terminate()
    out, _ = process.communicate()
    assert process.returncode == 1 and "still running when it was ended: never" in out, out
    assert out.endswith("\n1 passed, 1 failed, 0 skipped\n"), out


def test_only_expected_skips_are_skips(box):
    def skips(line):
        with open(box.path("skips"), "w") as file:
            file.write(f"# a comment\n{line}\n")
        return run(box, "skips", skips=box.path("skips"))

    rc, out = skips("no moon: ski*")
    assert rc == 0 and out.endswith("\n0 passed, 0 failed, 1 skipped\n"), out
    for line in ("a moon: ski*", "no moon: others", ""):
        rc, out = skips(line)
        assert rc == 1 and "not one of those that are expected" in out, out


def test_cases_get_default_signals(box):
    def ignore():
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    rc, out = run(box, "asks", preexec_fn=ignore)
    assert rc == 0, out


def test_commands_get_default_signals(box):
    """Whatever the test itself ignores or blocks, and Python for it."""
    env = box.environment()
    show = ["/bin/grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]
    plain = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"
    assert Running(box, show, env).wait().ok().out == plain
    signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    assert Running(box, show, env).wait().ok().out == plain
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    assert Running(box, show, env).wait().ok().out == plain
