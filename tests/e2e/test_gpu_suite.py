"""scripts/gpu_suite on the emulated GPU: that its steps run, see what is wrong, and fill the table.

Its figures mean nothing here. Steps that take long, and those that need tools or files that this
machine may lack, are left to the real one.
"""

import os
import signal
import subprocess
import sys
import tarfile
import time

from harness import BIN, ROOT, Skip, not_under, whole

SUITE = os.path.join(ROOT, "scripts", "gpu_suite")
PLUGIN = os.path.join(os.path.dirname(BIN), "lib", "libsluice_cuda_simt.so")
SANITIZED = "the emulation and the sanitizer both take over the stacks of threads"


def start(box, *steps, **more):
    """The suite as a process that writes into the box's folder `suite`; more: its environment."""
    if not os.path.exists(PLUGIN):
        raise Skip(f"{PLUGIN} is not there: make tests builds it")
    own = dict(BIN=BIN, SLUICE_CUDA_PLUGIN=PLUGIN, TMPDIR=box.path(""))
    return subprocess.Popen(
        [sys.executable, SUITE, "--rehearse", "--out", box.path("suite"), *steps],
        env=box.environment(own | more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def done_of(process):
    out, err = process.communicate()  # the test's own limit is the bound
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def kept(box, name):
    """What a file of the results has so far, "" where there is none."""
    try:
        with open(box.path("suite", name), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def write_program(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)


def packed(box, name):
    """What a file has in the archive of the results."""
    with tarfile.open(box.path("suite", "gpu_suite.tar.gz")) as tar:
        return tar.extractfile(f"gpu_suite/{name}").read().decode()


@not_under("address", SANITIZED)
@not_under("thread", SANITIZED)
def test_steps_fill_the_table(box):
    env = {"SLUICE_SIMT_DEVICES": "2", "CUDA_VISIBLE_DEVICES": "0,1"}
    done = done_of(start(box, "machine", "samples", "exchange", "figures", **env))
    table = kept(box, "table.md")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("4 passed, 0 failed, 0 skipped\n"), done.stdout
    for row in (
        "device | Emulated GPU 0 |",
        "exchange, 2 trainers, 16 wide: nccl |",
        "gather_ranked: 200 rows of 128 f32, 90 % from the cache: staged by the processor",
        "gemm: gradient of the weights, 40 x 40 x 70 TN: own kernel, bf16",
        "draw walk 5,5,5 of 4 x 3",
    ):
        assert f"| {row}" in table, f"{row} is missing:\n{table}"
    assert packed(box, "table.md") == table
    assert packed(box, "log.txt") == kept(box, "log.txt"), done


@whole
@not_under("address", SANITIZED)
@not_under("thread", SANITIZED)
def test_the_steps_that_take_longer(box):
    done = done_of(start(box, "kernels", "faults", CUDA_VISIBLE_DEVICES="0"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "$ SLUICE_CUBLAS=none " in done.stdout, done.stdout


@not_under("address", SANITIZED)
@not_under("thread", SANITIZED)
def test_no_gpu_is_a_failure(box):
    done = done_of(start(box, "machine", SLUICE_SIMT_FAIL="nodevice"))
    assert done.returncode == 1 and "<== machine: failed: there is no GPU" in done.stdout, done
    assert done.stdout.endswith("0 passed, 1 failed, 0 skipped\n"), done.stdout
    assert "| device |" not in kept(box, "table.md"), done


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
    """What there is by then is in the table and in the archive; what was not begun is skipped."""
    write_program(box.path("bin", "tests", "bench", "kernels"), STUCK)
    for name in ("sluice", "sluice-trainer"):
        os.symlink(os.path.join(BIN, name), box.path("bin", name))
    process = start(box, "machine", "figures", "faults", BIN=box.path("bin"))
    while "first" not in kept(box, "log.txt"):
        assert process.poll() is None, done_of(process)
        time.sleep(0.02)
    process.send_signal(signal.SIGALRM)
    done, table = done_of(process), kept(box, "table.md")
    assert done.returncode == 1 and "1 passed, 1 failed, 1 skipped" in done.stdout, done
    assert "ended with the suite's time" in done.stdout, done
    assert "<== faults: skipped: the time is over" in done.stdout, done
    assert "| device | Emulated GPU 0 |" in table, table
    assert "| ceilings: 1 MiB: random words of 16 KiB, first | 3.50 GB/s" in table, table
    assert packed(box, "table.md") == table
    left = [name for name in os.listdir(box.path("")) if name.startswith("gpu_suite-")]
    assert not left, left


# One that finds something.
FINDS = """
echo '========= Invalid __global__ write of size 4 bytes'
echo '========= ERROR SUMMARY: 1 error'
exit 9
"""


@not_under("address", SANITIZED)
@not_under("thread", SANITIZED)
def test_what_the_sanitizer_finds_marks_the_figures_that_follow(box):
    write_program(box.path("bin", "tests", "bench", "kernels"), STUCK.replace("exec sleep", ": "))
    write_program(box.path("cuda", "bin", "compute-sanitizer"), FINDS)
    for name in ("sluice", "sluice-trainer", "tests/kernels"):
        os.symlink(os.path.join(BIN, name), box.path("bin", name))
    env = {"CUDA_HOME": box.path("cuda"), "PATH": "/usr/bin:/bin", "BIN": box.path("bin")}
    for steps, doubted in (["figures"], False), (["sanitizer"], False), (["figures"], True):
        done_of(start(box, *steps, **env))
        assert ("not to be trusted" in kept(box, "table.md")) == doubted, kept(box, "table.md")
    assert "Checks: sanitizer failed: " in kept(box, "table.md")
