"""What gpu_suite stands on: results that are kept at once, commands with limits, the GPU's driver.

On a bare machine with python3 and nothing else. Whatever ends the suite, what was measured until
then is in its folder, and in one archive there, and nothing that it started goes on.
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
import tarfile
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
    """Of a part of the suite, and of a step in it. SIGALRM ends all at once."""

    def __init__(self):
        self.over, self.begin, self.step_end = False, time.monotonic(), float("inf")

    def alarm(self, *_):
        self.over = True

    def begin_part(self):
        self.begin, self.step_end = time.monotonic(), float("inf")

    def begin_step(self, kept_s):
        """A step has what the part has left, but what is kept for those behind it."""
        self.step_end = self.begin + TOTAL_S - kept_s

    def passed_s(self):
        return time.monotonic() - self.begin


TIME = Time()


def left_s():
    end = min(TIME.begin + TOTAL_S, TIME.step_end)
    return 0 if TIME.over else end - time.monotonic()


# ---- what is kept -------------------------------------------------------------------------------


ROW = re.compile(r"\| (.*) \| (.*) \| (.*) \|$")
ARCHIVE = "gpu_suite.tar.gz"
DOUBTED = "not to be trusted"


class Out:
    """The folder of the results. Everything is written when it is known: nobody can tell when the
    time on a borrowed machine is over. What earlier calls have left in it stays."""

    def __init__(self):
        self.path, self.log = None, None
        self.rows = {}  # figure: (value, beside)
        self.checks = {}  # step: how it ended
        self.notes = {}  # file: text that is printed behind the table

    def open(self, path):
        try:
            os.makedirs(os.path.join(path, "reports"), exist_ok=True)
            log = os.path.join(path, "log.txt")
            self.log = open(log, "a", encoding="utf-8", errors="replace")
            self.path = os.path.abspath(path)
        except OSError as e:
            sys.exit(f"gpu_suite: --out {path}: {e}: name a folder that can be written to")
        earlier = map(ROW.match, self.read("table.md").splitlines()[3:])
        self.rows = {match[1]: (match[2], match[3]) for match in earlier if match}
        try:
            self.checks = json.loads(self.read("checks.json"))
        except ValueError:
            pass

    def at(self, *path):
        return os.path.join(self.path, *path)

    def read(self, name):
        try:
            with open(self.at(name), encoding="utf-8") as f:
                return f.read()
        except OSError:
            return ""

    def say(self, text):
        """To the terminal, which may be gone, and to the log."""
        for stream in (sys.stdout, self.log):
            try:
                print(text, file=stream, flush=True)
            except OSError:
                pass

    def add(self, figure, value, beside=""):
        """`beside` ends with a mark where a check has failed before."""
        if self.doubts():
            beside = f"{beside}; {DOUBTED}" if beside else DOUBTED
        self.rows[figure] = (value, beside)
        self.write()

    def check(self, step, how):
        self.checks[step] = how
        self.put("checks.json", json.dumps(self.checks))

    def doubts(self):
        return [step for step, how in self.checks.items() if how.startswith("failed")]

    def note(self, name, text):
        self.notes[name] = text
        self.put(name, text + "\n")

    def table(self):
        """Begins with what the figures stand on."""
        checks = "; ".join(f"{step} {how}" for step, how in self.checks.items()) or "none yet"
        lines = [f"Checks: {checks}", "| figure | value | beside |", "| --- | --- | --- |"]
        return "\n".join(lines + [f"| {a} | {b} | {c} |" for a, (b, c) in self.rows.items()])

    def put(self, name, text):
        try:
            with open(self.at(name + ".part"), "w", encoding="utf-8") as f:
                f.write(text)
            os.replace(self.at(name + ".part"), self.at(name))
        except OSError as e:
            self.say(f"  {name} was not written: {e}")

    def write(self):
        self.put("table.md", self.table() + "\n")

    def pack(self):
        """All of it in one file, to be carried away."""
        top, part = "gpu_suite", self.at(ARCHIVE + ".part")
        keep = (ARCHIVE, ARCHIVE + ".part")
        try:
            with tarfile.open(part, "w:gz") as tar:
                for name in sorted(set(os.listdir(self.path)) - set(keep)):
                    tar.add(self.at(name), os.path.join(top, name))
            os.replace(part, self.at(ARCHIVE))
        except OSError as e:
            self.say(f"  {ARCHIVE} was not written: {e}")


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


def start(command, env=None, **more):
    """A command in a session of its own, which dies with the suite."""
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, env=dict(os.environ, **(env or {})),
        start_new_session=True, preexec_fn=die_with_the_suite, **more,
    )


def run(command, limit_s, env=None, show=True, starts=1):
    """What a command says, within a limit and as many starts of the driver; Failed with its last
    lines otherwise."""
    limit_s = max(5, min(limit_s + starts * DRIVER.start_s, left_s()))
    words = [f"{name}={value}" for name, value in (env or {}).items()] + command
    if show:
        say("  $ " + " ".join(words))
    child = start(command, env, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT)
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


class Server:
    """A program that answers each line of its standard input with a line of JSON."""

    def __init__(self, command, log):
        self.rest = b""
        with open(log, "wb") as errors:
            self.child = start(command, stdin=subprocess.PIPE, stderr=errors)

    def ask(self, words, limit_s):
        """The answer to a line; "" only waits for what it says by itself."""
        limit_s = max(0, min(limit_s, left_s()))
        until = time.monotonic() + limit_s
        try:
            self.child.stdin.write(words.encode())
            self.child.stdin.flush()
        except BrokenPipeError:  # it has ended, and its output will say so
            pass
        while b"\n" not in self.rest:
            if select.select([self.child.stdout], [], [], 0.2)[0]:
                part = os.read(self.child.stdout.fileno(), 1 << 16)
                if not part:
                    raise Failed("its process has ended")
                self.rest += part
            elif time.monotonic() >= until or TIME.over:
                raise Late(f"no answer after {limit_s:.0f} s")
        line, self.rest = self.rest.split(b"\n", 1)
        try:
            answer = json.loads(line)
        except ValueError:
            raise Failed(f"no answer: {line[:100]}") from None
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def close(self):
        end(self.child)
        self.child.stdin.close()
        self.child.stdout.close()


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
            ["/bin/sh", "-c", HOLD, "sh", *command], stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
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
