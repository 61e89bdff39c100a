"""The files that a job adds to while it runs, on file systems that hang or are full."""

import errno
import os

from harness import go_on, small_job, text_of


def job(box, **changes):
    return small_job(box.shared_dataset("small"), **changes)


def undisturbed(box):
    return box.undisturbed("run-files", job(box))["params_sha256"]


def put_aside(box, name):
    """Where a run was killed in its beginning; the file is in the way of the next one."""
    path = box.path("runs/job/log", name)
    os.makedirs(os.path.dirname(path))
    return path


def test_the_first_batch_waits_for_no_disk(box):
    """Work is there for the workers before the run directory is begun."""
    running = box.start("run", box.job(job(box)), env={"SLUICE_FAILPOINT": "broker_phase:stop"})
    broker = box.until_stopped(running, "broker")
    assert not os.path.exists(box.path("runs/job"))
    go_on(broker)
    running.wait().ok()
    assert os.path.exists(box.path("runs/job/report.json"))


def fill(path):
    """A pipe that is full, with a reader who does not read: whoever writes to it hangs."""
    os.mkfifo(path)
    fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    try:
        while True:
            os.write(fd, b"x" * 4096)
    except BlockingIOError:
        return fd


def test_nobody_waits_for_a_file_that_hangs(box):
    """Phases are opened and what dead workers held is given to others all the same."""
    wanted = undisturbed(box)
    fd = fill(put_aside(box, "broker.log"))
    deaths = "trainer_claimed:2,sampler_drawn:3"
    result, report = box.run(job(box), env={"SLUICE_FAILPOINT": deaths})
    os.close(fd)
    result.ok()
    assert report["params_sha256"] == wanted
    assert len(report["restarts"]) == 2, report["restarts"]
    assert "the file system does not answer" in result.err, str(result)


def test_a_pipe_that_nobody_reads_is_refused(box):
    os.mkfifo(put_aside(box, "broker.log"))
    box.run(job(box))[0].error(2, "log/broker.log", "No such device")


def test_a_log_that_is_full_is_a_warning(box):
    os.symlink("/dev/full", put_aside(box, "broker.log"))
    # A trainer stands still for as long as it takes to say so.
    running = box.start(
        "run", box.job(job(box)), env={"SLUICE_FAILPOINT": "trainer_claimed:2:stop"}
    )
    pid = box.until_stopped(running, "trainer")
    warning = "writing 'runs/job/log/broker.log': No space left on device: the job goes on"
    running.until(lambda: warning in running.output()[1], "a warning")
    go_on(pid)
    result = running.wait().ok()
    assert result.err.count(warning) == 1, str(result)
    assert "lines of 'runs/job/log/broker.log' could not be written (No space" in result.err
    # The others have all of theirs.
    assert text_of(box.path("runs/job/metrics.jsonl")).count("\n") == 3
    assert '"kind":"end"' in text_of(box.path("runs/job/events.jsonl")).splitlines()[-1]


def take_all_of(disk):
    """Fills a file system up to its last byte."""
    with open(os.path.join(disk, "ballast"), "wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError as error:
                assert error.errno == errno.ENOSPC, error


def test_a_disk_that_fills_up_while_a_job_runs(box):
    """It trains to its end, says what it could not leave, and begins anew once there is room."""
    wanted = undisturbed(box)
    with box.small_disk("1m") as disk:
        config = job(box, output="disk/job", checkpoint={"every_updates": 5})
        env = {"SLUICE_FAILPOINT": "trainer_claimed:1:stop"}
        running = box.start("run", box.job(config), env=env)
        pid = box.until_stopped(running, "trainer")
        take_all_of(disk)
        go_on(pid)
        result = running.wait()
        result.error(1, "No space left on device")
        assert "metrics.jsonl' could not be written (No space" in result.err, str(result)
        assert not [name for name in os.listdir(box.path("disk/job")) if name[0] == "."]
        os.remove(os.path.join(disk, "ballast"))
        result, report = box.run(config)
        assert result.ok() and report["params_sha256"] == wanted, report["params_sha256"]
        assert text_of(box.path("disk/job/metrics.jsonl")).count("\n") == 3
