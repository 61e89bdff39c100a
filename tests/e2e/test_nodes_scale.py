"""`sluice scale` and `sluice trace` of a job on several nodes, from the first one."""

import collections
import os
import signal
import subprocess

from harness import Skip, fingerprint, go_on, read_json, steady_job, text_of, whole
from nodes import Ranks

MPI = "openmpi"
LONG = 600  # seconds: a trace that something else ends
AHEAD_S = 3600  # of a node's clock
SLOP_US = 500_000  # clocks are compared by messages, on a machine that may be busy
PER_UPDATE = 4


def me(box):
    return box.unique("spread")


def job(box, **changes):
    changes = {"allocation.switching": False, "output": box.path("runs", "job"), **changes}
    return steady_job(box, "spread", **changes)


def start(box, config, only=None):
    """The job on two nodes, once both train: behind an epoch the other one is no longer starting.
    only: {rank: shell text before it}."""
    nodes = Ranks(box, MPI, 2)
    running = nodes.start("run", box.job({**config, "nodes": "auto"}), only=only)
    running.until(lambda: text_of(box.path("runs/job/metrics.jsonl")), "its first epoch")
    return nodes, running


def stop(box, nodes, running):
    box.sluice("stop", me(box)).ok()
    assert running.wait().rc == 130
    nodes.close()


def scale(box, *arguments):
    """Its JSON."""
    answer = box.sluice("scale", me(box), *arguments, "-o", "json").ok().json()
    assert answer["schema"] == "sluice.scale/1" and answer["ok"], answer
    return answer


def moves(answer):
    """What it says of each node: from how many samplers and trainers to how many."""
    return {
        node["node"]: tuple(node[at][role] for at in ("from", "to") for role in node[at])
        for node in answer["nodes"]
    }


def told(pid):
    """A process's environment."""
    return text_of(f"/proc/{pid}/environ")


def seats(box):
    """Of both nodes together."""
    return len(box.processes("sampler")), len(box.processes("trainer"))


def test_all_nodes_or_one(box):
    nodes, running = start(box, job(box))
    dry = scale(box, "samplers=2", "--dry-run")
    assert dry["dry_run"] and moves(dry) == {0: (1, 1, 2, 1), 1: (1, 1, 2, 1)}, dry
    assert seats(box) == (2, 2)
    said = box.sluice("scale", me(box), "samplers=2").ok()
    for rank in (0, 1):
        assert said.out.count(f"(rank {rank}): from 1 sampler and 1 trainer to 2 samp") == 1, said
        assert said.out.count(f"(rank {rank}): 2 samplers and 1 trainer work now") == 1, said
    assert seats(box) == (4, 2)
    assert moves(scale(box, "trainers=2", "--node", 1)) == {1: (2, 1, 2, 2)}
    assert seats(box) == (4, 3)
    # What all refuse is said once, as of one node.
    box.sluice("scale", me(box), "trainers=9").error(1, ": found 2 samplers and 9 trainers, wanted")
    box.sluice("scale", me(box), "trainers=1", "--node", 2).error(1, "found node 2, wanted a rank")
    # Back to the split before the last change, on the node that it was made on.
    assert moves(scale(box, "--undo")) == {1: (2, 2, 2, 1)}
    back = box.sluice("scale", me(box), "--undo", "--node", 0, "--dry-run").ok()
    assert "(rank 0): from 2 samplers and 1 trainer to 1 sampler and 1" in back.out, str(back)
    assert seats(box) == (4, 2)
    stop(box, nodes, running)
    log = text_of(box.path("runs/job/log/broker.log"))
    assert log.count("split of the nodes: ") == 4, log  # three changes, and what all refused


def test_one_node_has_no_others(box):
    running = box.start("run", box.job(job(box)))
    running.until(lambda: text_of(box.path("runs/job/metrics.jsonl")), "its first epoch")
    box.sluice("scale", me(box), "trainers=2", "--node", 1).error(1, "wanted a rank below 1")
    assert "nodes" not in scale(box, "trainers=2", "--node", 0)
    assert seats(box) == (1, 2)
    running.stop()


def test_bits_stay(box):
    config = job(box, epochs=40)
    nodes, running = start(box, config, {1: "export SLUICE_FAILPOINT=trainer_gradient:60:stop"})
    pid = box.until_stopped(running, "trainer")
    assert moves(scale(box, "samplers=2", "trainers=2")) == {n: (1, 1, 2, 2) for n in (0, 1)}
    go_on(pid)
    running.wait().ok()
    nodes.close()
    report = read_json(box.path("runs/job/report.json"))
    assert [s["to"] for s in report["scales"]] == [{"samplers": 2, "trainers": 2}], report["scales"]
    assert fingerprint(report) == box.undisturbed("nodes-scaled", config)


def test_a_node_dies_meanwhile(box):
    nodes, running = start(box, job(box), {1: "export SLUICE_FAILPOINT=broker_scale"})
    said = box.sluice("scale", me(box), "samplers=2")
    said.error(1, "the job ended before the new split held")
    assert running.wait().rc not in (0, None)
    nodes.close()


@whole
def test_a_broker_that_stands_still_is_named(box):
    config = job(box, **{"sampler.batch_size": 64})
    nodes, running = start(box, config)
    (pid,) = [pid for pid in box.processes("broker") if "OMPI_COMM_WORLD_RANK=1\0" in told(pid)]
    os.kill(pid, signal.SIGSTOP)
    said = box.sluice("scale", me(box), "samplers=2")
    # The job ends soon after ten seconds of it: whichever of the two comes first is said.
    ended = "the job ended before it answered"
    why = f"no answer within 10 s|{ended}"
    said.error(1, f"nothing has been changed: host .* \\(rank 1\\): ({why})", "--node")
    if ended in said.err:
        assert running.wait().rc not in (0, None)
        nodes.close()
        return
    os.kill(pid, signal.SIGCONT)
    assert moves(scale(box, "samplers=2")) == {0: (1, 1, 2, 1), 1: (1, 1, 2, 1)}
    stop(box, nodes, running)


# ---- traces -------------------------------------------------------------------------------------


def with_clock_ahead():
    """Shell text: a program whose clock shows more than that of other nodes."""
    try_it = ["unshare", "--time", "--monotonic", str(AHEAD_S), "true"]
    if subprocess.run(try_it, capture_output=True, check=False).returncode:
        raise Skip("no namespaces of time here")
    return f'exec unshare --time --monotonic {AHEAD_S} "$PROGRAM" "$@"'


def trace(box, *arguments):
    return box.start("trace", me(box), "-o", box.path("trace.json"), *arguments)


def test_a_trace_has_all_nodes_on_one_axis(box):
    nodes, running = start(box, job(box), {1: with_clock_ahead()})
    tracing = trace(box, "--seconds", LONG)
    # The second piece of each has come a while after the first.
    tracing.until(lambda: tracing.output()[1].count(" events, ") > 1, "progress")
    tracing.interrupt()
    said = tracing.wait().ok()
    assert " on 2 nodes in " in said.out and "(rank" not in said.out, str(said)
    stop(box, nodes, running)
    events = read_json(box.path("trace.json"))["traceEvents"]
    named = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert sum("(rank 0): " in name for name in named.values()) == 5, named  # the job, four devices
    assert sum("(rank 1): " in name for name in named.values()) == 5, named
    trained = collections.defaultdict(set)
    applied = {0: {}, 1: {}}
    for e in events:
        node = 0 if "(rank 0): " in named[e["pid"]] else 1
        assert e["ph"] == "M" or 0 <= e["ts"] < LONG * 1e6, e
        if e["ph"] == "X" and e["name"] == "train":
            trained[e["args"]["epoch"], e["args"]["batch"]].add(node)
        if e["ph"] == "X" and e["name"] == "apply":
            applied[node][e["args"]["epoch"], e["args"]["batch"] // PER_UPDATE] = e["ts"]
    # Each batch once, on the node whose place in the update it has.
    assert trained and all(at == {batch % 2} for (_, batch), at in trained.items())
    check_order(applied)


def check_order(applied):
    """No node makes an update before the others have made the one before."""
    shared = sorted(set(applied[0]) & set(applied[1]))
    assert len(shared) > 10, (len(applied[0]), len(applied[1]))
    for before, after in zip(shared, shared[1:]):
        for one, other in ((0, 1), (1, 0)):
            assert applied[one][after] > applied[other][before] - SLOP_US, (before, after, one)


def test_a_trace_ends_with_the_job(box):
    nodes, running = start(box, job(box))
    tracing = trace(box, "--seconds", LONG)
    tracing.until(lambda: " events, " in tracing.output()[1], "progress")
    trace(box, "--seconds", 1).wait().error(1, "another client traces this job")
    stop(box, nodes, running)
    said = tracing.wait().ok()
    assert " on 2 nodes in " in said.out and "(rank" not in said.out, str(said)
    log = text_of(box.path("runs/job/node-1/broker.log"))
    assert "pieces; the job ended" in log, log
    assert read_json(box.path("trace.json"))["traceEvents"]
