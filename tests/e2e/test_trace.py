"""`sluice trace`: a file that Perfetto opens, in which every batch is exactly once."""

import collections
import os
import re
import resource
import subprocess

from harness import BIN, SLOW, Daemon, cases, cpu_devices, go_on, read_json, steady_job

AHEAD = 16  # SL_TRACE_AHEAD: pieces that are under way to a client at most
LONG = 600  # seconds: a trace that something else ends
BATCHES = 16  # of an epoch: 750 training vertices, 48 a batch


def me(box):
    return box.unique("traced")


def job(box, /, **changes):
    return steady_job(box, "traced", **{"epochs": 6, **changes})


def start(box, config, points=""):
    """The job; its workers die or stand still at these failpoints."""
    env = {"SLUICE_FAILPOINT": points}
    running = box.start("run", box.job(config), "--report", box.path("report.json"), env=env)
    running.until(lambda: os.path.exists(box.path("runs/job")), "the run directory")
    return running


def trace(box, start, path):
    """A trace that has begun; `start` starts a command."""
    tracing = start("trace", me(box), "--seconds", str(LONG), "-o", path)
    tracing.until(lambda: " events, " in tracing.output()[1], "progress", 60)
    return tracing


def stats(box):
    return box.sluice("stats", me(box), "-o", "json").ok().json()


THROTTLE = {"sample": 0.004, "train": 0.02, "standby": 0.02}


def batch_of(event):
    return event["args"]["epoch"], event["args"]["batch"]


def check_trace(path, seconds):
    """What makes a trace valid, whatever it is of (slices, arrows and queues of single batches:
    tests/unit/test_broker_trace.c). Returns its events by (phase, name)."""
    trace = read_json(path)
    assert trace["otherData"]["schema"] == "sluice.trace/1", trace["otherData"]
    found = collections.defaultdict(list)
    threads, processes = set(), set()
    for e in trace["traceEvents"]:
        found[e["ph"], e["name"]].append(e)
        if e["name"] == "thread_name":
            threads.add((e["pid"], e["tid"]))
        elif e["name"] == "process_name":
            processes.add(e["pid"])
        if e["ph"] != "M":
            assert 0 <= e["ts"] <= seconds * 1e6, e
    for (phase, _), events in found.items():
        for e in events if phase == "X" else []:
            assert e["dur"] >= 0, e
            assert (e["pid"], e["tid"]) in threads and e["pid"] in processes, e
    arrows = [{e["id"] for e in found[phase, "batch"]} for phase in "stf"]
    assert arrows[0] == arrows[1] == arrows[2], "an arrow without a begin, a middle or an end"
    return found


def expect_epochs(found, report, complete):
    """Batches of these epochs are all there, once, with what the report says of them."""
    for name in ("sample", "extract", "train"):
        counts = collections.Counter(batch_of(e) for e in found["X", name])
        for epoch in complete:
            got = {b: n for (e, b), n in counts.items() if e == epoch}
            if name == "train":
                assert got == {b: 1 for b in range(BATCHES)}, (name, epoch, got)
            else:  # of evaluation too, where that samples
                assert got.keys() >= set(range(BATCHES)), (name, epoch, got)
    for epoch in complete:
        entry = report["epochs"][epoch]
        drawn = [e["args"] for e in found["X", "sample"] if e["args"]["epoch"] == epoch]
        assert sum(a["edges"] for a in drawn) == entry["sampled_edges"], entry
        assert sum(a["input_nodes"] for a in drawn) == entry["input_nodes"], entry
        trained = [e for e in found["X", "train"] if e["args"]["epoch"] == epoch]
        seconds = sum(e["dur"] for e in trained) * 1e-6
        applied = [e for e in found["X", "apply"] if e["args"]["epoch"] == epoch]
        seconds += sum(e["dur"] for e in applied) * 1e-6
        stage = entry["stages"]["train"]
        assert abs(seconds - stage["seconds"]) < 1e-5 * BATCHES, (seconds, stage)


KINDS = {
    "ordered": {},
    "async": {"updates": {"mode": "async", "staleness": 2}},
    "cache": {"cache": {"policy": "presc", "presample_epochs": 1, "ratio": 0.3}},
    "one-device": {"devices": cpu_devices(1), "allocation": {"switching": True}},
}


@cases(*KINDS)
def test_a_trace_until_the_job_ends(box, kind):
    """From its fifth batch on: until then a trainer stands still."""
    running = start(box, job(box, **KINDS[kind]), "trainer_gradient:5:stop")
    pid = box.until_stopped(running, "trainer")
    tracing = trace(box, box.start, "t.json")
    go_on(pid)
    done = tracing.wait().ok()
    assert re.search(r"t\.json: \d+ events of .* open it at https://ui\.perfetto\.dev", done.out)
    assert "the job ended" in done.out, str(done)
    running.wait().ok()
    report = read_json(box.path("report.json"))
    found = check_trace(box.path("t.json"), LONG)
    assert min(e["args"]["epoch"] for e in found["X", "train"]) == 0
    expect_epochs(found, report, range(2, 6))  # some are drawn two epochs ahead
    per_epoch = BATCHES if kind == "async" else BATCHES // 4
    applied = collections.Counter(e["args"]["epoch"] for e in found["X", "apply"])
    assert applied[5] == per_epoch, applied
    assert found["X", "evaluate"], "no evaluation"
    assert found["C", "version"][-1]["args"]["version"] == 6 * per_epoch
    if kind == "cache":
        rates = [e["args"]["hit_rate"] for e in found["X", "extract"] if batch_of(e)[0] == 5]
        assert 0 < sum(rates) / len(rates) < 1, rates


def test_interrupted_it_keeps_what_there_is(box):
    running = start(box, job(box, epochs=100000, throttle=THROTTLE))
    tracing = trace(box, box.start, "t.json")
    before = stats(box)["totals"]["batches"]
    running.until(lambda: stats(box)["totals"]["batches"] >= before + 20, "twenty batches", 60)
    tracing.interrupt()
    done = tracing.wait().ok()
    assert "ended by the client" in done.out, str(done)
    found = check_trace(box.path("t.json"), LONG)
    assert len(found["X", "train"]) >= 20, len(found["X", "train"])
    # At once another one can be made.
    box.sluice("trace", me(box), "-s", "0.2", "-o", "u.json").ok()
    running.stop()


def test_what_can_not_be_traced(box):
    running = start(box, job(box, epochs=100000))
    box.sluice("trace", "nobody").error(2, "nobody")
    box.sluice("trace", me(box), "-o", "no/where.json").error(2, "no/where.json")
    box.sluice("trace", me(box), "--seconds", "0").error(2, "--seconds", "0.1")
    box.sluice("trace", me(box), "--seconds", "1e6").error(2, "600")
    first = trace(box, box.start, "t.json")
    box.sluice("trace", me(box), "-o", "u.json").error(1, "another client traces this job")
    assert not os.path.exists(box.path("u.json"))
    first.interrupt()
    first.wait().ok()
    running.stop()
    left = [name for name in os.listdir(box.folder) if name.endswith(".tmp")]
    assert not left, left


def test_a_file_that_may_not_grow(box):
    running = start(box, job(box, epochs=100000, throttle={"train": 0.001}))

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))

    done = subprocess.run(
        [os.path.join(BIN, "sluice"), "trace", me(box), "--seconds", str(LONG), "-o", "t.json"],
        cwd=box.folder,
        env=box.environment(),
        capture_output=True,
        text=True,
        preexec_fn=limit,
        timeout=60 * SLOW,
    )
    assert done.returncode == 1, done
    assert "t.json" in done.stderr and "too large" in done.stderr.lower(), done.stderr
    assert not [n for n in os.listdir(box.folder) if "t.json" in n], os.listdir(box.folder)
    # The job goes on, and can be traced.
    box.sluice("trace", me(box), "-s", "0.2", "-o", "u.json").ok()
    running.stop()


def test_through_the_daemon(box):
    """One trace a job, whoever asks; the end by Ctrl-C; more pieces than go ahead unconfirmed."""
    daemon = Daemon(box, env={"SLUICE_FAILPOINT": "trainer_gradient:5:stop"})
    # A piece has 512 KiB at most: of so many epochs come more than twice as many as go ahead.
    config = job(box, epochs=1200, digest=False, **{"evaluate.every": 0})
    daemon.do("submit", box.job(config), "--detach").ok()
    pid = box.until_stopped(daemon.running, "trainer")
    first = trace(box, daemon.background, "u.json")
    second = daemon.do("trace", me(box), "-o", "v.json")
    second.error(1, "another client traces this job")
    first.interrupt()
    assert "ended by the client" in first.wait().ok().out
    check_trace(box.path("u.json"), LONG)
    whole = trace(box, daemon.background, "t.json")
    go_on(pid)
    done = whole.wait().ok()
    assert "the job ended" in done.out, str(done)
    assert int(re.search(r" in (\d+) pieces", done.out).group(1)) > 2 * AHEAD, str(done)
    check_trace(box.path("t.json"), LONG)
    daemon.do("wait", me(box)).ok()
    daemon.do("trace", me(box)).error(1, "over")
    daemon.stop()
