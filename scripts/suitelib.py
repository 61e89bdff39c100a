"""What gpu_suite stands on: results that are kept at once, commands with limits, the GPU's driver.

On a bare machine with python3 and nothing else. Whatever ends the suite, what was measured until
then is in its folder and nothing that it started goes on.
"""

import glob
import json
import math
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time

try:
    import ctypes

    LIBC = ctypes.CDLL(None)
except (ImportError, OSError):  # a small Python has none
    LIBC = None

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def find_bin():
    for path in (os.environ.get("BIN"), os.path.join(ROOT, "bin"), os.path.join(ROOT, "build/bin")):
        if path and os.access(os.path.join(path, "sluice"), os.X_OK):
            return os.path.abspath(path)
    sys.exit("gpu_suite: no programs in bin or build/bin beside scripts: build, or set BIN")


BIN = find_bin()
BEGIN = time.monotonic()
TOTAL_S = float(os.environ.get("GPU_SUITE_SECONDS") or 570)


class Skipped(Exception):
    """The step cannot be done here; the message says why."""


class Failed(Exception):
    """The step has shown something wrong; `text` is what a command said."""

    def __init__(self, message, text=""):
        super().__init__(message)
        self.text = text


class Late(Failed):
    """A command was not done within its limit."""


class Ended(BaseException):
    """Somebody wants the suite to end."""


class Time:
    """Of the whole suite. SIGALRM ends it at once."""

    over = False

    def alarm(self, *_):
        self.over = True


TIME = Time()


def left_s():
    return 0 if TIME.over else TOTAL_S - (time.monotonic() - BEGIN)


# ---- what is kept -------------------------------------------------------------------------------


class Out:
    """The folder of the results. Everything is written when it is known: nobody can tell when the
    time on a borrowed machine is over."""

    def __init__(self):
        self.path, self.log, self.rows = None, None, []

    def open(self, path):
        try:
            os.makedirs(os.path.join(path, "reports"), exist_ok=True)
            log = os.path.join(path, "log.txt")
            self.log = open(log, "a", encoding="utf-8", errors="replace")
            self.path = os.path.abspath(path)
        except OSError as e:
            sys.exit(f"gpu_suite: --out {path}: {e}: name a folder that can be written to")

    def say(self, text):
        """To the terminal, which may be gone, and to the log."""
        for stream in (sys.stdout, self.log):
            try:
                print(text, file=stream, flush=True)
            except OSError:
                pass

    def add(self, figure, value, beside=""):
        self.rows.append((figure, value, beside))
        self.write()

    def table(self):
        lines = ["| figure | value | beside |", "| --- | --- | --- |"]
        return "\n".join(lines + [f"| {a} | {b} | {c} |" for a, b, c in self.rows])

    def write(self):
        path = os.path.join(self.path, "table.md")
        try:
            with open(path + ".part", "w", encoding="utf-8") as f:
                f.write(self.table() + "\n")
            os.replace(path + ".part", path)
        except OSError as e:
            self.say(f"  the table was not written, it is printed at the end: {e}")


OUT = Out()
say = OUT.say


# ---- commands -----------------------------------------------------------------------------------


def program(*path):
    return os.path.join(BIN, *path)


def tool(name, *folders):
    """The path of a program in PATH or in one of the folders, or None."""
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(folders))


def die_with_the_suite():
    """Between fork and exec of a command: prctl(PR_SET_PDEATHSIG, SIGKILL)."""
    if LIBC:
        LIBC.prctl(1, int(signal.SIGKILL))


def end(child):
    """Ends a command and what it started. One that hangs in a driver is left behind."""
    for number, grace_s in ((signal.SIGTERM, 3), (signal.SIGKILL, 3)):
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            pass
        try:
            child.wait(grace_s)
        except subprocess.TimeoutExpired:
            pass


def follow(child, until, show):
    """What a command says to its end: (text, whether that was before `until`)."""
    text, shown = b"", 0
    while True:
        quiet = not select.select([child.stdout], [], [], 0.2)[0]
        part = b"" if quiet else os.read(child.stdout.fileno(), 1 << 16)
        text += part
        last = text.rfind(b"\n") + 1
        # The pipe outlives the command where something that it started holds it.
        over = not part and (not quiet or child.poll() is not None)
        late = time.monotonic() >= until or TIME.over
        if over or late:
            last = len(text)
        if show and last > shown:
            lines = text[shown:last].decode(errors="replace").splitlines()
            say("\n".join("  " + line for line in lines))
            shown = last
        if over or late:
            return text.decode(errors="replace"), over


def run(command, limit_s, env=None, show=True, starts=1):
    """What a command says, within a limit and as many starts of the driver; Failed with its last
    lines otherwise."""
    limit_s = max(5, min(limit_s + starts * DRIVER.start_s, left_s()))
    words = [f"{name}={value}" for name, value in (env or {}).items()] + command
    if show:
        say("  $ " + " ".join(words))
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(os.environ, **(env or {})),
        start_new_session=True,
        preexec_fn=die_with_the_suite,
    )
    status = None
    try:
        until = time.monotonic() + limit_s
        text, over = follow(child, until, show)
        if over:
            status = child.wait(max(1, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        pass
    finally:
        child.stdout.close()
        if status is None:
            end(child)
    tail = "" if show else "\n" + text[-1500:]
    if status is None:
        early = time.monotonic() < until
        why = "ended with the suite's time" if early else f"not done after {limit_s:.0f} s"
        raise Late(f"{' '.join(words)}: {why}{tail}", text)
    if status != 0:
        raise Failed(f"{' '.join(words)}: exit status {status}{tail}", text)
    return text


class Parts:
    """Parts of a step: one that fails does not stop those behind it."""

    def __init__(self):
        self.failed = []

    def do(self, function, *arguments, **more):
        try:
            return function(*arguments, **more)
        except (Skipped, Ended):
            raise
        except Exception as e:
            self.failed.append(str(e) or repr(e))
            say(f"  failed: {self.failed[-1]}")
            return None

    def end(self):
        if self.failed:
            raise Failed("; ".join(text.split("\n")[0] for text in self.failed))


# ---- the machine --------------------------------------------------------------------------------

SMI_FOLDERS = ["/usr/bin", "/usr/local/bin", "/usr/local/nvidia/bin", "/usr/lib/wsl/lib"]
# Holds the driver open until its standard input ends, which it does when the suite is gone.
HOLD = 'trap "" INT TERM HUP; "$@" & read -r end; kill -9 $!'
# What keeps a GPU awake is an open device file: all that a persistence daemon does.
OPEN_FILES = """
import glob, os, signal
for path in glob.glob("/dev/nvidia[0-9]*"):
    try:
        os.open(path, os.O_RDWR)
    except OSError:
        pass
while True:
    signal.pause()
"""


class Driver:
    """Without persistence mode a driver starts anew, for seconds a GPU, whenever nothing has it
    open. So something has it open for as long as the suite runs."""

    def __init__(self):
        text = os.environ.get("SLUICE_GPU_SECONDS", "")
        self.start_s = int(text) if text.isdigit() and 1 <= int(text) <= 600 else 60
        self.holder = None

    def hold(self):
        smi = tool("nvidia-smi", *SMI_FOLDERS)
        if smi:
            command = [smi, "--query-gpu=uuid", "--format=csv,noheader", "--loop=30"]
        elif glob.glob("/dev/nvidia[0-9]*"):
            command = [sys.executable, "-c", OPEN_FILES]
        else:
            return
        self.holder = subprocess.Popen(
            ["/bin/sh", "-c", HOLD, "sh", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def wake(self):
        """Measures one start, whatever the limit of others is to be; returns the GPUs."""
        begin = time.monotonic()
        here = gpus(max(180, self.start_s), starts=0)
        took_s = time.monotonic() - begin
        say(f"the driver answered after {took_s:.1f} s")
        self.start_s = int(2 * took_s) + 5
        if took_s > 20:  # sluice itself waits no longer than that many seconds, or 60
            os.environ.setdefault("SLUICE_GPU_SECONDS", str(min(600, 60 + self.start_s)))
        return here

    def release(self):
        if self.holder:
            self.holder.stdin.close()
            try:
                self.holder.wait(5)
            except subprocess.TimeoutExpired:
                pass


DRIVER = Driver()


def gpus(limit_s=30, starts=1):
    text = run([program("sluice-trainer"), "--devices"], limit_s, show=False, starts=starts)
    return json.JSONDecoder().raw_decode(text, text.index("{"))[0]


def borrow_libraries(here):
    """cuBLAS and NCCL of this python3's packages, where sluice finds none by itself."""
    try:
        import nvidia

        roots = list(nvidia.__path__)
    except (ImportError, AttributeError):
        return
    folders = []
    for found, name in (
        (here["cublas"].startswith("cuBLASLt") or "SLUICE_CUBLAS" in os.environ, "libcublasLt"),
        (not here["nccl"].startswith("none") or "SLUICE_NCCL" in os.environ, "libnccl"),
    ):
        files = [f for root in roots for f in glob.glob(f"{root}/*/lib/{name}.so.*")]
        folders += [] if found else [os.path.dirname(f) for f in sorted(files, reverse=True)]
    if folders:
        older = [os.environ[name] for name in ["LD_LIBRARY_PATH"] if os.environ.get(name)]
        os.environ["LD_LIBRARY_PATH"] = ":".join(older + folders)
        say(f"LD_LIBRARY_PATH={os.environ['LD_LIBRARY_PATH']}: python3's packages have libraries")


def quota():
    """How many cores' worth of time the control groups grant."""
    least = float("inf")
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as f:
            at = re.search(r"^0::(.*)$", f.read(), re.M)[1]
    except (OSError, TypeError):
        at = "/"
    while True:
        try:
            with open(f"/sys/fs/cgroup{at}/cpu.max", encoding="utf-8") as f:
                granted, period = f.read().split()
            least = min(least, float("inf") if granted == "max" else int(granted) / int(period))
        except (OSError, ValueError):
            pass
        if at in ("/", ""):
            return least
        at = os.path.dirname(at)


def cores():
    """How many threads make sense."""
    return max(1, math.ceil(min(len(os.sched_getaffinity(0)), quota())))
