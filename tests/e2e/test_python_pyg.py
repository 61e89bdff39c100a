"""sluice.NeighborLoader beside PyTorch Geometric: models of a user train, and what that library's
own functions expect of a loader and its batches holds."""

import json
import os
import re

from harness import ROOT, python_with, whole
from test_python_loader import NOT_UNDER, start  # noqa: F401

HEAD = """
import warnings
import torch, torch_geometric
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE
warnings.simplefilter("error")
torch.manual_seed(3)
full = sluice.open(path).to_pyg()
full.validate()

def batches_of(loader, model, **more):
    for batch in loader:
        yield batch, model(batch.x, batch.edge_index, **more)[:batch.batch_size]
"""


# PyTorch Geometric leaves sources that it has made among the temporary files. One thread: many on
# busy cores wait for each other.
ENV = {"TMPDIR": "sources-of-pyg", "OMP_NUM_THREADS": "1"}


def start_pyg(box, program, *arguments, env=None):
    os.makedirs(box.path(ENV["TMPDIR"]), exist_ok=True)
    env = {**ENV, "TMPDIR": box.path(ENV["TMPDIR"]), **(env or {})}
    return start(box, HEAD + program, *arguments, python=python_with("torch_geometric"), env=env)


def with_pyg(box, program, *arguments):
    return start_pyg(box, program, *arguments).wait().ok().out


TRAIN = """
import torch_geometric.loader
loader = sluice.NeighborLoader(path, [10, 10], 64, "train", shuffle=True, seed=7)
assert isinstance(loader, torch_geometric.loader.NeighborLoader)
assert isinstance(loader, torch.utils.data.DataLoader)
assert "it is a DataLoader itself" in refused(lambda: list(torch.utils.data.DataLoader(loader)))
assert loader.num_workers == 0 and loader.sampler is loader.multiprocessing_context is None
model = GraphSAGE(full.num_features, 32, 2, 4, dropout=0.3)
optimizer = torch.optim.Adam(model.parameters(), 0.02)
for epoch in range(8):
    for batch in loader:
        assert isinstance(batch, Data) and batch.validate() and batch.is_sorted(sort_by_row=False)
        optimizer.zero_grad()
        out = model(batch.x, batch.edge_index,
                    num_sampled_nodes_per_hop=batch.num_sampled_nodes,
                    num_sampled_edges_per_hop=batch.num_sampled_edges)[:batch.batch_size]
        torch.nn.functional.cross_entropy(out, batch.y[:batch.batch_size]).backward()
        optimizer.step()
loader.close()
model.eval()
with sluice.NeighborLoader(path, [4, 3], 50, "val") as one:
    with sluice.NeighborLoader(path, [4, 3], 50, "val", adj="csc") as two:
        for (a, plain), (b, sparse) in zip(batches_of(one, model), batches_of(two, model)):
            assert type(b.edge_index).__name__ == "EdgeIndex"
            b.edge_index.validate()
            assert b.edge_index.is_sorted_by_col and b.validate()
            assert torch.equal(a.edge_index, b.edge_index.as_tensor())
            assert torch.allclose(plain, sparse, atol=1e-5)
            trimmed = model(b.x, b.edge_index, num_sampled_nodes_per_hop=b.num_sampled_nodes,
                            num_sampled_edges_per_hop=b.num_sampled_edges)[:b.batch_size]
            assert torch.allclose(plain, trimmed, atol=1e-5)
with torch.no_grad(), sluice.NeighborLoader(path, [4, 3], 50, "val") as loader:
    for batch in loader:
        outs = [model(batch.x, batch.edge_index, num_sampled_nodes_per_hop=n,
                      num_sampled_edges_per_hop=e)[:batch.batch_size]
                for n, e in ((None, None), (batch.num_sampled_nodes, batch.num_sampled_edges))]
        assert torch.allclose(*outs, atol=1e-6)
        # A transposed prefix would be other edges.
        kept = batch.edge_index[:, :batch.num_sampled_edges[0]]
        assert bool((kept[1] < batch.batch_size).all())
    hits = total = 0
with torch.no_grad(), sluice.NeighborLoader(path, [-1, -1], 50, "test") as loader:
    for batch, out in batches_of(loader, model):
        wanted = model(full.x, full.edge_index)[batch.n_id[:batch.batch_size]]
        assert torch.allclose(out, wanted, atol=1e-5)
        hits += int((out.argmax(1) == batch.y).sum())
        total += batch.batch_size
with sluice.NeighborLoader(path, [-1], 100) as loader:
    everything = model.inference(loader)
    assert loader.data.x.shape == full.x.shape
assert torch.allclose(everything, model(full.x, full.edge_index), atol=1e-5)
print(json.dumps([hits, total]))
"""


def test_graphsage_trains(box):
    """To what the structure tells; trim_to_layer() changes nothing, all neighbours give what the
    whole graph gives, and BasicGNN.inference() works."""
    hits, total = map(int, re.findall(r"\d+", with_pyg(box, TRAIN)))
    assert total == 375 and hits / total > 0.75, (hits, total)


MEMORY = """
order = torch.randperm(full.num_edges)
data = Data(
    x=full.x.double(), y=torch.rand(full.num_nodes, 3), edge_index=full.edge_index[:, order],
    edge_attr=torch.rand(full.num_edges, 2), train_mask=full.train_mask, name="mine",
    importance=torch.rand(full.num_edges), edge_weight=-torch.rand(full.num_edges, 2),
    names=[f"v{i}" for i in range(full.num_nodes)],
    places=np.arange(2 * full.num_nodes).reshape(-1, 2), batch_size=99, input_id=torch.zeros(5))
for nodes in data.train_mask, data.train_mask.nonzero()[:, 0].flip(0), "train":
    with sluice.NeighborLoader(
            data, [4, 3], 64, nodes, shuffle=True, weight_attr="importance") as loader:
        found = []
        for batch in loader:
            assert torch.equal(batch.x, data.x[batch.n_id]) and batch.name == "mine"
            assert (batch.y == data.y[batch.n_id]).all()
            assert (data.edge_index[:, batch.e_id] == batch.n_id[batch.edge_index]).all()
            assert (data.edge_attr[batch.e_id] == batch.edge_attr).all()
            assert batch.names == [f"v{i}" for i in batch.n_id.tolist()]
            assert (data.places[batch.n_id] == batch.places).all()
            assert batch.batch_size == len(batch.input_id) == batch.num_sampled_nodes[0] < 99
            assert (data.importance[batch.e_id] == batch.importance).all()
            assert (data.edge_weight[batch.e_id] == batch.edge_weight).all()
            seeds = batch.n_id[:batch.batch_size]
            listed = nodes if torch.is_tensor(nodes) and nodes.dtype == torch.long else (
                torch.arange(len(nodes)) if torch.is_tensor(nodes) else
                data.train_mask.nonzero()[:, 0])
            assert (listed[batch.input_id] == seeds).all()
            found += seeds.tolist()
        batch = loader(torch.tensor([7, 2]))
        seeds = data.train_mask.nonzero()[:, 0] if isinstance(nodes, str) else (
            nodes.nonzero()[:, 0] if nodes.dtype == torch.bool else nodes)
        assert torch.equal(batch.n_id[:2], seeds[[7, 2]])
        assert torch.equal(listed[batch.input_id], seeds[[7, 2]])
        assert (data.edge_index[:, batch.e_id] == batch.n_id[batch.edge_index]).all()
        assert (batch.y == data.y[batch.n_id]).all() and batch.validate()
        assert sorted(found) == data.train_mask.nonzero()[:, 0].tolist() and loader.data is data
saved = full.clone()
for feat in torch.rand(full.num_edges, 3).half(), torch.arange(full.num_edges):
    saved.update(dict(edge_attr=feat, edge_weight=torch.rand(full.num_edges)))
    name = f"saved-{feat.dim()}"
    sluice.from_pyg(saved).save(name)
    again = sluice.open(name).to_pyg()
    assert set(again.keys()) == set(saved.keys()) and again.edge_attr.dtype == feat.dtype
    for key in saved.keys():
        assert np.array_equal(again[key], saved[key]), key
    with sluice.NeighborLoader(name, [4, 3], 64, "train", subgraph_type="induced") as loader:
        for batch in [*loader, loader([2, 1])]:
            assert torch.equal(batch.edge_attr, feat[batch.e_id])
            assert torch.equal(batch.edge_weight, saved.edge_weight[batch.e_id])
mine = Data(x=full.x, edge_index=data.edge_index, edge_attr=data.edge_attr)
made = sluice.from_pyg(mine)  # edges keep the numbers that they have there
with sluice.NeighborLoader(made, [4, 3], 64) as loader:
    for whole in made.to_pyg(), loader.data:
        for batch in loader:
            assert (whole.edge_index[:, batch.e_id] == batch.n_id[batch.edge_index]).all()
            assert (whole.edge_attr[batch.e_id] == batch.edge_attr).all()
for change, words in (
    (dict(edge_index=torch.tensor([[0], [9999]])), "data.edge_index: has vertex 9999, wanted 0 to"),
    (dict(edge_index=torch.rand(2, 5)), "data.edge_index: is float32 [2, 5], wanted int64"),
    (dict(edge_index=None), "data.edge_index: is missing"),
    (dict(x=full.x[:5], num_nodes=1500), "data.x: is [5, 16], wanted 1500 rows"),
    (dict(edge_attr=torch.rand(5, 2)), "data.edge_attr: is float32 [5, 2], wanted ["),
    (dict(edge_attr=torch.rand(full.num_edges).bfloat16()), "data.edge_attr: is bfloat16, which"),
    (dict(train_mask=torch.ones(1500, 2)), "data.train_mask: has 2 dimensions, wanted one"),
):
    bad = full.clone()
    for key, value in change.items():
        bad[key] = value
    said = refused(sluice.from_pyg, bad)
    assert said.startswith(words), said
assert "without types or relations" in refused(
    sluice.from_pyg, torch_geometric.data.HeteroData())
"""


NO_FEATURES = """
n = full.num_nodes
for x in (torch.arange(n), torch.rand(n, 3, 2), torch.rand(n, 2).bfloat16(), torch.rand(n, 2) < 0.5,
          torch.rand(n, 0)):
    data = Data(x=x, edge_index=full.edge_index, num_nodes=n, y=torch.rand(n))
    seeds = full.train_mask.nonzero()
    with sluice.NeighborLoader(data, [4, 3], 64, seeds, is_sorted=True) as loader:
        for batch in [*loader, loader([4, 2])]:
            assert torch.equal(batch.x, x[batch.n_id]) and torch.equal(batch.y, data.y[batch.n_id])
data.x = full.x
for y in data.y, torch.rand(n, 1), torch.rand(n, 2):
    data.y = y
    sluice.from_pyg(data).save(f"y-{list(y.shape)}")
    with sluice.NeighborLoader(f"y-{list(y.shape)}", [4, 3], 64) as loader:
        assert torch.equal(loader.data.y, y)
        for batch in [*loader, loader([4, 2])]:
            assert torch.equal(batch.y, y[batch.n_id[:batch.batch_size]])
for theirs in dict(batch_size=64), {}:
    said = refused(sluice.NeighborLoader, data, [4], full.train_mask, **theirs)
    assert said.startswith("NeighborLoader: the third argument is batch_size, the fourth "), said
"""


def test_a_data_as_others_have_it(box):
    """x of any type and shape, y as a list or a column, seeds from nonzero(); a directory's y has
    the shape that was saved."""
    with_pyg(box, NO_FEATURES)


def test_a_data_in_memory(box):
    """Everything a Data has by vertex and by edge comes along; e_id is a column of its
    edge_index."""
    with_pyg(box, MEMORY)
    box.sluice("inspect", "saved-2").ok()


OBJECTS = """
import copy, pickle
from torch_geometric.data import HeteroData

ring = torch.stack([torch.arange(9), (torch.arange(9) + 1) % 9])
plain = Data(x=torch.rand(9, 2), edge_index=ring, colour="red")
typed = HeteroData()
typed["a"].x, typed["b"].num_nodes = torch.rand(9, 2), 9
typed["a", "to", "b"].edge_index, typed["b", "to", "a"].edge_index = ring, ring.flip(0)

def stores_of(batch):
    whole = [batch._global_store] if isinstance(batch, HeteroData) else []
    return whole + batch.stores

def same(one, two):
    assert type(one) is type(two) and set(one.__dict__) == set(two.__dict__)
    for a, b in zip(stores_of(one), stores_of(two)):
        assert type(a) is type(b) and a._key == b._key and list(a) == list(b)
        assert all(torch.equal(a[n], b[n]) for n in a if torch.is_tensor(a[n]))

for data, of in (plain, HeteroData), (typed, Data):
    seeds = range(9) if data is plain else ("b", range(9))
    with sluice.NeighborLoader(data, [2, 2], 3, seeds) as loader:
        batches = []
        for batch in loader:
            assert batch.validate() and "mine" not in batch and not isinstance(batch, of)
            assert all(store._parent() is batch for store in stores_of(batch))
            batch.mine = len(batches)
            for store in batch.stores:
                store.own = len(batches)
            batches.append(batch)
    assert [batch.mine for batch in batches] == [0, 1, 2]
    assert [batch.stores[-1].own for batch in batches] == [0, 1, 2]
    for batch in batches:
        made = type(batch)()
        for key, value in batch.to_dict().items() if data is typed else [(None, batch.to_dict())]:
            store = made if key is None or key == "_global_store" else made[key]
            for name, field in value.items():
                setattr(store, name, field)
        same(batch, made)
        same(batch, copy.copy(batch))
        same(batch, pickle.loads(pickle.dumps(batch)))
        same(batch, batch.to("cpu"))
"""


def test_batches_are_objects_of_their_own(box):
    """Just as torch_geometric's constructors and setattr() make them, each with stores of its
    own."""
    with_pyg(box, OBJECTS)


SUBGRAPHS = """
from torch_geometric.sampler.base import SubgraphType
from torch_geometric.sampler.utils import to_bidirectional
from torch_geometric.utils import subgraph

kept = torch.rand(full.num_edges) < 0.6  # mostly without their way back
data = Data(x=full.x, edge_index=full.edge_index[:, kept], edge_attr=torch.rand(int(kept.sum()), 2))
ids = torch.arange(data.num_edges)
edges = set(map(tuple, data.edge_index.t().tolist()))

def open_kind(kind, **more):
    return sluice.NeighborLoader(data, [4, 3], 64, range(300), subgraph_type=kind, **more)

with open_kind("directional") as one, open_kind(SubgraphType.induced) as two:
    for plain, batch in zip(one, two):
        wanted, number = subgraph(plain.n_id, data.edge_index, ids, relabel_nodes=True)
        assert torch.equal(plain.n_id, batch.n_id) and "num_sampled_edges" not in batch
        assert torch.equal(batch.e_id.sort().values, number)
        assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
        assert torch.equal(data.edge_index[:, batch.e_id], batch.n_id[batch.edge_index])
own = 0
with open_kind("directional") as one, open_kind("bidirectional", adj="csc") as two:
    for plain, batch in zip(one, two):
        row, col = plain.edge_index
        wanted = to_bidirectional(row, col, row, col, plain.e_id, plain.e_id)
        found = batch.edge_index.as_tensor()
        assert sorted(zip(*found.tolist())) == sorted(zip(wanted[0].tolist(), wanted[1].tolist()))
        assert bool(batch.edge_index.is_sorted_by_col) and batch.validate()
        # An edge that is there has its own number; else it is the one that was sampled, turned.
        pairs, named = batch.n_id[found], data.edge_index[:, batch.e_id]
        there = torch.tensor([pair in edges for pair in map(tuple, pairs.t().tolist())])
        assert torch.equal(pairs[:, there], named[:, there])
        assert torch.equal(pairs[:, ~there].flip(0), named[:, ~there])
        assert set(batch.e_id[~there].tolist()) <= set(plain.e_id.tolist())
        own += int(there.sum()) - plain.num_edges
        assert int((~there).sum()) > 0
assert own > 0
with open_kind("directional", disjoint=True) as loader:
    for batch in loader:
        assert batch.batch.shape == batch.n_id.shape and batch.validate()
        assert torch.equal(batch.batch[batch.edge_index[0]], batch.batch[batch.edge_index[1]])
        out = torch_geometric.nn.global_add_pool(batch.x, batch.batch)
        assert len(out) == batch.batch_size
"""


def test_subgraphs(box):
    """Beside that library's own functions of the same sampled edges."""
    with_pyg(box, SUBGRAPHS)


PLAIN = """
from sluice import _batch
table, empty = torch.arange(24).view(2, 4, 3), torch.empty
torch.empty = lambda shape, dtype, pin_memory: empty(shape, dtype=dtype)  # no GPU pins here
for along in range(3):
    found = _batch.take(table, np.array([1, 0]), along, True)
    assert torch.equal(found, table.index_select(along, torch.tensor([1, 0])))
torch.empty = empty
with sluice.NeighborLoader(path, [4, 3], 64, "train", arrays="torch") as one:
    with sluice.NeighborLoader(path, [4, 3], 64, "train", arrays="numpy") as two:
        for tensors, arrays in zip(one, two):
            assert type(tensors).__name__ == "Batch" and tensors.keys() == arrays.keys()
            for key in arrays.keys():
                value = tensors.to("cpu")[key]
                assert not torch.is_tensor(value) or tensors.to("meta")[key].is_meta
                assert torch.is_tensor(value) == isinstance(arrays[key], np.ndarray), key
                assert np.array_equal(value, arrays[key]), key
with sluice.NeighborLoader(path, [4, 3], 64, "train", seed=torch.tensor(7)) as loader:
    for batch in loader:
        assert (batch.x == full.x[batch.n_id]).all()
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    sluice.NeighborLoader(path, [4], num_workers=4, persistent_workers=True).close()
assert "num_workers=4 has no effect: samplers are" in str(said[0].message)
"""


def test_batches_without_pytorch_geometric(box):
    with_pyg(box, PLAIN)


RANK = """
import torch.distributed as dist
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method=f"file://{os.getcwd()}/meet", rank=rank, world_size=2)
with sluice.NeighborLoader(path, [4, 3], 64, "train", shuffle=True) as loader:
    assert len(loader) == 6
    # Kept: a process group that goes while its thread has a tensor's last reference may hang.
    epochs, one = [[], []], torch.ones(1)
    for found in epochs:
        for batch in loader:
            found += batch.n_id[:batch.batch_size].tolist()
            dist.all_reduce(one)
    state = loader.state_dict()
    assert state["epoch"] == 2 and state["same"]["rank"] == rank
    dist.barrier()
dist.destroy_process_group()
print(json.dumps(epochs))
"""


def test_two_ranks_share_a_job(box):
    """The same number of batches for each, whatever is over is left out, and no vertex twice."""
    both = [start_pyg(box, RANK, env={"RANK": str(rank)}) for rank in range(2)]
    first, second = (json.loads(rank.wait().ok().out) for rank in both)
    for one, two in zip(first, second):
        assert not set(one) & set(two)
        assert len(one) == 6 * 64 and len(two) == 5 * 64 + 750 % 64


def test_the_lines_of_the_page(box):
    """What python/README.md and README.md show."""
    for page in ("python/README.md", "README.md"):
        with open(os.path.join(ROOT, page), encoding="utf-8") as file:
            blocks = re.findall(r"```python\n(.*?)```", file.read(), re.S)
        (lines,) = [block for block in blocks if "NeighborLoader" in block]
        os.makedirs(box.path("data"), exist_ok=True)
        if not os.path.exists(box.path("data", "first")):
            os.symlink(box.shared_dataset("planted"), box.path("data", "first"))
        with_pyg(box, f"model = GraphSAGE(16, 8, 2, 4)\n{lines}")


# Lines of the example that the test changes: it says each batch's first seed, has a state every
# second batch, and dies behind the one where it is told to.
CHANGES = (
    ("number % 20 == 0", "number % 2 == 0"),
    ("optimizer.zero_grad()", "print('seed', int(batch.n_id[0])); optimizer.zero_grad()"),
    (
        "                    save(o.state, best)\n",
        "                    save(o.state, best)\n"
        "                    if os.environ['DIE'] == f'{epoch} {number}':\n"
        "                        os.kill(os.getpid(), 9)\n",
    ),
)


@whole
def test_the_example_goes_on_after_a_kill(box):
    """examples/graphsage.py: what a run that was killed in mid-epoch has done is not done again,
    and the batches that follow are those of a run that was not."""
    path = box.shared_dataset("planted")
    with open(os.path.join(ROOT, "examples", "graphsage.py"), encoding="utf-8") as file:
        source = file.read()
    for change in CHANGES:
        assert source.count(change[0]) == 1, change
        source = source.replace(*change)
    options = ["--epochs", "3", "--batch-size", "64", "--lr", "0.02", "--hidden", "16"]

    def lines(state, die=""):
        program = f"sys.argv[1:] = {[path, *options, '--state', state]!r}\n__doc__ = ''\n{source}"
        result = start_pyg(box, program, path, env={"DIE": die}).wait()
        assert result.rc == (-9 if die else 0), str(result)
        return result.out.splitlines()

    undisturbed, cut, rest = lines("whole"), lines("cut", die="1 4"), lines("cut")
    seeds = [
        [line for line in part if line.startswith("seed")] for part in (undisturbed, cut, rest)
    ]
    assert len(seeds[0]) == 36 and seeds[1] + seeds[2] == seeds[0]
    assert float(undisturbed[-1].split()[1]) > 0.7 and float(rest[-1].split()[1]) > 0.7


@whole
def test_the_example_of_two_processes(box):
    """examples/ddp.py under torchrun."""
    program = (
        "from torch.distributed.run import main\n"
        "main(['--standalone', '--nproc-per-node', '2', "
        f"{os.path.join(ROOT, 'examples', 'ddp.py')!r}, *{{options!r}}])"
    )
    path = box.shared_dataset("planted")
    options = [path, "--epochs", "3", "--batch-size", "32", "--lr", "0.02", "--hidden", "16"]
    out = start_pyg(box, program.format(options=options), path).wait().ok().out.splitlines()
    assert len(out) == 3 and float(out[-1].split()[-1]) > 0.7, out
