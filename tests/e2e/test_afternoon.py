"""An afternoon with the daemon, as a user has it: each step asserts what the user sees."""

import json
import os
import re
import urllib.request

from harness import CORES, Daemon, Skip, json_lines, read_json, small_job, timeout

CONTRACT = ("job", "epoch", "samplers", "trainers", "stages", "queue", "cache", "bottleneck")


def job(box, name, core, devices, **changes):
    return box.job(
        small_job(
            box.shared_dataset("small"),
            output=f"runs/{name}",
            **{
                "name": name,
                "devices": [{"kind": "cpu", "cores": str(core)}] * devices,
                "sampler.batch_size": 48,
                "updates.batches_per_update": 4,
                "allocation": {"samplers": 1, "trainers": 2, "switching": False},
                "checkpoint": {"every_updates": 4},
                "throttle": {"train": 0.05},
                "epochs": 100000,
                **changes,
            },
        ),
        f"{name}.json",
    )


def get(url):
    with urllib.request.urlopen(url, timeout=10) as response:
        return response.read().decode()


def submit_three(user, box):
    """Two jobs on a core each run side by side; a third waits for its core, and is taken back."""
    for name, core, devices, changes in (
        ("alpha", CORES[0], 4, {"resume": "auto"}),
        ("beta", CORES[1], 3, {}),
        ("gamma", CORES[0], 3, {}),
    ):
        path = job(box, name, core, devices, **changes)
        submitted = user.do("submit", path, "--detach", "-o", "json").ok().json()
        assert submitted["name"] == name and submitted["id"], submitted
    user.until(
        lambda: all(user.jobs()[n]["state"] == "running" for n in ("alpha", "beta")), "two jobs"
    )
    gamma = user.jobs()["gamma"]
    assert gamma["state"] == "queued" and gamma["position"] == 1, gamma
    assert "alpha" in gamma["why"], gamma
    shown = user.do("ps").ok().out
    assert re.search(r"gamma\s+queued", shown) and re.search(r"alpha\s+running", shown), shown
    user.do("stop", "gamma").ok()
    assert user.jobs()["gamma"]["state"] == "stopped"
    assert not os.path.exists(box.path("runs/gamma")), "a job that never began left something"


def watch_both(user):
    """`stats --follow` without a name tells of both, a line a second each."""
    following = user.background("stats", "--follow", "-o", "json")
    following.until(
        lambda: all(
            sum((s["job"], s["state"]) == (name, "running") for s in json_lines(following)) >= 3
            for name in ("alpha", "beta")
        ),
        "three lines of each job",
        60,
    )
    for line in json_lines(following):
        assert all(key in line for key in CONTRACT), line
        assert line["schema"] == "sluice.stats/1", line
        assert line["bottleneck"], line
    mine = [s for s in json_lines(following) if s["job"] == "alpha" and s["state"] == "running"]
    assert mine[-1]["totals"]["batches"] > mine[0]["totals"]["batches"] > 0, mine
    assert mine[-1]["stages"]["train"]["p50"] >= 0.05, mine[-1]["stages"]
    return following


def scale_up_and_down(user, following):
    """In the middle of an epoch: what it would do, doing it, seeing it, taking it back."""
    asked = user.do("scale", "alpha", "trainers=3", "--dry-run").ok().out
    assert "3 trainers" in asked, asked
    assert user.jobs()["alpha"]["trainers"] == 2, "a dry run changed the split"
    done = user.do("scale", "alpha", "samplers=1", "trainers=3").ok().out
    assert "1 sampler and 3 trainers" in done, done
    following.until(
        lambda: any(s["job"] == "alpha" and s["trainers"] == 3 for s in json_lines(following)),
        "the new split in the statistics",
    )
    user.do("scale", "alpha", "--undo").ok()
    following.until(
        lambda: [s for s in json_lines(following) if s["job"] == "alpha"][-1]["trainers"] == 2,
        "the old split in the statistics",
    )
    refused = user.do("scale", "alpha", "trainers=9")
    assert refused.rc == 1 and "4 devices" in refused.err, refused


def trace_it(user, box):
    """Until it has ten batches more."""
    tracing = user.background("trace", "alpha", "--seconds", "600", "-o", box.path("trace.json"))
    tracing.until(lambda: " events, " in tracing.output()[1], "progress", 60)

    def trained():
        return user.do("stats", "alpha", "-o", "json").ok().json()["totals"]["batches"]

    before = trained()
    tracing.until(lambda: trained() >= before + 10, "ten batches", 60)
    tracing.interrupt()
    tracing.wait().ok()
    events = read_json(box.path("trace.json"))["traceEvents"]
    # What had begun before the trace is cut off at its beginning.
    batches = [e for e in events if e["ph"] == "X" and e["name"] == "train" and e["ts"] > 0]
    assert len(batches) >= 8, "ten, without one that each trainer had in hand"
    assert all(e["dur"] >= 49000 for e in batches), "throttled to 0.05 s"
    assert any(e["ph"] == "C" for e in events) and any(e["ph"] == "s" for e in events)


def look_at_the_page(user, listed):
    url = listed["page"].rstrip("/")
    names = {entry["name"] for entry in json.loads(get(url + "/api/jobs"))["jobs"]}
    assert {"alpha", "beta"} <= names, names
    metrics = get(url + "/metrics")
    assert re.search(r'^sluice_batches_total\{[^}]*job="alpha"[^}]*\} \d+', metrics, re.M), metrics
    assert "<html" in get(url + "/").lower()


def look_in_the_terminal(user):
    screen = user.do("top", "alpha", "--once").ok().out.splitlines()
    assert any("alpha" in line for line in screen), screen
    assert all(len(line) <= 80 for line in screen) and len(screen) <= 24, screen
    one = user.do("stats", "beta", "-o", "json").ok().json()
    assert one["job"] == "beta", one


def pause_and_go_on(user, following):
    user.do("pause", "beta").ok()
    assert user.jobs()["beta"]["state"] == "paused"

    def resting():
        """Lines since its workers have nothing in hand."""
        lines = [s for s in json_lines(following) if s["job"] == "beta"]
        return [s for s in lines if {w["state"] for w in s["workers"]} == {"paused"}]

    following.until(lambda: len(resting()) >= 3, "lines of the pause", 60)
    first, *_, last = resting()
    assert first["state"] == last["state"] == "paused", (first, last)
    assert first["totals"] == last["totals"], (first, last)
    user.do("resume", "beta").ok()
    user.until_state("beta", "running")


def stop_the_other(user, box):
    user.do("stop", "beta").ok()
    assert user.jobs()["beta"]["state"] == "stopped"
    waited = user.do("wait", "beta")
    assert waited.rc == 130, waited
    assert read_json(box.path("runs/beta/report.json"))["status"] == "stopped"
    again = user.do("scale", "beta", "trainers=1")
    assert again.rc != 0 and "stopped" in again.err, again
    assert "alpha" in user.do("scale", "alhpa", "trainers=1").err, "the nearest name"


def kill_the_daemon(user, following):
    user.kill()
    gone = user.do("stats", "alpha")
    assert gone.rc == 2 and "sluice-broker" in gone.err, gone  # how to start one
    assert following.wait().rc == 1, "who follows learns that the daemon has gone"
    user.box.until_gone()


def start_it_again(user):
    user.start()
    user.until_state("alpha", "running")
    assert user.jobs()["alpha"]["resumed"] == 1, user.jobs()["alpha"]
    assert user.jobs()["beta"]["state"] == "stopped", "nobody asked for it"
    user.do("resume", "beta").ok()
    user.until_state("beta", "running")


def to_the_end(user, box):
    """Both would go on for ever: the user stops them, and has their epoch finished by hand."""
    reports = {}
    for name, resumes in (("alpha", 2), ("beta", 2)):
        user.do("stop", name).ok()
        epochs = len(read_json(box.path(f"runs/{name}/report.json"))["epochs"]) + 1
        end = ("--set", f"epochs={epochs}", "--set", "throttle.train=0")
        user.do("run", box.path(f"{name}.json"), *end).ok()
        report = reports[name] = read_json(box.path(f"runs/{name}/report.json"))
        assert report["status"] == "done" and len(report["epochs"]) == epochs, report["status"]
        assert len(report["resumes"]) == resumes, report["resumes"]
        batches = report["batches"]
        assert batches["trained"] == batches["scheduled"], batches
    short = job(box, "delta", CORES[0], 3, epochs=2, throttle={})
    user.do("submit", short, "--detach").ok()
    user.do("wait", "delta").ok()
    assert user.state("delta") == "done", user.jobs()
    return reports["alpha"]


def look_back(user, box):
    # By number: another user's window may have a job of the same name.
    number = {name: job["id"] for name, job in user.jobs().items()}
    text = user.do("report", number["alpha"]).ok().out
    assert "done" in text and "3 trainers" in text, text
    user.do("report", box.path("runs/alpha"), "--html", "--out", box.path("alpha.html")).ok()
    with open(box.path("alpha.html")) as file:
        page = file.read()
    assert "sluice-data" in page and not re.search(r'(src|href)="https?://', page)
    log = user.do("logs", number["alpha"]).ok().out
    assert "going on from" in log, log
    assert "test" in user.do("report", number["beta"]).ok().out


@timeout(300)
def test_an_afternoon(box):
    if CORES[0] == CORES[1]:
        raise Skip("one core only: two jobs cannot run side by side")
    user = Daemon(box, "--http", "0", env={"SLUICE_LOG": "info"})
    listed, _ = user.listed()
    assert listed["pid"] == user.running.process.pid, listed
    submit_three(user, box)
    following = watch_both(user)
    scale_up_and_down(user, following)
    trace_it(user, box)
    look_at_the_page(user, listed)
    look_in_the_terminal(user)
    pause_and_go_on(user, following)
    stop_the_other(user, box)
    kill_the_daemon(user, following)
    start_it_again(user)
    report = to_the_end(user, box)
    look_back(user, box)
    # All of that changed nothing of what was learned.
    undisturbed, reference = box.run(
        dict(
            read_json(box.path("alpha.json")),
            output="runs/undisturbed",
            epochs=len(report["epochs"]),
            throttle={},
        ),
        name="undisturbed",
    )
    undisturbed.ok()
    assert report["params_sha256"] == reference["params_sha256"]
    assert report["samples_digest"] == reference["samples_digest"]
    user.stop().ok()
