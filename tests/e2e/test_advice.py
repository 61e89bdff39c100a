"""Messages that say what to do: it is taken out of the message, done, and does what was said."""

import glob
import os
import re
import shlex
import signal

from harness import Daemon, cases, fingerprint, gone, read_json, small_job

ENDLESS = {"epochs": 1000000}
CHECKPOINTS = {"checkpoint": {"every_updates": 5, "keep": 3}}
NO_CHECKPOINTS = {"checkpoint": {"every_seconds": 0}}


def job(box, **changes):
    return small_job(box.shared_dataset("small"), **{**CHECKPOINTS, **changes})


def undisturbed(box):
    return box.undisturbed("advice-undisturbed", job(box))


def advised(text, pattern):
    found = re.search(pattern, text)
    assert found, f"'{pattern}' is not in: {text}"
    return found


def refused(box, config, *arguments):
    """The one line that says why."""
    return box.run(config, *arguments)[0].error(2)


# No trainer gets past the first checkpoint, however seldom the broker looks whether one is due.
HELD = "trainer_gradient:8:stop"


def killed(box, config, point, *arguments):
    """What is said when the broker is killed there."""
    points = f"{point},{HELD}" if "checkpoint" in point else point
    result, _ = box.run(config, *arguments, env={"SLUICE_FAILPOINT": points})
    error = result.error(1, "the broker was killed by SIGKILL")
    box.until_gone()
    return error


def take_output(box, config, error):
    """Follows "choose another directory with --set output=DIR"."""
    setting = advised(error, r"choose another (?:directory )?with (--set output=)DIR")[1]
    option, _, key = setting.partition(" ")
    result, _ = box.run(config, option, f"{key}runs/advised")
    return result, read_json(box.path("runs/advised/report.json"))


def until_checkpoint(box, running, output="runs/job"):
    running.until(lambda: any(map(str.isdigit, box.checkpoints(output))), "a checkpoint")


# ---- the broker was killed -----------------------------------------------------------------------


def test_the_same_command_without_the_checkpoint_that_it_named(box):
    config = job(box)
    killed(box, config, "broker_checkpoint_named")
    named = max(filter(str.isdigit, box.checkpoints()))
    error = killed(box, config, "broker_report", "--checkpoint", named)
    advised(error, "the same command without --checkpoint goes on from update 36$")
    result, report = box.run(config)
    assert "going on from update 36," in result.ok().err, str(result)
    assert fingerprint(report) == undisturbed(box)


def test_another_output_where_results_are_in_the_way(box):
    """Without checkpoints: the parameters are there, and the report is not."""
    config = job(box, **NO_CHECKPOINTS)
    error = killed(box, config, "broker_report")
    result, report = take_output(box, config, error)
    result.ok()
    assert fingerprint(report) == undisturbed(box)


def test_the_same_command_after_a_kill_on_the_way_out(box):
    config = job(box)
    points = f"broker_checkpoint_named:stop,{HELD}"
    running = box.start("run", box.job(config), env={"SLUICE_FAILPOINT": points})
    broker = box.until_stopped(running, "broker")
    running.interrupt()
    running.until(lambda: "stopping" in running.output()[1], "that it stops")
    os.kill(broker, signal.SIGKILL)
    result = running.wait()
    assert result.rc == 130, str(result)
    update = advised(result.err, r": killed: the same command goes on from update (\d+)")[1]
    box.until_gone()
    result, report = box.run(config)
    assert f"going on from update {update}," in result.ok().err, str(result)
    assert fingerprint(report) == undisturbed(box)


@cases(False, True)
def test_who_waits_for_a_job_whose_broker_is_killed(box, older_report):
    """The report of an earlier part of the run says nothing of this one."""
    name = box.unique("waited")
    config = job(box, name=name)
    if older_report:
        box.run(config)[0].ok()
    config = dict(config, **ENDLESS)
    point = {"SLUICE_FAILPOINT": "trainer_gradient:20:stop"}
    running = box.start("run", box.job(config), env=point)
    trainer = box.until_stopped(running, "trainer")
    until_checkpoint(box, running)
    waiting = box.start("wait", name)
    waiting.until(lambda: watches(waiting.process.pid), "that it has found the job")
    (broker,) = box.processes("broker")
    os.kill(broker, signal.SIGKILL)
    assert running.wait().rc == 1
    gone(trainer)
    result = waiting.wait()
    assert result.rc == 1, str(result)
    update = advised(result.err, r": the same 'sluice run' goes on from update (\d+)")[1]
    late = box.sluice("wait", config["output"])  # by its directory
    assert late.rc == 2, late
    words = advised(late.err, rf": 'sluice run (\S+)' goes on from update {update}\b")
    for again in (box.run(config, "--dry-run")[0], box.sluice("run", words[1], "--dry-run")):
        assert f"going on from update {update}," in again.ok().err, str(again)


def watches(pid):
    """Whether it has a pidfd: it sees when somebody ends."""
    try:
        links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return False
    return any("pidfd" in link for link in links)


# ---- another job, or another number of epochs ----------------------------------------------------


def unfinished(box, **changes):
    """A run that was killed when its report was half written; its job."""
    config = job(box, **changes)
    killed(box, config, "broker_report")
    return config


def test_at_least_as_many_epochs_as_were_trained(box):
    config = unfinished(box)
    error = refused(box, dict(config, epochs=2))
    epochs = int(advised(error, r"give at least (\d+)")[1])
    result, report = box.run(dict(config, epochs=epochs))
    result.ok()
    assert fingerprint(report) == undisturbed(box)
    # It is finished, and says what goes on with it.
    advised(refused(box, config), "give more epochs to go on with it")
    result, report = box.run(dict(config, epochs=epochs + 1))
    assert "going on from update 36," in result.ok().err and len(report["epochs"]) == 4


def test_a_cosine_that_has_ended_does_not_go_on(box):
    config = job(box, **{"optimizer.schedule": "cosine"})
    box.run(config)[0].ok()
    for epochs in (3, 5):
        error = refused(box, dict(config, epochs=epochs))
        assert "cosine" in error and "epochs to go on" not in error, error
    take_output(box, config, error)[0].ok()


def test_the_epochs_of_a_cosine_that_has_not(box):
    config = unfinished(box, **{"optimizer.schedule": "cosine"})
    error = refused(box, dict(config, epochs=5))
    epochs = int(advised(error, r"give (\d+), or choose another directory")[1])
    result, report = box.run(dict(config, epochs=epochs))
    assert "going on from update 36," in result.ok().err and len(report["epochs"]) == epochs


def test_stop_the_job_that_has_the_directory(box):
    config = job(box, **ENDLESS, name=box.unique("holder"))
    running = box.start("run", box.job(config))
    until_checkpoint(box, running)
    command = advised(refused(box, config), r"stop it first with '(sluice stop [^']+)'")[1]
    box.sluice(*shlex.split(command)[1:]).ok()
    stopped = running.wait()
    update = advised(stopped.err, r"after update (\d+), from which the same command goes on")[1]
    again = box.run(config, "--dry-run")[0].ok()
    assert f"going on from update {update}," in again.err, str(again)


def test_parameters_of_a_checkpoint(box):
    killed(box, job(box, **{"evaluate.every": 0}), "broker_checkpoint_named")
    result = box.sluice("predict", "runs/job", "--out", "p.npy", "--best")
    assert result.rc == 2, str(result)
    option, pattern = advised(result.err, r"(--weights) .*such as ([^)]+)\)").groups()
    weights = max(glob.glob(box.path(pattern)))
    box.sluice("predict", "runs/job", "--out", "p.npy", option, weights).ok()


# ---- memory --------------------------------------------------------------------------------------


@cases(
    ("memory", "6MiB", {}),
    ("arena.memory", "64KiB", {}),
    ("store.cache", "8KiB", {"store.features": "storage"}),
)
def test_a_larger_number_on_the_way(box, key, small, changes):
    """A run that is to go on with less than it needs goes on with what it is told."""
    config = job(box, **changes)
    killed(box, config, "broker_checkpoint_named")
    value = small
    for _ in range(8):
        result, report = box.run(config, "--set", f"{key}={value}")
        if result.rc == 0:
            break
        error = result.error(2)
        # Where broker and workers alone hold more, the number is not known yet.
        value = int(advised(error, rf"set {key} to (\d+)|wanted more than (\d+)")[1] or 0)
        value = value or int(re.search(r"wanted more than (\d+)", error)[1]) + (1 << 20)
    assert "going on from update" in result.ok().err, str(result)
    assert fingerprint(report) == undisturbed(box)


# ---- a daemon's jobs -----------------------------------------------------------------------------


def submitted(daemon, name, **changes):
    config = job(daemon.box, name=name, output=f"runs/{name}", **changes)
    return daemon.do("submit", daemon.box.job(config, f"{name}.json"), "--detach").ok()


def do_advised(daemon, text, *more):
    command = advised(text, r"'(sluice (?:resume|submit|ps|stop)[^']*)'")[1]
    return daemon.do(*shlex.split(command)[1:], *more)


@cases("broker", "everything")
def test_resume_after_a_kill(box, who):
    daemon = Daemon(box, env={"SLUICE_FAILPOINT": "trainer_gradient:20:stop"})
    submitted(daemon, "one", epochs=6)
    box.until_stopped(daemon.running, "trainer")
    until_checkpoint(box, daemon.running, "runs/one")
    if who == "everything":
        box.kill_everything()
    else:
        os.kill(daemon.jobs()["one"]["pid"], signal.SIGKILL)
        daemon.until_state("one", "failed")
        daemon.stop().ok()
    box.until_gone()
    daemon.env.clear()
    daemon.env["SLUICE_RUNTIME_DIR"] = daemon.folder
    daemon.start()
    message = daemon.until_state("one", "failed", "interrupted")["message"]
    update = advised(message, r": 'sluice resume 1' goes on from update (\d+)")[1]
    do_advised(daemon, message).ok()
    daemon.do("wait", "one").ok()
    resumes = read_json(box.path("runs/one/report.json"))["resumes"]
    assert [resume["update"] for resume in resumes] == [int(update)], resumes
    daemon.stop().ok()


def test_what_a_stopped_job_is_told(box):
    """In its turn: it is over, it cannot go on, its name is taken, its data set is gone."""
    daemon = Daemon(box)
    os.symlink(box.shared_dataset("small"), box.path("data"))
    submitted(daemon, "bare", **ENDLESS, **NO_CHECKPOINTS)
    daemon.until_state("bare", "running")
    submitted(daemon, "moved", dataset=box.path("data"), **ENDLESS)
    # A second job of that name is told to stop the first one.
    asked = daemon.do("submit", box.path("bare.json"), "--detach", "--set", "output=runs/second")
    do_advised(daemon, asked.err).ok()
    assert daemon.state("bare") == "stopped"
    # Without a checkpoint it cannot go on; with another output it begins.
    asked = daemon.do("pause", "bare")
    refusal = do_advised(daemon, asked.err)
    assert refusal.rc == 1, str(refusal)
    advised(refusal.err, r"choose another directory with --set output=DIR")
    do_advised(daemon, refusal.err, box.path("bare.json"), "--detach", "--set", "output=runs/b",
               "--set", "epochs=1", "--set", "checkpoint.every_seconds=300").ok()
    # Its data set has gone elsewhere.
    until_checkpoint(box, daemon.running, "runs/moved")
    daemon.do("stop", "moved").ok()
    os.rename(box.path("data"), box.path("elsewhere"))
    refusal = daemon.do("resume", "moved")
    option, key = advised(refusal.err, r"(--set) (dataset=)DIR: it goes on").groups()
    again = [box.path("moved.json"), "--detach", "--set", "epochs=100000"]
    do_advised(daemon, refusal.err, *again, option, key + box.path("elsewhere")).ok()
    daemon.until_state("moved", "running")
    daemon.do("stop", "moved").ok()
    assert read_json(box.path("runs/moved/report.json"))["resumes"]
    # It is done, and can be trained for longer.
    daemon.do("wait", "bare").ok()
    refusal = daemon.do("resume", "bare")
    assert refusal.rc == 1, str(refusal)
    do_advised(daemon, refusal.err, box.path("bare.json"), "--set", "output=runs/b",
               "--set", "epochs=2", "--set", "checkpoint.every_seconds=300").ok()
    assert len(read_json(box.path("runs/b/report.json"))["epochs"]) == 2
    daemon.stop().ok()


def test_start_the_daemon_again(box):
    """Also one that has its directory from the command line alone."""
    daemon = Daemon(box)
    submitted(daemon, "one", **ENDLESS, resume="auto")
    daemon.until_state("one", "running")
    until_checkpoint(box, daemon.running, "runs/one")
    waiting = daemon.background("wait", "one")
    waiting.until(lambda: watches(waiting.process.pid), "that it has found the job")
    daemon.kill()
    result = waiting.wait()
    command = shlex.split(advised(result.err, r"start it again with 'sluice-broker ([^']+)'")[1])
    daemon.running = box.start(*command, program="sluice-broker")
    daemon.until(daemon.answers, "the daemon's answer")
    assert "one" in daemon.jobs()
    daemon.until_state("one", "running")
    daemon.stop().ok()
