"""`sluice top`: the picture, the keys, and a terminal that is as it was afterwards."""

import os
import re
import signal

from harness import CORES, Daemon, json_lines, read_json, steady_job
from terminal import Terminal

UTF8 = {"LC_ALL": "C.UTF-8"}


def job(box, /, **changes):
    """One that runs until it is stopped, slowly."""
    throttle = {"sample": 0.004, "train": 0.02, "standby": 0.02}
    return steady_job(box, "live", **{"name": "live", "throttle": throttle, **changes})


def start(box, /, **changes):
    arguments = ["run", box.job(job(box, **changes)), "--report", box.path("report.json")]
    running = box.start(*arguments)
    box.until_epoch(running)
    return running


def live(box):
    """The job of start(), whatever else runs on this machine."""
    return box.path("runs/job")


def stop(box, running):
    running.stop()
    return read_json(box.path("report.json"))


def fits(text, columns, rows):
    lines = text.rstrip("\n").split("\n")
    assert len(lines) <= rows, text
    assert max(len(line) for line in lines) <= columns, text


# ---- one picture --------------------------------------------------------------------------------


def test_once_prints_a_picture_as_text(box):
    running = start(box)
    result = box.sluice("top", live(box), "--once").ok()
    fits(result.out, 80, 24)
    assert result.out.isascii() and "\x1b" not in result.out and not result.err, str(result)
    for words in ("live", "running", "1 sampler", "queue", "1 trainer", "loss ", "0 sampler"):
        assert words in result.out, (words, str(result))
    env = {"COLUMNS": "160", "LINES": "50", **UTF8}
    large = box.sluice("top", live(box), "--once", env=env).ok()
    fits(large.out, 160, 50)
    assert "╭─ 1 sampler " in large.out and "accuracy" in large.out, str(large)
    stop(box, running)


def test_without_a_job_it_says_so(box):
    others = box.sluice("ps", "-o", "json").json()["jobs"]  # of whoever works on this machine
    for arguments in (["top", "nowhere", "--once"], ["top", "nowhere"], ["top", "--once"]):
        if "nowhere" not in arguments and others:
            continue
        result = box.sluice(*arguments)
        assert result.rc == 2 and len(result.errors()) == 1 and not result.out, str(result)
        assert "no daemon runs" in result.err and "sluice run" in result.err, str(result)


def test_without_a_terminal_it_says_what_to_do(box):
    running = start(box)
    result = box.sluice("top", live(box))
    assert result.rc in (1, 2) and not result.out, str(result)
    assert "--once" in result.err and "stats --follow" in result.err, str(result)
    odd = Terminal(box, "top", live(box), term="no-such-terminal")
    assert odd.wait() in (1, 2), odd.screen()
    assert "TERM 'no-such-terminal'" in odd.raw and "--once" in odd.raw, odd.raw
    odd.assert_restored()
    odd.close()
    stop(box, running)


# ---- at the keyboard ----------------------------------------------------------------------------


def test_keys_scale_the_job(box):
    running = start(box, **{"allocation": {"samplers": 1, "trainers": 3}})
    top = Terminal(box, "top", live(box))
    # A frame comes in pieces, and the first one has no figures yet.
    screen = top.until(lambda s: "1 sampler : 3 trainers" in s and "Bottleneck" in s)
    fits(screen, 80, 24)
    assert screen.isascii(), screen
    top.press("+")
    top.until("Change to 2 samplers and 2 trainers?")
    top.until(lambda s: "asking" not in s)  # the job's own answer
    top.press("n")
    screen = top.until("nothing was changed").split("\n")
    assert "q quit" in screen[23] and "nothing was changed" in screen[22], screen
    top.press("+")
    top.until("Change to 2 samplers and 2 trainers?")
    top.press("y")
    top.until("2 samplers and 2 trainers work now")
    top.until("2 samplers : 2 trainers")
    assert (len(box.processes("sampler")), len(box.processes("trainer"))) >= (2, 2)
    top.press("-")
    top.until("Change to 1 sampler and 3 trainers?")
    top.press("\r")
    top.until("1 sampler : 3 trainers")
    top.press("q")
    assert top.wait() == 0
    top.assert_restored()
    top.close()
    scales = [s for s in stop(box, running)["scales"] if s["by"] == "user"]
    assert [s["to"] for s in scales] == [
        {"samplers": 2, "trainers": 2},
        {"samplers": 1, "trainers": 3},
    ], scales


def test_the_picture_follows_the_size(box):
    running = start(box)
    top = Terminal(box, "top", live(box))
    top.until("+- 1 sampler -")
    for columns, rows, words in (
        (160, 50, "the last"),
        (30, 6, "q quit"),
        (60, 15, "Bottleneck"),
        (1, 1, ""),
        (200, 60, "updates/s"),
        (80, 24, "+- 1 sampler -"),
    ):
        written = len(top.raw)
        top.resize(columns, rows)
        top.until(lambda _: len(top.raw) > written)  # it has drawn it
        fits(top.until(words), columns, rows)
    top.press("q")
    assert top.wait() == 0
    top.assert_restored()
    top.close()
    stop(box, running)


def test_a_signal_leaves_a_clean_terminal(box):
    running = start(box)
    top = Terminal(box, "top", live(box), term="xterm-256color", env=UTF8)
    top.until("1 sampler")
    assert top.grid.alternate
    top.signal(signal.SIGTERM)
    assert top.wait() == 130
    top.assert_restored()
    top.close()
    stop(box, running)


def test_it_draws_what_is_new_and_sleeps(box):
    """Beside a job that is paused: there is a line a second, and nothing else is new."""
    running = start(box)
    box.sluice("pause", live(box)).ok()
    follower = box.start("stats", live(box), "--follow", "-o", "json")
    env = {**UTF8, "SLUICE_LOG": "debug"}
    top = Terminal(box, "top", live(box), "--interval", "0.1", term="xterm-256color", env=env)
    top.until("1 sampler")
    seen = len(json_lines(follower))
    # Its terminal is read on, so that it can go on drawing.
    top.until(lambda _: len(json_lines(follower)) >= seen + 3)
    top.press("q")
    assert top.wait() == 0
    top.close()
    stop(box, running)
    follower.wait()
    said = re.search(
        r"top: (\d+) pictures of (\d+) messages and (\d+) keys, (\d+) turns in ([\d.]+) s", top.raw
    )
    pictures, messages, keys, turns = map(int, said.groups()[:4])
    seconds = float(said[5])
    assert keys == 1 and messages > 3, said[0]
    # Without news one a second: a message goes away.
    assert pictures <= messages + keys + seconds + 1, said[0]
    # It looks up five times a second, and a message wakes it more than once.
    assert turns <= 4 * (messages + keys) + 5 * seconds + pictures + 1, said[0]


# ---- when things end ----------------------------------------------------------------------------


def test_the_end_of_the_job_stays_on_the_screen(box):
    running = start(box)
    top = Terminal(box, "top", live(box))
    top.until("1 sampler")
    stop(box, running)
    top.until(" stopped ")
    top.press("+")
    top.until("the job is over")
    assert top.process.poll() is None
    top.press("q")
    assert top.wait() == 0
    top.assert_restored()
    top.close()


def test_a_broker_that_dies_is_an_error(box):
    running = start(box)
    top = Terminal(box, "top", live(box))
    top.until("1 sampler")
    for pid in box.processes("broker"):
        os.kill(pid, signal.SIGKILL)
    assert top.wait() == 1
    top.assert_restored()
    assert "sluice: " in top.raw and "ended" in top.raw, top.raw[-500:]
    top.close()
    assert running.wait().rc == 1


def test_jobs_of_a_daemon_are_listed_and_opened(box):
    daemon = Daemon(box)
    devices = [{"kind": "cpu", "cores": str(CORES[0])}] * 2
    for name in ("first", "second"):
        config = job(box, name=name, output=f"runs/{name}", devices=devices)
        daemon.do("submit", box.job(config, f"{name}.json"), "--detach").ok()
    daemon.until_state("first", "running")
    queued = daemon.do("top", "second", "--once").ok()
    assert "queued" in queued.out and "first" in queued.out, str(queued)  # whom it waits for
    top = Terminal(box, "top", "second", env=daemon.env)
    top.until(" queued ")
    top.press("5")
    top.until("second: waits for")
    top.press("k")
    top.until("runs/first")
    top.press("\r")
    top.until("1 sampler : 1 trainer")
    daemon.do("stop", "first").ok()
    top.until(" stopped ")
    top.press("5")
    top.until(lambda s: "second" in s and "running" in s)
    daemon.kill()
    assert top.wait() == 1, top.screen()
    top.assert_restored()
    assert "the daemon" in top.raw and "has gone" in top.raw, top.raw[-500:]
    top.close()
