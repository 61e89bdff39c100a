"""sluice.LinkNeighborLoader, against real jobs on a graph with held-out pairs. With NumPy alone,
and beside torch_geometric's where SLUICE_TEST_PYG names a Python that has it."""

import test_python_loader as loader
from harness import python_with, whole
from test_bad_input import refused
from test_link_jobs import job, links

NOT_UNDER = loader.NOT_UNDER
HEAD = """
def open_links(data=path, edge_label_index=None, **more):
    more = dict(dict(batch_size=400, shuffle=True, seed=7, arrays="numpy", samplers=1), **more)
    return sluice.LinkNeighborLoader(data, [4, 3], edge_label_index, **more)

def codes(pairs):
    return np.asarray(pairs[0]).astype(np.int64) * 900 + np.asarray(pairs[1])

targets = np.repeat(np.arange(900), np.diff(graph["indptr"]))
edges = set(codes((graph["indices"], targets)).tolist())
listed = {s: np.load(f"{path}/{s}_edges.npy").T for s in ("val", "test")}
listed["train"] = np.stack([graph["indices"], targets])

def check_draws(batch):
    '''Vertices, edges and rows; the seeds as the pairs name them.'''
    assert len(np.unique(batch.n_id)) == len(batch.n_id) == sum(batch.num_sampled_nodes)
    assert (batch.x == graph["node_feat"][batch.n_id]).all()
    source, target = batch.n_id[batch.edge_index]
    assert (graph["indices"][batch.e_id] == source).all()
    begin, end = graph["indptr"][target], graph["indptr"][target + 1]
    assert ((begin <= batch.e_id) & (batch.e_id < end)).all()
    assert batch.batch_size == len(batch.input_id) and batch.input_id.dtype == np.int64
    assert "y" not in batch
"""


def run(box, program, **named):
    return loader.run(box, HEAD + program, links(box), **named)


BINARY = """
def check(batch, pairs):
    check_draws(batch)
    n = batch.batch_size
    assert batch.edge_label_index.shape == (2, 3 * n) and batch.edge_label_index.dtype == np.int64
    assert batch.edge_label.dtype == batch.edge_label_weight.dtype == np.float32
    assert batch.edge_label.tolist() == [1] * n + [0] * (2 * n)
    assert (batch.edge_label_weight == 1).all()
    ends = batch.n_id[batch.edge_label_index]
    assert (ends[:, :n] == pairs[:, batch.input_id]).all()
    assert (ends[0, n:] == np.repeat(ends[0, :n], 2)).all()
    assert not edges.intersection(codes(ends[:, n:]).tolist())
    assert (ends[0, n:] != ends[1, n:]).all()
    named = np.concatenate([batch.edge_label_index[:, :n].T.ravel(), batch.edge_label_index[1, n:]])
    first = np.sort(np.unique(named, return_index=True)[1])
    assert named[first].tolist() == list(range(batch.num_sampled_nodes[0]))
    kept = codes(batch.n_id[batch.edge_index])
    assert not np.intersect1d(kept, codes(ends[:, :n])).size
    assert not np.intersect1d(kept, codes(ends[::-1, :n])).size

binary = dict(neg_sampling=("binary", 2))
with open_links(**binary) as one:
    assert one.dataset == range(listed["train"].shape[1]), one
    epochs = [list(one) for _ in range(2)]
    for epoch in epochs:
        assert len(epoch) == len(one)
        for batch in epoch:
            check(batch, listed["train"])
        places = np.concatenate([b.input_id for b in epoch])
        assert np.array_equal(np.sort(places), np.arange(listed["train"].shape[1]))
    assert epochs[0][0].input_id.tolist() != epochs[1][0].input_id.tolist()
    assert one.stats()["held"] == 0 and "pairs" in repr(one)
    state = None
    for number, batch in enumerate(one):
        if number == 3:
            state = one.state_dict()
            break
with open_links(samplers=2, prefetch=False, **binary) as other:
    for a, b in zip(epochs[0], other):
        assert a.keys() == b.keys()
        assert all(np.array_equal(a[key], b[key]) for key in a.keys())
with open_links(**binary) as on, open_links(**binary) as straight:
    straight.set_epoch(2)
    wanted = list(straight)[4:]
    on.load_state_dict(state)
    found = list(on)
    assert len(found) == len(wanted) > 0
    for a, b in zip(found, wanted):
        assert all(np.array_equal(a[key], b[key]) for key in a.keys())
    said = refused(on, [0])
    assert "edge_label_index" in said, said
with open_links(edge_label_index=listed["train"][::-1], **binary) as others:
    said = refused(others.load_state_dict, state)
    assert said.startswith("load_state_dict: edge_label_index: the state is of"), said
for split in "val", "test":
    more = dict(binary, shuffle=False, drop_last=True, batch_size=64)
    with open_links(edge_label_index=split, **more) as held_out:
        n = listed[split].shape[1]
        batches = list(held_out)
        assert len(batches) == len(held_out) == n // 64 > 0
        for number, batch in enumerate(batches):
            check(batch, listed[split])
            assert batch.input_id.tolist() == list(range(64 * number, 64 * number + 64))
with open_links(exclude="none", **binary) as all_edges:
    kept = [np.intersect1d(codes(b.n_id[b.edge_index]),
            codes(b.n_id[b.edge_label_index[:, :b.batch_size]])).size for b in all_edges]
    assert sum(kept) > 0
print("ok")
"""


def test_binary(box):
    """Every positive once an epoch, negatives that are no edges, batches without their own edges;
    the same for any number of samplers, and from the middle of an epoch on."""
    assert run(box, BINARY) == "ok\n"


SHAPES = """
for amount in 1, 3:
    with open_links(neg_sampling={"mode": "triplet", "amount": amount}, batch_size=100) as loader:
        for batch in loader:
            check_draws(batch)
            n = batch.batch_size
            assert "edge_label" not in batch and "edge_label_index" not in batch
            source, target, other = batch.src_index, batch.dst_pos_index, batch.dst_neg_index
            assert source.shape == target.shape == (n,) and source.dtype == np.int64
            assert other.shape == ((n,) if amount == 1 else (n, 3)) and other.dtype == np.int64
            assert (batch.n_id[[source, target]] == listed["train"][:, batch.input_id]).all()
            drawn = codes((np.repeat(batch.n_id[source], amount), batch.n_id[other.ravel()]))
            assert not edges.intersection(drawn.tolist())
with open_links() as loader:
    for batch in loader:
        check_draws(batch)
        assert batch.edge_label_index.shape == (2, batch.batch_size) and "edge_label" not in batch
        ends = batch.n_id[batch.edge_label_index]
        assert (ends == listed["train"][:, batch.input_id]).all()
        assert len(np.unique(ends)) == batch.num_sampled_nodes[0]
own = listed["test"][::-1, 10:90]
label = np.arange(80, dtype=np.int16) % 5
for shift in False, True:
    more = dict(edge_label=label, neg_sampling=1, label_shift=shift)
    with open_links(edge_label_index=own, **more) as loader:
        places = []
        for batch in loader:
            check_draws(batch)
            n = batch.batch_size
            assert (batch.n_id[batch.edge_label_index[:, :n]] == own[:, batch.input_id]).all()
            assert batch.edge_label.dtype == np.int16 and not batch.edge_label[n:].any()
            assert (batch.edge_label[:n] == label[batch.input_id] + shift).all()
            places += batch.input_id.tolist()
        assert sorted(places) == list(range(80))
everything = np.concatenate([*listed.values()], axis=1)
known = edges.union(codes(everything).tolist())
with open_links(neg_sampling_ratio=200, strict="all", edge_label_index=own) as loader:
    for batch in loader:
        ends = batch.n_id[batch.edge_label_index[:, batch.batch_size:]]
        assert not known.intersection(codes(ends).tolist())
job = {"dataset": path, "task": {"kind": "link", "per_positive": 2}, "sampler": {"fanout": [4, 3]}}
more = dict(arrays="numpy", world=2, balance="dynamic")
with sluice.LinkNeighborLoader(job, rank=0, **more) as loader:
    batch = next(iter(loader))
    assert batch.edge_label.sum() * 3 == len(batch.edge_label)
    where = dict(attach=loader.job_name, arrays="numpy", rank=1, world=2)
    with sluice.LinkNeighborLoader(neg_sampling=("triplet", 2), **where) as second:
        batch = next(iter(second))
        assert batch.dst_neg_index.shape == (batch.batch_size, 2)
    said = refused(sluice.LinkNeighborLoader, neg_sampling="binary", **where)
    assert "task.per_positive 2" in said, said
print("ok")
"""


def test_shapes(box):
    """Triplets, pairs alone, the caller's own pairs and labels, negatives as a number, a job."""
    assert run(box, SHAPES) == "ok\n"


WRONG = """
def says(*words, data=path, **more):
    said = refused(open_links, data, **more)
    assert all(word in said for word in words), said

says("neg_sampling", "triplet", neg_sampling="binarry")
for keys in dict(exclude="self", subgraph_type="bidirectional"), dict(negatives="batches"):
    said = refused(open_links, path, **keys)
    assert said.startswith(f"{next(iter(keys))}: found "), said
says("whole number", "0.5", neg_sampling_ratio=0.5)
says("whole number", "nan", neg_sampling_ratio=float("nan"))
says("whole number", "'2'", neg_sampling=("binary", "2"))
says("whole number", "None", neg_sampling={"mode": "triplet", "amount": None})
says("neg_sampling_ratio", "one of them", neg_sampling="binary", neg_sampling_ratio=1)
says("edge_label", "triplet", neg_sampling="triplet", edge_label=np.ones(5))
says("edge_label", "5 rows", edge_label=np.ones(5))
says("label_shift", label_shift=True)
says("edge_label_index", "'val'", edge_label_index="valid")
says("edge_label_index", ".T", edge_label_index=listed["val"].T)
says("edge_label_index", "empty", edge_label_index=np.zeros((2, 0), np.int64))
says("edge_label_index", "900", edge_label_index=np.array([[0], [900]]))
says("strict", "graph", strict="grah")
says("input_nodes", input_nodes="train")
says("disjoint", disjoint=True)
links = {"dataset": path, "task": {"kind": "link"}, "sampler": {"fanout": [4, 3]}}
said = refused(sluice.NeighborLoader, links, arrays="numpy")
assert "task.kind" in said and "LinkNeighborLoader" in said, said
nodes = {**links, "task": {"kind": "node"}, "allocation": {"trainers": 2}}
with sluice.NeighborLoader(nodes, arrays="numpy", balance="dynamic", rank=0, world=2) as nodes:
    said = refused(sluice.LinkNeighborLoader, attach=nodes.job_name, rank=1, world=2)
    assert "task.kind" in said and "sluice.NeighborLoader" in said, said
print("ok")
"""


def test_wrong_arguments(box):
    assert run(box, WRONG) == "ok\n"


def test_wrong_jobs(box):
    external = {"model": {"kind": "external"}, "sampler.fanout": [4, 3]}
    for changes, words in (
        ({"task.decoder": "mlp"}, ("task.decoder", "external")),
        ({"task.loss": "bpr"}, ("task.loss", "external")),
        ({"task.dim": 64}, ("task.dim", "external")),
        ({"evaluate.k": 20}, ("evaluate.k", "external")),
        ({"evaluate.negatives": 20}, ("evaluate.negatives", "external")),
        ({"sampler.subgraph": "bidirectional", "sampler.expand": "new", "task.exclude": "self"},
         ("task.exclude", "bidirectional")),
        ({"input": {"split": "all"}}, ("input.split", "train")),
        ({"sampler.disjoint": True}, ("sampler.disjoint",)),
    ):
        result, _ = box.run(bare(job(box), {**external, **changes}))
        refused(box, result, *words)
    result, _ = box.run(job(box, **{"task.per_positive": 0}))
    refused(box, result, "task.per_positive", "1 or more")


def bare(given, changes):
    kept = {"dataset": given["dataset"], "task": {"kind": "link"}, "sampler": {}, "model": {}}
    for key, value in changes.items():
        folder, _, name = key.partition(".")
        (kept.setdefault(folder, {}) if name else kept).update({name or folder: value})
    return kept


PYG = """
import torch
from torch_geometric.data import Data
from torch_geometric.loader import LinkNeighborLoader as Theirs
from torch_geometric.sampler import NegativeSampling, SamplerOutput

def seeds_alone(seed, time, **_):
    # Fields of pairs do not depend on neighbours, for which PyG needs a library of its own.
    none = torch.empty(0, dtype=torch.long)
    return SamplerOutput(seed, none, none, none, None, [len(seed)], [])

data = sluice.open(path).to_pyg()
order = torch.randperm(data.num_edges, generator=torch.Generator().manual_seed(1))
data = Data(x=data.x, edge_index=data.edge_index[:, order], num_nodes=900,
            edge_label=torch.zeros(3), edge_label_index=torch.zeros(2, 3, dtype=torch.long))
pairs = torch.from_numpy(listed["val"].copy()).long()
for mode in None, "binary", "triplet":
    sampling = mode and NegativeSampling(mode, 1)
    more = dict(neg_sampling=sampling, batch_size=32)
    theirs = Theirs(data, [4, 3], edge_label_index=pairs, **more)
    theirs.link_sampler._sample = seeds_alone
    theirs = next(iter(theirs))
    loader = sluice.LinkNeighborLoader(data, [4, 3], edge_label_index=pairs, **more)
    assert isinstance(loader, Theirs)
    ours = next(iter(loader))
    loader.close()
    for name in ("edge_label_index", "edge_label", "src_index", "dst_pos_index", "dst_neg_index",
                 "input_id"):
        one, two = getattr(theirs, name, None), getattr(ours, name, None)
        if mode == "triplet" and name == "edge_label":
            assert two is None and len(one) == 3  # the Data's own, of other pairs
        elif mode is None and name == "edge_label":
            assert two is None
        elif isinstance(one, torch.Tensor):
            assert one.dtype == two.dtype and one.shape == two.shape, (mode, name, one, two)
        else:
            assert one == two, (mode, name, one, two)
    source = ours.edge_label_index[0] if mode != "triplet" else ours.src_index
    target = ours.edge_label_index[1] if mode != "triplet" else ours.dst_pos_index
    ends = torch.stack([ours.n_id[source[:32]], ours.n_id[target[:32]]])
    assert (ends == pairs[:, ours.input_id]).all() and ours.input_id.tolist() == list(range(32))
    assert (data.edge_index[:, ours.e_id] == ours.n_id[ours.edge_index]).all()
with sluice.LinkNeighborLoader(data, [4], neg_sampling="binary", batch_size=500) as loader:
    places = []
    for batch in loader:
        ends = batch.n_id[batch.edge_label_index[:, :batch.batch_size]]
        assert (ends == data.edge_index[:, batch.input_id]).all()
        places += batch.input_id.tolist()
    assert places == list(range(data.num_edges))
print("ok")
"""


@whole
def test_beside_pyg(box):
    assert run(box, PYG, python=python_with("torch_geometric")) == "ok\n"
