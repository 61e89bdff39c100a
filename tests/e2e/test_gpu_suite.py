"""scripts/gpu_suite on the emulated GPU: that its steps run, see what is wrong, and fill the table.

Its figures mean nothing here. Steps that take long, and those that need tools or files that this
machine may lack, are left to the real one.
"""

import os
import signal
import subprocess
import sys
import time

from harness import BIN, ROOT, Skip, cases, gone, not_under

SUITE = os.path.join(ROOT, "scripts", "gpu_suite")
PLUGIN = os.path.join(os.path.dirname(BIN), "lib", "libsluice_cuda_simt.so")
SANITIZED = "the emulation and the sanitizer both take over the stacks of threads"


def start(box, *steps, **more):
    """The suite as a process that writes into the box's folder `suite`; more: its environment."""
    if not os.path.exists(PLUGIN):
        raise Skip(f"{PLUGIN} is not there: make tests builds it")
    env = dict(os.environ, BIN=BIN, SLUICE_CUDA_PLUGIN=PLUGIN, TMPDIR=box.path(""))
    return subprocess.Popen(
        [sys.executable, SUITE, "--rehearse", "--out", box.path("suite"), *steps],
        env=env | more,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def done_of(process):
    out, err = process.communicate()  # the test's own limit is the bound
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def rehearse(box, *steps, **env):
    done = done_of(start(box, *steps, **env))
    return done, kept(box, "table.md")


def kept(box, name):
    """What a file of the results has so far, "" where there is none."""
    try:
        with open(box.path("suite", name), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def until(process, condition, what):
    """Waits for what the process does, whose end is the bound."""
    ended = process.poll() is not None
    while not condition():
        assert not ended, f"it ended without the {what}"
        time.sleep(0.02)
        ended = process.poll() is not None


def write_program(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)


def graphs_of(box):
    return [name for name in os.listdir(box.path("")) if name.startswith("gpu_suite-")]


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@not_under("address", SANITIZED)
@not_under("thread", SANITIZED)
@cases("machine", "kernels", "samples", "exchange", "faults", "figures")
def test_step(box, step):
    env = {"SLUICE_SIMT_DEVICES": "2", "CUDA_VISIBLE_DEVICES": "0,1"}
    done, table = rehearse(box, step, **(env if step == "exchange" else {}))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("1 passed, 0 failed, 0 skipped\n"), done.stdout
    if step == "machine":
        assert "| device | Emulated GPU 0 |" in table, table
    if step == "kernels":
        assert "$ SLUICE_CUBLAS=none " in done.stdout, done.stdout
    if step == "exchange":
        assert "| exchange, 2 trainers, 16 wide: nccl |" in table, table
    if step == "figures":
        for figure in (
            "ceilings: 128 KiB; random words of 16 KiB: host to device",
            "gather_ranked: 200 rows of 128 f32, 90 % from the cache: staged by the processor",
            "gemm: gradient of the weights, 40 x 40 x 70 TN: own kernel, bf16",
            "aggregate: 20 x 10 edges",
            "draw walk 5,5,5 of 4 x 3",
        ):
            assert f"| {figure}" in table, f"{figure} is missing:\n{table}"
        assert "fused takes" in table and "best tile" in table, table


@not_under("address", SANITIZED)
@not_under("thread", SANITIZED)
def test_no_gpu_is_a_failure(box):
    done, table = rehearse(box, "machine", SLUICE_SIMT_FAIL="nodevice")
    assert done.returncode == 1 and "<== machine: failed: there is no GPU" in done.stdout, done
    assert done.stdout.endswith("0 passed, 1 failed, 0 skipped\n"), done.stdout
    assert "| device |" not in table, table


@not_under("address", SANITIZED)
@not_under("thread", SANITIZED)
def test_cores_that_are_allowed(box):
    mine = os.sched_getaffinity(0)
    if max(mine) == 0:
        raise Skip("core 0 is the only one")
    os.sched_setaffinity(0, {max(mine)})
    done, _ = rehearse(box, "samples")
    assert done.returncode == 0, done.stdout + done.stderr


def test_out_that_can_not_be_made(box):
    with open(box.path("suite"), "w", encoding="utf-8"):
        pass
    done = done_of(start(box, "machine"))
    assert done.returncode == 1 and "name a folder that can be written to" in done.stderr, done
    assert "==>" not in done.stdout and not graphs_of(box), done


# Measurements of kernels that say two figures and then no more.
STUCK = """
cat <<'END'
back end cuda

ceilings: 1 MiB
  copy of 1 MiB over the device           0.100 ms      21.00 GB/s
  random words of 16 KiB, first          12.000 ms       3.50 GB/s     16.7 % of copy
END
exec sleep 1000
"""


@not_under("address", SANITIZED)
@not_under("thread", SANITIZED)
def test_the_time_is_over(box):
    write_program(box.path("bin", "tests", "bench", "kernels"), STUCK)
    for name in ("sluice", "sluice-trainer"):
        os.symlink(os.path.join(BIN, name), box.path("bin", name))
    process = start(box, "machine", "figures", "faults", BIN=box.path("bin"))
    until(process, lambda: "first" in kept(box, "log.txt"), "figures of what is stuck then")
    process.send_signal(signal.SIGALRM)
    done, table = done_of(process), kept(box, "table.md")
    assert done.returncode == 1 and "1 passed, 1 failed, 1 skipped" in done.stdout, done
    assert "ended with the suite's time" in done.stdout, done
    assert "<== faults: skipped: the time is over" in done.stdout, done
    assert "| device | Emulated GPU 0 |" in table, table
    assert "| ceilings: 1 MiB: random words of 16 KiB, first | 3.50 GB/s" in table, table
    assert not graphs_of(box)


@not_under("address", SANITIZED)
@not_under("thread", SANITIZED)
@cases("SIGINT", "SIGTERM", "SIGHUP", "SIGKILL")
def test_ended(box, name):
    steps = ["machine", "figures"] if name == "SIGHUP" else ["machine", "samples", "faults"]
    process = start(box, *steps)
    until(process, lambda: f"==> {steps[1]}" in kept(box, "log.txt"), "second step")
    process.send_signal(getattr(signal, name))
    done = done_of(process)
    assert "| device | Emulated GPU 0 |" in kept(box, "table.md"), done
    assert "<== machine: passed" in kept(box, "log.txt"), done
    if name == "SIGHUP":  # a terminal that goes away ends nothing
        assert done.returncode == 0 and "2 passed, 0 failed" in kept(box, "log.txt"), done
    elif name == "SIGKILL":
        assert done.returncode == -signal.SIGKILL, done
    else:
        assert done.returncode == 1 and f"samples: failed: ended by {name}" in done.stdout, done
        assert done.stdout.endswith("1 passed, 1 failed, 0 skipped\n"), done
        assert "| device | Emulated GPU 0 |" in done.stdout and not graphs_of(box), done


# A tool of the driver that notes how it is called.
SMI = """
echo "$$ $*" >>"$(dirname "$0")/calls"
case "$*" in *--loop=*) exec sleep 1000;; esac
"""


@not_under("address", SANITIZED)
@not_under("thread", SANITIZED)
@cases("end", "SIGKILL")
def test_the_driver_is_held_open(box, how):
    write_program(box.path("tools", "nvidia-smi"), SMI)
    path = box.path("tools") + ":" + os.environ["PATH"]
    process = start(box, "machine", *(["samples"] if how == "SIGKILL" else []), PATH=path)
    until(process, lambda: "<== machine" in kept(box, "log.txt"), "end of the first step")
    with open(box.path("tools", "calls"), encoding="utf-8") as file:
        calls = [line.split(" ", 1) for line in file]
    holders = [pid for pid, arguments in calls if "--loop=30" in arguments]
    assert len(holders) == 1 and len(calls) == 2, calls
    if how == "SIGKILL":
        assert is_alive(holders[0])
        process.kill()
    done = done_of(process)
    assert how == "SIGKILL" or done.returncode == 0, done
    gone(int(holders[0]))


# Options in pairs, and a program.
SANITIZER = """
echo "$*" >>"$(dirname "$0")/calls"
while [ "${1#--}" != "$1" ]; do shift 2; done
exec "$@"
"""


@not_under("address", SANITIZED)
@not_under("thread", SANITIZED)
def test_sanitizer_beside_the_toolkit(box):
    write_program(box.path("cuda", "bin", "compute-sanitizer"), SANITIZER)
    done, _ = rehearse(box, "sanitizer", CUDA_HOME=box.path("cuda"), PATH="/usr/bin:/bin")
    assert done.returncode == 0 and "1 passed, 0 failed" in done.stdout, done
    with open(box.path("cuda", "bin", "calls"), encoding="utf-8") as file:
        calls = file.read()
    assert "--tool memcheck" in calls and "--tool racecheck" in calls, calls
    assert "--small gather_rows --apart" in calls, calls
