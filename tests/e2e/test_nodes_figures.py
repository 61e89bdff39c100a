"""What is told of a job on several nodes: rows of all of them, from the first one."""

import json
import os
import shutil
import subprocess

from harness import BIN, fingerprint, go_on, read_json, small_job
from nodes import Ranks

MPI = "openmpi"


def a_job(box, dataset=None, **changes):
    changes = {"updates.batches_per_update": 4, "nodes": "auto", **changes}
    output = box.path("runs", "job")
    return small_job(dataset or box.shared_dataset("small"), output=output, **changes)


def start(box, config, only=None):
    nodes = Ranks(box, MPI, 2)
    return nodes, nodes.start("run", box.job(config), only=only)


def shards(box):
    """The small data set in two parts, of which each node has the features of its own."""

    def part(folder):
        command = [os.path.join(BIN, "sluice"), "partition", box.shared_dataset("small")]
        command += ["--parts", "2", "--method", "random", "--out", os.path.join(folder, "parts")]
        os.makedirs(folder, exist_ok=True)
        subprocess.run(command, check=True, capture_output=True, env=box.environment())

    return os.path.join(box.shared_folder("small-parts-2", part), "parts")


def report_of(box):
    return read_json(box.path("runs", "job", "report.json"))


def wire(report, node, origin):
    return next(w for w in report["wires"] if (w["node"], w["from"]) == (node, origin))


def check_sums(report):
    """Of a job that is done."""
    first, second = report["nodes"]
    assert [node["rank"] for node in report["nodes"]] == [0, 1]
    assert first["host"] == second["host"] != "", (first, second)
    assert first["batches"] + second["batches"] == report["batches"]["trained"], (first, second)
    assert min(first["batches"], second["batches"]) > 0
    # What is sent for the last checkpoint may be behind one's last row, and before the other's.
    state = 8 * report["num_params"] + 64
    for one, other in ((first, second), (second, first)):
        received = wire(report, other["rank"], one["rank"])["bytes"]
        assert received == other["received_bytes"] > 0, (one, other, received)
        assert abs(one["sent_bytes"] - received) <= state, (one, other)


def test_the_report_has_what_each_node_did(box):
    nodes, running = start(box, a_job(box))
    result = running.wait().ok()
    nodes.close()
    report = report_of(box)
    check_sums(report)
    for node in report["nodes"]:
        assert (node["samplers"], node["trainers"]) == (1, 1), node
        assert node["remote_rows"] == 0 and node["remote_share"] is None, node
        # Each of its updates' gradients and parameters came from somewhere.
        least = 4 * report["num_params"] * report["batches"]["trained"] / 4 / 2
        assert node["received_bytes"] > least, node
    for epoch in report["epochs"]:
        assert epoch["latest"]["node"] in (0, 1) and epoch["latest"]["seconds"] >= 0, epoch
        assert epoch["store"]["remote_rows"] == 0, epoch
    assert "\nnode  host" in result.out, str(result)
    box.sluice("report", box.path("runs", "job"), "--html").ok()


def test_rows_of_other_nodes_are_counted(box):
    config = a_job(box, shards(box), **{"evaluate.fanout": [5, 5], "evaluate.every": 0})
    nodes, running = start(box, config)
    running.wait().ok()
    nodes.close()
    report = report_of(box)
    check_sums(report)
    for node in report["nodes"]:
        rows = wire(report, node["rank"], 1 - node["rank"])
        assert rows["rows"] == node["remote_rows"] > 0, node
        row_bytes = 16 * 4
        assert rows["row_bytes"] == node["remote_bytes"] == rows["rows"] * row_bytes, (node, rows)
        assert rows["asks"] > 0 and rows["ask_seconds"] > 0, rows
        assert 0 < node["remote_share"] < 1, node
    trained = sum(epoch["store"]["remote_rows"] for epoch in report["epochs"])
    assert 0 < trained <= sum(node["remote_rows"] for node in report["nodes"])


def test_parts_in_turn_come_to_the_same_with_fewer_rows(box):
    whole, parts = box.path("whole"), box.path("parts")
    shutil.copytree(box.shared_dataset("small"), whole)
    box.sluice("partition", whole, "--parts", 2, "--method", "stream").ok()
    made = ("--method", "given", "--from", os.path.join(whole, "node_part.npy"))
    box.sluice("partition", whole, "--parts", 2, *made, "--out", parts).ok()
    changes = {"evaluate.fanout": [5, 5], "sampler.batch_size": 16, "store.cache": "40KiB"}
    remote = {}
    for kind in ("shuffled", "parts"):
        config = a_job(box, parts, **{**changes, "order.kind": kind})
        nodes, running = start(box, config)
        running.wait().ok()
        nodes.close()
        report = report_of(box)
        remote[kind] = sum(epoch["store"]["remote_rows"] for epoch in report["epochs"])
        os.rename(box.path("runs", "job"), box.path("runs", kind))
    assert 0 < remote["parts"] < 0.7 * remote["shuffled"], remote
    box.run(a_job(box, whole, **{**changes, "order.kind": "parts"}))[0].ok()
    assert fingerprint(report_of(box)) == fingerprint(report)


def test_a_job_goes_on_with_its_partition_alone(box):
    whole = box.path("whole")
    shutil.copytree(box.shared_dataset("small"), whole)
    box.sluice("partition", whole, "--parts", 2, "--method", "stream").ok()
    config = a_job(box, whole, **{"order.kind": "parts", "epochs": 500})
    running = box.start("run", box.job(config))
    box.until_epoch(running)
    running.interrupt()
    assert running.wait().rc == 130
    part = os.path.join(whole, "node_part.npy")
    os.rename(part, part + ".kept")
    box.sluice("run", box.job(config)).error(2, "has no partition")
    box.sluice("partition", whole, "--parts", 2, "--method", "random").ok()
    box.sluice("run", box.job(config)).error(2, "is not the data set with the partition that")
    os.rename(part + ".kept", part)
    config["epochs"] = len(report_of(box)["epochs"]) + 1
    last = box.run(config)
    last[0].ok()
    straight = box.run({**config, "output": "runs/straight"})
    assert fingerprint(last[1]) == fingerprint(straight[1])


def test_one_node_has_no_rows(box):
    box.run(a_job(box))[0].ok()
    report = report_of(box)
    assert "nodes" not in report and "wires" not in report
    assert "latest" not in report["epochs"][0] and "latest" not in report["epochs"][-1]


def test_the_node_that_all_wait_for_is_named_while_it_runs(box):
    # Its first trainer stands still with a batch in hand.
    only = {1: "export SLUICE_FAILPOINT=trainer_gradient:3:stop"}
    nodes, running = start(box, a_job(box, epochs=500), only)

    def stats():
        said = box.sluice("stats", "job", "-o", "json")
        return json.loads(said.out) if said.rc == 0 and said.out else None

    def waits():
        line = stats()
        return line if line and line["bottleneck_role"] == "nodes" else None

    line = running.until(waits, "word of the node that is waited for")
    assert "(rank 1)" in line["bottleneck"], line["bottleneck"]
    assert [node["rank"] for node in line["nodes"]] == [0, 1]
    assert line["nodes"][0]["late"] > 0.2 and line["nodes"][0]["wire"] < 0.2, line["nodes"]
    listed = [job for job in box.sluice("ps", "-o", "json").ok().json()["jobs"]]
    assert len(listed) == 1 and len(listed[0]["nodes"]) == 2, listed
    assert "nodes: what their trainers do" in box.sluice("top", "job", "--once").ok().out
    go_on(box.stopped("trainer"))
    running.until(
        lambda: (line := stats()) and sum(node["batches"] or 0 for node in line["nodes"]) > 8,
        "batches after it",
    )
    box.sluice("stop", "job").ok()
    assert running.wait().rc == 130
    nodes.close()
    report = report_of(box)
    assert len(report["nodes"]) == 2 and report["nodes"][0]["late_seconds"] > 0, report["nodes"]
