"""scripts/gpu_suite on the emulated GPU: that its steps run, see what is wrong, and fill the table.

Its figures mean nothing here. Steps that take long, and those that need tools or files that this
machine may lack, are left to the real one.
"""

import os
import subprocess
import sys
import tarfile

from harness import BIN, ROOT, Skip, whole
from test_cuda import PLUGIN, SANITIZED

SUITE = os.path.join(ROOT, "scripts", "gpu_suite")
NOT_UNDER = {"address": SANITIZED}


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


def packed(box, name):
    """What a file has in the archive of the results."""
    with tarfile.open(box.path("suite", "gpu_suite.tar.gz")) as tar:
        return tar.extractfile(f"gpu_suite/{name}").read().decode()


def test_steps_fill_the_table(box):
    env = {"SLUICE_SIMT_DEVICES": "2", "CUDA_VISIBLE_DEVICES": "0,1"}
    done = done_of(start(box, "machine", "exchange", "figures", **env))
    table = kept(box, "table.md")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("3 passed, 0 failed, 0 skipped\n"), done.stdout
    for row in (
        "device | Emulated GPU |",
        "exchange, 2 trainers, 16 wide: nccl |",
        "gather_ranked: 200 rows of 128 f32, 90 % from the cache: staged by the processor",
        "gemm: gradient of the weights, 40 x 40 x 70 TN: ",
        "draw walk 5,5,5 of 4 x 3",
    ):
        assert f"| {row}" in table, f"{row} is missing:\n{table}"
    assert packed(box, "table.md") == table
    assert packed(box, "log.txt") == kept(box, "log.txt"), done


@whole
def test_the_steps_that_take_longer(box):
    done = done_of(start(box, "kernels", "samples", "faults", CUDA_VISIBLE_DEVICES="0"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "$ SLUICE_CUBLAS=none " in done.stdout, done.stdout


def test_no_gpu_is_a_failure(box):
    done = done_of(start(box, "machine", SLUICE_SIMT_FAIL="nodevice"))
    assert done.returncode == 1 and "<== machine: failed: there is no GPU" in done.stdout, done
    assert done.stdout.endswith("0 passed, 1 failed, 0 skipped\n"), done.stdout
    assert "| device |" not in kept(box, "table.md"), done
