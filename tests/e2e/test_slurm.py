"""scripts/sluice.sbatch under a `scontrol` that only notes what it is told."""

import os
import re
import signal
import subprocess

from harness import BIN, ROOT, Running, fingerprint, go_on, read_json, small_job, text_of

SCRIPT = os.path.join(ROOT, "scripts", "sluice.sbatch")


def batch_shell(box, job, *arguments, env=None):
    """The script as Slurm starts it; `told` gets what scontrol was asked."""
    tools = box.path("tools")
    os.makedirs(tools, exist_ok=True)
    with open(os.path.join(tools, "scontrol"), "w") as file:
        file.write(f'#!/bin/sh\necho "$@" >>{box.path("told")}\n')
    os.chmod(os.path.join(tools, "scontrol"), 0o755)
    path = f"{tools}:{BIN}:{os.environ['PATH']}"
    env = box.environment({"PATH": path, "SLURM_JOB_ID": "4711", **(env or {})})
    return Running(box, ["/bin/bash", SCRIPT, job, *arguments], env)


def catches_usr1(pid):
    (mask,) = re.findall(r"SigCgt:\s*(\w+)", text_of(f"/proc/{pid}/status"))
    return int(mask, 16) >> (signal.SIGUSR1 - 1) & 1


def told(box):
    try:
        with open(box.path("told")) as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return []


def long_job(box, **changes):
    return small_job(box.shared_dataset("small"), **{"epochs": 8, **changes})


def held(box, job):
    """The script with a job that stands still in its third epoch; the trainer that does."""
    env = {"SLUICE_FAILPOINT": "trainer_gradient:30:stop"}
    shell = batch_shell(box, job, env=env)
    return shell, box.until_stopped(shell, "trainer")


def end(box, shell, trainer, number):
    """--signal=B: to the batch shell and nobody else."""
    os.kill(shell.process.pid, number)
    box.until_gone("sampler")  # the job has been told
    go_on(trainer)
    return shell.wait()


def test_preempted_requeued_and_gone_on_with_to_the_end(box):
    job = box.job(long_job(box))
    result = end(box, *held(box, job), signal.SIGUSR1)
    assert result.rc == 0, str(result)
    assert told(box) == ["requeue 4711"] and "queued again as job 4711" in result.out, str(result)
    assert os.listdir(box.path("runs/job/checkpoints"))
    assert read_json(box.path("runs/job/report.json"))["status"] == "stopped"
    # The same command again, as Slurm does it.
    result = batch_shell(box, job).wait()
    assert result.rc == 0 and "going on from update" in result.err, str(result)
    report = read_json(box.path("runs/job/report.json"))
    assert report["status"] == "done" and len(report["resumes"]) == 1
    assert told(box) == ["requeue 4711"]
    # As if nothing had happened.
    alone, wanted = box.run(long_job(box, output="runs/alone"), name="alone")
    alone.ok()
    assert fingerprint(report) == fingerprint(wanted)


def test_a_signal_before_the_run_looks_for_it_queues_the_job_again(box):
    sleeper = box.path("sleeper")
    with open(sleeper, "w") as file:
        file.write("#!/bin/sh\nexec sleep 1000\n")
    os.chmod(sleeper, 0o755)
    shell = batch_shell(box, "job.json", env={"SLUICE": sleeper})
    shell.until(lambda: catches_usr1(shell.process.pid), "trap")
    shell.process.send_signal(signal.SIGUSR1)
    result = shell.wait()
    assert result.rc == 0 and told(box) == ["requeue 4711"], str(result)


def test_cancelled_is_stopped_for_good(box):
    result = end(box, *held(box, box.job(long_job(box))), signal.SIGTERM)
    assert result.rc == 130 and told(box) == [], str(result)


def test_a_job_that_fails_is_not_queued_again(box):
    result = batch_shell(box, box.job({"name": "nothing"})).wait()
    assert result.rc == 2 and told(box) == [], str(result)
    assert len(result.errors()) == 1, str(result)
    result = batch_shell(box, "").wait()
    assert result.rc == 2, str(result)


def test_options_reach_the_run(box):
    result = batch_shell(box, box.job(long_job(box)), "--set", "epochs=1").wait()
    assert result.rc == 0, str(result)
    assert len(read_json(box.path("runs/job/report.json"))["epochs"]) == 1


def test_the_directives_are_whole(box):
    with open(SCRIPT) as file:
        lines = file.read().splitlines()
    at = [i for i, line in enumerate(lines) if line.startswith("#SBATCH ")]
    for wanted in ("--signal=B:USR1@120", "--requeue", "--open-mode=append"):
        assert f"#SBATCH {wanted}" in lines
    # Slurm reads no directives after the first command.
    assert max(at) < next(i for i, line in enumerate(lines) if line and line[0] != "#")
    assert subprocess.run(["bash", "-n", SCRIPT], check=False).returncode == 0
