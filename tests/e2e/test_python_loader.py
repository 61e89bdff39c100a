"""sluice.NeighborLoader with NumPy alone: programs of a user, against real jobs. Afterwards the box
proves that they have left nothing."""

import json
import os
import signal
import sys

from harness import ROOT, Running, Skip, cases, gone
from test_cuda import CPU, PLUGIN, gpu

LIBRARY = os.path.join(os.path.dirname(os.environ.get("BIN") or f"{ROOT}/build/bin"), "lib")
NOT_UNDER = {
    "address": "libsluice would need the sanitizer's run-time library in Python",
    "thread": "libsluice would need the sanitizer's run-time library in Python",
    "undefined": "libsluice would need the sanitizer's run-time library in Python",
}
HEAD = """
import json, os, signal, sys, threading
import numpy as np
import sluice

def open_loader(data, num_neighbors=(4, 3), batch_size=64, **more):
    more = dict(dict(input_nodes="train", shuffle=True, seed=7, arrays="numpy", samplers=1), **more)
    return sluice.NeighborLoader(data, num_neighbors, batch_size, **more)

def seeds(batches):
    return [b.n_id[:b.batch_size].tolist() for b in batches]

def refused(function, *arguments, **named):
    try:
        function(*arguments, **named)
    except sluice.Error as error:
        return str(error)
    raise AssertionError("accepted")

path = sys.argv[1]
graph = sluice.open(path).to_numpy()
"""


def start(box, program, *arguments, python=sys.executable, env=None):
    """A user's program, running."""
    others = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    env = box.environment(
        {
            "PYTHONPATH": os.pathsep.join([os.path.join(ROOT, "python"), *filter(None, others)]),
            "SLUICE_LIBRARY": os.path.join(LIBRARY, "libsluice.so.0"),
            "SLUICE_PROGRAMS": box.programs,
            "PYTHONUNBUFFERED": "1",
            **(env or {}),
        }
    )
    arguments = arguments or [box.shared_dataset("planted")]
    return Running(box, [python, "-c", HEAD + program, *arguments], env)


def run(box, program, *arguments, **named):
    ended = start(box, program, *arguments, **named).wait().ok()
    assert "Exception ignored" not in ended.err, ended.err
    return ended.out


def until_line(running, word):
    """Waits for a line of output that begins with the word; what is behind it."""

    def found():
        lines = running.output()[0].splitlines()
        return next((line for line in lines if line.startswith(word)), None)

    return running.until(found, f"line '{word}'")[len(word) :].strip()


# ---- batches ------------------------------------------------------------------------------------

EPOCH = """
def check(batch, fanout, loader):
    nodes, edges = batch.num_sampled_nodes, batch.num_sampled_edges
    assert len(nodes) == len(fanout) + 1 and len(edges) == len(fanout)
    assert sum(nodes) == len(batch.n_id) == len(np.unique(batch.n_id)) == len(batch.x)
    assert nodes[0] == batch.batch_size == len(batch.y) == len(batch.input_id)
    assert sum(edges) == batch.edge_index.shape[1] == len(batch.e_id) == len(np.unique(batch.e_id))
    assert batch.edge_index.dtype == batch.n_id.dtype == batch.e_id.dtype == np.int64
    assert (batch.x == graph["node_feat"][batch.n_id]).all()
    assert (batch.y == graph["node_label"][batch.n_id[:batch.batch_size]]).all()
    assert (graph["train_idx"][batch.input_id] == batch.n_id[:batch.batch_size]).all()
    source, target = batch.n_id[batch.edge_index]
    assert (graph["indices"][batch.e_id] == source).all()
    at = graph["indptr"][target]
    assert ((at <= batch.e_id) & (batch.e_id < graph["indptr"][target + 1])).all()
    assert (np.diff(batch.edge_index[1]) >= 0).all()
    # Who is new in a hop is expanded in the next one, in full or up to the fanout.
    degrees = np.diff(graph["indptr"])[batch.n_id]
    found = np.bincount(batch.edge_index[1], minlength=len(batch.n_id))
    begins = np.cumsum([0, *nodes])
    for hop, most in enumerate(fanout):
        rows = slice(begins[hop], begins[hop + 1])
        wanted = degrees[rows] if most < 0 else np.minimum(degrees[rows], most)
        assert (found[rows] == wanted).all() and found[rows].sum() == edges[hop]
    assert not found[begins[len(fanout)]:].any()
    new = batch.edge_index[0] >= begins[1]
    assert set(batch.edge_index[0][new]) == set(range(begins[1], len(batch.n_id)))

with open_loader(path) as loader:
    assert len(loader) == 12 and loader.dataset == range(750)
    epochs = [list(loader) for _ in range(2)]
    for epoch in epochs:
        assert len(epoch) == len(loader)
        for batch in epoch:
            check(batch, [4, 3], loader)
        assert sorted(sum(seeds(epoch), [])) == sorted(graph["train_idx"].tolist())
    assert seeds(epochs[0]) != seeds(epochs[1])
    assert loader.stats()["batches"] == 24 and loader.stats()["held"] == 0
with open_loader(path, samplers=2, prefetch=False) as other:
    for one, two in zip(epochs[0], other):
        assert one.keys() == two.keys()
        assert all(np.array_equal(one[key], two[key]) for key in one.keys())
with open_loader(path, [-1], batch_size=200, shuffle=False, drop_last=True) as loader:
    assert len(loader) == 3
    for number, batch in enumerate(loader):
        check(batch, [-1], loader)
        assert batch.input_id.tolist() == list(range(200 * number, 200 * number + 200))
    assert number == 2
with open_loader(path, [40], batch_size=200, replace=True) as loader:
    batch = next(iter(loader))
    degrees = np.diff(graph["indptr"])[batch.n_id[:batch.batch_size]]
    found = np.bincount(batch.edge_index[1], minlength=batch.batch_size)
    assert (found == np.where(degrees > 0, 40, 0)).all()
    assert len(np.unique(batch.e_id)) < len(batch.e_id)
    target = batch.n_id[batch.edge_index[1]]
    assert (graph["indices"][batch.e_id] == batch.n_id[batch.edge_index[0]]).all()
    assert (graph["indptr"][target] <= batch.e_id).all()
    assert (batch.e_id < graph["indptr"][target + 1]).all()
walks = {"dataset": path, "sampler": {"kind": "walk"}}
said = refused(open_loader, walks, replace=True)
assert said.startswith('replace: found boolean true with sampler.kind "walk"'), said
"""


def test_an_epoch(box):
    """Every seed once, rows and labels of the data set, edges that e_id names, hops as PyG has
    them; the same batches in the same order with another number of samplers."""
    run(box, EPOCH)


SUBGRAPHS = """
sources, indptr = graph["indices"], graph["indptr"]
targets = np.repeat(np.arange(1500), np.diff(indptr))
pairs = list(zip(sources.tolist(), targets.tolist()))
number = {pair: e for e, pair in reversed(list(enumerate(pairs)))}

# The edges of a batch: source, target, number.
def induced(plain):
    among = np.isin(sources, plain.n_id) & np.isin(targets, plain.n_id)
    return {(*pairs[e], e) for e in np.flatnonzero(among).tolist()}

def bidirectional(plain):
    drawn = {(*pairs[e], e) for e in plain.e_id.tolist()}
    known = {pair[:2] for pair in drawn}
    return drawn | {(b, a, number.get((b, a), e)) for a, b, e in drawn if (b, a) not in known}

with open_loader(path) as loader:
    without = list(loader)
for kind in induced, bidirectional:
    with open_loader(path, subgraph_type=kind.__name__, samplers=2) as loader:
        for plain, batch in zip(without, loader):
            assert (plain.n_id == batch.n_id).all() and (plain.x == batch.x).all()
            assert plain.num_sampled_nodes == batch.num_sampled_nodes
            assert "num_sampled_edges" not in batch
            assert (np.diff(batch.edge_index[1]) >= 0).all()
            found = list(zip(*batch.n_id[batch.edge_index].tolist(), batch.e_id.tolist()))
            assert set(found) == kind(plain) and len(set(found)) == len(found) > len(plain.e_id)
walks = {"dataset": path, "sampler": {"kind": "walk"}}
said = refused(open_loader, walks, subgraph_type="induced")
assert said.startswith('subgraph_type: found "induced" with sampler.kind "walk"'), said
"""


def test_subgraphs(box):
    """Beside batches of the same loader without: their vertices, and all edges between them, or
    theirs and back."""
    run(box, SUBGRAPHS)


DISJOINT = """
def parts(batch):  # of each seed its vertices and edges, in their order
    for seed in range(batch.batch_size):
        mine = batch.batch == seed
        local = np.cumsum(mine) - 1
        edges = mine[batch.edge_index[1]]
        assert (mine[batch.edge_index[0]] == edges).all()
        yield (batch.n_id[mine].tolist(), local[batch.edge_index[:, edges]].tolist(),
               batch.e_id[edges].tolist(), int(batch.input_id[seed]))

nodes = np.arange(70)
for kind in "directional", "induced":
    more = dict(num_neighbors=[20, 20], input_nodes=nodes, disjoint=True, subgraph_type=kind)
    with open_loader(path, batch_size=64, samplers=2, **more) as one:
        with open_loader(path, batch_size=1, **{**more, "disjoint": False}) as two:
            found, wanted = [], list(two)
            for batch in one:
                assert batch.batch[:batch.batch_size].tolist() == list(range(batch.batch_size))
                assert sum(batch.num_sampled_nodes) == len(batch.batch)
                assert (batch.x == graph["node_feat"][batch.n_id]).all()
                assert len(batch.batch) > 1500 or batch.batch_size < 64
                assert (np.diff(batch.edge_index[1]) >= 0).all()
                found += parts(batch)
            assert len(found) == len(wanted) == 70
            for part, batch in zip(found, wanted):
                assert "batch" not in batch
                assert part == (batch.n_id.tolist(), batch.edge_index.tolist(),
                                batch.e_id.tolist(), int(batch.input_id[0]))
"""


def test_disjoint(box):
    """Each seed's part of a batch, which has more vertices than the graph, is a batch of that seed
    alone."""
    run(box, DISJOINT)


CALLED = """
memory = sluice.Dataset(sluice.open(path).metadata, graph)
places = np.array([70, 3, 9])
job = dict(dataset=path, output="out", cache=dict(policy="degree"), allocation=dict(trainers=2))
for data, nodes, wanted in (
    (path, "val", graph["val_idx"][places]), (path, None, places),
    (memory, [5, *range(100, 200)], [169, 102, 108]),
    (job, "val", graph["val_idx"][places]),
):
    with open_loader(data, input_nodes=nodes, disjoint=True) as loader:
        first = next(iter(loader))
        batch, again = loader(places), loader.collate_fn(places.tolist())
        assert batch.n_id[:batch.batch_size].tolist() == list(wanted)
        assert batch.input_id.tolist() == places.tolist()
        assert (batch.x == graph["node_feat"][batch.n_id]).all() and len(batch.batch) > 3
        assert (graph["indices"][batch.e_id] == batch.n_id[batch.edge_index[0]]).all()
        assert batch.keys() == first.keys() and len(batch.num_sampled_edges) == 2
        assert all(np.array_equal(batch[key], again[key]) for key in batch.keys())
        for bad, words in (
            ([], "index: is empty"), ([1500], "index: has vertex 1500, wanted 0 to"),
            ([3, 3], "index: lists vertex 3 more than once"),
        ):
            assert refused(loader, bad).startswith(words)
        if data is job:
            with sluice.NeighborLoader(attach="out", arrays="numpy") as other:
                assert "has attached to a job cannot be called" in refused(other, [1])
"""


def test_a_loader_is_called(box):
    """With places in input_nodes: the batch of these, whose list and data may be the caller's."""
    run(box, CALLED)


EDGES = """
import shutil
n, indices = len(graph["indices"]), graph["indices"]
feat = np.stack([np.arange(n), np.repeat(np.arange(1500), np.diff(graph["indptr"]))], 1)
shutil.copytree(path, "edges")

def opened(array, **more):
    np.save("edges/edge_feat.npy", array)
    return open_loader("edges", **more)

memory = sluice.Dataset(sluice.open(path).metadata, {**graph, "edge_feat": feat})
for one in opened(feat, rank=0, world=2), open_loader(memory, rank=0, world=2):
    with one, sluice.NeighborLoader(
            attach=one.job_name, rank=1, world=2, arrays="numpy") as two:
        os.rename("edges/edge_feat.npy", "edges/moved.npy")  # which is mapped
        np.save("edges/edge_feat.npy", feat)
        found = [next(iter(one)), next(iter(two))]
        for batch in found:
            assert np.array_equal(batch.edge_attr[:, 0], batch.e_id)
            assert np.array_equal(batch.edge_attr[:, 1], batch.n_id[batch.edge_index[1]])
        assert found[0].n_id[0] != found[1].n_id[0]
walks = {"dataset": "edges", "sampler": {"kind": "walk"}}
with open_loader(walks) as loader:
    assert "edge_attr" not in next(iter(loader))
kinds = "float16 float32 float64 int8 int16 int32 int64 uint8 bool"
for bad, words in (
    (feat[:9], f"is int64 [9, 2], wanted [{n}, ...]: a row for each edge"),
    (feat.astype("c8"), f"is complex64 [{n}, 2], wanted one of {', '.join(kinds.split())}: save"),
    (feat.astype(">i4"), f"is >i4 [{n}, 2], wanted one of"),
    (np.asfortranarray(feat), f"is int64 [{n}, 2], wanted it in C order: save"),
):
    said = refused(opened, bad)
    assert said.startswith(f"{os.path.realpath('edges')}/edge_feat.npy: {words}"), said
np.save("edges/edge_feat.npy", feat)
for size in 4000, 50, 0:
    os.truncate("edges/edge_feat.npy", size)
    assert "/edge_feat.npy: is no whole .npy file: " in refused(open_loader, "edges")
memory = sluice.Dataset(memory.metadata, {**graph, "edge_feat": feat[:9]})
assert refused(open_loader, memory).startswith("data.arrays['edge_feat']: is int64 [9, 2], wanted")
"""


def test_features_of_edges(box):
    """By e_id out of the mapped file of a directory, for every rank; a file that does not fit is
    refused by name."""
    run(box, EDGES)


LARGE = """
with open("large.npy", "wb") as file:
    header = dict(descr="<f4", fortran_order=False, shape=(1 << 20, 1 << 20))
    np.lib.format.write_array_header_1_0(file, header)
    file.truncate(file.tell() + (1 << 42))
os.mkdir("large")
for name, array in graph.items():
    if name != "node_feat":
        np.save(f"large/{name}.npy", array)
os.rename("large.npy", "large/node_feat.npy")
with open(f"{path}/metadata.json") as one, open("large/metadata.json", "w") as two:
    two.write(one.read())
feat = sluice.open("large").to_numpy()["node_feat"]
feat[-1, -1] = 1
assert feat[-1].sum() == 1
assert sluice.open("large").to_numpy()["node_feat"][-1, -1] == 0
"""


def test_an_array_larger_than_the_memory_is_mapped(box):
    run(box, LARGE)


SEEDS = """
mask = np.arange(1500) % 7 == 0
ids = np.flatnonzero(mask)[::-1].copy()
memory = sluice.Dataset(sluice.open(path).metadata, graph)
for data, nodes, wanted in (
    (path, ids, ids), (path, mask, ids[::-1]), (memory, ids, ids),
    (memory, "val", graph["val_idx"]),
    (path, "test", graph["test_idx"]), (path, None, np.arange(1500)),
    ({"dataset": path, "sampler": {"fanout": [4], "batch_size": 64}, "order": {"kind": "listed"}},
     "val", graph["val_idx"]),
):
    job = isinstance(data, dict)
    arguments = dict(shuffle=None, seed=None) if job else dict(shuffle=False)
    with open_loader(data, None if job else [4], None if job else 64, input_nodes=nodes,
                     **arguments) as loader:
        batches = list(loader)
        assert sum(seeds(batches), []) == list(wanted), (type(data), nodes)
        places = np.concatenate([b.input_id for b in batches]).tolist()
        assert places == list(wanted if nodes is mask else range(len(wanted)))
        assert all((b.x == graph["node_feat"][b.n_id]).all() for b in batches)
"""


BARE = """
arrays = {name: graph[name] for name in ("indptr", "indices")}
bare = sluice.Dataset(dict(num_nodes=1500, num_edges=len(graph["indices"])), arrays)
with open_loader(bare, input_nodes=None) as loader:
    for batch in loader:
        assert "x" not in batch and "y" not in batch and "edge_index" in batch
    assert batch.n_id.max() < 1500
job = {"dataset": path, "sampler": {"kind": "walk", "fanout": [3, 3], "batch_size": 64}}
with sluice.NeighborLoader(job, arrays="numpy") as loader:
    for batch in loader:
        assert "e_id" not in batch and len(batch.edge_weight) == batch.edge_index.shape[1]
    assert batch.edge_weight.min() >= 1
"""


def test_what_is_not_there(box):
    """A graph without features, labels and lists; neighbours of walks, which are no edges."""
    run(box, BARE)


def test_whose_vertices_are_seeds(box):
    """Lists of the data set, of the caller's, of a job; from a directory and from memory."""
    run(box, SEEDS)


# ---- epochs -------------------------------------------------------------------------------------

EPOCHS = """
with open_loader(path) as loader:
    whole = [seeds(loader) for _ in range(4)]
with open_loader({"dataset": path, "output": "out"}) as loader:
    assert seeds(loader) == whole[0]
    said = refused(lambda: (loader.set_epoch(0), iter(loader)))
    assert "epoch 0: was begun, and the epochs of a job with an output directory only" in said, said
os.symlink(path, "linked")
with open_loader("linked") as loader:
    os.mkdir("elsewhere")
    os.chdir("elsewhere")
    for number, batch in enumerate(loader):
        if number == 2:
            break
    assert seeds(loader) == whole[1]
    loader.set_epoch(3)
    assert seeds(loader) == whole[3]
    loader.set_epoch(0)  # of a job that starts again
    assert seeds(loader) == whole[0]
    iteration = iter(loader)
    next(iteration)
    state = json.loads(json.dumps(loader.state_dict()))
    assert seeds(loader) == whole[2]  # which has ended the first one
    assert "another iteration" in refused(next, iteration)
    loader.load_state_dict(state)
    assert loader.state_dict() == state
    assert seeds(loader) == whole[1][1:]
    assert seeds(loader) == whole[2]
with open_loader(path, samplers=2) as loader:
    loader.load_state_dict(state)
    loader.set_epoch(1)  # as scripts do that also run without a state
    assert seeds(loader) == whole[1][1:]
    assert loader.state_dict()["epoch"] == 2
for name, other in ("shuffle", False), ("replace", True), ("disjoint", True):
    with open_loader(path, **{name: other}) as loader:
        said = refused(loader.load_state_dict, state)
        assert said.startswith(f"load_state_dict: {name}: the state is of a loader with"), said
with open_loader(path, seed=8) as loader:
    said = refused(loader.load_state_dict, state)
    assert said.startswith("load_state_dict: seed: the state is of a loader with 7"), said
    assert "wanted what state_dict() has returned" in refused(loader.load_state_dict, {})
    for change, words in (
        (dict(number=13), "load_state_dict: number: is 13, wanted 0 to 12"),
        (dict(epoch=-1), "load_state_dict: epoch: is -1, wanted 0 to 4294967294"),
    ):
        said = refused(loader.load_state_dict, {**loader.state_dict(), **change})
        assert said == words, said
    assert "wanted a whole number" in refused(loader.set_epoch, 1.5)
    for number, batch in enumerate(loader, 1):
        if number == 1:
            first = loader.state_dict()
    last = loader.state_dict()
    assert last["epoch"] == 1
    end = {**first, "number": number}  # what the loop had with the last batch
    second = seeds(loader)
# Nothing is left of that epoch, and then comes the next one, whatever the samplers have done.
with open_loader(path, seed=8) as loader:
    for prepare in ((lambda: None), (lambda: next(iter(loader)))):
        prepare()
        loader.load_state_dict(end)
        assert loader.state_dict() == end
        assert seeds(loader) == [] and seeds(loader) == second
with open_loader(path, seed=8) as loader:
    loader.load_state_dict(last)
    assert seeds(loader) == second
# What user code raises about a batch that it has been given.
failing = [True]
def transform(batch):
    if failing.pop() if failing else False:
        raise KeyError("user")
    return batch
with open_loader(path, seed=8, transform=transform) as loader:
    iteration = iter(loader)
    try:
        next(iteration)
        raise AssertionError("no error")
    except KeyError:
        assert loader.state_dict()["number"] == 1
    assert len(list(iteration)) == 11 and loader.stats()["batches"] == 12
"""


def test_epochs_begin_again_and_go_on(box):
    run(box, EPOCHS)


# ---- how a program ends -------------------------------------------------------------------------

ENDS = {
    "returns": "next(iter(loader))",
    "ends-the-epoch": "list(loader)",
    "raises": "for batch in loader: raise KeyError('user')",
    "raises-in-a-transform": "loader.transform = lambda batch: 1 / 0\nnext(iter(loader))",
    "is-interrupted": "for batch in loader: os.kill(os.getpid(), signal.SIGINT)",
    "leaves-at-once": "batch = next(iter(loader)); os._exit(0)",
    "is-killed": "batch = next(iter(loader)); os.kill(os.getpid(), signal.SIGKILL)",
    "collects": "i = iter(loader); next(i); loader.i = i; del loader, i; import gc; gc.collect()",
    "forks": "if os.fork() == 0: sys.exit()\nos.wait(); next(iter(loader))",
    "closes-twice": "loader.close(); loader.close(); assert 'closed' in refused(iter, loader)",
}


@cases(*ENDS)
def test_nothing_stays_when_a_program(box, end):
    result = start(box, f"loader = open_loader(path)\n{ENDS[end]}\n").wait()
    wanted = {"raises": 1, "raises-in-a-transform": 1, "is-interrupted": -signal.SIGINT}
    wanted["is-killed"] = -signal.SIGKILL
    assert result.rc == wanted.get(end, 0), str(result)
    box.until_gone()
    assert os.listdir(box.folder) == [] or not os.path.exists(box.path("runs")), os.listdir(
        box.folder
    )


@cases("broker", "sampler")
def test_somebody_is_killed(box, role):
    """A sampler is replaced; without its broker the job is over, and says so."""
    program = """
loader = open_loader(path)
iteration = iter(loader)
found = [next(iteration)]
print("ready", flush=True)
signal.sigwait([signal.SIGUSR1])
try:
    found += iteration
    assert sorted(sum(seeds(found), [])) == sorted(graph["train_idx"].tolist())
    print("epoch")
except sluice.JobError as error:
    print("over", error)
"""
    block = "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n"
    running = start(box, block + program)
    until_line(running, "ready")
    (pid,) = box.processes(role)
    os.kill(pid, signal.SIGKILL)
    gone(pid)
    os.kill(running.process.pid, signal.SIGUSR1)
    said = running.wait().ok().out
    assert ("over" in said) == (role == "broker"), said


CHANGED = """
import shutil
shutil.copytree(path, "copy")  # times of its own
loader = open_loader("copy")
next(iter(loader))
with open("copy/node_feat.npy", "r+b") as file:
    file.write(file.read(1))
while True:
    try:
        list(loader)
    except sluice.JobError as error:
        assert "copy/node_feat.npy" in str(error), error
        break
"""


def test_a_data_set_that_changes_ends_the_job(box):
    run(box, CHANGED)


# ---- what is refused ----------------------------------------------------------------------------

USES = """
import copy, pickle
loader = open_loader(path)
for function in pickle.dumps, copy.copy, copy.deepcopy:
    assert "cannot be pickled or copied" in refused(function, loader)
assert "it is a DataLoader itself" in refused(loader.__getitem__, 0)
iteration = iter(loader)
next(iteration)
if os.fork() == 0:
    said = [refused(next, iteration), refused(iter, loader), refused(loader.stats)]
    os._exit(0 if all("after fork()" in words for words in said) else 1)
assert os.wait()[1] == 0
rest = []
errors = []
def take():
    try:
        rest.extend(iteration)
    except sluice.Error as error:
        errors.append(error)
threads = [threading.Thread(target=take) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(rest) == len(loader) - 1 and not errors, errors
with open_loader(path, seed=9) as other:  # two in a process
    assert seeds(other) != seeds(loader)
name = loader.job_name
loader.close()
assert "closed" in refused(loader.stats) and "closed" in repr(loader)
assert loader.job_name == name and loader.output is None
# The words of the job's processes are the caller's own.
memory = sluice.Dataset(sluice.open(path).metadata, graph)
for change, named, words in (
    (dict(node_feat=graph["node_feat"] * np.nan), {}, "data.arrays['node_feat']: row 0"),
    (dict(indices=graph["indices"] + 1500), {}, "data.arrays['indices']: "),
    (dict(node_feat=graph["node_feat"][:5]), dict(input_nodes=[1]), "data.arrays['node_feat']: "),
    ({}, dict(num_neighbors=[-2]), "num_neighbors: entry 0: found number -2, wanted -1 (all"),
    ({}, dict(seed=-1), "seed: found number -1, wanted a whole number from 0"),
):
    data = sluice.Dataset(memory.metadata, {**graph, **change})
    said = refused(open_loader, data, **named)
    assert said.startswith(words), said
with open_loader(memory) as loader:
    assert repr(loader).startswith("NeighborLoader(data, "), loader
assert "closed" in refused(lambda: loader.data)
"""


BUFFERS = """
from sluice import _lib
pool, kind = _lib.Buffers(), np.dtype("<f4")
first = pool.array((30, 5), kind)
first[:] = 1
there, view = first.ctypes.data, first[1:]
del first
other = pool.array((30, 5), kind)
other[:] = 2
assert other.ctypes.data != there and (view == 1).all()
del view
assert pool.array((30, 4), kind).ctypes.data == there # the smaller, in the memory that came back
assert pool.array((90, 5), kind).shape == (90, 5) and (other == 2).all()
assert pool.array((0, 5), kind).shape == (0, 5)
kept = [pool.array((30, 5), kind) for _ in range(9)]
del kept
assert len(pool.free) == _lib.Buffers.KEPT
"""


def test_memory_of_rows_comes_back(box):
    run(box, BUFFERS)


def test_uses(box):
    """Pickling, copying and use after fork() are refused with a sentence; a thread may."""
    run(box, USES)


def test_errors_have_the_words_of_the_command_line(box):
    path = box.shared_dataset("planted")
    good = {"dataset": path, "model": {"kind": "external"}, "output": "runs/x"}
    good["sampler"] = {"fanout": [5]}
    bad = {
        "key": {**good, "sampler": {"fanuot": [5]}},
        "value": {**good, "sampler": {"fanout": [5], "batch_size": 0}},
        "dataset": {**good, "dataset": "nowhere"},
        "text": "{",
        "twice": '{"seed": 1, "seed": 2}',
    }
    for name, job in bad.items():
        file = box.path(f"{name}.json")
        with open(file, "w") as out:
            out.write(job if isinstance(job, str) else json.dumps(job))
    program = """
for name in sys.argv[2:]:
    try:
        sluice.NeighborLoader(name, arrays="numpy")
    except sluice.UsageError as error:
        print(error)
"""
    names = [f"{name}.json" for name in bad]
    said = run(box, program, path, *names).splitlines()
    for name, line in zip(names, said):
        theirs = box.sluice("run", name)
        assert theirs.rc == 2 and theirs.errors() == [f"sluice: {line}"], (line, str(theirs))
    assert len(said) == len(names)
    box.assert_no_run()


# ---- a job that runs ----------------------------------------------------------------------------

ATTACHED = """
name = sys.argv[2]
for how in name, "runs/lent":
    with sluice.NeighborLoader(attach=how, arrays="numpy") as loader:
        assert (loader.job_name, loader.batch_size) == (name, 64)
        for batch in loader:
            assert (graph["val_idx"][batch.input_id] == batch.n_id[:batch.batch_size]).all()
            assert (batch.x == graph["node_feat"][batch.n_id]).all()
with sluice.NeighborLoader(attach=name, arrays="numpy") as loader:
    next(iter(loader))
    assert "epochs of a job with several loaders only rise" in refused(
        lambda: (loader.set_epoch(0), iter(loader)))
said = refused(sluice.NeighborLoader, attach=name, batch_size=5, arrays="numpy")
assert said == "batch_size=5: is the running job's to say: leave it out", said
assert "nobody" in refused(sluice.NeighborLoader, attach="nobody", arrays="numpy")
"""


def test_a_job_that_runs(box):
    """It lends to one loader after the other, and goes on without them."""
    path, name = box.shared_dataset("planted"), box.unique("lent")
    config = {"name": name, "dataset": path, "model": {"kind": "external"}, "output": "runs/lent"}
    config["sampler"] = {"fanout": [4, 3], "batch_size": 64, "expand": "new", "edge_ids": True}
    config["input"] = {"split": "val"}
    running = box.start("run", box.job(config))
    running.until(lambda: box.processes("sampler"), "sampler")
    run(box, ATTACHED, path, name)
    running.interrupt()
    running.wait().ok()


ABSENT = """
import warnings
from sluice import _loader
one = open_loader(path, rank=0, world=2, timeout=0.1, prefetch=False)
def second():
    return sluice.NeighborLoader(attach=one.job_name, rank=1, world=2, arrays="numpy")
def waits_for_rank_1():
    while True:
        said = refused(list, one)
        if "rank 1 of 2 is absent" in said:
            return said
        assert "`sluice stats" in said, said
assert len(list(one)) == 6 and one.stats()["absent"] == 1
waits_for_rank_1()
if os.fork() == 0:
    batches = iter(second())
    next(batches)
    os.kill(os.getpid(), signal.SIGKILL)
os.wait()
assert waits_for_rank_1().endswith("or use balance='dynamic'; timeout=0 waits without a bound")
# Without a bound: rank 1 comes when it is missed.
one.timeout, _loader.ABSENT_WARNING_S = 0, 0
said, found = [], []
def serve():
    with second() as two:
        found.extend(seeds(two) + seeds(two))
def come(message, *_):
    said.append(str(message))
    threads.append(threading.Thread(target=serve))
    threads[0].start()
warnings.simplefilter("always")
warnings.showwarning, threads = come, []
assert len(list(one)) == 6
threads[0].join()
assert len(found) == 12 and len(said) == 1, said
assert "no batch has come for 0 s: rank 1 of 2 is absent" in said[0], said
"""


ORDERS = """
for data in path, sluice.Dataset(sluice.open(path).metadata, graph):
    for shuffle, wanted in (True, [5, 5]), (False, [6, 5]):
        with sluice.NeighborLoader(data, [4], 64, np.arange(64 * 11), shuffle, arrays="numpy",
                                   rank=0, world=2) as one:
            with sluice.NeighborLoader(attach=one.job_name, rank=1, world=2, arrays="numpy") as two:
                assert [len(one), len(two)] == wanted
                assert [len(list(one)), len(list(two))] == wanted
"""


def test_ranks_agree_on_the_end_of_an_epoch(box):
    """A rank that only has the job's name knows whether it shuffles."""
    run(box, ORDERS)


def test_a_rank_that_is_absent(box):
    """Its batches are waited for: who it is says the error, or a warning where there is no
    bound."""
    run(box, ABSENT)


LATE = """
loader = open_loader(path, timeout=0.2, prefetch=False)
iteration = iter(loader)
print("first", next(iteration).batch_size, flush=True)
signal.sigwait([signal.SIGUSR1])
try:
    while True:
        next(iteration)
except sluice.LoaderTimeoutError as error:
    print(error, flush=True)
signal.sigwait([signal.SIGUSR1])
loader.timeout = 0
print("rest", len(list(iteration)) > 0)
"""


def test_a_batch_that_does_not_come(box):
    """The samplers stand still: a bound that the user has set is kept to, and the loader goes on
    when they do."""
    block = "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n"
    failpoint = {"SLUICE_FAILPOINT": "sampler_claimed:5:stop"}
    running = start(box, block + LATE, env=failpoint)
    until_line(running, "first")
    pid = box.until_stopped(running, "sampler")
    os.kill(running.process.pid, signal.SIGUSR1)
    assert "has come within 0.2 s: `sluice stats loader-" in until_line(running, "no batch")
    os.kill(pid, signal.SIGCONT)
    os.kill(running.process.pid, signal.SIGUSR1)
    assert "rest True" in running.wait().ok().out


def test_an_interrupt_while_it_opens(box):
    """A sampler stands still before it has begun: Ctrl-C ends the wait, and nothing stays."""
    running = start(box, "open_loader(path)", env={"SLUICE_FAILPOINT": "sampler_start:1:stop"})
    box.until_stopped(running, "sampler")
    os.kill(running.process.pid, signal.SIGINT)
    result = running.wait()
    assert result.rc == -signal.SIGINT and "KeyboardInterrupt" in result.err, str(result)
    box.until_gone()


def test_no_time_to_open_is_none(box):
    program = "assert ' in time' in refused(open_loader, path, start_timeout=0)"
    start(box, program, env={"SLUICE_FAILPOINT": "sampler_start:1:stop"}).wait().ok()
    box.until_gone()


FAKE_TORCH = """
# As much of PyTorch as the loader asks for. The processor cannot read the emulated GPU's memory, so
# that the library copies a tensor.
import ctypes, importlib.machinery, types

class Tensor:
    def __init__(self, address, shape, kind):
        self.address, self.values = address, np.empty(shape, kind)
    def clone(self):
        call, lent, at = loader._handle.call, ctypes.byref(loader._lent), ctypes.c_void_p()
        call("features_view", lent, ctypes.byref(at))
        assert at.value == self.address
        call("features", lent, self.values.ctypes.data, self.values.nbytes)
        return self

class Event:
    recorded, waited = 0, 0
    def record(self):
        Event.recorded += 1
    def synchronize(self):
        assert Event.waited < Event.recorded
        Event.waited += 1

class Device:
    def __init__(self, index):
        assert index == 0
    def __enter__(self):
        pass
    def __exit__(self, *_):
        pass

def as_tensor(there, device):
    of = there.__cuda_array_interface__
    assert device == "cuda:0" and of["stream"] is None
    return Tensor(of["data"][0], of["shape"], of["typestr"])

torch = types.ModuleType("torch")
torch.__spec__ = importlib.machinery.ModuleSpec("torch", None)
torch.__spec__ = importlib.machinery.ModuleSpec("torch", None)
torch.cuda = types.SimpleNamespace(is_available=lambda: True, device=Device, Event=Event)
torch.from_numpy, torch.as_tensor, torch.distributed = lambda a: a, as_tensor, None
sys.modules["torch"] = torch
"""


def test_rows_stay_on_the_gpu_for_torch(box):
    """Where the trainers' device is one (emulated): a tensor of its own, copied before the rows
    that it is of may change."""
    if not os.path.exists(PLUGIN):
        raise Skip(f"{PLUGIN} is not there: make tests builds it")
    job = {
        "dataset": box.shared_dataset("planted"),
        "devices": [CPU, gpu()],
        "model": {"kind": "external"},
    }
    program = """
kept = []
with open_loader(json.loads(sys.argv[2]), arrays="torch", samplers=None) as loader:
    for batch in loader:
        assert type(batch.x) is Tensor, type(batch.x)
        kept.append((batch.x, batch.n_id))
        assert Event.recorded == len(kept) and Event.waited == len(kept) - 1
    assert len(kept) == len(loader) == Event.waited
for x, n_id in kept:
    assert np.array_equal(x.values, graph["node_feat"][n_id])
"""
    env = {"SLUICE_CUDA_PLUGIN": PLUGIN, "CUDA_VISIBLE_DEVICES": "0"}
    run(box, FAKE_TORCH + program, box.shared_dataset("planted"), json.dumps(job), env=env)


# Two ranks one after the other, with what torch.distributed says to them.
UNLIKE = """
import importlib.machinery, types
class Distributed(types.ModuleType):
    rank, told = 0, None
    is_available = is_initialized = staticmethod(lambda: True)
    get_world_size = staticmethod(lambda: 2)
    def get_rank(self):
        return self.rank
    def broadcast_object_list(self, objects, src):
        self.told = list(objects) if self.rank == src else self.told
        objects[:] = self.told
torch = types.ModuleType("torch")
torch.__spec__ = importlib.machinery.ModuleSpec("torch", None)
torch.distributed = distributed = Distributed("torch.distributed")
sys.modules.update({"torch": torch, "torch.distributed": distributed})

def ranks(**unlike):
    distributed.rank = 0
    with open_loader(path, drop_last=True):
        distributed.rank = 1
        return refused(open_loader, path, **{"drop_last": True, **unlike})

said = ranks(even=False)
assert said.startswith("rank 1: even=False, and rank 0 has even=True: "), said
said = ranks(drop_last=False)
assert said.startswith("rank 1: drop_last=False, and rank 0 has drop_last=True: "), said
distributed.rank = 0
with open_loader(path) as one:
    distributed.rank = 1
    with open_loader(path, even=True) as two: # which it would be anyway
        assert len(one) == len(two) == 6
"""


def test_ranks_that_would_have_unlike_numbers_of_batches_are_refused(box):
    run(box, UNLIKE)
