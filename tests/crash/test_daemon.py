"""The daemon dies at any moment: what it has answered holds, and the next one goes on."""

import contextlib
import os
import signal

from harness import CORES, Daemon, cases, fingerprint, go_on, gone, read_json, small_job, text_of

# Some seconds, whatever trains, with checkpoints all along.
LONG = {
    "throttle": {"train": 0.02, "standby": 0.02},
    "checkpoint": {"every_updates": 10},
    "epochs": 14,
}
# Until somebody stops it, however long a busy machine takes for what is done meanwhile.
ENDLESS = {**LONG, "epochs": 100000}


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


# ---- at any moment --------------------------------------------------------------------------


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
            go_on(stopped)  # and leaves, since its broker does
            with contextlib.suppress(ProcessLookupError):
                gone(stopped)
    daemon.do("wait", "one", "next", seconds=90).ok()
    jobs = daemon.jobs()
    assert jobs["one"]["resumed"] >= 3, jobs["one"]
    assert jobs["next"]["started"] >= jobs["one"]["ended"], "it was overtaken"
    assert result(box, "one") == want
    daemon.stop().ok()


def test_a_paused_job_resumes_running(box):
    daemon = Daemon(box)
    submit(daemon, "one", resume="auto", **ENDLESS)
    daemon.until_state("one", "running")
    daemon.do("pause", "one").ok()
    daemon.until_state("one", "paused")
    daemon.kill()
    daemon.start()
    daemon.until_state("one", "running")
    assert "it was paused" in daemon.running.output()[1]
    daemon.do("stop", "one").ok()
    daemon.stop().ok()


def test_a_broker_that_is_killed_fails_its_job_alone(box):
    daemon = Daemon(box)
    submit(daemon, "one", resume="auto", **ENDLESS)
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
    submit(daemon, "one", resume="auto", **ENDLESS)
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
    submit(daemon, "one", **ENDLESS)
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
