"""Ctrl-C and deaths of the processes that people see: nothing hangs and nothing stays behind."""

import os
import signal
import time

from harness import SLOW, cases, read_json, small_job


def endless(box, **changes):
    """A job that would train for hours."""
    config = small_job(box.shared_dataset("small"), **{"epochs": 1000000, **changes})
    return box.job(config)


def start_training(box, *arguments, **changes):
    """The job, in its second epoch or later, with all of its processes."""
    running = box.start("run", endless(box, **changes), *arguments)
    metrics = box.path("runs/job/metrics.jsonl")

    def two_epochs():
        try:
            with open(metrics) as file:
                return file.read().count("\n") >= 2
        except FileNotFoundError:
            return False

    running.until(two_epochs, "two epochs in metrics.jsonl")
    assert len(box.processes("broker")) == 1, box.describe_processes()
    return running


def test_ctrl_c_stops_within_two_seconds_with_a_partial_report(box):
    report = box.path("partial.json")
    running = start_training(box, "--report", report, allocation={"samplers": 2, "trainers": 2})
    begin = time.monotonic()
    running.interrupt()
    result = running.wait(10)
    assert time.monotonic() - begin < 2 * SLOW, f"stopping took too long\n{result}"
    assert result.rc == 130, str(result)
    for path in (report, box.path("runs/job/report.json")):
        value = read_json(path)
        assert value["status"] == "stopped", value["status"]
        assert value["schema"] == "sluice.report/1"
        assert len(value["epochs"]) >= 2
        assert value["batches"]["trained"] > 0
    box.until_gone()


def test_ctrl_c_while_it_starts(box):
    """At any moment of the start: exit status 130 within two seconds, nothing left."""
    path = endless(box)
    # Densely where the broker is started, then until the first epochs run.
    for delay_ms in (*range(16), 20, 25, 30, 40, 60, 100, 150, 250):
        config = small_job(box.shared_dataset("small"), output=f"runs/at{delay_ms}", epochs=1000000)
        path = box.job(config)
        running = box.start("run", path)
        time.sleep(delay_ms / 1000)
        begin = time.monotonic()
        running.interrupt()
        result = running.wait(10)
        assert time.monotonic() - begin < 2 * SLOW, f"after {delay_ms} ms\n{result}"
        # Before the program has installed its handler, the signal itself ends it.
        assert result.rc in (130, -signal.SIGINT), f"after {delay_ms} ms\n{result}"
        box.until_gone()


def test_second_ctrl_c_kills(box):
    """With every worker stopped (SIGSTOP) a clean stop can not succeed; the second one must."""
    running = start_training(box)
    frozen = list(box.processes("sampler")) + list(box.processes("trainer"))
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    running.interrupt()
    time.sleep(0.1)
    running.interrupt()
    begin = time.monotonic()
    result = running.wait(10)
    assert time.monotonic() - begin < 1 * SLOW, str(result)
    assert result.rc == 130, str(result)
    box.until_gone()


def test_one_ctrl_c_is_enough_for_frozen_workers(box):
    """A worker that does not answer is killed when its time is over."""
    running = start_training(box)
    for pid in list(box.processes("trainer")):
        os.kill(pid, signal.SIGSTOP)
    begin = time.monotonic()
    running.interrupt()
    result = running.wait(10)
    assert time.monotonic() - begin < 2 * SLOW, str(result)
    assert result.rc == 130, str(result)
    box.until_gone()


def test_sigterm_stops_cleanly(box):
    running = start_training(box)
    running.process.terminate()
    result = running.wait(10)
    assert result.rc != 0, str(result)
    assert read_json(box.path("runs/job/report.json"))["status"] == "stopped"
    box.until_gone()


def test_closed_standard_output(box):
    """`sluice run ... | head -1`: no crash by SIGPIPE leaves workers behind."""
    import subprocess

    from harness import BIN

    config = small_job(box.shared_dataset("small"))
    command = f"'{BIN}/sluice' run '{box.job(config)}' | head -n 1"
    subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=box.folder,
        env=box.environment(),
        timeout=60 * SLOW,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    box.until_gone()


def test_kill_9_of_the_command_stops_the_job(box):
    """The broker notices, stops the job cleanly and writes the report."""
    running = start_training(box)
    running.kill()
    running.wait(5)
    box.until_gone()
    assert read_json(box.path("runs/job/report.json"))["status"] == "stopped"


@cases("somebody", "the_kernel")
def test_a_hang_up_is_no_second_signal(box, by):
    """The kernel tells of the command's death once for each of its threads: a stop, not a kill."""
    running = start_training(box)
    (broker,) = box.processes("broker")
    (trainer, *_) = box.processes("trainer")
    os.kill(trainer, signal.SIGSTOP)  # it leaves by no signal but a kill
    begin = time.monotonic()
    if by == "somebody":
        for _ in range(3):
            os.kill(broker, signal.SIGHUP)
            time.sleep(0.05)
    else:
        running.kill()
    box.until_gone()
    # What a worker is given to leave, before it is killed.
    assert time.monotonic() - begin > 0.9
    running.wait(5)
    report = read_json(box.path("runs/job/report.json"))
    assert report["status"] == "stopped", report["status"]
    assert "SIGHUP" in report["message"], report["message"]


def test_kill_9_of_the_broker_takes_the_workers_with_it(box):
    running = start_training(box, allocation={"samplers": 2, "trainers": 2})
    (broker,) = box.processes("broker")
    os.kill(broker, signal.SIGKILL)
    begin = time.monotonic()
    box.until_gone("sampler")
    box.until_gone("trainer")
    result = running.wait(5)
    assert time.monotonic() - begin < 2 * SLOW, str(result)
    assert result.rc == 1, str(result)
    errors = result.errors()
    assert len(errors) == 1 and "broker" in errors[0], str(result)
    box.until_gone()


def test_kill_9_of_everything_at_once_leaves_nothing(box):
    running = start_training(box, allocation={"samplers": 2, "trainers": 2})
    box.kill_everything()
    running.wait(5)
    box.until_gone()


def test_workers_do_not_get_the_terminals_ctrl_c(box):
    """The workers are in a session of their own: only the command hears the terminal."""
    running = start_training(box)
    group = os.getpgid(running.process.pid)
    for pid, line in box.processes().items():
        if pid != running.process.pid:
            assert os.getpgid(pid) != group, line
    running.interrupt()
    assert running.wait(10).rc == 130
