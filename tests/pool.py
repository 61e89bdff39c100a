"""Runs cases side by side: what scripts/check and tests/e2e/run.py have in common.

A case runs in a process of its own, which leads a session and says what it says into a file. It is
over when that process ends; one that reaches its limit is killed. Cases that need the machine for
themselves run last, one by one. The pool has a deadline too: when it comes, what runs is killed and
named, and what was not begun is counted. Each case gets one line when it is over; what a failing
one said follows it, and stands once more, shortened, at the end. Nothing here judges how long
anything took: the seconds are printed for whoever wants the checks to be quicker.
"""

import fnmatch
import os
import re
import select
import signal
import sys
import time
import traceback

SKIPPED = 77  # the exit status of a case that cannot run here
TAIL_LINES = 60
# Of a failure, in the list at the end.
LISTED_LINES, LISTED_COLUMNS = 8, 300


class Case:
    """One thing to run. A subclass says what is done in its process and what its end means."""

    alone = False  # needs the machine for itself

    def __init__(self, name, limit_s):
        self.name, self.limit_s = name, limit_s

    def begin(self, number):
        """Before its process is made; number: no other case of the run has it."""

    def body(self):
        """In the process of the case: runs it (or becomes the program); returns its exit status."""
        raise NotImplementedError

    def stuck(self):
        """What is worth knowing of a case that ran into its limit, asked before it is killed."""
        return ""

    def after(self, failed):
        """Its process is gone: takes away what it left."""

    def count(self, status, said):
        """(passed, failed, skipped) of an exit status (negative: a signal; None: too late)."""
        return count_one(status, said)


class Program(Case):
    """A program whose output says how much passed: `of` reads it."""

    def __init__(self, name, command, limit_s, of, env, folder):
        super().__init__(name, limit_s)
        self.command, self.of, self.env, self.folder = command, of, env, folder

    def body(self):
        os.chdir(self.folder)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it
        os.execve(self.command[0], self.command, self.env)

    def count(self, status, said):
        passed, failed, skipped = self.of(status, said)
        return passed, failed or int(status not in (0, SKIPPED)), skipped


def count_check(status, text):
    """Check's summary: '100%: Checks: 12, Failures: 0, Errors: 0' (one for each suite run)."""
    checks = bad = 0
    for match in re.finditer(r"^\d+%: Checks: (\d+), Failures: (\d+), Errors: (\d+)", text, re.M):
        checks += int(match[1])
        bad += int(match[2]) + int(match[3])
    skipped = len(re.findall(r"^SKIP: ", text, re.M))
    if checks == 0 and bad == 0:
        bad = 1  # a test program without a test proves nothing
    return max(checks - bad - skipped, 0), bad, skipped


def count_one(status, text):
    """The exit status alone, whatever numbers are said."""
    return (0, 0, 1) if status == SKIPPED else (int(status == 0), int(status != 0), 0)


def count_plain(status, text):
    """'N passed, M failed[, K skipped]' as its last such line, or the exit status alone."""
    found = re.findall(r"\b(\d+) passed, (\d+) failed(?:, (\d+) skipped)?", text)
    if not found:
        return (1, 0, 0) if status == 0 else (0, 1, 0)
    return tuple(int(n or 0) for n in found[-1])


def lines_of_failure(text):
    """What names the failed checks (`file:line:F:`, the kernel driver's FAILED), else the end."""
    lines = text.rstrip().splitlines()
    named = [line for line in lines if re.search(r":\d+:[FE]:|\bFAILED\b|ERROR: |\berror: ", line)]
    return named or lines[-LISTED_LINES:]


class Skips:
    """Which skips are expected: lines `CONDITION: PATTERN` of a file, # starts a comment.

    PATTERN is a case's name as the shell would match it. CONDITION is one of `holds`: whether it
    does here, asked when it matters.
    """

    def __init__(self, path, holds):
        self.holds, self.patterns = holds, []
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                line = line.partition("#")[0].strip()
                condition, colon, pattern = (part.strip() for part in line.partition(": "))
                if line and (not colon or condition not in holds):
                    sys.exit(
                        f"{path}:{number}: '{line}': wanted CONDITION: PATTERN, of {list(holds)}"
                    )
                if line:
                    self.patterns.append((condition, pattern))

    def expected(self, name):
        # Brackets are part of names (cases), not of patterns.
        return any(
            fnmatch.fnmatchcase(name, re.sub(r"[\[\]]", "?", pattern)) and self.holds[condition]()
            for condition, pattern in self.patterns
        )


class Running:
    def __init__(self, case, said_path):
        self.case, self.said_path = case, said_path
        self.begin = time.monotonic()
        # Made here: the child may be killed before its first step.
        said = os.open(said_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self.become(said)
        os.close(said)
        self.fd = os.pidfd_open(self.pid)

    def become(self, said):
        status = 1
        try:
            os.setsid()
            # A script that starts the checks in the background leaves these ignored.
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(said, 1)
            os.dup2(said, 2)
            status = self.case.body()
            sys.stdout.flush()
        except BaseException:  # noqa: B902 - a broken case is a failed one
            traceback.print_exc(file=sys.stdout)
            sys.stdout.flush()
        finally:
            os._exit(status)

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)  # it may not lead a group yet

    def reap(self):
        _, raw, used = os.wait4(self.pid, 0)
        self.cpu_s = used.ru_utime + used.ru_stime  # of all that it has waited for, too
        os.close(self.fd)
        try:
            os.killpg(self.pid, signal.SIGKILL)  # what a program started and left in its group
        except ProcessLookupError:
            pass
        return os.waitstatus_to_exitcode(raw)

    def said(self):
        with open(self.said_path, errors="replace") as file:
            text = file.read()
        os.unlink(self.said_path)
        return text


class Pool:
    def __init__(self, folder, jobs=None, deadline_s=None, skips=None):
        self.folder = folder
        # Most wait for processes of theirs for most of their time.
        self.jobs = jobs or 3 * (os.cpu_count() or 1)
        self.begin = time.monotonic()
        self.deadline = self.begin + deadline_s if deadline_s else None
        self.deadline_s, self.skips = deadline_s, skips
        self.passed = self.failed = self.skipped = 0
        self.failures = []  # (what failed, the lines that say how)
        self.running = []
        self.number = 0
        self.over = False  # the deadline came, or somebody ended it

    def fail(self, name, lines=()):
        self.failed += 1
        self.failures.append((name, list(lines)))

    def run(self, cases):
        """Runs them; SIGTERM and the like end it early (ended_by_signals) as the deadline does."""
        waiting = sorted(cases, key=lambda case: (case.alone, -case.limit_s))
        try:
            while (waiting or self.running) and not self.over:
                while waiting and self.may_begin(waiting[0]):
                    self.start(waiting.pop(0))
                self.wait()
        except SystemExit:
            self.deadline_s = None
        if self.running or waiting:
            self.end(waiting)

    def may_begin(self, case):
        if not self.running:
            return True
        return not case.alone and not self.running[0].case.alone and len(self.running) < self.jobs

    def start(self, case):
        self.number += 1
        case.begin(self.number)
        self.running.append(Running(case, os.path.join(self.folder, f"said-{self.number}")))

    def wait(self):
        """Until one of them ends, is late, or the deadline comes."""
        poll = select.poll()
        for each in self.running:
            poll.register(each.fd, select.POLLIN)
        ends = [each.begin + each.case.limit_s for each in self.running]
        left = min(ends + ([self.deadline] if self.deadline else [])) - time.monotonic()
        ready = {fd for fd, _ in poll.poll(max(0, left * 1000 + 1))}
        for each in list(self.running):
            late = time.monotonic() >= each.begin + each.case.limit_s
            if each.fd in ready or late:
                self.finish(each, late and each.fd not in ready)
        self.over = self.deadline is not None and time.monotonic() >= self.deadline

    def finish(self, each, late):
        self.running.remove(each)
        case, why = each.case, ""
        if late:
            why = f"time-out after {case.limit_s:.0f} s\n{case.stuck()}"
            each.kill()
        status = each.reap()
        said = each.said() + why
        status = None if late else status
        counted = case.count(status, said)
        case.after(bool(counted[1]))
        self.say(case, status, said, counted, each)

    def say(self, case, status, said, counted, each):
        passed, failed, skipped = counted
        reasons = list(dict.fromkeys(re.findall(r"^SKIP: (.*)", said, re.M)))
        if skipped and self.skips and not self.skips.expected(case.name):
            failed, skipped = failed + skipped, 0
            said += "this skip is not one of those that are expected here (tests/skips)\n"
        self.passed, self.skipped = self.passed + passed, self.skipped + skipped
        verdict = "FAILED" if failed else "passed" if passed else "skipped"
        how = f"{passed} passed" if passed > 1 else ""
        how += f", {failed} failed" if failed and passed else ""
        how += f", {skipped} skipped" if skipped and passed else ""
        if status is not None and status < 0:
            how += f", killed by {signal.Signals(-status).name}"
        end = "  ".join(text for text in (how.lstrip(", "), "; ".join(reasons)) if text)
        took = f"{time.monotonic() - each.begin:7.2f} s {each.cpu_s:7.2f} cpu"
        print(f"{verdict:8}{took}  {case.name}{'  ' if end else ''}{end}", flush=True)
        if not failed:
            return
        self.failed += failed
        self.failures.append((case.name, lines_of_failure(said)))
        lines = said.rstrip().splitlines()
        if len(lines) > TAIL_LINES:
            print(f"    | [... {len(lines) - TAIL_LINES} lines]")
        print("".join(f"    | {line}\n" for line in lines[-TAIL_LINES:]), end="", flush=True)

    def end(self, waiting):
        """Before its time: says what was running, and leaves nothing behind."""
        self.over = True
        why = (
            f"after the deadline of {self.deadline_s:.0f} s"
            if self.deadline_s
            else "when it was ended"
        )
        print(f"still running {why}: {', '.join(e.case.name for e in self.running) or 'nothing'}")
        for each in list(self.running):
            stuck = each.case.stuck()
            each.kill()
            each.reap()
            each.case.after(True)
            self.fail(
                f"{each.case.name}: was running {why}", (each.said() + stuck).splitlines()[-8:]
            )
        self.running = []
        if waiting:
            print(f"not begun: {len(waiting)}, the first of them {waiting[0].name}")
            self.fail(f"{len(waiting)} were not begun")

    def close(self):
        """The last lines; the exit status of the whole."""
        if self.failures:
            print("what failed:")
        for name, lines in self.failures:
            print(f"    {name}")
            for line in lines[:LISTED_LINES]:
                print(f"        {line[:LISTED_COLUMNS]}")
            if len(lines) > LISTED_LINES:
                print(f"        [... {len(lines) - LISTED_LINES} lines more, above]")
        print(f"{time.monotonic() - self.begin:.0f} s in all")
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped", flush=True)
        return 1 if self.failed else 0


def ended_by_signals():
    """From now on SIGTERM, Ctrl-C and a closed terminal end the checks as the deadline does; what
    whoever started them has ignored stays so."""

    def end(number, _):
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)
