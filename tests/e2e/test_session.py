"""The commands that talk to a job: one of `sluice run`, found by its process; then a daemon's."""

import csv
import io
import json
import os
import re
import signal
import socket
import time

from harness import BIN, CORES, Daemon, go_on, json_lines, read_json, small_job, text_of
from terminal import Terminal

CONTRACT = ("job", "epoch", "samplers", "trainers", "stages", "queue", "cache", "bottleneck")


def job(box, name, output=None, **changes):
    """A job that goes on for as long as a test looks at it: 12 batches a second and more."""
    config = small_job(
        box.shared_dataset("small"),
        output=output or f"runs/{name}",
        **{
            "name": name,
            "devices": [{"kind": "cpu", "cores": str(CORES[0])}] * 3,
            "sampler.batch_size": 48,
            "updates.batches_per_update": 2,
            "allocation": {"samplers": 1, "trainers": 1, "switching": False},
            "throttle": {"train": 0.05},
            "epochs": 1000,
            **changes,
        },
    )
    return box.job(config, f"{os.path.basename(config['output'])}.json")


def start_run(box, name, output=None, **changes):
    """`sluice run`, once it trains."""
    running = box.start("run", job(box, name, output, **changes))
    metrics = box.path(output or f"runs/{name}", "metrics.jsonl")
    running.until(lambda: os.path.exists(metrics), "its metrics")
    return running


# ---- `sluice run` -------------------------------------------------------------------------------


def expect_a_secret_key(box):
    """What lets one speak to a job stands where the kernel shows it to the job's user alone."""
    (broker,) = box.processes("broker").items()
    words = broker[1].split("\0")
    with open(f"/proc/{broker[0]}/fd/{words[words.index('--key-fd') + 1]}") as file:
        key = file.read()
    assert len(key) == 40, key
    for pid, line in box.processes().items():
        with open(f"/proc/{pid}/environ") as file:
            assert key not in line and key not in file.read(), line


def test_statistics_of_a_run(box):
    running = start_run(box, "watched")
    expect_a_secret_key(box)
    line = box.sluice("stats", "watched", "-o", "json").ok().json()
    assert line["schema"] == "sluice.stats/1" and line["job"] == "watched", line
    assert line["id"] is None and all(key in line for key in CONTRACT), line
    box.sluice("stats", "watched", "--count", "3").ok()
    page = box.sluice("stats", box.path("runs/watched")).ok().out  # by run directory
    assert re.search(r"^watched: running, epoch \d+ of 1000", page), page
    for told in (r"^train +\d+ %", r"^bottleneck +\S"):
        assert re.search(told, page, re.M), page
    text = box.sluice("stats", "watched", "--count", "2").ok().out.splitlines()
    assert len(text) == 2 and all("watched  epoch " in t for t in text), text
    begin = time.time()
    text = box.sluice("stats", "watched", "-n2", "-o", "csv").ok().out
    table = list(csv.reader(io.StringIO(text)))
    assert len(table) == 3 and len(set(map(len, table))) == 1, table
    row = dict(zip(table[0], table[2]))
    assert row["job"] == "watched" and float(row["batches_per_s"]) > 0, row
    assert begin - 1 < float(row["time"]) < time.time() + 1, row  # seconds of the calendar
    running.stop()


def test_following_ends_with_the_job(box):
    running = start_run(box, "followed")
    following = box.start("stats", "followed", "--follow", "-o", "json")
    following.until(lambda: len(json_lines(following)) >= 2, "two lines")
    box.sluice("stop", "followed").ok()
    assert following.wait().rc == 0
    assert running.wait().rc == 130
    lines = json_lines(following)
    assert lines[1]["time"] > lines[0]["time"] and lines[1]["seconds"] > lines[0]["seconds"]


def test_stop_waits_until_it_is_over(box):
    running = start_run(box, "stopped")
    answer = box.sluice("stop", "stopped", "-o", "json").ok().json()
    assert answer["state"] == "stopped" and answer["exit_status"] == 130, answer
    assert read_json(box.path("runs/stopped/report.json"))["status"] == "stopped"
    assert running.wait().rc == 130
    # Its name leads to its directory from now on, and the advice to where it goes on.
    advice = "does not run any more: stopped.*'sluice run runs/stopped/config.json' goes on from"
    for command in ("stop", "resume"):
        for name in ("stopped", "runs/stopped"):
            box.sluice(command, name).error(2, advice)
    on = box.sluice("run", "runs/stopped/config.json", "--dry-run").ok()
    assert "going on from update" in on.err, on
    for name in ("stopped", "runs/stopped"):
        waited = box.sluice("wait", name)
        assert waited.rc == 130 and "stopped" in waited.out, waited
        assert "broker: checkpoint" in box.sluice("logs", name).ok().out
        assert "stopped" in box.sluice("report", name).ok().out


def test_pause_and_resume(box):
    running = start_run(box, "paused")
    box.sluice("pause", "paused").ok()
    listed = box.sluice("ps", "-o", "json").ok().json()["jobs"]
    (entry,) = [e for e in listed if e["output"] == box.path("runs/paused")]
    assert entry["state"] == "paused" and entry["id"] is None, entry
    lines = box.sluice("stats", "paused", "-n", "3", "-o", "json").ok().out.splitlines()
    before, _, after = map(json.loads, lines)
    assert after["totals"]["batches"] - before["totals"]["batches"] <= 2, (before, after)
    answer = box.sluice("resume", "paused", "-o", "json").ok().json()
    assert answer["ok"] and answer["job"] == "paused", answer
    assert "not paused" in box.sluice("resume", "paused").ok().out
    # Its own terminal tells, too.
    running.until(lambda: "going on after update" in running.output()[1], "the resumption's line")
    assert "pausing at update" in running.output()[1], running.output()[1]
    running.stop()


def test_logs_in_order_until_the_end(box):
    begin = time.time()
    running = start_run(box, "logged")
    following = box.start("logs", "logged", "-f", "-o", "json")
    following.until(lambda: len(json_lines(following)) >= 4, "four lines")
    box.sluice("scale", "logged", "trainers=2").ok()
    following.until(
        lambda: any("2 trainers" in line["text"] for line in json_lines(following)), "the scale"
    )
    box.sluice("stop", "logged").ok()
    assert following.wait().rc == 0
    lines = json_lines(following)
    assert "the job ends" in "".join(line["text"] for line in lines), lines[-3:]
    times = [line["time"] for line in lines]
    assert times == sorted(times) and begin - 1 < times[0] and times[-1] < time.time() + 1, times
    running.wait()
    # Afterwards, from the directory alone: the same lines.
    again = box.sluice("logs", "runs/logged").ok().out.splitlines()
    assert len(again) == len(lines), (len(again), len(lines))
    last = box.sluice("logs", "runs/logged", "-n", "1", "-w", "broker").ok().out
    assert last.splitlines() == again[-1:], (last, again[-1])
    box.sluice("logs", "runs/logged", "-w", "trainer 9").error(2, "no log of.*'trainer-0'")


def test_wait_has_the_jobs_exit_status(box):
    running = box.start("run", job(box, "short", epochs=3, throttle={}),
                        env={"SLUICE_FAILPOINT": "trainer_gradient:20:stop"})
    held = box.until_stopped(running)
    timed_out = box.sluice("wait", "short", "--timeout", "1")
    timed_out.error(1, "not over after 1 s")
    go_on(held)
    assert box.sluice("wait", "runs/short", "-o", "json").ok().json()["exit_status"] == 0
    running.wait().ok()
    box.sluice("wait", box.path("runs/short")).ok()
    # A job whose broker is killed has no last word.
    running = start_run(box, "killed")
    # It waits for both, and tells of the one that is over.
    waiting = box.start("wait", "runs/short", "killed")
    waiting.until(lambda: "done" in waiting.output()[0], "the first one's end")
    (broker,) = box.processes("broker")
    os.kill(broker, signal.SIGKILL)
    waiting.wait().error(1, "without a report.*runs/killed")
    running.wait()


def test_keys_are_needed_over_a_network(box):
    there = ("--connect", "tcp://127.0.0.1:1")
    box.sluice("ps", *there).error(2, "--key.*sluice keygen")
    missing = box.sluice("ps", *there, "--key", "nothing.key")
    missing = missing.error(2, "--key 'nothing.key'.*sluice keygen")
    assert "no job is running" not in missing, missing
    for command in (("ps",), ("stats",), ("stop", "x"), ("doctor",)):
        box.sluice(*command, "--key", "a.key").error(2, "'a.key'.*--connect")


def refused(box, pattern, connect, *command, key="keys/client.key"):
    result = box.sluice(*(command or ("ps",)), "--connect", connect, "--key", key)
    return result.error(2, pattern)


def test_a_daemon_elsewhere_that_is_not_there(box):
    made = box.sluice("keygen", "--out", "keys", "-o", "json").ok().json()
    assert made["clients"] == 1 and made["daemon_public"] != made["client_public"], made
    assert made["client"] == "keys/client.key", made
    for wrong in ("127.0.0.1:17400", "tcp://127.0.0.1", "tcp://:1", "tcp://x:0", "tcp://x:70000",
                  "tcp://x:1/a", "tcp://[::1]:7"):
        error = refused(box, "--connect: found .*wanted tcp://HOST:PORT", wrong)
        assert wrong in error and "control bus" not in error, error
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        there = f"tcp://127.0.0.1:{port}"
        for command in (("ps",), ("stats",), ("stop", "x"), ("stats", "x")):
            # Bound, and nobody listens.
            error = refused(box, "connection refused.*sluice-broker", there, *command)
            assert "no job is running" not in error and "'x'" not in error, error
            refused(box, "'nohost.invalid'.*(resolve|name server)",
                            "tcp://nohost.invalid:7400", *command)
        silent.listen(4)
        stopped = box.sluice("ps", "--connect", there, "--key", "keys/client.key")
        stopped.error(1, "takes connections and says nothing")
    doctor = box.sluice("doctor", "--connect", there, "--key", "keys/client.key")
    assert doctor.rc == 0 and "connection refused" in doctor.out, doctor


def test_a_bar_that_fits_the_terminal(box):
    path = job(box, "bar")
    terminal = Terminal(box, "run", path, term="xterm")
    narrow = r"epoch    \d/1000 \[#*-*\] .*/s  loss [\d.]+  val [\d.]+  .* left$"
    terminal.until(lambda _: any(re.match(narrow, bar) for bar in terminal.bars()))
    assert all(len(bar) < 80 for bar in terminal.bars()), terminal.bars()
    assert "\x1b[32m" in terminal.raw
    terminal.resize(140)
    wide = (
        r"epoch    \d/1000 \[[#-]{24}\] +\d+ %  .* batches/s  loss .*  accuracy .* ready  .* left$"
    )
    terminal.until(lambda _: any(re.match(wide, bar) for bar in terminal.bars()))
    terminal.signal(signal.SIGINT)
    assert terminal.wait() == 130
    assert terminal.raw.endswith("runs/bar\r\n"), terminal.raw[-300:]
    plain = {"mono": {"term": "xterm", "env": {"NO_COLOR": "1"}}, "dumb": {"term": "dumb"}}
    for name, how in plain.items():
        terminal = Terminal(box, "run", job(box, name), columns=100, **how)
        terminal.until(lambda _: re.search(r"epoch +2/1000 +loss", terminal.raw))
        terminal.signal(signal.SIGINT)
        assert terminal.wait() == 130
        assert "\x1b[3" not in terminal.raw and bool(terminal.bars()) == (name == "mono")


def test_words_that_are_nearly_right(box):
    box.sluice("scale", "x", "sampler=2").error(2, "did you mean 'samplers=2'")
    box.sluice("scale", "x", "trainers", "3").error(2, "did you mean 'trainers=3'")
    box.sluice("scale", "samplers=2", "x").error(2, "did you mean 'sluice scale x samplers=2'")
    box.sluice("scale", "x").error(2, "'sluice scale x samplers=2'")
    box.sluice("wait", "x", "--timeout", "abc").error(2, "'abc': wanted whole seconds")
    assert box.sluice("version").ok().out == box.sluice("--version").ok().out


# ---- the daemon ---------------------------------------------------------------------------------


def test_submit_queue_and_end(box):
    daemon = Daemon(box)
    entry = daemon.do("submit", job(box, "first"), "--detach", "-o", "json").ok().json()
    assert list(entry)[0] == "schema" and entry["schema"] == "sluice.job/1", entry
    assert entry["id"] == "1" and entry["name"] == "first", entry
    assert entry["output"] == box.path("runs/first"), entry
    second = daemon.do("submit", job(box, "second"), "--detach").ok()
    assert second.out == "2\n" and "job 1 'first'" in second.err, second
    daemon.until_state("first", "running")
    shown = daemon.do("ps").ok().out
    assert re.search(r"^ *1 +first +running", shown, re.M), shown
    assert re.search(r"^ *2 +second +queued.*number 1 in the queue.*'first'", shown, re.M), shown
    daemon.do("stats", "second").error(1, "does not run yet.*queued")
    following = daemon.background("logs", "second", "--follow")
    daemon.do("stop", "1").ok()  # by number
    daemon.until_state("second", "running")
    following.until(lambda: "all workers are ready" in following.output()[0], "its log")
    daemon.do("stop", "first").error(1, "over.*stopped")
    daemon.do("stats", "first").error(1, "over.*stopped")
    assert daemon.do("wait", "first").rc == 130
    daemon.do("stop", "second", "--detach").ok()
    assert daemon.do("wait", "second").rc == 130
    assert following.wait().rc == 0
    assert daemon.stop().rc == 0


def test_what_can_not_be_is_refused_with_the_reason(box):
    daemon = Daemon(box)
    first = job(box, "first")
    daemon.do("submit", first, "-d").ok()
    # Once its broker holds the directory, the command itself sees that before the daemon is asked.
    held = "output: '.*' is in use by a job that is running, job 1 'first'"
    daemon.do("submit", first, "-d").error(2, f"job 1 is called 'first' too|{held}")
    other = daemon.do("submit", first, "-d", "--set", "name=other")
    other.error(2, f"output: job 1 'first'|{held}")
    daemon.do("submit", job(box, "waits"), "-d").ok()
    for command in (("pause",), ("scale", "trainers=1"), ("trace", "-o", box.path("t.json"))):
        refused = daemon.do(command[0], "waits", *command[1:])
        refused.error(1, "does not run yet.*waits for core .*'first'")
    assert not os.path.exists(box.path("t.json"))
    daemon.do("stop", "first", "waits").ok()
    for command in ("stop", "pause"):
        error = daemon.do(command, "waits").error(1, "'waits'.* is over")
        assert error.count("'waits'") == 1, error
    assert "'sluice resume 2' lets it go on" in daemon.do("pause", "waits").errors()[0]
    daemon.do("scale", "waits", "trainers=1").error(1, "is over")
    assert daemon.stop().rc == 0


def test_looking_on_shows_what_run_shows(box):
    daemon = Daemon(box)
    done = daemon.do("submit", job(box, "done", epochs=2, throttle={"train": 0.01}), "--report",
                     "done.report.json").ok()
    assert "done: done in " in done.out and re.search(r"epoch +2/2 +loss", done.err), done
    assert read_json(box.path("done.report.json"))["status"] == "done"
    report = daemon.do("submit", job(box, "asjson", epochs=1, throttle={"train": 0.01}), "-q", "-o",
                       "json").ok()
    assert report.json()["job"] == "asjson" and not report.err, report
    # What cannot run is refused before it waits, with the words of `run`.
    bad = job(box, "bad", **{"sampler.fanout": [5]})
    error = daemon.do("submit", bad).error(2, "fanout")
    assert error == box.sluice("run", bad).errors()[0]
    again = job(box, "again", output="runs/done", epochs=2)
    daemon.do("submit", again).error(2, "finished after 2 epochs")
    assert set(daemon.jobs()) == {"done", "asjson"}
    assert daemon.stop().rc == 0


def test_ctrl_c_ends_the_looking_on_only(box):
    daemon = Daemon(box)
    looking = daemon.background("submit", job(box, "on"))
    looking.until(lambda: re.search(r"epoch +1/1000", looking.output()[1]), "progress", 30)
    looking.interrupt()
    error = looking.wait().error(130, "goes on.*sluice logs -f 1.*sluice stop 1")
    assert "'on'" in error
    metrics = box.path("runs/on/metrics.jsonl")
    seen = text_of(metrics).count("\n")
    daemon.until(lambda: text_of(metrics).count("\n") > seen + 1, "further epochs")
    assert daemon.state("on") == "running"
    # Following by number, by name and by directory; a second look does not disturb the first.
    for word in ("1", "on", "runs/on"):
        assert daemon.do("stats", word, "-n", "1", "-o", "json").ok().json()["id"] == "1"
    daemon.do("pause", "on").ok()
    assert daemon.state("on") == "paused"
    daemon.do("resume", "on").ok()
    daemon.until_state("on", "running")
    daemon.do("stop", "on").ok()
    daemon.do("resume", "on").ok()  # from its checkpoint
    daemon.until_state("on", "running")
    assert "going on from" in daemon.do("logs", "on").ok().out
    daemon.do("stop", "on").ok()
    assert daemon.stop().rc == 0


def test_a_daemon_and_a_run_side_by_side(box):
    daemon = Daemon(box)
    running = start_run(box, "nearby")
    daemon.do("submit", job(box, "theirs"), "-d").ok()
    daemon.until_state("theirs", "running")
    listed = daemon.do("ps", "-o", "json").ok().json()["jobs"]
    mine = [e for e in listed if e["output"] == box.path("runs/nearby")]
    assert len(mine) == 1 and mine[0]["id"] is None and mine[0]["samplers"] == 1, listed
    assert daemon.do("stats", "nearby", "-o", "json").ok().json()["job"] == "nearby"
    assert daemon.do("stats", "theirs", "-o", "json").ok().json()["job"] == "theirs"
    following = daemon.background("stats", "--follow", "-o", "json")
    following.until(
        lambda: {"nearby", "theirs"} <= {line["job"] for line in json_lines(following)}, "both"
    )
    daemon.do("stats", "thiers").error(2, "did you mean 'theirs' .job 1, running")
    # The daemon's name is taken by a job of `sluice run`: told apart by number and directory.
    twin = start_run(box, "theirs", output="runs/twin")
    error = daemon.do("pause", "theirs").error(2, "2 jobs are called so.*number")
    assert "job 1" in error and "runs/twin" in error, error
    daemon.do("pause", "1").ok()
    assert daemon.state("theirs") == "paused"
    for each in (running, twin):
        each.interrupt()
        each.wait()
    daemon.kill()
    assert following.wait().rc == 1 and "has gone" in following.output()[1]
    box.until_gone()


def test_a_daemon_that_was_killed_and_one_that_does_not_answer(box):
    daemon = Daemon(box)
    pid = daemon.running.process.pid
    os.kill(pid, signal.SIGSTOP)
    error = daemon.do("stats", "x").error(1, "does not answer within 5 s")
    assert str(pid) in error, error
    os.kill(pid, signal.SIGCONT)
    daemon.kill()
    error = daemon.do("stats", "x").error(2, r"daemon \(process \d+\) that used .* is gone")
    assert str(pid) in error, error
    error = daemon.do("submit", job(box, "x")).error(2, "is gone: start one with")
    assert "sluice-broker" in error, error
    daemon.start()
    assert daemon.stop().rc == 0


def test_a_daemon_over_the_network(box):
    box.sluice("keygen", "--out", "keys").ok()
    box.sluice("keygen", "--out", "others").ok()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    daemon = Daemon(box, "--listen", f"tcp://127.0.0.1:{port}", "--keys", "keys/daemon.key")
    there = ("--connect", f"tcp://127.0.0.1:{port}", "--key", "keys/client.key")
    box.sluice("submit", job(box, "far"), "--detach", *there).ok()
    box.sluice("stats", "far", "--follow", "-n", "2", *there).ok()
    box.sluice("logs", "far", *there).error(2, "files on the daemon's machine")
    following = box.start("stats", "far", "--follow", *there)
    box.sluice("stop", "far", *there).ok()
    assert following.wait().rc == 0
    address = f"tcp://127.0.0.1:{port}"
    assert f"at {address}" in box.sluice("doctor", *there).ok().out
    box.sluice("ps", "--connect", f"tcp://localhost:{port}", "--key", "keys/client.key").ok()
    refused(box, "wrong key", address, key="others/client.key")
    # The right daemon's key, and a client that is not in its list.
    box.sluice("keygen", "--out", "keys", "--client", "late").ok()
    refused(box, "does not know the key of 'keys/late.key'", address, key="keys/late.key")
    refused(box, "the daemon's keys; wanted a client's", address, key="keys/daemon.key")
    assert daemon.stop().rc == 0


def test_clients_from_afar_write_below_the_root(box):
    """A key lets one run jobs, not write wherever the daemon's user can. The advice is followed."""
    box.sluice("keygen", "--out", "keys").ok()
    os.makedirs(box.path("open"))
    os.symlink(box.path("elsewhere"), box.path("open/out"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    listen = ("--listen", f"tcp://127.0.0.1:{port}", "--keys", box.path("keys/daemon.key"))
    nowhere = box.start("-C", "/", BIN + "/sluice-broker", "--runtime-dir", box.path("rt"), *listen,
                        program="/usr/bin/env").wait()
    assert nowhere.rc == 2 and "--output-root DIR" in nowhere.err, nowhere
    daemon = Daemon(box, *listen, "--output-root", box.path("open"))
    there = ("--connect", f"tcp://127.0.0.1:{port}", "--key", "keys/client.key")
    for output in ("runs/far", "open/../far", "open/out/far"):
        path = job(box, "far", output)
        error = box.sluice("submit", path, "-d", *there).error(2, "below '.*/open'")
        assert "output" in error, error
        assert not os.path.lexists(box.path(output)), output
    path = job(box, "far", "open/far")
    outside = box.sluice("submit", path, "-d", *there, "--report", box.path("r.json"))
    outside.error(2, "--report: found .*/r.json")
    box.sluice("submit", path, "-d", *there, "--report", box.path("open/r.json")).ok()
    daemon.do("submit", job(box, "near", "runs/near"), "-d").ok()  # the daemon's own user may
    for name in ("far", "near"):
        box.sluice("stop", name, *there).ok()
    assert daemon.stop().rc == 0


def test_the_queue_moves_before_who_looks_on(box):
    daemon = Daemon(box)
    for name in ("one", "two"):
        daemon.do("submit", job(box, name), "-d").ok()
    looking = daemon.background("submit", job(box, "three"))
    looking.until(lambda: "number 2 in the queue" in looking.output()[1], "its place")
    daemon.do("stop", "two").ok()
    looking.until(lambda: "number 1 in the queue" in looking.output()[1], "its new place")
    daemon.do("stop", "one").ok()
    looking.until(lambda: re.search(r"epoch +1/1000", looking.output()[1]), "progress")
    # Somebody else stops it: who looks on learns why, with the status of `run`.
    daemon.do("stop", "three").ok()
    looking.wait().error(130, "'three': stopped by the user.*runs/three")
    looking = daemon.background("submit", job(box, "four"))
    looking.until(lambda: re.search(r"epoch +1/1000", looking.output()[1]), "progress")
    daemon.kill()
    looking.wait().error(1, "the daemon of .* has gone")
    box.until_gone()
