"""Beside PyTorch Geometric's own sampler: the same batches where nothing is random, and else what
both promise; and sluice.pyg.Sampler under that library's loaders."""

from harness import python_with
from test_python_loader import NOT_UNDER  # noqa: F401
from test_python_pyg import start_pyg

HEAD = """
import itertools
import sluice.pyg
from collections import Counter
from torch_geometric.loader import NeighborLoader, NodeLoader

def random_graph(seed, n=80, n_edges=400):
    # A fifth of the edges are self-loops or there twice; some vertices have none.
    rng = np.random.default_rng(seed)
    edges = rng.integers(0, n * 9 // 10, (2, n_edges))
    edges[1] = np.minimum(edges[1], rng.integers(0, n, n_edges))
    edges[0, :40] = edges[1, :40]
    edges[:, 40:80] = edges[:, 80:120]
    edges = torch.from_numpy(rng.permuted(edges, axis=1) if seed % 2 else edges)
    return Data(x=torch.rand(n, 3), y=torch.arange(n), edge_index=edges,
                edge_attr=torch.rand(n_edges, 2))

def ours(data, fanout, **named):
    return sluice.NeighborLoader(data, fanout, samplers=1, **named)

def ours_in_theirs(data, fanout, replace=False, **named):
    return NodeLoader(data, sluice.pyg.Sampler(data, fanout, replace=replace), **named)

def check(data, batch, fanout, replace):
    # What holds of any batch: of every vertex that is new in a hop as many edges as there are to
    # be, in that hop, each one of the data's.
    assert batch.validate() and len(set(batch.n_id.tolist())) == len(batch.n_id)
    assert torch.equal(data.x[batch.n_id], batch.x) and torch.equal(data.y[batch.n_id], batch.y)
    assert torch.equal(data.edge_attr[batch.e_id], batch.edge_attr)
    assert torch.equal(data.edge_index[:, batch.e_id], batch.n_id[batch.edge_index])
    degree = Counter(data.edge_index[1].tolist())
    first_node = first_edge = 0
    met = batch.num_sampled_nodes[0]
    assert met == batch.batch_size
    for hop, f in enumerate(fanout):
        row, col = batch.edge_index[:, first_edge : first_edge + batch.num_sampled_edges[hop]]
        found = Counter(col.tolist())
        for v in range(first_node, met):
            there = degree[int(batch.n_id[v])]
            wanted = there if f < 0 else (f if there else 0) if replace else min(f, there)
            assert found.pop(v, 0) == wanted, (hop, v, there)
        assert not found
        first_edge += batch.num_sampled_edges[hop]
        first_node, met = met, met + batch.num_sampled_nodes[hop + 1]
        # Numbers are given by hop: its sources are known, or the next ones.
        new = [v for v in dict.fromkeys(row.tolist()) if v >= first_node]
        assert sorted(new) == list(range(first_node, met))
    assert first_edge == batch.num_edges and met == batch.num_nodes
    if not replace:
        assert len(set(batch.e_id.tolist())) == len(batch.e_id)
"""


EQUAL = """
def by_hop(batch):
    # The edges of each hop as a multiset: sources and destinations by vertex, and the number.
    ends = batch.n_id[batch.edge_index].tolist()
    edges, at, out = list(zip(*ends, batch.e_id.tolist())), 0, []
    for n in batch.num_sampled_edges:
        out.append(sorted(edges[at : at + n]))
        at += n
    return out

for seed in range(4):
    data = random_graph(seed)
    order = torch.argsort(data.edge_index[1], stable=True)
    if seed % 2: # PyG leaves the order as it is, and then does not choose one that is not said
        data.edge_index = data.edge_index[:, order]
    nodes = torch.from_numpy(np.random.default_rng(seed).permutation(data.num_nodes)[:24])
    mask = torch.zeros(data.num_nodes, dtype=bool)
    mask[nodes] = True
    for fanout, seeds in ([-1, -1], nodes), ([-1, 200, -1], mask):
        named = dict(input_nodes=seeds, batch_size=9)
        theirs = list(NeighborLoader(data, fanout, is_sorted=bool(seed % 2), **named))
        for make in ours, ours_in_theirs:
            loader = make(data, fanout, **named)
            mine = list(loader)
            assert len(mine) == len(theirs) == len(loader) == 3
            for a, b in zip(mine, theirs):
                check(data, a, fanout, False)
                check(data, b, fanout, False)
                for key in "batch_size", "num_sampled_nodes", "num_sampled_edges":
                    assert a[key] == b[key], (seed, key, a[key], b[key])
                assert torch.equal(a.input_id, b.input_id)
                assert torch.equal(a.n_id[:a.batch_size], b.n_id[:b.batch_size])
                assert by_hop(a) == by_hop(b)
                if seed % 2:
                    for key in "n_id", "e_id", "edge_index", "x", "y", "edge_attr":
                        assert torch.equal(a[key], b[key]), (seed, key, a[key], b[key])
"""

MAKERS = """
MAKERS = ours, ours_in_theirs, NeighborLoader
for replace, make in itertools.product((False, True), MAKERS):
"""
FANOUTS = MAKERS + """
    for seed, fanout in (0, [3, 2]), (1, [1, 4, 2]), (2, [2, -1]):
        data = random_graph(seed)
        named = dict(replace=replace, input_nodes=torch.arange(data.num_nodes), batch_size=30)
        loader = make(data, fanout, **named)
        for batch in loader:
            check(data, batch, fanout, replace)
"""

LIKELY = (
    """
# 1,500 vertices with 8 neighbours each, of which 2 are drawn: which one, and which two of them.
n = 1500
leaves = torch.arange(n * 8).view(n, 8) + n
star = Data(edge_index=torch.stack([leaves.flatten(), torch.arange(n).repeat_interleave(8)]),
            num_nodes=9 * n)
"""
    + MAKERS
    + """
    torch.manual_seed(5)
    loader = make(star, [2], replace=replace, input_nodes=torch.arange(n), batch_size=100)
    which = torch.cat([batch.e_id.view(-1, 2) % 8 for batch in loader]).sort(1).values.numpy()
    ones, pairs = np.zeros(8), np.zeros((8, 8))
    np.add.at(ones, which, 1)
    np.add.at(pairs, tuple(which.T), 1)
    # Chi-squared of 7 degrees of freedom, and of 27 or 35: beyond these once in 10,000 times.
    wanted = np.triu(np.full((8, 8), n / 28), 1)
    if replace:
        wanted = np.triu(np.full((8, 8), n / 32)) - np.eye(8) * n / 64
    some = wanted > 0
    assert len(which) == n and pairs[~some].sum() == 0
    assert ((ones - n / 4) ** 2 / (n / 4)).sum() < 29.9, (make, ones)
    far = ((pairs - wanted)[some] ** 2 / wanted[some]).sum()
    assert far < (73.3 if replace else 62.2), (make, far, pairs)
"""
)


def test_batches_are_those_of_pyg(box):
    """With all neighbours each edge is in its hop, and all is equal number by number where the
    graph's edges are by destination. Otherwise every vertex that is new in a hop has as many as it
    is to have, each as likely, with and without replacement. On graphs with self-loops, edges that
    are there twice, and vertices without any."""
    python_with("pyg_lib")
    start_pyg(box, HEAD + EQUAL + FANOUTS + LIKELY).wait().ok()


SAMPLER = """
import pickle
import torch_geometric.sampler as pyg
from torch_geometric.loader import LinkNeighborLoader
data = full
data.edge_attr = torch.arange(data.num_edges)
sampler = sluice.pyg.Sampler(data, [4, 3], seed=7)
same = {
    "data": sampler,
    "directory": sluice.pyg.Sampler(path, [4, 3], seed=7),
    "job": sluice.pyg.Sampler({"dataset": path, "sampler": {"fanout": [4, 3]}, "seed": 7}),
    "sent": pickle.loads(pickle.dumps(sampler)),
}
def epochs(sampler, **named):
    torch.manual_seed(3)
    loader = NodeLoader(data, sampler, data.train_mask, batch_size=64, shuffle=True, **named)
    for epoch in range(2):
        yield list(loader)

first, second = epochs(sampler)
assert sorted(v for b in first for v in b.n_id[:b.batch_size].tolist()) == (
    data.train_mask.nonzero()[:, 0].tolist())
for batch in first:
    check(data, batch, [4, 3], False)
    assert torch.equal(batch.input_id, batch.n_id[:batch.batch_size])
for name, other in same.items():
    for a, b in zip(first, next(epochs(other))):
        assert torch.equal(a.n_id, b.n_id) and torch.equal(a.edge_index, b.edge_index), name
        assert torch.equal(a.e_id, b.e_id), name

# Workers that were forked, and a second epoch, draw others.
listed = dict(input_nodes=torch.arange(64), batch_size=64)
for workers in 0, 2:
    loader = NodeLoader(data, sampler, num_workers=workers, **listed)
    one, two = next(iter(loader)), next(iter(loader))
    check(data, one, [4, 3], False)
    assert torch.equal(one.n_id[:64], two.n_id[:64]) and not torch.equal(one.n_id, two.n_id)

model = GraphSAGE(data.num_features, 16, 2, 4).eval()
everything = NodeLoader(data, sluice.pyg.Sampler(data, [-1, -1]), data.test_mask, batch_size=90)
for batch, out in batches_of(everything, model):
    wanted = model(data.x, data.edge_index)[batch.n_id[:batch.batch_size]]
    assert torch.allclose(out, wanted, atol=1e-5)

data.importance = (torch.arange(data.num_edges) % 2).float()
by_weight = sluice.pyg.Sampler(data, [5], weight_attr="importance")
for batch in NodeLoader(data, by_weight, data.val_mask, batch_size=100):
    assert batch.importance.all()

def seeds(*ids, **more):
    return pyg.NodeSamplerInput(None, torch.tensor(ids, dtype=torch.long), **more)
for words, function, *arguments in (
    ("3 seeds, only 2 of them different", sampler.sample_from_nodes, seeds(1, 2, 1)),
    ("seed 1500 is no vertex", sampler.sample_from_nodes, seeds(1500)),
    ("wanted vertices of the graph", sampler.sample_from_nodes, seeds(-1)),
    ("found no seeds", sampler.sample_from_nodes, seeds()),
    ("no sampling by time", sampler.sample_from_nodes, seeds(1, time=torch.zeros(1))),
    ("of one kind of vertices", sampler.sample_from_nodes, seeds(1, input_type="paper")),
    ("sample_from_edges: batches begin at vertices", sampler.sample_from_edges, None),
    ("num_neighbors: is needed", sluice.pyg.Sampler, data),
    ("data has no 'nothing'", lambda: sluice.pyg.Sampler(data, [3], weight_attr="nothing")),
    ("nowhere: no such directory", sluice.pyg.Sampler, "nowhere", [3]),
):
    said = refused(function, *arguments)
    assert words in said, said
# By one thread at a time.
with sampler._draws._lock:
    assert "another thread is in this sampler" in refused(sampler.sample_from_nodes, seeds(1))
sampler.close()
assert "found no sampler" in refused(sampler.sample_from_nodes, seeds(1))
"""


def test_a_sampler_for_loaders_of_pyg(box):
    """Of a Data, a directory, a job, and sent to another process: the same batches by torch's
    random state; what it cannot do is refused by name."""
    start_pyg(box, HEAD + SAMPLER).wait().ok()
