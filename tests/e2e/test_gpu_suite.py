"""scripts/gpu_suite on the emulated GPU: that its steps run, see what is wrong, and fill the table.

Its figures mean nothing here. Steps that take long, and those that need tools or files that this
machine may lack, are left to the real one.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time

from fake_mps import FakeMps
from harness import BIN, ROOT, Skip, cases, gone, not_under

SUITE = os.path.join(ROOT, "scripts", "gpu_suite")
PLUGIN = os.path.join(os.path.dirname(BIN), "lib", "libsluice_cuda_simt.so")
SANITIZED = "the emulation and the sanitizer both take over the stacks of threads"


def start(box, *steps, suite=SUITE, **more):
    """The suite as a process that writes into the box's folder `suite`; more: its environment."""
    if not os.path.exists(PLUGIN):
        raise Skip(f"{PLUGIN} is not there: make tests builds it")
    own = dict(BIN=BIN, SLUICE_CUDA_PLUGIN=PLUGIN, TMPDIR=box.path(""))
    return subprocess.Popen(
        [sys.executable, suite, "--rehearse", "--out", box.path("suite"), *steps],
        env=box.environment(own | more),
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


def packed(box, name):
    """What a file has in the archive of the results."""
    with tarfile.open(box.path("suite", "gpu_suite.tar.gz")) as tar:
        return tar.extractfile(f"gpu_suite/{name}").read().decode()


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
    env = env if step == "exchange" else {"CUDA_VISIBLE_DEVICES": "0"}
    done, table = rehearse(box, step, **env)
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
            "gemm: gradient of the weights, 40 x 40 x 70 TN: gemm bf16",
            "aggregate: 20 x 10 edges",
            "draw walk 5,5,5 of 4 x 3",
        ):
            assert f"| {figure}" in table, f"{figure} is missing:\n{table}"
        for line in ("fused takes", "mapped in pages of"):
            assert line in table, table
    assert packed(box, "table.md") == table
    assert packed(box, "log.txt") == kept(box, "log.txt"), done


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
  fused takes 2 of 3
  best tile 4
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
    assert not graphs_of(box) and packed(box, "table.md") == table


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
    assert "| device | Emulated GPU 0 |" in packed(box, "table.md"), done
    assert "<== machine: passed" in packed(box, "log.txt"), done
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
@cases("the toolkit", "a bundle")
def test_where_the_sanitizer_is(box, beside):
    place = ("cuda", "bin") if beside == "the toolkit" else ("copy", "compute-sanitizer")
    suite = SUITE
    if beside == "a bundle":
        shutil.copytree(os.path.join(ROOT, "scripts"), box.path("copy", "scripts"))
        suite = box.path("copy", "scripts", "gpu_suite")
    write_program(box.path(*place, "compute-sanitizer"), SANITIZER)
    env = {"CUDA_HOME": box.path("cuda"), "PATH": "/usr/bin:/bin"}
    done = done_of(start(box, "sanitizer", suite=suite, **env))
    assert done.returncode == 0 and "1 passed, 0 failed" in done.stdout, done
    with open(box.path(*place, "calls"), encoding="utf-8") as file:
        calls = file.read()
    assert "--tool memcheck" in calls and "--tool racecheck" in calls, calls
    assert "--small gather_rows --apart" in calls, calls


# One that finds something.
FINDS = """
echo '========= Invalid __global__ write of size 4 bytes'
echo '========= ERROR SUMMARY: 1 error'
exit 9
"""


@not_under("address", SANITIZED)
@not_under("thread", SANITIZED)
def test_what_the_sanitizer_finds_marks_the_figures_that_follow(box):
    """In this call, and in those that come later with the same folder."""
    write_program(box.path("bin", "tests", "bench", "kernels"), STUCK.replace("exec sleep", ": "))
    for name in ("sluice", "sluice-trainer", "tests/kernels"):
        os.symlink(os.path.join(BIN, name), box.path("bin", name))
    env = {"CUDA_HOME": box.path("cuda"), "PATH": "/usr/bin:/bin", "BIN": box.path("bin")}

    def ceilings(step, tool):
        write_program(box.path("cuda", "bin", "compute-sanitizer"), tool)
        table = rehearse(box, step, **env)[1]
        rows = [line for line in table.splitlines() if line.startswith("| ceilings: 1 ")]
        assert len(table.splitlines()) == 6 + len(rows), table
        return table.splitlines()[0], [row.split(" | ")[2].strip(" |") for row in rows]

    doubted = ["not to be trusted", "16.7 % of copy; not to be trusted"] + ["not to be trusted"] * 2
    trusted = ["", "16.7 % of copy", "", ""]
    assert ceilings("figures", FINDS) == ("Checks: none yet", trusted)
    checks, beside = ceilings("sanitizer", FINDS)
    assert checks.startswith("Checks: sanitizer failed: ") and beside == trusted
    assert ceilings("figures", FINDS) == (checks, doubted)
    # What was measured in doubt stays so until it is measured again.
    assert ceilings("sanitizer", SANITIZER) == ("Checks: sanitizer passed", doubted)
    assert ceilings("figures", FINDS)[1] == trusted
    assert "| ceilings: 1 MiB (2) | best tile 4 |" in kept(box, "table.md")


@not_under("address", SANITIZED)
@not_under("thread", SANITIZED)
@cases("none", "finds")
def test_the_first_part_says_whether_to_go_on(box, sanitizer):
    status = 3 if sanitizer == "finds" else 0
    if sanitizer == "finds":
        write_program(box.path("cuda", "bin", "compute-sanitizer"), FINDS)
    env = {"CUDA_HOME": box.path("cuda"), "PATH": "/usr/bin:/bin"}
    done, table = rehearse(box, "--part", "1", **env)
    lines = done.stdout.splitlines()
    assert done.returncode == status, done.stdout + done.stderr
    assert "part 1 of 4, checks: at most 570 s" in lines, lines
    for step in ("machine", "kernels", "samples", "sanitizer"):
        plan = next(i for i, line in enumerate(lines) if line.startswith(f"  {step} "))
        assert plan < lines.index("==> machine"), lines
    (end,) = (line for line in lines if line.startswith("part 1 of 4, checks, is over after "))
    verdict = "go on with part 2, whose figures are marked" if status else "go on with part 2"
    assert verdict in end and ("failed: sanitizer" in end) == (status == 3), end
    assert table.startswith("Checks: kernels passed; samples passed; sanitizer "), table
    if sanitizer == "none":
        assert "sanitizer skipped: compute-sanitizer is not installed\n" in table, table


@not_under("address", SANITIZED)
@not_under("thread", SANITIZED)
def test_without_a_gpu_the_first_part_stops_all(box):
    write_program(box.path("bin", "tests", "kernels"), "exit 1")
    for name in ("sluice", "sluice-trainer"):
        os.symlink(os.path.join(BIN, name), box.path("bin", name))
    done, table = rehearse(box, SLUICE_SIMT_FAIL="nodevice", BIN=box.path("bin"))
    assert done.returncode == 1, done
    assert "stop here, the other parts make no sense\nparts 2 to 4 are left out\n" in done.stdout
    assert "==> figures" not in done.stdout and "Checks: kernels failed" in table, done


# The suite's own clock, of which each step takes what it is told to.
CLOCK = """
import importlib.machinery, importlib.util, sys, time
loader = importlib.machinery.SourceFileLoader("gpu_suite", sys.argv[1])
suite = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_suite", loader))
loader.exec_module(suite)
import suitelib
suite.OUT.open(".")
clock = [1000.0]
time.monotonic = lambda: clock[0]
def first(box): found.append(suitelib.left_s()); clock[0] += box
def second(box): found.append(suitelib.left_s())
def third(box): found.append(suitelib.left_s())
suite.SHARES.update({first: 1, second: 3, third: 2})
for takes in (95, 5):
    found = []
    suitelib.TIME.begin_part()
    suite.take_steps([first, second, third], takes)
    print("left", found)
"""


def test_a_step_has_its_share_of_the_time_and_what_others_leave(box):
    command = [sys.executable, "-c", CLOCK, SUITE]
    env = box.environment({"GPU_SUITE_SECONDS": "600", "BIN": BIN})
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=box.path(""))
    left = [line for line in done.stdout.splitlines() if line.startswith("left ")]
    # 600 s by 1 : 3 : 2; the last has what the first two have not taken.
    assert left == ["left [100.0, 305.0, 505.0]", "left [100.0, 395.0, 595.0]"], done


def test_a_part_or_steps(box):
    for words, said in (
        (["--part", "5"], "invalid choice: 5"),
        (["--part", "1", "machine"], "--part and steps: wanted one of them"),
        (["machines"], "there is no step 'machines': wanted some of machine kernels "),
    ):
        done = done_of(start(box, *words))
        assert done.returncode == 2 and said in done.stderr, done
    help_text = done_of(start(box, "--help")).stdout
    assert "part 4, peers" in help_text and "accuracy   Cora" in help_text, help_text


@not_under("address", SANITIZED)
@not_under("thread", SANITIZED)
def test_an_exception_in_a_step_ends_with_the_archive(box):
    write_program(box.path("tools", "nvidia-smi"), "exec sleep 1000")
    with open(box.path("tools", "nvidia-smi"), "w", encoding="utf-8") as file:
        file.write("nothing that can be executed")
    path = box.path("tools") + ":" + os.environ["PATH"]
    done, table = rehearse(box, "machine", PATH=path)
    assert done.returncode == 1 and "Exec format error" in done.stdout, done
    assert packed(box, "table.md") == table and "| device |" in table, table
    assert packed(box, "log.txt") == kept(box, "log.txt"), done


@cases("SLUICE_TEST_DATA", "a bundle", "neither")
def test_where_real_graphs_are(box, which):
    shutil.copytree(os.path.join(ROOT, "scripts"), box.path("copy", "scripts"))
    os.makedirs(box.path("copy", "data", "cora"))
    os.makedirs(box.path("mine", "cora"))
    env = {"SLUICE_TEST_DATA": box.path("mine")} if which == "SLUICE_TEST_DATA" else {}
    name = "pubmed" if which == "neither" else "cora"
    command = [sys.executable, "-c", f"import suite_jobs; print(suite_jobs.data_set('{name}'))"]
    env = box.environment(dict(env, BIN=BIN, PYTHONDONTWRITEBYTECODE="1"))
    scripts = box.path("copy", "scripts")
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=scripts)
    wanted = {
        "SLUICE_TEST_DATA": box.path("mine", "cora"),
        "a bundle": box.path("copy", "data", "cora"),
        "neither": "None",
    }
    assert done.stdout == wanted[which] + "\n", done


# ---- epochs -------------------------------------------------------------------------------------


def matrix(box):
    """{(cache, precision): the three cells}, and the reasons below."""
    text = kept(box, "epochs.md")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line[0] == "|"]
    assert rows[0] == ["cache", "precision", "one device", "two roles", "two roles, MPS"], text
    reasons = [line for line in text.splitlines() if line[0] == "("]
    return {tuple(row[:2]): row[2:] for row in rows[2:]}, reasons


ROWS = [("0.2", "fp32"), ("none", "fp32"), ("0.2", "bf16")]
SECONDS = re.compile(r"\d+\.\d{3} s")


@not_under("address", SANITIZED)
@not_under("thread", SANITIZED)
def test_a_matrix_of_epochs(box):
    fake = FakeMps(box)
    done, _ = rehearse(box, "epoch", PATH=fake.path)
    assert done.returncode == 0, done.stdout + done.stderr
    cells, reasons = matrix(box)
    assert list(cells) == ROWS and not reasons, cells
    assert all(SECONDS.fullmatch(text) for row in cells.values() for text in row), cells
    assert len(fake.calls()) == 3, fake.calls()
    for pid, _, pipes, _ in fake.calls():  # none is left beside the next cell
        assert not os.path.exists(pipes) and not os.path.exists(f"/proc/{pid}"), fake.calls()
    assert kept(box, "epochs.md") in done.stdout and packed(box, "epochs.md"), done
    with open(box.path("suite", "reports", "epoch-0.2-bf16-two-roles.json")) as file:
        config = json.load(file)["config"]
    assert config["precision"] == "bf16" and config["cache"]["ratio"] == 0.2, config
    assert len(config["devices"]) == 2, config


@not_under("address", SANITIZED)
@not_under("thread", SANITIZED)
def test_mps_that_does_not_come_up_is_tried_once(box):
    fake = FakeMps(box)
    done, _ = rehearse(box, "epoch", PATH=fake.path, FAKE_MPS="dies")
    cells, reasons = matrix(box)
    assert done.returncode == 1 and "<== epoch: failed: 1 cells failed: cache 0.2" in done.stdout
    assert [row[2] for row in cells.values()] == ["no (1)"] * 3, cells
    assert all(SECONDS.fullmatch(text) for row in cells.values() for text in row[:2]), cells
    assert len(reasons) == 1 and "no device is there to be served" in reasons[0], reasons
    assert len(fake.calls()) == 1, fake.calls()


# A sluice whose jobs in bf16 fail, and which waits in those without a cache.
CHOOSY = """
case "$*" in run*) echo "$CUDA_MPS_PIPE_DIRECTORY" >>"$(dirname "$0")/pipes" ;; esac
case "$*" in
run*none-fp32*) echo begun >>"$(dirname "$0")/calls"; exec sleep 1000 ;;
run*bf16*) echo "sluice: no bf16 today" >&2; exit 1 ;;
esac
exec {sluice} "$@"
"""


@not_under("address", SANITIZED)
@not_under("thread", SANITIZED)
@cases("a cell that fails", "the time is over")
def test_cells_without_a_figure_say_why(box, how):
    choosy = CHOOSY.format(sluice=os.path.join(BIN, "sluice"))
    if how == "a cell that fails":
        choosy = choosy.replace("*none-fp32*", "*never*")
    write_program(box.path("bin", "sluice"), choosy)
    for name in ("sluice-trainer", "sluice-sampler", "sluice-broker"):
        os.symlink(os.path.join(BIN, name), box.path("bin", name))
    env = {"BIN": box.path("bin"), "PATH": "/usr/bin:/bin", "CUDA_MPS_PIPE_DIRECTORY": "/mps"}
    process = start(box, "epoch", **env)
    if how == "the time is over":
        until(process, lambda: os.path.exists(box.path("bin", "calls")), "cell that takes long")
        process.send_signal(signal.SIGALRM)
    done = done_of(process)
    cells, reasons = matrix(box)
    assert done.returncode == 1, done
    assert all(SECONDS.fullmatch(text) for text in cells[ROWS[0]][:2]), cells
    assert cells[ROWS[0]][2] == "no (1)" and "no nvidia-cuda-mps-control" in reasons[0], reasons
    if how == "a cell that fails":
        assert all(SECONDS.fullmatch(text) for text in cells[ROWS[1]][:2]), cells
        assert cells[ROWS[2]] == ["no (2)", "no (2)", "no (1)"], cells
        assert reasons[1] == "(2) sluice: no bf16 today", reasons
    else:
        assert cells[ROWS[1]] == ["no (2)", "no time", "no (1)"], cells
        assert reasons[1] == "(2) ended with the suite's time", reasons
        assert cells[ROWS[2]] == ["no time", "no time", "no (1)"], cells
        assert "3 of 9 cells did not fit into the time" in done.stdout, done
    assert packed(box, "epochs.md") == kept(box, "epochs.md")
    with open(box.path("bin", "pipes"), encoding="utf-8") as file:  # not the machine's daemon
        assert all(line.endswith("/no-mps\n") for line in file), "a cell has MPS unasked"


# ---- other systems ------------------------------------------------------------------------------

# In the place of gpu_peer.py: one that cannot be imported, one that breaks, and one that works.
PEER = """
import json, sys
what, name = sys.argv[1:3]
if what == "look":
    sys.exit("ImportError: there is none" if name == "pyg" else 0)
job = json.loads(sys.argv[4])
assert job["fanout"] == [3, 2, 2] and job["batch"] == 100 and job["hidden"] == 16, job
print(json.dumps({"ready": True}), flush=True)
for n, _ in enumerate(sys.stdin):
    if name == "cugraph" and n == 2:
        print(json.dumps({"error": "MemoryError: out of it"}), flush=True)
    else:
        print(json.dumps({"seconds": [9, 3, 1, 2][n], "edges": 7}), flush=True)
"""


@not_under("address", SANITIZED)
@not_under("thread", SANITIZED)
def test_other_systems_take_turns_with_sluice(box):
    shutil.copytree(os.path.join(ROOT, "scripts"), box.path("copy", "scripts"))
    with open(box.path("copy", "scripts", "gpu_peer.py"), "w", encoding="utf-8") as file:
        file.write(PEER)
    done = done_of(start(box, "peer", suite=box.path("copy", "scripts", "gpu_suite")))
    table = kept(box, "table.md")
    assert done.returncode == 1, done.stdout + done.stderr
    turns = re.findall(r"^  round (\d), (\S+): ", done.stdout, re.M)
    assert turns == [
        *(("1", "sluice"), ("1", "cuGraph-PyG"), ("1", "WholeGraph")),
        *(("2", "sluice"), ("2", "WholeGraph"), ("3", "sluice"), ("3", "WholeGraph")),
    ], done.stdout
    assert "  PyG NeighborLoader: skipped: ImportError: there is none\n" in done.stdout, done
    assert ": PyG NeighborLoader | skipped | ImportError: there is none |" in table, table
    # The first epoch warms up; then 3, 1 and 2 seconds.
    wanted = r": WholeGraph \| 2\.000 s \| [\d.]+ times sluice's; 1\.000 to 3\.000 s in 3 rounds"
    assert re.search(wanted, table), table
    assert re.search(r": cuGraph-PyG \| 3\.000 s \| .* in 1 rounds", table), table
    assert re.search(r": sluice \| \d+\.\d{3} s \| .* in 3 rounds", table), table
    assert "failed: cuGraph-PyG: MemoryError: out of it; reports/peer-cugraph.log" in done.stdout


def test_a_peer_that_is_not_there(box):
    done, table = rehearse(box, "peer", PATH="/usr/bin:/bin")
    if "loaded and warm" in done.stdout:
        raise Skip("this python3 has one of them")
    assert done.returncode == 0 and "<== peer: skipped: none of them" in done.stdout, done
    for name in ("PyG NeighborLoader", "cuGraph-PyG", "WholeGraph"):
        assert re.search(rf": {name} \| skipped \| \w+", table), table


@cases((), ("look",), ("look", "dgl"), ("serve", "pyg"), ("serve", "pyg", "a", "b", "c"))
def test_the_arguments_of_a_peer(box, *words):
    command = [sys.executable, os.path.join(ROOT, "scripts", "gpu_peer.py"), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "gpu_peer.py serve PEER DATASET JOB" in done.stderr, done
