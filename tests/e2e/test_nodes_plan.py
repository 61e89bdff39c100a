"""The dry run of a job on several nodes: what it foresees, beside what a run then counts."""

import os
import shutil

from harness import cases, whole
from nodes import Ranks
from test_nodes_run import MPIS, ended, report_of
from test_nodes_shards import PRESC, STORAGE, TIGHT, shards, shards_of, spread_job
from test_typed_jobs import papers

ASK = 24  # bytes before the vertices of a message that asks for rows (link/rows.h)
# How far off rows may be. A job whose cache is too small for its batches in hand is not always as
# far ahead as it may be.
NEAR = {"tight": 2, "ahead": 2}


def plan_of(box, config, *arguments):
    job = box.job(config, "plan.json")
    return box.sluice("run", job, "--dry-run", "-o", "json", "-q", *arguments).ok().json()["nodes"]


def foreseen(plan, n, what):
    first, later = plan["epochs"]
    return what(first) + (n - 1) * what(later)


@cases(
    ("wide", {}),
    ("tight", {**TIGHT, "store.window": 0}),
    ("clipped", {"optimizer.clip_norm": 1}),
)
def test_a_run_counts_what_its_plan_foresees(box, kind, changes):
    config = spread_job(box, shards(box, 2), epochs=4, **changes)
    plan = plan_of(box, config)
    nodes = Ranks(box, MPIS[0], 2)
    ended(nodes, nodes.start("run", box.job(config))).ok()
    report = report_of(box)
    for epoch, ahead in zip(report["epochs"], plan["epochs"]):
        assert epoch["input_nodes"] == ahead["train"]["input_nodes"], (epoch, ahead)
    # Of training: a job measures with batches before, which no epoch counts.
    rows = sum(epoch["store"]["remote_rows"] for epoch in report["epochs"])
    expected = foreseen(plan, 4, lambda epoch: epoch["train"]["fetched_rows"])
    near = NEAR.get(kind, 1.1)
    assert expected / near <= rows <= expected * near, (kind, rows, expected)
    # All else are messages that ask, updates, results, and the state of a checkpoint.
    others = sum(
        wire["bytes"] - wire["row_bytes"] - 4 * wire["rows"] for wire in report["wires"]
    ) - ASK * sum(wire["asks"] for wire in report["wires"])
    updates = foreseen(plan, 4, lambda epoch: epoch["update_bytes"] + epoch["result_bytes"])
    updates += plan["test_result_bytes"]
    checkpoint = plan["checkpoint_bytes"] + 64
    assert updates - checkpoint <= others <= updates + 2 * checkpoint, (others, updates)


@whole
@cases(("storage", STORAGE), ("presc", PRESC), ("ahead", TIGHT))
def test_a_run_counts_what_its_plan_foresees_whatever_it_has(box, kind, changes):
    test_a_run_counts_what_its_plan_foresees(box, kind, changes)


def test_a_partition_foresees_what_its_shards_bring(box):
    whole_one, spread = box.path("whole"), box.path("spread")
    shutil.copytree(box.shared_dataset("small"), whole_one)
    config = spread_job(box, whole_one, nodes=2)
    plan = plan_of(box, config)
    assert (plan["features"], plan["count"]) == ("whole", 2), plan
    assert f"'sluice partition {whole_one} --parts 2'" in plan["note"], plan
    assert plan["epochs"][0]["train"]["fetched_rows"] == 0, plan
    box.sluice("partition", whole_one, "--parts", 3, "--method", "random", "-q").ok()
    note = plan_of(box, config)["note"]
    assert "node_part.npy" in note and "no part from 0 to 1" in note, note
    more = plan_of(box, spread_job(box, whole_one, nodes=4))["note"]
    assert "node_part.npy is of 3 parts, wanted 4" in more, more
    box.sluice("partition", whole_one, "--parts", 2, "--method", "stream", "-q", "--force").ok()
    given = ("--method", "given", "--from", os.path.join(whole_one, "node_part.npy"))
    box.sluice("partition", whole_one, "--parts", 2, *given, "--out", spread, "-q").ok()
    plan, shard = plan_of(box, config), plan_of(box, {**config, "dataset": spread})
    assert (plan["features"], shard["features"]) == ("foreseen", "shards")
    assert plan["epochs"] == shard["epochs"] and plan["memory"] == shard["memory"], (plan, shard)
    rows = [node["feature_rows"] for node in plan["memory"]]
    assert sum(rows) == 1500 and min(rows) > 0, rows
    said = box.sluice("run", box.job(config), "--dry-run").ok().out
    assert "of shards by node_part.npy" in said, said


def test_a_plan_of_several_types_has_the_rows_of_each(box):
    """1,600 papers and 80 fields have features, of 128 and 64 bytes; authors have none."""
    spread = shards_of(box, papers(box), "papers-1600", 2)
    config = spread_job(box, spread, nodes=2, **{"model.kind": "rsage", "sampler.expand": "new"})
    plan = plan_of(box, config)
    assert plan["features"] == "shards" and plan["row_bytes"] == 125, plan
    memory = plan["memory"]
    assert sum(node["feature_rows"] for node in memory) == 1680, memory
    assert sum(node["feature_bytes"] for node in memory) == 1600 * 128 + 80 * 64, memory
    fetched = sum(epoch[kind]["fetched_rows"]
                  for epoch in plan["epochs"] for kind in ("train", "evaluation"))
    assert 1000 < fetched <= 1680, plan


def test_rows_that_all_have_a_place_come_once(box):
    """Also where of an epoch's batches some are drawn, and stand for all."""
    config = spread_job(box, shards(box, 2), nodes=2, **{"sampler.batch_size": 1})
    plan = plan_of(box, config)
    assert plan["batches_drawn"] < sum(epoch["train"]["batches"] for epoch in plan["epochs"])
    parts = [epoch[part] for epoch in plan["epochs"] for part in ("train", "evaluation")]
    rows = sum(part["fetched_rows"] for part in (*parts, plan["test"]))
    assert 0.9 * 1500 < rows <= 1500, plan


def test_a_plan_has_as_many_nodes_as_it_is_told_or_finds(box):
    folder = shards(box, 3)
    config = spread_job(box, folder)
    assert plan_of(box, config)["count"] == 3
    assert plan_of(box, config, "--set", "nodes=3")["count"] == 3

    def refused(*arguments, **changes):
        job = box.job({**config, **changes})
        return box.sluice("run", job, "--dry-run", *arguments)

    refused(nodes=2).error(2, "is of 3 shards, and the job has 2 nodes")
    refused(nodes=1).error(2, '"nodes": "auto"')
    refused(dataset=os.path.join(folder, "1")).error(2, "is shard 1 of 3")
    refused(nodes=5).error(2, "updates.batches_per_update: found 4, wanted at least 5")
    whole_one = {"dataset": box.shared_dataset("small")}
    refused("--links", "links.json", **whole_one).error(2, "--links", "--set nodes=N")
    refused("--links", "links.json").error(2, "links.json")
    box.write_json("links.json", {"links": []})
    refused("--links", "links.json").error(2, "sluice doctor --nodes -o json")
    box.sluice("run", box.job(config), "--links", "x").error(2, "without --dry-run")
    box.assert_no_run()


def check_measured(box, job, mpi):
    nodes = Ranks(box, mpi, 2)
    said = ended(nodes, nodes.start("run", job, "--dry-run", "-o", "json")).ok().json()["nodes"]
    assert min(said["slowest_link"].values()) > 0, said["slowest_link"]
    assert all(epoch["seconds"] > 0 for epoch in said["epochs"]), said["epochs"]


@whole
def test_time_follows_from_what_is_measured_by_mpich(box):
    check_measured(box, box.job(spread_job(box, shards(box, 2))), MPIS[1])


def test_time_follows_from_what_is_measured(box):
    config = spread_job(box, shards(box, 2))
    job = box.job(config)
    check_measured(box, job, MPIS[0])
    alone = plan_of(box, config)
    assert set(alone["slowest_link"].values()) == {None}, alone["slowest_link"]
    assert [epoch["seconds"] for epoch in alone["epochs"]] == [None, None]
    link = {"trip_8_b_s": 0.25, "rate_1_mib_bytes_per_s": 1000}
    quick = {"trip_8_b_s": 0.125, "rate_1_mib_bytes_per_s": 2000}
    box.write_json("links.json", {"links": [quick, link]})
    slow = plan_of(box, config, "--links", "links.json")
    assert slow["slowest_link"] == {"round_trip_s": 0.25, "bytes_per_s": 1000}, slow
    # At least the mean node's half of all bytes, and a way there and back for each update.
    least = slow["epochs"][0]["wire_bytes"] / 2 / 1000 + 0.25 * 6
    assert least <= slow["epochs"][0]["seconds"] < 3 * least, (slow["epochs"], least)
    text = box.sluice("run", job, "--dry-run", "--links", "links.json").ok().out
    assert "the slowest link has 1000 B/s and 250 ms there and back" in text, text
    box.assert_no_run()


def test_a_node_on_which_a_job_does_not_fit_is_named(box):
    config = spread_job(box, shards(box, 2))
    small = box.job({**config, "arena": {"memory": 65536}}, "small.json")
    job = box.job(config)
    nodes = Ranks(box, MPIS[0], 2)
    only = {1: f"set -- run {small} --dry-run"}
    result = ended(nodes, nodes.start("run", job, "--dry-run", only=only))
    assert result.rc == 2 and result.out == "", str(result)
    host = os.uname().nodename
    assert f"{host}: arena.memory: found 65536 bytes" in result.err, str(result)
    box.assert_no_run()
