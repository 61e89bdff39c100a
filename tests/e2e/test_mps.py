"""MPS: `scripts/mps run` over an nvidia-cuda-mps-control of the tests', what is left when it ends
(nothing), and what doctor and a job say of GPUs that are shared.

A daemon that is left, or its folder, fails any of these tests: the box looks for both.
"""

import json
import os
import shutil
import socket

from fake_mps import FakeMps
from harness import ROOT, cases, gone, small_job
from test_cuda_config import Machine, gpu

MPS = os.path.join(ROOT, "scripts", "mps")


def start(box, *command, path=None, **env):
    return box.start("run", *command, program=MPS, env={"PATH": path} | env)


def test_a_command_has_a_daemon_and_its_end_is_the_daemons(box):
    fake = FakeMps(box)
    script = 'echo "$CUDA_MPS_PIPE_DIRECTORY $CUDA_VISIBLE_DEVICES"; '
    script += 'cat "$CUDA_MPS_PIPE_DIRECTORY"/*.pid; exit 7'
    env = {"CUDA_VISIBLE_DEVICES": "1"}
    result = start(box, "sh", "-c", script, path=fake.path, **env).wait()
    assert result.rc == 7, result
    ((pid, logs, pipes, visible),) = fake.calls()
    assert result.out == f"{pipes} 1\n{pid}", result
    assert visible == "all" and pipes.startswith(box.temp) and logs != pipes, fake.calls()
    assert not os.path.exists(pipes) and not os.path.exists(f"/proc/{pid}"), fake.calls()
    box.nothing_runs()


# Says that it runs, and goes on until a signal ends it.
WAITS = "import signal, sys; print('runs', flush=True); signal.pause()"


@cases("Ctrl-C", "SIGKILL")
def test_ended(box, how):
    """By the terminal, by whoever knows the script alone, and where the command dies by itself."""
    fake = FakeMps(box)
    running = start(box, "/usr/bin/python3", "-c", WAITS, path=fake.path)
    running.until(lambda: running.output()[0] == "runs\n", "command that runs")
    begin = "/usr/bin/python3\0-c"
    (command,) = (pid for pid, line in box.processes().items() if line.startswith(begin))
    (daemon,) = (int(call[0]) for call in fake.calls())
    if how == "Ctrl-C":
        running.interrupt()
    else:
        running.kill()
    result = running.wait()
    # python3 turns the SIGINT into an exception, and then ends itself by it
    assert result.rc == {"Ctrl-C": 130, "SIGKILL": -9}[how], result
    if how == "SIGKILL":  # the keeper is on its own then
        gone(command), gone(daemon)
        box.until_gone()
    box.nothing_runs()


def test_a_daemon_that_does_not_quit_is_killed(box):
    fake = FakeMps(box)
    result = start(box, "true", path=fake.path, FAKE_MPS="deaf", MPS_SECONDS="1").wait()
    assert result.rc == 0, result
    box.nothing_runs()


def test_a_daemon_that_does_not_come_up(box):
    fake, words = FakeMps(box), "it ended with status 1: no device is there to be served"
    result = start(box, "echo", "ran", path=fake.path, FAKE_MPS="dies").wait()
    assert result.rc == 1 and not result.out, result
    assert "mps: the MPS daemon did not come up: " in result.err and words in result.err, result
    box.nothing_runs()


def test_ended_before_the_command_begins(box):
    fake = FakeMps(box)
    running = start(box, "echo", "ran", path=fake.path, FAKE_MPS="silent", MPS_SECONDS="600")
    running.until(fake.calls, "daemon that does not come up")
    running.interrupt()
    result = running.wait()
    assert result.rc == 1 and not result.out, result
    assert "before the command began" in result.err, result
    box.nothing_runs()


def tools_without_mps(box):
    """A PATH that has what the script needs but the daemon."""
    os.makedirs(box.path("tools"))
    for tool in ("setsid", "setpriv", "mkfifo", "timeout", "mktemp", "rmdir", "mkdir"):
        os.symlink(shutil.which(tool), box.path("tools", tool))
    return box.path("tools")


def test_what_it_can_not_do_it_says(box):
    path = tools_without_mps(box)
    result = start(box, "true", path=path).wait()
    assert result.rc == 1 and "no nvidia-cuda-mps-control in PATH: it comes with" in result.err
    assert "take turns" in result.err, result
    shutil.copy(FakeMps(box).folder + "/nvidia-cuda-mps-control", path)
    long = box.path("a" * 90)
    os.makedirs(long)
    result = start(box, "true", path=path, TMPDIR=long).wait()
    assert result.rc == 1 and "name a shorter one in TMPDIR" in result.err, result
    assert not os.listdir(long)
    result = start(box, "true", path=path, MPS_SECONDS="soon").wait()
    assert result.rc == 1 and "MPS_SECONDS=soon: wanted a whole number" in result.err, result
    os.remove(os.path.join(path, "setpriv"))
    result = start(box, "true", path=path).wait()
    assert result.rc == 1 and "there is no setpriv in PATH" in result.err, result
    for arguments in ((), ("run",), ("walk", "true")):
        result = box.start(*arguments, program=MPS, env={"PATH": path}).wait()
        assert result.rc == 2 and result.err == "usage: mps run COMMAND...\n", result


# ---- what sluice says of it ---------------------------------------------------------------------


def doctor(machine, env):
    text = machine.sluice("doctor", env=env).ok().out
    check = json.loads(machine.sluice("doctor", "-o", "json", env=env).ok().out)["checks"]["mps"]
    assert check["verdict"] == "ok" and check["found"] in text, (check, text)
    return check["found"]


SHARED = [{"kind": "cuda", "index": 0}, {"kind": "cuda", "index": 0}]


def test_doctor_and_a_job_say_whether_a_gpu_is_shared(box):
    machine = Machine.with_gpus(box, gpu(0), gpu(1))
    folder = box.path("m")
    env = {"CUDA_MPS_PIPE_DIRECTORY": folder}
    job = box.job(small_job(box.shared_dataset("small"), devices=SHARED, allocation={}))
    found = doctor(machine, env)
    assert found.startswith(f"no MPS control daemon at {folder}: processes that share a GPU"), found
    assert "take turns" in found and "scripts/mps run" in found, found
    plan = machine.sluice("run", job, "--dry-run", env=env).ok()
    assert "note: several devices are on GPU 0, and their workers take turns" in plan.err, plan
    assert f"no MPS control daemon at {folder}" in plan.err, plan
    apart = small_job(
        box.shared_dataset("small"), allocation={}, devices=[SHARED[0], dict(SHARED[0], index=1)]
    )
    plan = machine.sluice("run", box.job(apart, "apart.json"), "--dry-run", env=env).ok()
    assert "note" not in plan.err, plan
    os.makedirs(folder)
    with socket.socket(socket.AF_UNIX) as control:
        control.bind(os.path.join(folder, "control"))
        control.listen()
        found = doctor(machine, env)
        assert found.endswith("has processes that share a GPU run at once"), found
        plan = machine.sluice("run", job, "--dry-run", env=env).ok()
        assert "note" not in plan.err, plan
    assert "which an earlier one has left" in doctor(machine, env)


def test_under_the_script_doctor_finds_the_daemon(box):
    machine, fake = Machine.with_gpus(box, gpu(0)), FakeMps(box)
    command = [machine.path("sluice"), "doctor", "-o", "json"]
    result = start(box, *command, path=fake.path).wait()
    checks = json.loads(result.out)["checks"]
    ((pid, _, pipes, _),) = fake.calls()
    assert checks["mps"]["found"].startswith(f"the MPS control daemon at {pipes} (process {pid})")
