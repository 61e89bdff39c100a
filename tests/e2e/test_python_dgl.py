"""sluice.dgl beside DGL: its blocks are those that DGL makes where nothing is random, else what
both promise holds, and layers of DGL compute on them."""

from harness import python_with
from test_python_loader import NOT_UNDER, start  # noqa: F401

PROGRAM = """
from collections import Counter
import dgl, torch, sluice.dgl
torch.manual_seed(3)
rng = np.random.default_rng(5)
n, m = 90, 500
ends = rng.integers(0, n - 9, (2, m)) # the last vertices have no edges
ends[:, :30], ends[0, 30:60] = ends[:, 60:90], ends[1, 30:60]
g = dgl.graph(tuple(torch.from_numpy(ends)), num_nodes=n)
g.ndata.update(feat=torch.rand(n, 6), label=torch.arange(n) % 5, train_mask=torch.arange(n) % 3 < 2)
nodes = g.ndata["train_mask"].nonzero()[:, 0]

g.edata["feat"] = torch.rand(m, 2)

made = dgl.create_block
def create_block(csc, *sizes):
    block = made(csc, *sizes)
    for given, kept in zip(csc[1][:2], block.adj_tensors("csc")):
        assert given.data_ptr() == kept.data_ptr()
    return block

dgl.create_block = create_block

def edges(block):
    assert torch.equal(block.edata["feat"], g.edata["feat"][block.edata[dgl.EID]])
    source, target = block.edges()
    assert torch.equal(block.srcdata[dgl.NID][: block.num_dst_nodes()], block.dstdata[dgl.NID])
    assert len(set(block.srcdata[dgl.NID].tolist())) == block.num_src_nodes()
    ends = block.srcdata[dgl.NID][source], block.dstdata[dgl.NID][target]
    assert all(map(torch.equal, ends, g.find_edges(block.edata[dgl.EID])))
    return sorted(zip(*(e.tolist() for e in ends), block.edata[dgl.EID].tolist()))

def check(fanout, batch, seeds):
    input_nodes, output_nodes, blocks = batch
    assert torch.equal(output_nodes, seeds) and len(blocks) == len(fanout)
    assert torch.equal(input_nodes, blocks[0].srcdata[dgl.NID])
    assert torch.equal(output_nodes, blocks[-1].dstdata[dgl.NID])
    assert torch.equal(blocks[0].srcdata["feat"], g.ndata["feat"][input_nodes])
    assert torch.equal(blocks[-1].dstdata["label"], g.ndata["label"][output_nodes])
    for outer, inner in zip(blocks, blocks[1:]):
        assert torch.equal(outer.dstdata[dgl.NID], inner.srcdata[dgl.NID])
    for f, block in zip(reversed(fanout), blocks):
        found = [number for _, _, number in edges(block)]
        assert len(found) == len(set(found))
        there = g.in_degrees(block.dstdata[dgl.NID])
        assert torch.equal(block.in_degrees(), there if f < 0 else there.clamp(max=f))

# All neighbours: DGL's own blocks, and what its layers compute on the whole graph.
layers = [dgl.nn.SAGEConv(6, 6, "mean") for _ in range(2)]
whole = g.ndata["feat"]
for layer in layers:
    whole = layer(g, whole)
named = dict(batch_size=16, input_nodes=nodes)
theirs = dgl.dataloading.DataLoader(
    g, nodes, dgl.dataloading.NeighborSampler([-1, -1]), batch_size=16)
with sluice.dgl.NeighborLoader(g, [-1, -1], **named) as loader:
    assert loader.data is g and len(loader) == len(theirs) == 4
    for mine, dgls in zip(loader, theirs):
        check([-1, -1], mine, dgls[1])
        for a, b in zip(mine[2], dgls[2]):
            assert edges(a) == edges(b)
        out = mine[2][0].srcdata["feat"]
        for layer, block in zip(layers, mine[2]):
            out = layer(block, out)
        assert torch.allclose(out, whole[mine[1]], atol=1e-5)

# Each hop draws every vertex anew, next to the seeds first.
with sluice.dgl.NeighborLoader(g, [3, 2, 4], **named) as loader:
    kept = list(loader)
again = Counter()
for batch, seeds in zip(kept, nodes.split(16)):
    check([3, 2, 4], batch, seeds)
    rows = [{v: set() for v in seeds.tolist()} for _ in range(3)]
    for hop, block in enumerate(reversed(batch[2])):
        for _, v, number in edges(block):
            rows[hop].setdefault(v, set()).add(number)
    again.update(rows[1][v] <= rows[0][v] for v in seeds.tolist() if len(rows[0][v]) == 3)
assert again[False] > 5, again

# By weights: edges of weight 0 are none.
g.edata["w"] = (torch.arange(m) % 3 > 0).float()
with sluice.dgl.NeighborLoader(g, [4, 4], weight_attr="w", **named) as loader:
    for _, _, blocks in loader:
        for block in blocks:
            edges(block)
            assert (g.edata["w"][block.edata[dgl.EID]] == 1).all() and block.num_edges() > 0

# A directory has labels of its own; walks have visits in place of edges.
import shutil
graph = sluice.open(path).to_numpy()
n = len(graph["indices"])
shutil.copytree(path, "edges")
np.save("edges/edge_feat.npy", np.arange(2 * n).reshape(n, 2))
np.save("edges/edge_weight.npy", np.arange(n).astype("f4"))
path = "edges"
with sluice.dgl.NeighborLoader(path, [4, 3], 64, "train", shuffle=True, prefetch=False) as loader:
    found = []
    for input_nodes, output_nodes, blocks in loader:
        assert np.array_equal(blocks[0].srcdata["feat"], graph["node_feat"][input_nodes])
        assert np.array_equal(blocks[-1].dstdata["label"], graph["node_label"][output_nodes])
        at = blocks[0].edata[dgl.EID]
        assert torch.equal(blocks[0].edata["feat"], torch.stack([2 * at, 2 * at + 1], 1))
        assert torch.equal(blocks[0].edata["weight"], at.float())
        assert np.array_equal(
            graph["indices"][at], blocks[0].srcdata[dgl.NID][blocks[0].edges()[0]])
        found += output_nodes.tolist()
    assert sorted(found) == graph["train_idx"].tolist()
walk = {"dataset": path, "sampler": {"kind": "walk", "fanout": [4], "batch_size": 64}}
with sluice.dgl.NeighborLoader(walk, input_nodes="val") as loader:
    for _, _, (block,) in loader:
        assert dgl.EID not in block.edata and (block.edata["weight"] >= 1).all()
said = refused(sluice.dgl.NeighborLoader, {**walk, "sampler": {"expand": "new", "fanout": [4]}})
assert 'sampler.expand: is "new"' in said and 'wanted "all"' in said, said
"""


def test_blocks_are_those_of_dgl(box):
    python = python_with("dgl")
    env = {"OMP_NUM_THREADS": "1", "DGLBACKEND": "pytorch", "HOME": box.folder}
    start(box, PROGRAM, python=python, env=env).wait().ok()
