"""One job on several nodes, each of which has the features of its part of the vertices alone: it
comes to what it comes to with all of them on one node."""

import json
import os
import shutil

import numpy as np

from harness import cases, fingerprint, read_json, text_of, whole
from nodes import Nodes, Ranks
from test_accuracy import shared
from test_nodes_run import MPIS, assert_link_killed, ended, log_of_node, lose_a_node
from test_nodes_run import nodes_job, report_of, same_report, start
from test_typed_jobs import papers

EVALUATION = {"evaluate.fanout": [4, 4]}  # without "full", which reads all features
STORAGE = {"store.features": "storage"}
# The half of the rows that others have does not fit, but a mini-batch does.
TIGHT = {"store.cache": 1500 * 8 + 500 * (16 * 4 + 8), "store.window": 2, "sampler.batch_size": 16}
PRESC = {"cache": {"policy": "presc", "presample_epochs": 1, "ratio": 0.2}}
GAT = {"model.kind": "gat", "model.heads": 2}
LINK_POINTS = ("link_asked", "link_answering", "link_result")
POINTS = ("trainer_asked:4", "trainer_fetching:3", "trainer_fetched:2", "trainer_extracted:2")


def shards_of(box, dataset, name, n, method="random"):
    def fill(folder):
        words = ("partition", dataset, "--parts", n, "--method", method, "--batch", 50, "-q")
        box.sluice(*words, "--out", folder).ok()

    return box.shared_folder(f"shards-{name}-{method}-{n}", fill)


def shards(box, n, method="random"):
    return shards_of(box, box.shared_dataset("small"), "small", n, method)


def spread_job(box, dataset=None, **changes):
    return nodes_job(box, dataset, **{**EVALUATION, **changes})


def alone(box, name="spread", **changes):
    return box.undisturbed(name, spread_job(box, **changes))


def run_on(box, nodes, folder, only=None, **changes):
    return ended(nodes, start(box, nodes, spread_job(box, folder, **changes), only=only))


def rows_of(report):
    return [epoch["store"] for epoch in report["epochs"]]


def check_same(box, kind, n, mpi, changes):
    config = spread_job(box, shards(box, n), **changes)
    as_alone = alone(box, f"spread-{kind}", **changes)
    rows = rows_of(same_report(box, Ranks(box, mpi, n), config, as_alone))
    assert rows[0]["remote_rows"] > 0, rows
    for row in rows:
        if kind != "storage":  # what found no place may be there by the time it is needed
            assert row["remote_rows"] >= row["read"], row
        assert row["remote_bytes"] == row["remote_rows"] * 16 * 4, row
    return rows


@cases(("graphsage", 2, {}), ("gat", 4, GAT), ("storage", 3, STORAGE), ("tight", 2, TIGHT))
def test_bits_are_those_of_the_whole_data_set(box, kind, n, changes):
    rows = check_same(box, kind, n, MPIS[0], changes)
    if kind == "graphsage":  # all rows of others have a place: each comes once to each node
        assert sum(row["remote_rows"] for row in rows) <= 1500, rows
    if kind == "tight":
        assert rows[-1]["remote_rows"] > 0, rows


@whole
@cases(("graphsage", 4, {}), ("storage", 2, STORAGE), ("presc", 3, PRESC), ("tight", 2, TIGHT))
def test_bits_are_those_of_the_whole_data_set_with_mpich(box, kind, n, changes):
    check_same(box, kind, n, MPIS[1], changes)


@whole
@cases(("presc", 4, PRESC), ("gat", 2, GAT), ("storage", 4, STORAGE))
def test_bits_are_those_of_the_whole_data_set_whatever_it_has(box, kind, n, changes):
    check_same(box, kind, n, MPIS[0], changes)


@whole
@cases(*MPIS)
def test_bits_are_those_of_the_whole_data_set_over_a_network(box, mpi):
    same_report(box, Nodes(box, mpi, 3), spread_job(box, shards(box, 3)), alone(box))


@whole
@cases(2, 4)
def test_bits_of_ogbn_arxiv_are_those_of_the_whole_data_set(box, n):
    path = shared("ogbn_arxiv")
    folder = box.path("shards")
    box.sluice("partition", path, "--parts", n, "--method", "stream", "--out", folder, "-q").ok()
    changes = {"epochs": 1, "sampler.batch_size": 512, "sampler.fanout": [10, 5]}
    as_alone = box.undisturbed("spread-arxiv", spread_job(box, path, **changes))
    config = spread_job(box, folder, **changes)
    rows = rows_of(same_report(box, Ranks(box, MPIS[0], n), config, as_alone))[0]
    assert 0 < rows["remote_rows"] < n * 169343, rows


# ---- several types ------------------------------------------------------------------------------

# Of the papers, 32 numbers of 4 bytes each, 1,600 rows; of authors 5 of 2, of fields one of 4.
WIDTHS = {"author": (5, np.float16), "field": (1, np.float32)}
TYPED_TIGHT = {"store.cache": 2600 * 8 + 90000, "store.window": 2, "sampler.batch_size": 16}


def wide_papers(box):
    """Papers whose authors and fields have features, too, of other widths."""
    def make(folder):
        shutil.copytree(papers(box), folder, dirs_exist_ok=True)
        path = os.path.join(folder, "metadata.json")
        about = read_json(path)
        for t in about["types"]:
            if t["name"] in WIDTHS:
                t["feat_dim"], dtype = WIDTHS[t["name"]]
                x = np.random.default_rng(len(t["name"])).normal(size=(t["count"], t["feat_dim"]))
                np.save(os.path.join(folder, f"node_feat.{t['name']}.npy"), x.astype(dtype))
        with open(path, "w") as f:
            json.dump(about, f)

    return box.shared_folder("wide-papers", make)


def typed_changes(box, **changes):
    return {"dataset": wide_papers(box), "model.kind": "rsage", "sampler.expand": "new", **changes}


def check_same_types(box, name, n, method="random", **changes):
    changes = typed_changes(box, **changes)
    folder = shards_of(box, changes["dataset"], os.path.basename(changes["dataset"]), n, method)
    as_alone = alone(box, f"spread-typed-{name}", **changes)
    config = spread_job(box, **{**changes, "dataset": folder})
    rows = rows_of(same_report(box, Ranks(box, MPIS[0], n), config, as_alone))
    assert rows[0]["remote_rows"] > 0, rows
    return rows


HEADS = {"model.heads": 2}


@cases(
    ("rsage", 2, {}),
    ("rgcn", 3, {}),
    ("rgatv2", 2, {**HEADS, **TYPED_TIGHT}),
    ("storage", 3, {"model.kind": "rgat", **HEADS, **STORAGE}),
)
def test_bits_of_several_types_are_those_of_the_whole_data_set(box, kind, n, changes):
    check_same_types(box, kind, n, **{"model.kind": kind, **changes})


@whole
@cases(("hgt", 4, HEADS), ("rgat", 3, HEADS), ("rsage", 2, PRESC))
def test_bits_of_several_types_are_those_of_the_whole_data_set_whatever(box, kind, n, changes):
    check_same_types(box, f"{kind}-{n}", n, **{"model.kind": kind, **changes})


def test_types_without_features_have_no_rows_to_ask_for(box):
    """Each row of 1,600 papers and 80 fields comes to one node, once; authors have none."""
    rows = check_same_types(box, "bare", 2, dataset=papers(box))
    assert sum(row["remote_rows"] for row in rows) <= 1680, rows
    n_bytes = sum(row["remote_bytes"] for row in rows)
    assert 1000 * 32 * 4 < n_bytes <= 1600 * 32 * 4 + 80 * 16 * 4, rows


def test_a_trainer_that_dies_over_rows_of_types_changes_nothing(box):
    changes = typed_changes(box, **TYPED_TIGHT)
    folder = shards_of(box, changes["dataset"], "wide-papers", 2)
    only = {1: "export SLUICE_FAILPOINT=trainer_asked:4"}
    config = spread_job(box, **{**changes, "dataset": folder})
    nodes = Ranks(box, MPIS[0], 2)
    ended(nodes, start(box, nodes, config, only=only)).ok()
    assert "was killed by SIGKILL" in log_of_node(box, 1)
    assert fingerprint(report_of(box)) == alone(box, "spread-typed-tight", **changes)


# ---- what dies ----------------------------------------------------------------------------------


@cases(*POINTS[:2])
def test_a_trainer_that_dies_while_rows_come_changes_nothing(box, point):
    only = {1: f"export SLUICE_FAILPOINT={point}"}
    run_on(box, Ranks(box, MPIS[0], 2), shards(box, 2), only=only, **TIGHT).ok()
    assert "was killed by SIGKILL" in log_of_node(box, 1)
    assert fingerprint(report_of(box)) == alone(box, "spread-tight", **TIGHT)


@whole
@cases(*POINTS[2:])
def test_a_trainer_that_dies_with_rows_changes_nothing(box, point):
    test_a_trainer_that_dies_while_rows_come_changes_nothing(box, point)


@cases(*[(point, rank) for point in LINK_POINTS for rank in (0, 1)])
def test_a_link_that_dies_over_rows_ends_the_job(box, point, rank):
    only = {rank: f"export SLUICE_FAILPOINT={point}:2"}
    changes = {**TIGHT, "checkpoint.every_updates": 2}
    assert_link_killed(run_on(box, Ranks(box, MPIS[0], 2), shards(box, 2), only=only, **changes))


@cases(4, 1)
def test_a_job_of_shards_goes_on_with_others(box, n):
    """What two nodes began with their shards is finished by four, or by one with all features."""
    config = {**TIGHT, "checkpoint.every_updates": 2}
    lose_a_node(box, Ranks(box, MPIS[0], 2), spread_job(box, shards(box, 2), **config), 40)
    if n == 1:
        box.run(spread_job(box, nodes=1, **config))[0].ok()
    else:
        run_on(box, Ranks(box, MPIS[0], n), shards(box, n), **config).ok()
    assert "going on from" in log_of_node(box, 0)
    assert fingerprint(report_of(box)) == alone(box, "spread-tight", **TIGHT)


@cases(("shuffled", True), ("parts", False))
def test_batches_of_all_parts_are_told_once(box, kind, told):
    result = run_on(box, Ranks(box, MPIS[0], 2), shards(box, 2), **{"order.kind": kind}).ok()
    assert result.err.count('with "parts" they have vertices of its own part') == told, str(result)


# ---- what is refused ----------------------------------------------------------------------------


def test_shards_of_other_numbers_are_refused(box):
    folder = shards(box, 3)
    result = run_on(box, Ranks(box, MPIS[0], 2), folder)
    assert result.rc == 2, str(result)
    assert f"{folder}: is of 3 shards, and the job has 2 nodes" in result.err, str(result)
    result = run_on(box, Ranks(box, MPIS[0], 3), os.path.join(folder, "1"))
    assert result.rc == 2, str(result)
    assert "is shard 1 of 3, wanted shard 0 on this node" in result.err, str(result)
    box.assert_no_run()


def test_full_evaluations_of_shards_are_refused(box):
    result = run_on(box, Ranks(box, MPIS[0], 2), shards(box, 2), **{"evaluate.fanout": "full"})
    assert result.rc == 2, str(result)
    assert 'evaluate.fanout: found "full"' in result.err, str(result)
    assert "wanted a list" in result.err and "is shard 0 of 2" in result.err, str(result)
    box.assert_no_run()


def test_shards_of_two_partitions_do_not_mix(box):
    ours = shards(box, 2)
    others = shards(box, 2, "stream")
    for i in range(2):
        os.symlink(os.path.join((ours, others)[i], str(i)), box.path(f"shard-{i}"))
    path = box.job(spread_job(box, box.path("shard-0")), "job.json")
    other = box.job(spread_job(box, box.path("shard-1")), "other.json")
    nodes = Ranks(box, MPIS[0], 2)
    result = ended(nodes, nodes.start("run", path, only={1: f"set -- run {other}"}))
    assert result.rc == 2, str(result)
    assert "data set metadata.json: found" in result.err, str(result)
    box.assert_no_run()


def test_the_job_keeps_the_name_that_it_was_given(box):
    folder = shards(box, 2)
    run_on(box, Ranks(box, MPIS[0], 2), folder).ok()
    assert read_json(box.path("runs", "job", "config.json"))["dataset"] == folder
    log = text_of(box.path("runs", "job", "log", "trainer-0.log"))
    assert "are asked for from other nodes" in log
