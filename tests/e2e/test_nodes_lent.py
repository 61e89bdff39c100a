"""One job on several nodes whose batches are lent to programs on each: every batch of an epoch
comes once, to one of them, with the features that the whole data set has."""

import itertools

import libsluice as s
import numpy as np
from harness import cases, cpu_devices, whole
from nodes import Ranks
from test_libsluice import arrays, check_batch, edge_set, job, opened, refused
from test_nodes_run import MPIS, report_of
from test_nodes_shards import shards

NODES, EPOCHS = 2, 2
# Rows that others have are not all kept, and are asked for again.
TIGHT = {"store": {"cache": 1500 * 8 + 200 * (16 * 4 + 8), "window": 2}}


def lent_job(box, n=NODES, seats=1, **changes):
    config = job(box, box.path("runs", "job"), **{"allocation.trainers": seats, **changes})
    more = {"model": {"kind": "external"}, "dataset": shards(box, n), "nodes": "auto"}
    return {**config, **more, "devices": cpu_devices(1 + seats)}


def start(box, nodes, config, only=None):
    return nodes.start("run", box.job(config), only=only)


def attached(box, running, node, rank=-1, **options):
    """A loader on a node: the first one's is that of the job's name."""
    word = box.path("runs", "job", f"node-{node}") if node else box.unique("loader")

    def take_seat():
        try:
            return opened(box, attach=word, rank=rank, **options)
        except s.Failed as error:
            assert error.code in (s.ENOENT, s.EBUSY, s.ETIMEDOUT), error
            return None

    return running.until(take_seat, f"a seat on node {node}")


def drain(loaders, epochs):
    """What each loader has had, in turns, in so many epochs: (epoch, number) of batches, whose
    numbers, edges, labels and features are right."""
    data, had = arrays(), {loader: [] for loader in loaders}
    known, left = edge_set(data), dict.fromkeys(loaders, epochs)
    for loader in itertools.cycle(loaders):
        if not any(left.values()):
            return had
        if not left[loader]:
            continue
        batch = loader.next(100)
        if batch == s.END:
            left[loader] -= 1
        elif batch != s.TIMEOUT:
            check_batch(data, known, batch, loader.features(batch))
            had[loader].append((batch.epoch, batch.number, s.seeds(batch).copy()))
            loader.done(batch)


def check_shares(loaders, had, epochs):
    """Batch k is of rank k modulo all of them, and all have come."""
    first = loaders[0].info
    assert sorted(x.info.rank for x in loaders) == list(range(len(loaders)))
    for x in loaders:
        numbers = range(x.info.rank, first.n_batches, len(loaders))
        assert (x.info.world, x.info.n_own_batches) == (len(loaders), len(numbers))
        wanted = [(epoch, number) for epoch in range(epochs) for number in numbers]
        assert [(epoch, number) for epoch, number, _ in had[x]] == wanted, had[x]
    for epoch in range(epochs):
        seeds = [seeds for of in had.values() for e, _, seeds in of if e == epoch]
        assert np.array_equal(np.sort(np.concatenate(seeds)), arrays()["train_idx"])


def check_lent(box, n, seats, mpi, changes, **options):
    nodes = Ranks(box, mpi, n)
    running = start(box, nodes, lent_job(box, n, seats, epochs=EPOCHS, **changes))
    places = [(node, seat) for node in range(n) for seat in range(seats)]
    loaders = [attached(box, running, node, seat, **options) for node, seat in places]
    had = drain(loaders, EPOCHS)
    check_shares(loaders, had, EPOCHS)
    for loader in loaders:
        loader.close()
    running.wait().ok()
    nodes.close()
    report = report_of(box)
    own = sum(len(had[x]) for x in loaders[:seats])  # the first node's
    assert report["batches"]["scheduled"] == own == report["batches"]["trained"]
    assert own == sum(e["batches"] for e in report["epochs"])
    assert all(e["left"] == 0 and e["store"]["remote_rows"] > 0 for e in report["epochs"]), report
    return [sorted((e, k, seeds.tolist()) for of in had.values() for e, k, seeds in of)]


@cases(0, 1)
def test_each_batch_comes_once_to_one_node(box, prefetch):
    changes = {"order.kind": "parts"} if prefetch else TIGHT
    check_lent(box, NODES, 1, MPIS[0], changes, prefetch=prefetch)


@whole
@cases((3, 2, MPIS[0], {}), (2, 2, MPIS[1], {}), (2, 1, MPIS[0], {"store.features": "storage"}))
def test_each_batch_comes_once_to_one_of_several_seats(box, n, seats, mpi, changes):
    check_lent(box, n, seats, mpi, changes, prefetch=1)


def test_batches_are_those_of_one_node(box):
    """Whose loader, of the whole data set, has them all."""
    config = lent_job(box)
    nodes = Ranks(box, MPIS[0], NODES)
    running = start(box, nodes, config)
    with attached(box, running, 0) as first, attached(box, running, 1) as second:
        spread = [x for of in drain([first, second], 1).values() for x in of]
        # Nobody waits for the other node: this one is in its next epoch.
        assert (batch := second.next()).epoch == 1
        # What stops the job there stops it on all nodes.
        box.sluice("stop", config["name"]).ok()
        refused("stopped by the user", drain, [second], 100, code=s.EABORTED)
    assert (ended := running.wait()).rc == 130, str(ended)
    nodes.close()
    whole_data = {**config, "dataset": box.shared_dataset("small"), "output": "runs/alone"}
    with opened(box, {**whole_data, "nodes": 1, "name": box.unique("alone")}) as one:
        alone = [(b.epoch, b.number, s.seeds(b).copy()) for b in one.epoch()]
    assert len(alone) == len(spread)
    for a, b in zip(sorted(alone, key=lambda x: x[1]), sorted(spread, key=lambda x: x[1])):
        assert a[:2] == b[:2] and np.array_equal(a[2], b[2])


def taken(loaders):
    """Numbers and vertices of an epoch's batches, which have the rows of the whole data set."""
    had, left, rows = [], set(loaders), arrays()["node_feat"]
    while left:
        for loader in list(left):
            batch = loader.next(100)
            if batch == s.END:
                left.remove(loader)
            elif batch != s.TIMEOUT:
                assert np.array_equal(loader.features(batch), rows[s.nodes(batch)])
                had.append((batch.number, s.nodes(batch).tolist()))
                loader.done(batch)
    return sorted(had)


def test_batches_of_links_are_those_of_one_node(box):
    """Their seeds are the ends of pairs, and of negatives."""
    task = {"kind": "link", "per_positive": 2, "hard": {"kind": "walks", "first_rank": 2}}
    config = lent_job(box, epochs=1, task=task, **{"sampler.batch_size": 1024})
    nodes = Ranks(box, MPIS[0], NODES)
    running = start(box, nodes, config)
    with attached(box, running, 0) as first, attached(box, running, 1) as second:
        spread = taken([first, second])
    running.wait().ok()
    nodes.close()
    whole_data = {**config, "dataset": box.shared_dataset("small"), "output": "runs/alone"}
    with opened(box, {**whole_data, "nodes": 1, "name": box.unique("alone")}) as one:
        assert taken([one]) == spread and len(spread) > NODES


def test_another_node_that_is_lost_is_said(box):
    """By its loader, and by those of others, which have no rows of it any more."""
    nodes = Ranks(box, MPIS[0], NODES)
    only = {1: "export SLUICE_FAILPOINT=link_asked:4"}
    running = start(box, nodes, lent_job(box, **TIGHT), only)
    with attached(box, running, 0) as first, attached(box, running, 1) as second:
        refused("its link to the other nodes was killed", drain, [second], 100)
        # Of node 1, or of the launcher, which tells this one to stop because of it.
        refused(("(rank 1)", "the launcher"), drain, [first], 100)
    assert (ended := running.wait()).rc == 1, str(ended)
    assert "its link to the other nodes was killed by SIGKILL" in ended.err, str(ended)
    nodes.close()


def test_batches_of_whoever_comes_are_refused(box):
    config = lent_job(box, **{"allocation.balance": "dynamic"})
    nodes = Ranks(box, MPIS[0], NODES)
    refused_ = start(box, nodes, config).wait()
    assert refused_.rc == 2, str(refused_)
    assert 'allocation.balance: found "dynamic" with 2 nodes, wanted "fixed"' in refused_.err
    nodes.close()
