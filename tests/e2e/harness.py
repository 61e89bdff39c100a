"""What the end-to-end and crash tests share: a box for each test, commands, data sets, leftovers.

A test is a function `test_*(box)`. Its box is an empty folder that is also the working directory,
TMPDIR and cache of every command that the test starts, and an environment variable that marks those
commands and all their descendants. Where the kernel allows it they have a /dev/shm of their own:
what is in it is theirs, whatever else the machine runs. When the test returns, the box proves that
nothing is left: no marked process, no name in that /dev/shm, no file in TMPDIR, no report of a
sanitizer. Folder and processes go away in any case, so that a failing test does not spoil the next.

Time-outs are for a quick machine and a plain build; `SLOW` stretches them for sanitizers.
"""

import contextlib
import ctypes
import fcntl
import functools
import json
import os
import re
import select
import shutil
import signal
import subprocess
import time

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.path.abspath(os.environ.get("BIN") or os.path.join(ROOT, "build", "bin"))
SAN = os.environ.get("SAN", "")
SLOW = {"": 1, "undefined": 2, "address": 5, "thread": 15}[SAN]
MARK = "SLUICE_TEST_MARK"
NOBODY = 65534  # user and group
SHARED_DATA = os.path.abspath(
    os.environ.get("SLUICE_TEST_DATA") or os.path.join(ROOT, "..", "shared", "data")
)
# Two cores where there are two: an 8-device job runs on them as well as on eight.
CORES = (sorted(os.sched_getaffinity(0)) * 2)[:2]
# Seconds after which a wait gives up, on a plain build. It bounds the test: what is waited for is
# an event.
PATIENCE = 120


class Skip(Exception):
    """Raised by a test that cannot run here; the message says why."""


def cases(*arguments):
    """Decorator: one test for each argument (a value, or a tuple), named after it."""

    def mark(function):
        function.cases = arguments
        return function

    return mark


def whole(function):
    """Decorator: long, and what it shows rarely breaks alone; not in the quick tier."""
    function.whole = True
    return function


def not_under(sanitizer, why):
    """Decorator: skipped, visibly, in a build with that sanitizer. A file's NOT_UNDER, {sanitizer:
    why}, says so of all its tests."""

    def mark(function):
        function.not_under = getattr(function, "not_under", {})
        function.not_under[sanitizer] = why
        return function

    return mark


class Result:
    """What a finished command left: exit status (negative: signal), both outputs, seconds."""

    def __init__(self, command, rc, out, err, seconds):
        self.command, self.rc, self.out, self.err, self.seconds = command, rc, out, err, seconds

    def __str__(self):
        def tail(text):
            return text if len(text) < 6000 else "[...]\n" + text[-6000:]

        return (
            f"$ {' '.join(self.command)}\n  exit status {self.rc} after {self.seconds:.2f} s\n"
            f"--- stdout\n{tail(self.out)}\n--- stderr\n{tail(self.err)}\n---"
        )

    def errors(self):
        """The lines on standard error that say why it failed; lines of the log are none of them."""
        log = ("sluice: note: ", "sluice: warning: ", "sluice: error: ")
        lines = [line for line in self.err.splitlines() if line.startswith("sluice: ")]
        return [line for line in lines if not line.startswith(log)]

    def ok(self):
        assert self.rc == 0, f"wanted exit status 0\n{self}"
        return self

    def error(self, rc, *patterns):
        """Its one message: it failed with that status, and all of these are found in it."""
        assert self.rc == rc, f"wanted exit status {rc}\n{self}"
        errors = self.errors()
        assert len(errors) == 1, f"wanted one message\n{self}"
        for pattern in patterns:
            assert re.search(pattern, errors[0]), f"no '{pattern}' in the message\n{self}"
        return errors[0]

    def json(self):
        try:
            return json.loads(self.out)
        except ValueError as error:
            raise AssertionError(
                f"standard output is not one JSON value: {error}\n{self}"
            ) from None


def default_signals():
    """In a child before its program: no signal is ignored or blocked. A script that starts the
    tests in the background, or nohup, hands such on, and a command that inherits them cannot be
    interrupted."""
    for number in SETTABLE:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


# What one may set; Python ignores two of them, and gives these back to all that it starts.
SETTABLE = set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}
OF_PYTHON = {signal.SIGPIPE, signal.SIGXFSZ}


def before_the_program():
    """default_signals where this process has something to hand on, else nothing to do: a child that
    runs Python before its program is a copy of this process, ten milliseconds of the processor."""
    ignored = (signal.getsignal(n) is signal.SIG_IGN for n in SETTABLE - OF_PYTHON)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return default_signals if blocked or any(ignored) else None


class Running:
    """A command that is still running, leader of its own process group as in a terminal."""

    def __init__(self, box, command, env):
        self.box, self.command, self.begin = box, command, time.monotonic()
        number = box.next_number()
        self.out_path = os.path.join(box.logs, f"{number}.out")
        self.err_path = os.path.join(box.logs, f"{number}.err")
        with open(self.out_path, "wb") as out, open(self.err_path, "wb") as err:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=box.folder,
                env=env,
                start_new_session=True,
                preexec_fn=before_the_program(),
            )

    def output(self):
        with open(self.out_path, errors="replace") as out, open(
            self.err_path, errors="replace"
        ) as err:
            return out.read(), err.read()

    def finished(self):
        return self.process.poll() is not None

    def interrupt(self):
        """Ctrl-C: SIGINT to the whole foreground process group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def kill(self):
        self.process.kill()

    def wait(self, seconds=PATIENCE):
        try:
            rc = self.process.wait(seconds * SLOW)
        except subprocess.TimeoutExpired:
            stacks = self.box.describe_processes()
            self.box.kill_all()
            self.process.wait()
            out, err = self.output()
            raise AssertionError(
                f"still running after {seconds * SLOW} s; processes then:\n{stacks}\n"
                + str(Result(self.command, None, out, err, time.monotonic() - self.begin))
            ) from None
        out, err = self.output()
        return Result(self.command, rc, out, err, time.monotonic() - self.begin)

    def stop(self):
        """A job ends by Ctrl-C; its result."""
        self.interrupt()
        result = self.wait()
        assert result.rc == 130, f"wanted exit status 130\n{result}"
        return result

    def until(self, condition, what, seconds=PATIENCE):
        """Waits until condition() is true; an AssertionError that says `what` otherwise."""
        end = time.monotonic() + seconds * SLOW
        while True:
            asked = time.monotonic()
            value = condition()
            if value:
                return value
            cost = time.monotonic() - asked
            if self.finished():
                raise AssertionError(f"ended before {what}\n{self.wait(1)}")
            if time.monotonic() > end:
                out, err = self.output()
                self.box.kill_all()
                raise AssertionError(
                    f"no {what} within {seconds * SLOW} s\n"
                    + str(Result(self.command, None, out, err, time.monotonic() - self.begin))
                )
            time.sleep(max(0.005, 2 * cost))  # who asks a daemon leaves most of the time to it


class Box:
    """The world of one test."""

    def __init__(self, folder, mark, suite):
        self.folder, self.mark, self.suite = folder, mark, suite
        self.temp = os.path.join(folder, "tmp")
        self.logs = os.path.join(folder, "logs")
        self.numbers = 0
        for path in (self.temp, self.logs, os.path.join(folder, "cache")):
            os.makedirs(path)
        self.programs, self.suppressions = BIN, os.path.join(ROOT, "tests", "sanitizers")
        self.own_shm = False

    def enter(self):
        """In the process of the test, before anything is started."""
        self.own_shm = own_shm()

    # ---- commands -------------------------------------------------------------------------------

    def next_number(self):
        self.numbers += 1
        return self.numbers

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def unique(self, name):
        """A job's name that nobody else has: `sluice run` is found by it on the whole machine."""
        return f"{name}-{self.mark}"

    def environment(self, extra=None):
        env = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")}
        env.update(
            {
                MARK: self.mark,
                "SLUICE_SCOPE": self.mark,
                "TMPDIR": self.temp,
                "XDG_CACHE_HOME": self.path("cache"),
                "XDG_RUNTIME_DIR": self.temp,
                "SLUICE_RUNTIME_DIR": os.path.join(self.temp, "sluice"),  # no daemon of the user's
                "HOME": self.path("cache"),
                "LC_ALL": "C",
                # "auto" is the cores, also where there is a GPU: what is tested is the same
                "CUDA_VISIBLE_DEVICES": "",
                "CUDA_MPS_PIPE_DIRECTORY": self.path("no-mps"),
            }
        )
        if SAN:
            report = self.path("sanitizer")
            supp = self.suppressions
            env["ASAN_OPTIONS"] = (
                f"log_path={report}:exitcode=99:detect_leaks=1:handle_abort=1:"
                "detect_stack_use_after_return=1:allocator_may_return_null=1"
            )
            env["UBSAN_OPTIONS"] = (
                f"log_path={report}:print_stacktrace=1:halt_on_error=1:exitcode=99"
            )
            env["LSAN_OPTIONS"] = f"suppressions={supp}/lsan.supp:print_suppressions=0"
            env["TSAN_OPTIONS"] = (
                f"log_path={report}:suppressions={supp}/tsan.supp:exitcode=99:halt_on_error=0"
            )
        env.update(extra or {})
        return env

    def start(self, *arguments, env=None, program="sluice"):
        path = os.path.join(self.programs, program)
        if not os.path.exists(path):
            raise AssertionError(f"{path} is not there: build it with `make`")
        return Running(self, [path, *map(str, arguments)], self.environment(env))

    def sluice(self, *arguments, env=None, seconds=PATIENCE):
        return self.start(*arguments, env=env).wait(seconds)

    # ---- jobs -----------------------------------------------------------------------------------

    def write_json(self, name, value):
        path = self.path(name)
        with open(path, "w") as file:
            json.dump(value, file, indent=2)
        return path

    def job(self, config, name="job.json"):
        return self.write_json(name, config)

    def run(self, config, *arguments, env=None, seconds=PATIENCE, name="job"):
        """`sluice run` on a job given as a dictionary: (result, report or None)."""
        path = self.job(config, f"{name}.json")
        report = self.path(f"{name}.report.json")
        result = self.sluice("run", path, "--report", report, *arguments, env=env, seconds=seconds)
        if not os.path.exists(report):
            return result, None
        return result, read_json(report)

    def bring_to_an_end(self, running, config):
        """A job that would go on for ever is stopped, and goes on to the end of its epoch. Returns
        three reports: of the part that was stopped, of the rest, and of the same number of epochs
        without any of that."""
        running.stop()
        first = read_json(self.path(config["output"], "report.json"))
        config = dict(config, epochs=len(first["epochs"]) + 1, throttle={}, schedule=[])
        last, straight = self.run(config), self.run(dict(config, output="runs/straight"))
        last[0].ok(), straight[0].ok()
        return first, last[1], straight[1]

    def until_epoch(self, running, n=1, output="runs/job"):
        """Waits for the end of the run's epoch n."""
        metrics = self.path(output, "metrics.jsonl")
        running.until(lambda: text_of(metrics).count("\n") >= n, f"the end of epoch {n}")

    def checkpoints(self, output="runs/job"):
        """Names of a run's whole checkpoints, the oldest first."""
        folder = self.path(output, "checkpoints")
        names = os.listdir(folder) if os.path.isdir(folder) else []
        return sorted(name for name in names if not name.startswith("."))

    def small_disk(self, size):
        """A file system of that size, at "disk" for as long as `with` says."""
        return mounted(self.path("disk"), size)

    # ---- shared between the tests of one run ----------------------------------------------------

    def shared_folder(self, name, fill):
        """A folder that several tests read; fill(path) makes it for the first of them."""
        final = os.path.join(self.suite, name)

        def make():
            scratch = f"{final}.{os.getpid()}"  # who dies leaves his to nobody
            fill(scratch)
            os.rename(scratch, final)

        self.once(final, make)
        return final

    def once(self, path, make):
        """make() makes what is at this path of the run, for the first test that wants it: others
        wait, which costs nothing."""
        if os.path.exists(path):
            return
        with open(f"{path}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.path.exists(path):
                make()

    def shared_dataset(self, name, **arguments):
        return self.shared_folder(
            f"data-{name}", lambda path: write_dataset(path, planted(**arguments), name=name)
        )

    def undisturbed(self, name, config):
        """What the job comes to if nothing happens to it; run by the first test that asks."""

        def compute():
            result, report = self.run(dict(config, output="runs/undisturbed"), name="undisturbed")
            result.ok()
            return fingerprint(report)

        return self.shared_value(name, compute)

    def shared_value(self, name, compute):
        """A JSON value that several tests need; computed by the first of them."""
        final = os.path.join(self.suite, f"value-{name}.json")

        def make():
            value = compute()
            with open(f"{final}.part", "w") as file:
                json.dump(value, file)
            os.rename(f"{final}.part", final)

        self.once(final, make)
        return read_json(final)

    # ---- as somebody else -----------------------------------------------------------------------

    def open_to_all(self):
        """Anybody may use the box and run the programs, also where these stand in a folder that
        only root may enter."""
        for folder in (self.folder, self.temp, self.logs, self.path("cache")):
            os.chmod(folder, 0o777)
        if not enterable_by_all(self.folder):
            raise Skip(f"{self.folder} (TMPDIR) stands where only root may enter")
        copies = self.shared_folder("programs", copy_programs)
        self.programs, self.suppressions = os.path.join(copies, "bin"), copies

    def without_privileges(self):
        """The rest of this test is done by nobody: permissions mean nothing to root."""
        if os.getuid() == 0:
            self.open_to_all()
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)

    # ---- what is left ---------------------------------------------------------------------------

    def processes(self, role=None):
        """Living processes of this box: {pid: command line}; role: sampler, trainer, broker."""
        return {
            pid: line
            for pid, line in marked_processes(self.mark, self.folder).items()
            if role is None or os.path.basename(line.split("\0")[0]) == f"sluice-{role}"
        }

    def stopped(self, role=None):
        """A process of this box that stands still (a failpoint with `stop`), or None."""
        for pid in self.processes(role):
            if state_of(pid) == "T":
                return pid
        return None

    def describe_processes(self):
        lines = []
        for pid, line in self.processes().items():
            try:
                with open(f"/proc/{pid}/wchan") as file:
                    wchan = file.read()
            except OSError:
                wchan = "?"
            lines.append(f"  {pid} [{wchan}] {line.replace(chr(0), ' ')}")
        return "\n".join(lines) or "  none"

    def kill_all(self):
        # Twice: a process may be in the middle of starting another one.
        for _ in range(20):
            left = self.processes()
            if not left:
                return
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.02)

    def kill_everything(self):
        """SIGKILL to all processes at once, as a machine that goes away: all are frozen first, so
        that none begins to leave because another one is dead already."""
        pids = list(self.processes())
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass

    def until_stopped(self, running, role=None, seconds=PATIENCE):
        """Waits for a failpoint with `stop` in what `running` started: the process's number."""
        who = role or "process"
        return running.until(lambda: self.stopped(role), f"{who} that stands still", seconds)

    def until_gone(self, role=None, seconds=PATIENCE):
        """Waits until no process (of that role) is left. Their ends are the events."""
        end = time.monotonic() + seconds * SLOW
        while left := self.processes(role):
            assert time.monotonic() < end, f"processes are left:\n{self.describe_processes()}"
            gone(next(iter(left)), seconds)

    def killed_after(self, output="runs/job"):
        """What a job's log says of workers that did not leave: {process: milliseconds they had}."""
        log = text_of(self.path(output, "log", "broker.log"))
        found = re.findall(r"\(process (\d+)\) had (\d+) ms to leave and was killed", log)
        return {int(pid): int(ms) for pid, ms in found}

    def nothing_runs(self):
        """For when the command has ended: it waits for all that it has started, so none is left."""
        assert not self.processes(), f"left by the command:\n{self.describe_processes()}"

    def assert_nothing_left(self):
        self.until_gone()
        names = sorted(os.listdir("/dev/shm")) if self.own_shm else []
        assert not names, f"names are left in /dev/shm: {names}"
        left = []
        for folder, _, files in os.walk(self.temp):
            left += [os.path.join(folder, name) for name in files]
        assert not left, f"temporary files are left: {left}"
        reports = [n for n in os.listdir(self.folder) if n.startswith("sanitizer.")]
        for name in reports:
            with open(self.path(name), errors="replace") as file:
                raise AssertionError(
                    f"{len(reports)} sanitizer reports; {name}:\n{file.read()[:8000]}"
                )

    def assert_no_run(self, config=None):
        """Nothing that looks like a run directory is here: nothing was started."""
        for name in ("runs", "out", *([config["output"]] if config else [])):
            path = self.path(name)
            assert not os.path.lexists(path), f"{path} exists: {os.listdir(path)}"


class Daemon:
    """A daemon with a runtime directory of its own, and a user's commands to it."""

    def __init__(self, box, *arguments, folder="rt", env=None):
        self.box, self.arguments = box, arguments
        self.folder = box.path(folder)
        self.env = {"SLUICE_RUNTIME_DIR": self.folder, **(env or {})}
        self.running = None
        self.start()

    def start(self):
        self.running = self.box.start(*self.arguments, program="sluice-broker", env=self.env)
        self.until(self.answers, "the daemon's answer")

    def answers(self):
        """`ps` also tells of jobs of `sluice run` elsewhere: those are no answer of the daemon."""
        asked = self.do("ps", "-o", "json")
        return asked.rc == 0 and asked.json()["daemon"]

    def do(self, *arguments, seconds=PATIENCE):
        return self.box.sluice(*arguments, env=self.env, seconds=seconds)

    def background(self, *arguments):
        return self.box.start(*arguments, env=self.env)

    def listed(self):
        """What `ps --all` tells: the daemon, and its jobs by name."""
        answer = self.do("ps", "--all", "-o", "json").ok().json()
        return answer["daemon"], {job["name"]: job for job in answer["jobs"] if job["id"]}

    def jobs(self):
        return self.listed()[1]

    def state(self, name):
        return self.jobs().get(name, {}).get("state")

    def until(self, condition, what, seconds=PATIENCE):
        return self.running.until(condition, what, seconds)

    def until_state(self, name, *states, seconds=PATIENCE):
        """What is told of the job, once it is in one of these states."""
        self.until(lambda: self.state(name) in states, f"'{name}' that is {states}", seconds)
        return self.jobs()[name]

    def kill(self):
        self.running.kill()
        self.running.wait()

    def stop(self, seconds=PATIENCE):
        """Ends as systemd ends it; its result."""
        self.running.process.terminate()
        return self.running.wait(seconds)


def json_lines(running):
    """The complete lines of JSON that a command has printed so far."""
    text = running.output()[0]
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def stop_process(pid):
    """From here on it stands still, and leaves by no signal but a kill."""
    os.kill(pid, signal.SIGSTOP)
    while state_of(pid) not in ("T", "Z", None):
        time.sleep(0.001)


def state_of(pid):
    """The kernel's letter for what a process does (T: stands still), or None where it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return None


def go_on(pid):
    """Lets a process that stands still go on, unless it has been killed meanwhile."""
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass


def gone(pid, seconds=PATIENCE):
    """Waits until a process has ended; its end is the event, not the time."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        ready, _, _ = select.select([fd], [], [], seconds * SLOW)
        assert ready, f"process {pid} is alive after {seconds * SLOW} s"
    finally:
        os.close(fd)


@functools.cache
def own_shm():
    """Gives this process, and what it starts, a /dev/shm of its own, empty, which goes with the
    last of them. False where that cannot be had: only root may, and not in every container."""
    libc = ctypes.CDLL(None)
    libc.mount.argtypes = (*[ctypes.c_char_p] * 3, ctypes.c_ulong, ctypes.c_char_p)
    new_mounts, private, no_suid_no_devices = 0x20000, 0x44000, 0x6  # linux/sched.h, linux/mount.h
    return (
        libc.unshare(new_mounts) == 0
        and libc.mount(None, b"/", None, private, None) == 0
        and libc.mount(b"shm", b"/dev/shm", b"tmpfs", no_suid_no_devices, b"mode=1777") == 0
    )


def can_mount():
    """Whether tests have mounts of their own here; asked in a process that ends with the answer."""
    pid = os.fork()
    if pid == 0:
        os._exit(0 if own_shm() else 1)
    return os.waitpid(pid, 0)[1] == 0


@contextlib.contextmanager
def mounted(folder, size):
    if os.geteuid() != 0:
        raise Skip("only root may mount a small file system")
    os.makedirs(folder)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        raise Skip("no file system may be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def enterable_by_all(folder):
    """Whether anybody may go through all folders on the way into this one."""
    while os.stat(folder).st_mode & 1:
        if folder == "/":
            return True
        folder = os.path.dirname(folder)
    return False


def copy_programs(folder):
    """The programs, and what sanitizers must not report, into a folder that all may read."""
    os.makedirs(os.path.join(folder, "bin"))
    for role in ("", "-broker", "-sampler", "-trainer"):
        shutil.copy(os.path.join(BIN, f"sluice{role}"), os.path.join(folder, "bin"))
    for name in ("lsan.supp", "tsan.supp"):
        shutil.copy(os.path.join(ROOT, "tests", "sanitizers", name), folder)


def marked_processes(mark, folder=None):
    """Processes that carry the mark in their environment, or whose working directory is the box."""
    wanted = f"{MARK}={mark}".encode()
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                mine = wanted in file.read().split(b"\0")
            if not mine and folder:
                mine = os.readlink(f"/proc/{entry}/cwd").startswith(folder + "/") or (
                    os.readlink(f"/proc/{entry}/cwd") == folder
                )
            if not mine:
                continue
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                line = file.read().decode(errors="replace").rstrip("\0")
        except OSError:
            continue
        if line:  # a zombie has none
            found[int(entry)] = line
    return found


def read_json(path):
    with open(path) as file:
        try:
            return json.load(file)
        except ValueError as error:
            raise AssertionError(f"{path} is not JSON: {error}") from None


def accuracies(report):
    return [e["val_accuracy"] for e in report["epochs"]] + [report["test_accuracy"]]


def fingerprint(report):
    """What a finished run comes to: the same, whoever worked, died and went on for it."""
    batches, epochs = report["batches"], report["epochs"]
    assert report["status"] == "done", report["status"]
    assert batches["trained"] == batches["scheduled"], batches
    return {
        "params_sha256": report["params_sha256"],
        "samples_digest": report["samples_digest"],
        "loss": [e["loss"] for e in epochs],
        "accuracy": accuracies(report),
        "best_epoch": report["best_epoch"],
        "edges": [e["sampled_edges"] for e in epochs],
        "inputs": [e["input_nodes"] for e in epochs],
        "batches": batches["scheduled"],
    }


def python_with(module):
    """A Python that has a module: $SLUICE_TEST_PYG, else python3. Skips where it has not."""
    python = os.environ.get("SLUICE_TEST_PYG", "python3")
    if subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode:
        raise Skip(f"{python} has no {module} (SLUICE_TEST_PYG names one that has)")
    return python


# ---- data sets ----------------------------------------------------------------------------------


def planted(n=1500, classes=4, feat_dim=16, degree=8, homophily=0.85, noise=3.5, seed=1):
    """Arrays of a small graph whose labels show in features and, more clearly, in the structure."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, classes, n)
    centre = rng.normal(size=(classes, feat_dim))
    feat = (centre[label] + noise * rng.normal(size=(n, feat_dim))).astype(np.float32)
    # Power-law weights: a few hubs, many vertices with few in-edges, some with none.
    count = np.minimum(rng.zipf(1.8, n) - 1 + rng.poisson(degree / 2, n), n // 4)
    by_class = [np.flatnonzero(label == c) for c in range(classes)]
    rows = []
    for v in range(n):
        same = rng.random(count[v]) < homophily
        mine = by_class[label[v]]
        source = np.where(
            same, mine[rng.integers(0, len(mine), count[v])], rng.integers(0, n, count[v])
        )
        rows.append(np.unique(source))
    indptr = np.zeros(n + 1, np.int64)
    indptr[1:] = np.cumsum([len(row) for row in rows])
    order = rng.permutation(n)
    return {
        "indptr": indptr,
        "indices": np.concatenate(rows).astype(np.int32),
        "node_feat": feat,
        "node_label": label.astype(np.int64),
        "train_idx": np.sort(order[: n // 2]).astype(np.int64),
        "val_idx": np.sort(order[n // 2 : 3 * n // 4]).astype(np.int64),
        "test_idx": np.sort(order[3 * n // 4 :]).astype(np.int64),
    }


def metadata_of(arrays, name="test"):
    label = arrays["node_label"]
    return {
        "name": name,
        "num_nodes": len(arrays["indptr"]) - 1,
        "num_edges": len(arrays["indices"]),
        "feat_dim": arrays["node_feat"].shape[1],
        "num_classes": int(label.max()) + 1 if len(label) else 0,
        "task": "multiclass",
    }


def write_dataset(path, arrays, name="test", metadata=None):
    os.makedirs(path)
    for key, value in arrays.items():
        np.save(os.path.join(path, f"{key}.npy"), value)
    with open(os.path.join(path, "metadata.json"), "w") as file:
        json.dump(metadata or metadata_of(arrays, name), file)
    return path


def isa_levels(box):
    """The values of SLUICE_ISA that this processor has, from avx2; one where it has no better."""
    checks = json.loads(box.sluice("doctor", "-o", "json").out)["checks"]
    names = ["avx2", "avx512", "amx"]
    best = checks["isa"]["found"].split(",")[0]
    return names[: names.index(best) + 1] if best in names else [best]


def steady_job(box, name, /, **changes):
    """A job of 16 batches and four updates an epoch that has a name of its own on this machine."""
    return small_job(
        box.shared_dataset("small"),
        **{
            "name": box.unique(name),
            "epochs": 100000,
            "sampler.batch_size": 48,
            "updates.batches_per_update": 4,
            **changes,
        },
    )


def cpu_devices(n=4):
    return [{"kind": "cpu", "cores": str(CORES[i % 2])} for i in range(n)]


def text_of(path):
    """What a file has so far; nothing where it is not there yet."""
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def small_job(dataset, /, output="runs/job", **changes):
    """A job that trains in about a second; `changes` uses dotted keys: sampler.batch_size=8."""
    config = {
        "name": "test",
        "dataset": dataset,
        "model": {"kind": "graphsage", "layers": 2, "hidden": 16, "dropout": 0.3},
        "sampler": {"kind": "khop", "fanout": [5, 5], "batch_size": 64},
        "optimizer": {"kind": "adam", "lr": 0.01, "weight_decay": 1e-4},
        "updates": {"mode": "ordered", "batches_per_update": 1},
        "devices": cpu_devices(),
        "allocation": {"samplers": 1, "trainers": 1},
        "epochs": 3,
        "seed": 7,
        "digest": True,
        "evaluate": {"every": 1, "fanout": "full"},
        "output": output,
    }
    for dotted, value in changes.items():
        at = config
        *folders, key = dotted.split(".")
        for folder in folders:
            at = at.setdefault(folder, {})
        at[key] = value
    return config
