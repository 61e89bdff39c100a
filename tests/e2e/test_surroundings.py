"""Terminals, other jobs, odd paths, full disks: a job in the world it runs in."""

import os
import shutil
import signal
import subprocess

from harness import BIN, PATIENCE, SLOW, Running, Skip, go_on, read_json, small_job, state_of
from terminal import Terminal


def test_ctrl_c_on_a_terminal(box):
    path = box.job(small_job(box.shared_dataset("small"), epochs=1000000))
    terminal = Terminal(box, "run", path)
    terminal.until(lambda _: terminal.raw.count("epoch") > 5)
    terminal.press("\x03")
    assert terminal.wait() == 130, terminal.raw[-2000:]
    box.nothing_runs()
    assert read_json(box.path("runs/job/report.json"))["status"] == "stopped"


def test_the_terminal_is_closed(box):
    """A hang-up stops the job as Ctrl-C does."""
    path = box.job(small_job(box.shared_dataset("small"), epochs=1000000))
    terminal = Terminal(box, "run", path)
    terminal.until(lambda _: terminal.raw.count("epoch") > 5)
    terminal.hang_up()
    assert terminal.process.wait(PATIENCE * SLOW) == 130
    box.nothing_runs()
    assert read_json(box.path("runs/job/report.json"))["status"] == "stopped"


def test_two_jobs_at_once_do_not_see_each_other(box):
    dataset = box.shared_dataset("small")
    result, alone = box.run(small_job(dataset, output="runs/alone"), name="alone")
    result.ok()
    running = []
    for i in range(2):
        path = box.job(small_job(dataset, output=f"runs/{i}"), f"{i}.json")
        running.append(box.start("run", path))
    for i, command in enumerate(running):
        command.wait().ok()
        report = read_json(box.path(f"runs/{i}/report.json"))
        assert report["params_sha256"] == alone["params_sha256"]
        assert report["samples_digest"] == alone["samples_digest"]


def test_two_jobs_that_begin_with_one_output(box):
    path = box.job(small_job(box.shared_dataset("small")))
    checked = {"SLUICE_FAILPOINT": "run_checked:stop"}
    both = [box.start("run", path, env=checked) for _ in range(2)]
    for command in both:
        command.until(lambda c=command: state_of(c.process.pid) == "T", "check that is over")
    for command in both:
        go_on(command.process.pid)
    winner, loser = sorted((command.wait() for command in both), key=lambda r: r.rc)
    assert winner.rc == 0 and loser.rc in (1, 2), f"{winner}\n{loser}"
    assert len(loser.errors()) == 1 and "runs/job" in loser.errors()[0], str(loser)
    assert read_json(box.path("runs/job/report.json"))["status"] == "done"


def test_paths_with_spaces_and_letters_of_any_language(box):
    place = box.path("größe und мир")
    shutil.copytree(box.shared_dataset("small"), os.path.join(place, "my data"))
    config = small_job("größe und мир/my data", output="größe und мир/a run")
    path = box.job(config, "größe und мир/my job.json")
    box.sluice("run", path, "--report", "größe und мир/my report.json").ok()
    assert read_json(os.path.join(place, "my report.json"))["status"] == "done"
    assert os.path.exists(os.path.join(place, "a run", "model.safetensors"))


def test_full_disk(box):
    """The run directory is on a disk that fills up: the job fails, says so, hangs nowhere."""
    place = box.path("disk")
    os.mkdir(place)
    mount = ["mount", "-t", "tmpfs", "-o", "size=24k", "none", place]
    if os.getuid() != 0 or subprocess.run(mount, stderr=subprocess.DEVNULL).returncode != 0:
        raise Skip("a small file system cannot be mounted here")
    try:
        config = small_job(box.shared_dataset("small"), output="disk/run", **{"model.hidden": 256})
        result, _ = box.run(config)
    finally:
        subprocess.run(["umount", "-l", place], check=True)
    assert result.rc == 1, str(result)
    assert len(result.errors()) == 1 and "space" in result.errors()[0].lower(), str(result)
    box.nothing_runs()


def test_ignored_interrupts_stay_ignored(box):
    """Under nohup, SIGHUP does not stop the job."""
    path = box.job(small_job(box.shared_dataset("small")))
    env = box.environment({"SLUICE_FAILPOINT": "trainer_gradient:8:stop"})
    running = Running(box, ["nohup", os.path.join(BIN, "sluice"), "run", path], env)
    held = box.until_stopped(running)
    os.kill(running.process.pid, signal.SIGHUP)
    go_on(held)
    running.wait().ok()
    assert read_json(box.path("runs/job/report.json"))["status"] == "done"
