"""sluice under a real Slurm: srun over two nodes, signals, batch jobs that are queued again."""

import os
import signal
import time

from harness import (
    BIN,
    ROOT,
    cases,
    fingerprint,
    go_on,
    read_json,
    small_job,
    state_of,
    text_of,
    whole,
)
from slurm import Slurm
from test_nodes_run import alone, nodes_job
from test_signals import is_pending

SCRIPT = os.path.join(ROOT, "scripts", "sluice.sbatch")
SLUICE = os.path.join(BIN, "sluice")
PMIX = ("srun", "--mpi=pmix", "-N", 2)
DOCTOR = (SLUICE, "doctor", "--nodes")


def program(box, *lines):
    """A script that Slurm starts in the place of sluice."""
    path = box.path("program")
    with open(path, "w") as file:
        file.write("\n".join(("#!/bin/sh", *lines)) + "\n")
    os.chmod(path, 0o755)
    return path


def long_job(box):
    return small_job(box.shared_dataset("small"), epochs=8)


# ---- srun ---------------------------------------------------------------------------------------


@whole
def test_srun_finds_a_world_of_two_with_pmix_alone(box):
    slurm = Slurm(box)
    said = slurm.do(*PMIX, *DOCTOR, "-o", "json").ok().json()
    assert [node["host"] for node in said["nodes"]] == ["a", "b"] and len(said["links"]) == 1, said
    # Without it both are refused, and the sentence says what to do.
    result = slurm.do("srun", "-N", 2, *DOCTOR)
    assert result.rc == 2, str(result)
    said = [line for line in result.err.splitlines() if line.startswith("sluice: ")]
    assert len(said) == 2 and "2 processes (SLURM_STEP_NUM_TASKS)" in said[0], str(result)
    assert "start them with 'srun --mpi=pmix'" in said[1], str(result)
    slurm.close()


@whole
@cases("nodes_start", "nodes_met", "nodes_measuring")
def test_a_task_that_is_killed_ends_the_others(box, phase):
    slurm = Slurm(box)
    task = program(
        box,
        f"[ $SLURM_PROCID = 0 ] || export SLUICE_FAILPOINT={phase}",
        f"exec {' '.join(DOCTOR)}",
    )
    result = slurm.do(*PMIX, "-K", task)
    # The status is the highest: of the first task, too, whenever it was told to end.
    assert result.rc != 0 and "b: task 1: Killed" in result.err, str(result)
    slurm.close()


@whole
def test_a_node_that_is_lost_ends_the_step_and_is_named(box):
    slurm = Slurm(box)
    task = program(
        box,
        "[ $SLURM_PROCID = 0 ] || export SLUICE_FAILPOINT=nodes_measuring:stop",
        f"exec {' '.join(DOCTOR)}",
    )
    running = slurm.start(*PMIX, "-K", task)
    box.until_stopped(running)
    slurm.lose("b")
    result = running.wait()
    assert result.rc != 0 and "host b (rank 1) was not heard of" in result.err, str(result)
    slurm.close()


@whole
def test_srun_runs_one_job_on_two_nodes(box):
    slurm = Slurm(box)
    job = box.job(nodes_job(box))
    # Neither as two jobs nor as one of which MPI knows nothing.
    result = slurm.do("srun", "-N", 2, SLUICE, "run", job)
    assert result.rc == 2 and "start them with 'srun --mpi=pmix'" in result.err, str(result)
    result = slurm.do(*PMIX, SLUICE, "run", box.job(long_job(box), "one.json"))
    assert result.rc == 2, str(result)
    box.assert_no_run()
    slurm.do(*PMIX, "-K", SLUICE, "run", job).ok()
    assert fingerprint(read_json(box.path("runs/job/report.json"))) == alone(box)
    slurm.close()


@whole
def test_a_job_that_lost_a_node_goes_on_on_the_other(box):
    slurm = Slurm(box)
    job = box.job(nodes_job(box, **{"checkpoint.every_updates": 2}))
    task = program(
        box,
        "[ $SLURM_PROCID = 0 ] || export SLUICE_FAILPOINT=trainer_gradient:15:stop",
        f'exec {SLUICE} "$@"',
    )
    running = slurm.start(*PMIX, "-K", task, "run", job)
    box.until_stopped(running, "trainer")
    slurm.lose("b")
    result = running.wait()
    assert result.rc != 0 and "host b (rank 1)" in result.err, str(result)
    result = slurm.do("srun", "--mpi=pmix", "-w", "a", SLUICE, "run", job).ok()
    assert "going on from update" in result.err, str(result)
    assert fingerprint(read_json(box.path("runs/job/report.json"))) == alone(box)
    slurm.close()


# ---- batch jobs ---------------------------------------------------------------------------------


def standing(box):
    return [pid for pid in box.processes() if state_of(pid) == "T"]


def let_time_run_out(slurm, number):
    """Slurm sends the signal of --signal=...@3570 when the job has an hour left."""
    end = time.strftime("%FT%T", time.localtime(time.time() + 3600))
    slurm.do("scontrol", "update", f"JobId={number}", f"EndTime={end}").ok()


def held(box, slurm, *arguments, on="yes"):
    """A batch job whose trainer (of the node `on`) stands still in its 30th mini-batch, unless it
    was queued again: its number, the trainer."""
    task = program(
        box,
        f"[ $SLURM_RESTART_COUNT ] || [ ! {on} ] || "
        "export SLUICE_FAILPOINT=trainer_gradient:30:stop",
        f'exec {SLUICE} "$@"',
    )
    number = slurm.submit(*arguments, env={"SLUICE": task})
    return number, slurm.during(number, lambda: box.stopped("trainer"), "a trainer stands still")


@whole
def test_a_job_is_stopped_before_its_time_is_up_and_goes_on(box):
    slurm = Slurm(box, 1)
    number, trainer = held(box, slurm, "--signal=B:USR1@3570", SCRIPT, box.job(long_job(box)))
    let_time_run_out(slurm, number)
    box.until_gone("sampler")  # the job has been told
    go_on(trainer)
    job = slurm.until_over(number)
    log = text_of(box.path(f"sluice-{number}.log"))
    assert job["JobState"] == "COMPLETED" and job["Restarts"] == "1", f"{job}\n{log}"
    assert f"queued again as job {number}" in log and "going on from update" in log, log
    report = read_json(box.path("runs/job/report.json"))
    assert len(report["resumes"]) == 1
    slurm.close()
    assert fingerprint(report) == box.undisturbed("long", long_job(box))


@whole
def test_a_signal_for_steps_reaches_the_run(box):
    """--signal without B: goes to what srun has started."""
    slurm = Slurm(box, 1)
    job = box.job(long_job(box))
    script = box.path("script")
    with open(script, "w") as file:
        file.write(f"#!/bin/sh\ntrap 'echo the shell got it' USR1\nsrun $SLUICE run {job}\n")
    number, trainer = held(box, slurm, "--signal=USR1@3570", "--output=log", script)
    let_time_run_out(slurm, number)
    box.until_gone("sampler")
    go_on(trainer)
    job = slurm.until_over(number)
    log = text_of(box.path("log"))
    assert job["ExitCode"] == "130:0" and "the shell got it" not in log, f"{job}\n{log}"
    assert read_json(box.path("runs/job/report.json"))["status"] == "stopped", log
    assert box.checkpoints(), log
    slurm.close()


@whole
def test_scancel_stops_for_good_with_a_checkpoint(box):
    slurm = Slurm(box, 1)
    number, trainer = held(box, slurm, SCRIPT, box.job(long_job(box)))
    slurm.do("scancel", number).ok()
    box.until_gone("sampler")
    go_on(trainer)
    box.until_gone("broker")
    job = slurm.until_over(number)
    assert job["JobState"] == "CANCELLED" and job["Restarts"] == "0", job
    assert read_json(box.path("runs/job/report.json"))["status"] == "stopped"
    assert box.checkpoints()
    slurm.close()


@whole
def test_a_job_of_two_nodes_is_stopped_and_goes_on(box):
    slurm = Slurm(box)
    job = box.job(nodes_job(box, epochs=8))
    number, trainer = held(box, slurm, "--nodes=2", SCRIPT, job, on="$SLURM_PROCID = 0")
    slurm.do("scancel", "--batch", "--signal=USR1", number).ok()
    box.until_gone("sampler")  # both nodes have been told
    go_on(trainer)
    job = slurm.until_over(number)
    log = text_of(box.path(f"sluice-{number}.log"))
    assert job["JobState"] == "COMPLETED" and job["Restarts"] == "1", f"{job}\n{log}"
    assert log.count("going on from update") == 1, log
    report = read_json(box.path("runs/job/report.json"))
    assert len(report["resumes"]) == 1 and os.path.isdir(box.path("runs/job/node-1"))
    slurm.close()
    assert fingerprint(report) == box.undisturbed("nodes-8", nodes_job(box, epochs=8))


@whole
def test_a_signal_before_two_runs_look_for_it_queues_them_again(box):
    slurm = Slurm(box)
    task = program(box, "[ $SLURM_RESTART_COUNT ] || kill -STOP $$", f'exec {SLUICE} "$@"')
    job = box.job(nodes_job(box))
    number = slurm.submit("--nodes=2", SCRIPT, job, env={"SLUICE": task})
    slurm.during(number, lambda: len(standing(box)) == 2, "two nodes stand still")
    nodes = standing(box)
    slurm.do("scancel", "--batch", "--signal=USR1", number).ok()
    slurm.until(
        lambda: all(is_pending(pid, signal.SIGUSR1) for pid in nodes), "SIGUSR1 on both nodes"
    )
    for pid in nodes:
        go_on(pid)
    job = slurm.until_over(number)
    log = text_of(box.path(f"sluice-{number}.log"))
    assert job["JobState"] == "COMPLETED" and job["Restarts"] == "1", f"{job}\n{log}"
    slurm.close()
