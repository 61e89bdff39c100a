"""`sluice scale`: what it says before, while and after it does something; going back; refusals."""

import os
import signal

from harness import Daemon, go_on, read_json, steady_job, text_of


def me(box):
    return box.unique("scaled")


def job(box, /, **changes):
    return steady_job(box, "scaled", **changes)


def start(box, config, points=""):
    """The job, once it trains; a worker stands still at these failpoints."""
    env = {"SLUICE_FAILPOINT": points}
    running = box.start("run", box.job(config), "--report", box.path("report.json"), env=env)
    running.until(lambda: os.path.exists(box.path("runs/job/metrics.jsonl")), "its metrics")
    return running


def stop(box, running):
    running.stop()
    return read_json(box.path("report.json"))


def scale(box, *arguments):
    """Its JSON."""
    answer = box.sluice("scale", *arguments, "-o", "json").ok().json()
    assert answer["schema"] == "sluice.scale/1" and answer["ok"], answer
    return answer


def seats(box):
    return len(box.processes("sampler")), len(box.processes("trainer"))


def test_a_dry_run_changes_nothing(box):
    running = start(box, job(box, **{"allocation.switching": False}), "trainer_gradient:20:stop")
    pid = box.until_stopped(running, "trainer")
    before = box.processes()
    said = box.sluice("scale", me(box), "samplers=2", "trainers=2", "--dry-run").ok()
    for part in ("from 1 sampler and 1 trainer to 2 samplers and 2 trainers",
                 "device 1: sampler 1 starts", "device 2: trainer 1 starts",
                 "an epoch is expected to take", "nothing has been changed"):
        assert part in said.out, (part, str(said))
    dry = scale(box, me(box), "samplers=2", "trainers=2", "--dry-run")
    assert dry["dry_run"] and dry["took_seconds"] is None, dry
    assert dry["from"] == {"samplers": 1, "trainers": 1}, dry
    assert dry["to"] == {"samplers": 2, "trainers": 2}, dry
    assert len(dry["steps"]) == 2 and dry["pays"], dry
    assert dry["epoch_seconds_then"] < dry["epoch_seconds_now"], dry
    gain = dry["epoch_seconds_now"] - dry["epoch_seconds_then"]
    assert abs(dry["gain_seconds_an_epoch"] - gain) < 1e-6, dry
    assert box.processes() == before
    go_on(pid)
    done = scale(box, me(box), "samplers=2", "trainers=2")
    assert done["steps"] == dry["steps"] and not done["dry_run"], done
    assert done["took_seconds"] > 0 and "work now" in done["message"], done
    assert seats(box) == (2, 2)
    scales = stop(box, running)["scales"]
    assert len(scales) == 1, "a dry run stands in the report"


def test_undo(box):
    running = start(box, job(box))
    box.sluice("scale", me(box), "--undo").error(1, "nothing to undo")
    box.sluice("scale", me(box), "--undo", "trainers=2").error(2, "--undo")
    scale(box, me(box), "samplers=2", "trainers=2")
    back = scale(box, me(box), "--undo")
    assert back["from"] == {"samplers": 2, "trainers": 2}, back
    assert back["to"] == {"samplers": 1, "trainers": 1}, back
    assert len(box.processes("sampler")) == 1
    dry = scale(box, me(box), "--undo", "--dry-run")  # looks, and changes nothing
    assert dry["to"] == {"samplers": 2, "trainers": 2}, dry
    again = scale(box, me(box), "--undo")
    assert again["to"] == {"samplers": 2, "trainers": 2}, again
    assert len(box.processes("sampler")) == 2
    scales = stop(box, running)["scales"]
    assert [s["to"]["samplers"] for s in scales] == [2, 1, 2], scales
    assert all(s["by"] == "user" and s["ok"] for s in scales), scales


def test_detached(box):
    running = start(box, job(box))
    done = scale(box, me(box), "samplers=2", "--detach")
    assert done["took_seconds"] is None and done["to"]["samplers"] == 2, done
    running.until(lambda: len(box.processes("sampler")) == 2, "the new split")

    def accepted():  # the first change may not hold yet
        said = box.sluice("scale", me(box), "samplers=1", "--detach")
        return said if said.rc == 0 else not said.error(1, "is under way")

    said = running.until(accepted, "the first change to hold", 60)
    assert "accepted" in said.out, str(said)
    report = stop(box, running)
    assert report["scales"][0]["ok"], report["scales"]


def stopped_trainer(box):
    """Pid of trainer 1, which does not react any more."""
    (pid,) = [
        pid for pid, line in box.processes("trainer").items() if "--role-index\x001\0" in line
    ]
    os.kill(pid, signal.SIGSTOP)
    return pid


def test_progress_and_ctrl_c(box):
    """The change waits for a trainer that is stopped; who asked sees for whom, and may leave."""
    config = job(box, **{"allocation.trainers": 2, "allocation.switching": False})
    running = start(box, config)
    pid = stopped_trainer(box)
    waiting = box.start("scale", me(box), "trainers=1")
    running.until(
        lambda: "trainer 1 finishes what it has in hand and leaves" in waiting.output()[1],
        "what is waited for",
    )
    assert "device 2: trainer 1 leaves" in waiting.output()[0], waiting.output()
    lines = waiting.output()[1].splitlines()
    assert len(lines) == len(set(lines)), "the same twice"
    box.sluice("scale", me(box), "trainers=2").error(1, "is under way since")
    box.sluice("scale", me(box), "trainers=2", "--dry-run").error(1, "is under way since")
    waiting.interrupt()
    waiting.wait().error(130, "the change goes on")
    os.kill(pid, signal.SIGCONT)
    log = box.path("runs/job/log/broker.log")
    running.until(lambda: "work now" in text_of(log), "the new split")
    assert len(box.processes("trainer")) == 1
    scales = stop(box, running)["scales"]
    assert [s["ok"] for s in scales] == [True], scales


def test_time_out(box):
    running = start(box, job(box, **{"allocation.trainers": 2, "allocation.switching": False}))
    pid = stopped_trainer(box)
    late = box.sluice("scale", me(box), "trainers=1", "--timeout", "1")
    late.error(1, "does not hold after 1 s", "goes on")
    os.kill(pid, signal.SIGCONT)
    running.until(lambda: len(box.processes("trainer")) == 1, "the new split")
    stop(box, running)


def test_the_job_ends_meanwhile(box):
    running = start(box, job(box, **{"allocation.trainers": 2, "allocation.switching": False}))
    pid = stopped_trainer(box)
    waiting = box.start("scale", me(box), "trainers=1")
    running.until(lambda: "trainer 1 finishes" in waiting.output()[1], "what is waited for")
    running.interrupt()
    waiting.wait().error(1, "the job ended before|it ended before")
    os.kill(pid, signal.SIGCONT)
    assert running.wait().rc == 130


def test_refusals(box):
    running = start(box, job(box))
    box.sluice("scale", me(box)).error(2, "found no split")
    for more in ([], ["--dry-run"]):
        answer = box.sluice("scale", me(box), "trainers=9", "-o", "json", *more)
        answer.error(1, "wanted at most 4 roles on 4 devices")
        said = answer.json()
        assert not said["ok"] and "at most 4 roles" in said["message"], said
        assert said["to"] == {"samplers": 1, "trainers": 9}, said
    box.sluice("scale", me(box).replace("led", "lde"), "trainers=2").error(2, me(box))
    report = stop(box, running)
    assert report["scales"] == [] and report["status"] == "stopped", report["scales"]
    box.sluice("scale", box.path("runs/job"), "trainers=2").error(1, "it is over")
    box.sluice("scale", me(box), "trainers=2").error(2, me(box))


def test_through_the_daemon(box):
    daemon = Daemon(box)
    daemon.do("submit", box.job(job(box)), "--detach").ok()
    daemon.until(lambda: os.path.exists(box.path("runs/job/metrics.jsonl")), "an epoch")
    done = daemon.do("scale", me(box), "samplers=2").ok()
    assert "then sampler 1 starts" in done.out and "work now" in done.out, str(done)
    assert len(box.processes("sampler")) == 2
    back = daemon.do("scale", "1", "--undo", "-o", "json").ok().json()  # by its number
    assert back["to"] == {"samplers": 1, "trainers": 1}, back
    daemon.do("scale", me(box), "trainers=9").error(1, "at most 4 roles")
    # What a job that waits, and one that is over, say.
    daemon.do("submit", box.job(job(box, output="runs/b", name="waits")), "--detach").ok()
    daemon.do("scale", "waits", "trainers=2").error(1, "does not run yet")
    daemon.do("stop", "waits", me(box)).ok()
    over = daemon.do("scale", me(box), "trainers=2")
    over.error(1, r"is over since .* \(stopped\): there is nothing to scale")
    daemon.stop()
