"""The daemon dies at any moment: what it has answered holds, and the next one goes on."""

import contextlib
import json
import os
import signal
import subprocess

from harness import (
    CORES,
    Daemon,
    Skip,
    cases,
    fingerprint,
    gone,
    read_json,
    small_job,
    text_of,
    timeout,
)

# Some seconds, whatever trains, with checkpoints all along.
LONG = {
    "throttle": {"train": 0.02, "standby": 0.02},
    "checkpoint": {"every_updates": 10},
    "epochs": 20,
}


def write_job(box, name, cores=CORES, **changes):
    devices = [{"kind": "cpu", "cores": str(core)} for core in cores]
    config = small_job(
        box.shared_dataset("small"),
        output=f"runs/{name}",
        **{"name": name, "devices": devices, "allocation": {}, **changes},
    )
    return box.job(config, f"{name}.json")


def submit(daemon, name, **changes):
    return daemon.do("submit", write_job(daemon.box, name, **changes), "--detach").ok()


def result(box, name):
    return fingerprint(read_json(box.path(f"runs/{name}/report.json")))


def undisturbed(box, **changes):
    """What that job gives when nothing happens to it."""

    def compute():
        path = write_job(box, "undisturbed", **changes)
        box.sluice("run", path, seconds=120).ok()
        return result(box, "undisturbed")

    return box.shared_value("daemon-undisturbed", compute)


def test_an_end_that_nobody_was_told_of(box):
    daemon = Daemon(box, env={"SLUICE_FAILPOINT": "daemon_finished"})
    submit(daemon, "one")
    looking_on = daemon.background("wait", "one")
    ended = daemon.running.wait()
    assert ended.rc == -signal.SIGKILL, str(ended)
    looking_on.wait()  # says that the daemon is gone, and does not hang
    daemon.env.pop("SLUICE_FAILPOINT")
    daemon.start()
    assert daemon.jobs()["one"]["state"] == "done"
    daemon.do("wait", "one").ok()
    daemon.stop().ok()


# ---- at any moment --------------------------------------------------------------------------


@timeout(120)
def test_killed_again_and_again_a_job_gives_the_same(box):
    """Elastic determinism reaches over daemons, too."""
    want = undisturbed(box, **LONG)
    daemon = Daemon(box, env={"SLUICE_FAILPOINT": "trainer_claimed:45:stop"})
    submit(daemon, "one", resume="auto", **LONG)
    submit(daemon, "next")
    for moment in (12, 85, None, None):
        stopped = "SLUICE_FAILPOINT" in daemon.env and box.until_stopped(daemon.running, "trainer")
        daemon.kill()
        daemon.env["SLUICE_FAILPOINT"] = f"trainer_claimed:{moment}:stop"
        if moment is None:
            del daemon.env["SLUICE_FAILPOINT"]
        daemon.start()
        if stopped:
            with contextlib.suppress(ProcessLookupError):  # its broker has ended it already
                gone(stopped)
    daemon.do("wait", "one", "next", seconds=90).ok()
    jobs = daemon.jobs()
    assert jobs["one"]["resumed"] >= 3, jobs["one"]
    assert jobs["next"]["started"] >= jobs["one"]["ended"], "it was overtaken"
    assert result(box, "one") == want
    daemon.stop().ok()


@timeout(90)
def test_what_waited_waits_in_the_same_order(box):
    daemon = Daemon(box)
    names = ["first", "second", "third"]
    submit(daemon, "long", **LONG)
    for name in names:
        submit(daemon, name)
    folder = box.path("runs/long/checkpoints")
    daemon.until(lambda: os.path.isdir(folder) and os.listdir(folder), "a checkpoint")
    daemon.kill()
    daemon.start()
    daemon.do("wait", *names).ok()
    jobs = daemon.jobs()
    assert jobs["long"]["state"] == "interrupted", jobs["long"]
    assert "sluice resume" in jobs["long"]["message"], jobs["long"]
    started = [jobs[name]["started"] for name in names]
    assert started == sorted(started), started
    # One that does not resume by itself goes on when it is asked to.
    daemon.do("resume", "long").ok()
    daemon.do("wait", "long", seconds=60).ok()
    assert read_json(box.path("runs/long/report.json"))["resumes"]
    daemon.stop().ok()


@timeout(90)
def test_cores_are_free_only_once_the_old_broker_is_gone(box):
    """The next daemon comes up at once; what the dead one has started still saves."""
    daemon = Daemon(box)
    submit(daemon, "one", resume="auto", **LONG)
    daemon.until_state("one", "running")
    broker = daemon.jobs()["one"]["pid"]
    os.kill(broker, signal.SIGSTOP)
    daemon.kill()
    daemon.start()
    job = daemon.jobs()["one"]
    assert job["state"] == "interrupted" and "still saving" in job["message"], job
    submit(daemon, "two")
    why = daemon.jobs()["two"]["why"]
    assert "which job 1 'one' has" in why, why
    assert daemon.do("scale", "one", "samplers=1").rc == 1
    assert "still saving" in daemon.do("resume", "one").err
    os.kill(broker, signal.SIGCONT)
    daemon.do("wait", "one", "two", seconds=60).ok()
    jobs = daemon.jobs()
    assert jobs["two"]["started"] >= jobs["one"]["ended"], jobs
    daemon.stop().ok()


@timeout(90)
def test_a_paused_job_resumes_running(box):
    daemon = Daemon(box)
    submit(daemon, "one", resume="auto", **LONG)
    daemon.until_state("one", "running")
    daemon.do("pause", "one").ok()
    daemon.until_state("one", "paused")
    daemon.kill()
    daemon.start()
    daemon.do("wait", "one", seconds=60).ok()
    assert "it was paused" in daemon.running.output()[1]
    daemon.stop().ok()


def test_a_broker_that_is_killed_fails_its_job_alone(box):
    daemon = Daemon(box)
    submit(daemon, "one", resume="auto", **LONG)
    submit(daemon, "two")
    daemon.until_state("one", "running")
    trace = daemon.background("trace", "one", "--seconds", "30", "-o", box.path("trace.json"))
    told = box.path("runs/one/log/broker.log")
    daemon.until(lambda: "trace: a client asks" in text_of(told), "a trace")
    os.kill(daemon.jobs()["one"]["pid"], signal.SIGKILL)
    daemon.until_state("one", "failed")
    job = daemon.jobs()["one"]
    assert "SIGKILL" in job["message"] and job["exit_status"] == 1, job
    result = trace.wait(20)  # who waits for an answer of a dead broker is told
    assert "before it answered" in result.out + result.err, result
    daemon.do("wait", "two").ok()
    daemon.do("resume", "one").ok()
    daemon.until_state("one", "running")
    daemon.do("stop", "one").ok()
    assert daemon.jobs()["one"]["state"] == "stopped"
    daemon.stop().ok()


@cases("starting", "running", "paused")
def test_stopped_in_any_state_it_leaves_nothing_running(box, state):
    daemon = Daemon(box)
    submit(daemon, "one", resume="auto", **LONG)
    submit(daemon, "waits")
    if state != "starting":
        daemon.until_state("one", "running")
    if state == "paused":
        daemon.do("pause", "one").ok()
    daemon.stop(30).ok()
    box.until_gone()
    daemon.start()
    jobs = daemon.jobs()
    assert jobs["one"]["resumed"] == 1 and jobs["waits"]["state"] == "queued", jobs
    daemon.do("stop", "waits", "one").ok()
    jobs = daemon.jobs()
    assert {j["state"] for j in jobs.values()} == {"stopped"}, jobs
    daemon.stop().ok()


def test_a_second_signal_kills(box):
    daemon = Daemon(box)
    submit(daemon, "one", **LONG)
    daemon.until_state("one", "running")
    os.kill(daemon.jobs()["one"]["pid"], signal.SIGSTOP)  # it will not stop by itself
    daemon.running.process.terminate()
    daemon.until(lambda: "SIGTERM: stopping" in daemon.running.output()[1], "first signal's word")
    assert not daemon.running.finished(), "it waits for its jobs"
    daemon.running.process.terminate()
    daemon.running.wait().ok()
    said = daemon.running.output()[1]
    assert "SIGTERM again: killing jobs" in said and "has not stopped in time" not in said, said
    box.until_gone()
    daemon.start()
    assert daemon.jobs()["one"]["state"] == "interrupted"
    daemon.stop().ok()


def test_sighup_is_no_reason_to_end(box):
    daemon = Daemon(box)
    daemon.running.process.send_signal(signal.SIGHUP)
    daemon.until(lambda: "SIGHUP" in daemon.running.output()[1], "its line")
    daemon.do("ps").ok()
    daemon.stop().ok()


# ---- its files ------------------------------------------------------------------------------


def test_two_daemons_never_share_a_state_directory(box):
    first = Daemon(box, "--state-dir", box.path("state"))
    result = box.start(
        "--state-dir",
        box.path("state"),
        "--runtime-dir",
        box.path("other"),
        program="sluice-broker",
    ).wait(20)
    assert result.rc == 2 and "another daemon" in result.err, result
    submit(first, "one")
    first.do("wait", "one").ok()
    first.stop().ok()
    # Another runtime directory takes the jobs over.
    second = Daemon(box, "--state-dir", box.path("state"), folder="other")
    assert second.jobs()["one"]["state"] == "done"
    second.stop().ok()


def test_a_damaged_record_is_set_aside(box):
    daemon = Daemon(box)
    submit(daemon, "one")
    submit(daemon, "two")
    daemon.do("wait", "one", "two").ok()
    daemon.stop().ok()
    with open(box.path("rt/jobs/2.json"), "r+") as file:
        file.truncate(100)
    daemon.start()
    assert list(daemon.jobs()) == ["one"]
    assert "2.json' is damaged" in daemon.running.output()[1]
    assert daemon.listed()[0]["damaged_records"] == 1
    assert "1 damaged record was set aside" in daemon.do("ps", "--all").ok().out
    submit(daemon, "three")  # its number is not that of the damaged one
    assert daemon.jobs()["three"]["id"] == "3"
    daemon.do("wait", "three").ok()
    daemon.stop().ok()


def test_what_a_job_came_to_is_known_to_the_next_daemon(box):
    daemon = Daemon(box)
    submit(daemon, "one")
    daemon.do("wait", "one").ok()
    loss = read_json(box.path("runs/one/report.json"))["epochs"][-1]["loss"]
    before = daemon.jobs()["one"]
    assert (before["epoch"], before["progress"], before["loss"]) == (2, 1, loss), (before, loss)
    daemon.kill()
    daemon.start()
    assert daemon.jobs()["one"] == before
    daemon.stop().ok()


def test_records_of_an_older_daemon_are_read(box):
    """Without the keys that came into the schema later."""
    daemon = Daemon(box)
    submit(daemon, "one")
    daemon.do("wait", "one").ok()
    daemon.kill()
    path = box.path("rt/jobs/1.json")
    record = read_json(path)
    for key in ("boot", "began", "came_to"):
        del record[key]
    with open(path, "w") as file:
        json.dump(record, file)
    daemon.start()
    assert daemon.jobs()["one"]["state"] == "done"
    assert daemon.listed()[0]["damaged_records"] == 0
    daemon.stop().ok()


@timeout(60)
def test_a_run_directory_that_is_gone_is_not_begun_anew(box):
    daemon = Daemon(box)
    submit(daemon, "one", resume="auto", **LONG)
    daemon.until_state("one", "running")
    daemon.stop().ok()
    os.rename(box.path("runs/one"), box.path("runs/away"))
    daemon.start()
    job = daemon.jobs()["one"]
    assert job["state"] == "interrupted" and "is gone" in job["message"], job
    os.rename(box.path("runs/away"), box.path("runs/one"))
    daemon.do("resume", "one").ok()
    daemon.until_state("one", "running")
    daemon.do("stop", "one").ok()
    assert read_json(box.path("runs/one/report.json"))["resumes"]
    daemon.stop().ok()


@timeout(90)
def test_no_room_for_records(box):
    """A job that cannot be recorded is refused; what was accepted goes on."""
    disk = box.path("disk")
    os.makedirs(disk)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs", disk], capture_output=True
    )
    if mounted.returncode != 0:
        raise Skip("a file system cannot be mounted here: " + mounted.stderr.decode().strip())
    try:
        daemon = Daemon(box, "--state-dir", os.path.join(disk, "state"))
        submit(daemon, "one", **LONG)
        daemon.until_state("one", "running")
        with open(os.path.join(disk, "fill"), "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass
        refused = daemon.do("submit", write_job(box, "two"), "--detach")
        assert refused.rc != 0 and "No space left" in refused.err, refused
        assert list(daemon.jobs()) == ["one"]
        daemon.do("stop", "one").ok()  # which cannot be recorded now
        assert daemon.jobs()["one"]["state"] == "stopped"
        os.unlink(os.path.join(disk, "fill"))
        daemon.until(lambda: "record is written now" in daemon.running.output()[1], "its record")
        daemon.kill()
        daemon.start()
        assert daemon.jobs()["one"]["state"] == "stopped"
        daemon.stop().ok()
    finally:
        box.kill_all()
        subprocess.run(["umount", disk], check=True)


@timeout(90)
def test_a_state_directory_that_can_not_be_written_to(box):
    """What was accepted runs to its end, and is recorded once that is possible; no new job is."""
    daemon = Daemon(box, "--state-dir", box.path("state"))
    submit(daemon, "one", **LONG)
    submit(daemon, "two", epochs=1)
    daemon.until_state("one", "running")
    os.rename(box.path("state"), box.path("away"))
    refused = daemon.do("submit", write_job(box, "three"), "--detach")
    assert refused.rc != 0 and "cannot record the job" in refused.err, refused
    daemon.do("stop", "one").ok()
    daemon.until_state("two", "done")  # without a log of its own
    os.rename(box.path("away"), box.path("state"))
    said = lambda: daemon.running.output()[1].count("record is written now")  # noqa: E731
    daemon.until(lambda: said() >= 2, "the records")
    daemon.kill()
    daemon.start()
    jobs = daemon.jobs()
    assert [(name, job["state"]) for name, job in jobs.items()] == [
        ("one", "stopped"),
        ("two", "done"),
    ], jobs
    daemon.stop().ok()


def test_jobs_of_cores_that_are_not_given_away_any_more(box):
    if CORES[0] == CORES[1]:
        raise Skip("there is one core only")
    daemon = Daemon(box)
    submit(daemon, "runs", cores=CORES[1:], **LONG)
    submit(daemon, "waits", cores=CORES[1:])
    daemon.stop().ok()
    daemon.arguments = ("--cores", str(CORES[0]))
    daemon.start()
    waits = daemon.jobs()["waits"]
    assert waits["state"] == "failed" and f"core {CORES[1]}" in waits["message"], waits
    refused = daemon.do("resume", "runs")
    assert refused.rc == 1 and f"core {CORES[1]}" in refused.err, refused
    refused = daemon.do("submit", write_job(box, "new", cores=CORES[1:]), "--detach")
    assert refused.rc != 0 and "this daemon's" in refused.err, refused
    daemon.stop().ok()
