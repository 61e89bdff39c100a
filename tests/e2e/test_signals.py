"""Ctrl-C and deaths of the processes that people see: nothing hangs and nothing stays behind."""

import os
import re
import signal

from harness import cases, go_on, read_json, small_job, stop_process, text_of

TWO = {"allocation": {"samplers": 2, "trainers": 2}}


def endless(box, **changes):
    """A job that would train for hours."""
    config = small_job(box.shared_dataset("small"), **{"epochs": 1000000, **changes})
    return box.job(config)


def start_training(box, *arguments, **changes):
    """The job, in its third epoch or later, with all of its processes."""
    running = box.start("run", endless(box, **changes), *arguments)
    metrics = box.path("runs/job/metrics.jsonl")
    running.until(lambda: text_of(metrics).count("\n") >= 2, "two epochs in metrics.jsonl")
    assert len(box.processes("broker")) == 1, box.describe_processes()
    return running


def stopped(box):
    report = read_json(box.path("runs/job/report.json"))
    assert report["status"] == "stopped", report["status"]
    return report


def test_ctrl_c_stops_with_a_partial_report(box):
    path = box.path("partial.json")
    running = start_training(box, "--report", path, **TWO)
    # The workers are in a session of their own: only the command hears the terminal.
    group = os.getpgid(running.process.pid)
    for pid, line in box.processes().items():
        assert pid == running.process.pid or os.getpgid(pid) != group, line
    running.interrupt()
    result = running.wait()
    box.nothing_runs()
    assert result.rc == 130, str(result)
    for report in (read_json(path), stopped(box)):
        assert report["schema"] == "sluice.report/1"
        assert len(report["epochs"]) >= 2
        assert report["batches"]["trained"] > 0


@cases("run_checked", "run_launched", "broker_start", "sampler_start", "trainer_start",
       "broker_phase")
def test_ctrl_c_while_it_starts(box, point):
    """With one of its processes held there: it ends, and nothing is left."""
    running = box.start("run", endless(box), env={"SLUICE_FAILPOINT": f"{point}:stop"})
    held = box.until_stopped(running)
    running.interrupt()
    if point.startswith(("run", "broker")):
        go_on(held)  # a worker that stands still is killed
    result = running.wait()
    box.nothing_runs()
    if point == "run_checked":
        # Before it catches signals the signal itself ends it, and nothing has been started.
        assert result.rc == -signal.SIGINT, str(result)
        box.assert_no_run()
    else:
        assert result.rc == 130 and "stopped by the user" in result.errors()[0], str(result)


def test_second_ctrl_c_kills(box):
    """Workers that stand still do not leave: the second one does not wait for them."""
    running = start_training(box)
    workers = [*box.processes("sampler"), *box.processes("trainer")]
    for pid in workers:
        stop_process(pid)
    (broker,) = box.processes("broker")
    stop_process(broker)  # so that it meets both at once
    running.interrupt()
    running.until(lambda: "once more kills" in running.output()[1], "the first one's line")
    running.interrupt()
    go_on(broker)
    result = running.wait()
    box.nothing_runs()
    assert result.rc == 130, str(result)
    assert box.killed_after() == {pid: 0 for pid in workers}


def test_third_ctrl_c_kills_the_broker(box):
    """One that stands still itself answers no stop; its workers die with it."""
    running = start_training(box)
    (broker,) = box.processes("broker")
    stop_process(broker)
    for n in range(3):
        running.interrupt()
        running.until(lambda: n == 2 or not is_pending(running.process.pid, signal.SIGINT), "it")
    result = running.wait()
    assert result.rc == 130 and "killed" in result.errors()[0], str(result)
    box.until_gone()


def test_kill_9_of_the_command_stops_the_job(box):
    """The broker notices, stops the job cleanly and writes the report."""
    running = start_training(box)
    running.kill()
    running.wait()
    box.until_gone()
    stopped(box)


@cases(("done", 0.01, 0, "parameters  sha256"), ("failed", 1000, 1, "is not finite"))
def test_a_command_that_stood_still_past_the_end_tells_how_it_was(box, status, lr, rc, words):
    """The broker has told nobody, and is gone: its report is there."""
    sgd = {"kind": "sgd", "lr": lr, "momentum": 0.9}
    changes = {"optimizer": sgd, "evaluate.every": 0, "epochs": 20}
    config = small_job(box.shared_dataset("small"), **changes)
    running = box.start("run", box.job(config), env={"SLUICE_FAILPOINT": "run_launched:stop"})
    held = box.until_stopped(running)
    box.until_gone("broker")
    go_on(held)
    result = running.wait()
    box.nothing_runs()
    assert result.rc == rc and words in result.out + result.err, str(result)
    assert read_json(box.path("runs/job/report.json"))["status"] == status


def is_pending(pid, number):
    """Whether a signal was sent to a process that has not taken it yet."""
    status = text_of(f"/proc/{pid}/status")
    masks = re.findall(r"^(?:Sig|Shd)Pnd:\s*(\w+)", status, re.M)
    return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)


def test_a_hang_up_is_no_second_signal(box):
    """The kernel tells of the command's death once for each of its threads: a stop, not a kill."""
    running = start_training(box)
    (broker,) = box.processes("broker")
    (trainer, *_) = box.processes("trainer")
    stop_process(trainer)
    for _ in range(3):
        os.kill(broker, signal.SIGHUP)
        running.until(lambda: not is_pending(broker, signal.SIGHUP), "the broker's attention")
    box.until_gone()
    running.wait()
    assert box.killed_after()[trainer] > 0, box.killed_after()
    assert "SIGHUP" in stopped(box)["message"]


@cases(signal.SIGUSR1, signal.SIGTERM)
def test_a_signal_to_all_processes_is_one(box, number):
    """As Slurm sends it: the command hands it to the broker, which has it already."""
    env = {"SLUICE_FAILPOINT": "trainer_gradient:30:stop"}
    running = box.start("run", endless(box), env=env)
    trainer = box.until_stopped(running, "trainer")
    (broker,) = box.processes("broker")
    running.process.send_signal(number)
    box.until_gone("sampler")  # the broker has been told
    os.kill(broker, number)
    running.until(lambda: not is_pending(broker, number), "the broker's attention")
    go_on(trainer)
    assert running.wait().rc == 130
    assert box.killed_after().get(trainer, 1) > 0, box.killed_after()
    assert stopped(box) and box.checkpoints()
