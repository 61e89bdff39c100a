#!/usr/bin/env python3
"""Loaders and epochs of other systems, as scripts/bench_peers.py and scripts/gpu_peer.py ask:

    peers.py convert PEER DATASET FILE   the data set in the peer's own format
    peers.py serve PEER FILE JOB         a measurement for each line of standard input
    peers.py versions                    of what can be imported, and why the rest cannot

PEER is dgl (its DataLoader), graphbolt or pyg (NeighborLoader), or loader (that of python/sluice);
those of GPUs alone, cugraph and wholegraph, are served by gpu_peer.py. JOB is JSON: fanout (the hop
next to the seeds first), batch, hidden, workers. Lines are `sample`, `gather`, `epoch PRECISION`,
`first PRECISION` (an epoch that says when its first update is over), `accuracy VALUE EPOCHS`,
`open` (seconds from a loader's constructor to its first batch), `memory` (what an epoch of batches
adds to the process) and, of loader, `python` (what its package takes of each batch); each is
answered with one line of JSON, or several where there is something to say meanwhile.

The model is GraphSAGE with a hidden layer a hop, mean aggregation, dropout 0.5 and Adam, written
with the peer's own layers. Needs torch and the peer, which sluice itself does not.
"""

import contextlib
import json
import os
import re
import sys
import time
import traceback

os.environ.setdefault("DGLBACKEND", "pytorch")  # else DGL writes a file to the home directory

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402

LEARNING_RATE, DROPOUT = 0.003, 0.5


def arrays(path):
    """The data set as tensors: CSC of in-neighbours, features, labels, vertices of each split."""

    def array(name, dtype):
        return torch.from_numpy(np.array(np.load(os.path.join(path, name + ".npy")), dtype=dtype))

    tensors = {name: array(name, np.int64) for name in ("indptr", "indices")}
    tensors["path"] = os.path.abspath(path)
    tensors["x"] = array("node_feat", np.float32)
    tensors["y"] = array("node_label", np.int64).reshape(-1)
    for split in ("train", "val"):
        there = os.path.exists(os.path.join(path, f"{split}_idx.npy"))
        tensors[split] = array(f"{split}_idx", np.int64).reshape(-1) if there else None
    return tensors


class Job:
    """What is measured; `cores` are those that this process may use."""

    def __init__(self, fanout, batch, hidden=256, workers=0):
        self.fanout, self.batch, self.hidden, self.workers = fanout, batch, hidden, workers
        self.cores = sorted(os.sched_getaffinity(0))

    @property
    def pinned(self):
        """Workers get cores of their own, as DGL and PyG advise, where some are left to compute."""
        return 0 < self.workers < len(self.cores)


# ---- the peers ----------------------------------------------------------------------------------
#
# Each has: convert(tensors) and load(saved), save and read; batches(gathers) yields an epoch's
# (edges, graph, x, y), x and y None when it does not gather; model() takes (graph, x);
# predict(model) is every vertex's output over all its neighbours, layer by layer.


class SageOfDgl(nn.Module):
    """As in DGL's examples: a block and a layer each hop."""

    def __init__(self, widths):
        super().__init__()
        from dgl.nn import SAGEConv

        pairs = zip(widths, widths[1:])
        self.layers = nn.ModuleList(SAGEConv(a, b, "mean") for a, b in pairs)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, blocks, x):
        for i, (layer, block) in enumerate(zip(self.layers, blocks)):
            x = layer(block, x)
            if i + 1 < len(self.layers):
                x = self.dropout(x.relu())
        return x


class Peer:
    loss = staticmethod(nn.functional.cross_entropy)

    def __init__(self, saved, job):
        self.job, self.x, self.y = job, saved["x"], saved["y"]
        self.train, self.val = saved["train"], saved["val"]  # val None: accuracy() is not asked for
        self.classes = int(self.y.max()) + 1
        self.device = torch.device("cpu")
        self.loaders = {}
        self.pins = contextlib.ExitStack()

    @classmethod
    def convert(cls, tensors, path):
        torch.save(tensors, path)

    @classmethod
    def read(cls, path):
        return torch.load(path)

    def widths(self):
        hidden = [self.job.hidden] * (len(self.job.fanout) - 1)
        return [self.x.size(1), *hidden, self.classes]

    def loader(self, gathers):
        """Made once: its workers stay from epoch to epoch."""
        if gathers not in self.loaders:
            self.loaders[gathers] = self.make_loader(gathers)
        return self.loaders[gathers]

    def settings(self):
        """Of any loader of torch's kind."""
        n = self.job.workers
        return {"batch_size": self.job.batch, "shuffle": True, "num_workers": n,
                "persistent_workers": n > 0}


class Dgl(Peer):
    def __init__(self, saved, job):
        super().__init__(saved, job)
        self.graph = saved["graph"]

    @classmethod
    def convert(cls, tensors, path):
        import dgl

        csc = ("csc", (tensors["indptr"], tensors["indices"], []))
        graph = dgl.graph(csc, num_nodes=len(tensors["y"]))
        graph.ndata["feat"], graph.ndata["label"] = tensors["x"], tensors["y"]
        dgl.save_graphs(path, [graph], {k: tensors[k] for k in ("train", "val")}, formats="csc")

    @classmethod
    def read(cls, path):
        import dgl

        (graph,), split = dgl.load_graphs(path)
        return {"graph": graph, "x": graph.ndata["feat"], "y": graph.ndata["label"], **split}

    def make_loader(self, gathers):
        import dgl.dataloading as dl

        features = {"prefetch_node_feats": ["feat"], "prefetch_labels": ["label"]}
        fanout = self.job.fanout[::-1]  # DGL names the hop next to the seeds last
        sampler = dl.NeighborSampler(fanout, **(features if gathers else {}))
        return self.pin(dl.DataLoader(self.graph, self.train, sampler, **self.settings()))

    def pin(self, loader):
        if self.job.pinned:
            n, cores = self.job.workers, self.job.cores
            self.pins.enter_context(loader.enable_cpu_affinity(cores[:n], cores[n:], verbose=False))
        return loader

    def batches(self, gathers):
        for _, _, blocks in self.loader(gathers):
            x = blocks[0].srcdata["feat"] if gathers else None
            y = blocks[-1].dstdata["label"] if gathers else None
            yield sum(block.num_edges() for block in blocks), blocks, x, y

    def model(self):
        return SageOfDgl(self.widths())

    def predict(self, model):
        return model([self.graph] * len(model.layers), self.x)


class GraphBolt(Peer):
    def __init__(self, saved, job):
        import dgl.graphbolt as gb

        super().__init__(saved, job)
        self.graph = saved["graph"]
        self.store = gb.BasicFeatureStore({("node", None, "feat"): gb.TorchBasedFeature(self.x)})
        self.whole = None

    @classmethod
    def convert(cls, tensors, path):
        import dgl.graphbolt as gb

        graph = gb.fused_csc_sampling_graph(tensors.pop("indptr"), tensors.pop("indices"))
        torch.save({"graph": graph, **tensors}, path)

    def make_loader(self, gathers):
        import dgl.graphbolt as gb

        seeds = gb.ItemSet((self.train, self.y[self.train]), names=("seed_nodes", "labels"))
        pipe = gb.ItemSampler(seeds, batch_size=self.job.batch, shuffle=True)
        # As with DGL's own loader the hop next to the seeds is named last.
        pipe = pipe.sample_neighbor(self.graph, self.job.fanout[::-1])
        # Also where nothing is fetched: workers do what stands before it.
        pipe = pipe.fetch_feature(self.store, node_feature_keys=["feat"] if gathers else [])
        return gb.DataLoader(pipe, num_workers=self.job.workers)

    def batches(self, gathers):
        for batch in self.loader(gathers):
            edges = sum(len(part.sampled_csc.indices) for part in batch.sampled_subgraphs)
            if gathers:
                yield edges, batch, batch.node_features["feat"], batch.labels
            else:
                yield edges, None, None, None

    def model(self):
        model = SageOfDgl(self.widths())
        of_blocks = model.forward
        model.forward = lambda batch, x: of_blocks(getattr(batch, "blocks", batch), x)
        return model

    def predict(self, model):
        import dgl

        if self.whole is None:
            csc = ("csc", (self.graph.csc_indptr, self.graph.indices, []))
            self.whole = dgl.graph(csc, num_nodes=len(self.y))
        return model([self.whole] * len(model.layers), self.x)


class PyG(Peer):
    """`device` "cuda" pins batches and moves them there."""

    def __init__(self, saved, job, device="cpu"):
        import torch_geometric.loader  # noqa: F401 - here, so that no measurement has it

        super().__init__(saved, job)
        self.device = torch.device(device)
        indptr = saved["indptr"]
        target = torch.repeat_interleave(torch.arange(len(indptr) - 1), indptr.diff())
        self.edge_index = torch.stack([saved["indices"], target])

    def make_loader(self, gathers):
        from torch_geometric.data import Data
        from torch_geometric.loader import NeighborLoader

        data = Data(edge_index=self.edge_index, num_nodes=len(self.y))
        if gathers:
            data.x, data.y = self.x, self.y
        return self.pin(NeighborLoader(
            data, num_neighbors=self.job.fanout, input_nodes=self.train, is_sorted=True,
            pin_memory=self.device.type == "cuda", **self.settings(),
        ))

    def pin(self, loader):
        if self.job.pinned and self.device.type == "cpu":
            cores = self.job.cores[: self.job.workers]
            self.pins.enter_context(loader.enable_cpu_affinity(cores))
        return loader

    def batches(self, gathers):
        for batch in self.loader(gathers):
            edges = batch.edge_index.size(1)
            if not gathers:
                yield edges, None, None, None
                continue
            hops = self.hops(batch)
            batch = batch.to(self.device, non_blocking=True)
            yield edges, (batch.edge_index, *hops), batch.x, batch.y[: batch.batch_size]

    def hops(self, batch):
        """Vertices and edges that each hop has added: a layer needs no more than its hops."""
        if getattr(batch, "num_sampled_nodes", None) is not None:  # pyg-lib says it
            sampled = batch.num_sampled_nodes, batch.num_sampled_edges
            return tuple([int(n) for n in of_hops] for of_hops in sampled)
        source, target = batch.edge_index  # torch-sparse does not, but goes hop by hop
        nodes, edges = [batch.batch_size], [0]
        for _ in self.job.fanout:
            known = sum(nodes)
            end = int(torch.searchsorted(target, known))
            begin = sum(edges)
            last = int(source[begin:end].max()) + 1 if end > begin else 0
            edges.append(end - begin)
            nodes.append(max(last - known, 0))
        return nodes, edges[1:]

    def network(self):
        from torch_geometric.nn.models import GraphSAGE

        widths, hidden = self.widths(), self.job.hidden
        network = GraphSAGE(widths[0], hidden, len(widths) - 1, self.classes, dropout=DROPOUT)
        return network.to(self.device)

    def model(self):
        model = self.network()
        whole = model.forward

        def forward(graph, x):
            edge_index, nodes, edges = graph
            trimmed = {"num_sampled_nodes_per_hop": nodes, "num_sampled_edges_per_hop": edges}
            batch_size = nodes[0] if nodes else x.size(0)
            return whole(x, edge_index, **(trimmed if nodes else {}))[:batch_size]

        model.forward = forward
        return model

    def predict(self, model):
        return model((self.edge_index, None, None), self.x)


def package():
    """python/sluice of this tree."""
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
    import sluice

    return sluice


class Loader(PyG):
    """python/sluice: PyG's model on batches of sluice's processes. Of no worker, it chooses itself
    how many samplers there are."""

    def __init__(self, saved, job):
        Peer.__init__(self, saved, job)
        self.device, self.path = torch.device("cpu"), saved["path"]
        self.package = package()
        assert self.package.NeighborLoader  # which imports PyG, so that no measurement has it

    @classmethod
    def convert(cls, tensors, path):
        os.symlink(tensors["path"], path)

    @classmethod
    def read(cls, path):
        x = torch.from_numpy(np.load(os.path.join(path, "node_feat.npy"), mmap_mode="c"))
        y = torch.from_numpy(np.load(os.path.join(path, "node_label.npy")).reshape(-1))
        return {"path": path, "x": x, "y": y, "train": None, "val": None}  # of x the shape is used

    def make_loader(self, gathers):
        return self.package.NeighborLoader(
            self.path, self.job.fanout, self.job.batch, "train", shuffle=True, seed=7,
            samplers=self.job.workers or "auto",
        )

    def python(self):
        """Microseconds of each batch of the ten epochs after the first, from the call of next() to
        the user's line: in libsluice, by function ("next" is the wait for the batch), in Python
        otherwise, and what that is of the processor's time ("cpu")."""
        loader, calls, took = self.loader(True), [], []
        library, names = loader._handle.library, ("next", "done", "take", "wait")

        def clocks():
            return np.array([time.perf_counter(), time.thread_time()]) * 1e6

        def clocked(function):
            def call(*arguments):
                begin = clocks()
                result = function(*arguments)
                name = function.__name__.removeprefix("sluice_")
                calls[-1][name] = calls[-1].get(name, 0) + clocks() - begin
                return result

            return call

        for _ in loader:
            pass
        for name in names:
            setattr(library, name, clocked(getattr(library, name)))
        for _ in range(10):
            batches = iter(loader)
            calls.append({})
            begin = clocks()
            for _ in batches:
                took.append(clocks() - begin)
                calls.append({})
                begin = clocks()
            calls.pop()  # the epoch's end is no batch
        own = [whole - sum(parts.values()) for whole, parts in zip(took, calls)]
        inside = {name: [parts.get(name, [0])[0] for parts in calls] for name in names}
        return {"python": [us for us, _ in own], "cpu": [us for _, us in own], **inside}


def alone_on_the_gpu():
    """RAPIDS' stores are made for groups of processes: here is one of this process alone."""
    import pylibwholegraph.torch as wgth

    os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", LOCAL_WORLD_SIZE="1")
    torch.cuda.set_device(0)
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("nccl", store=store, rank=0, world_size=1)
    wgth.init(0, 1, 0, 1)


class CuGraph(PyG):
    """cuGraph-PyG, as in its examples: graph, features and sampling on the GPU."""

    def __init__(self, saved, job, device="cuda"):
        super().__init__(saved, job, device)
        import rmm
        from cugraph_pyg.data import FeatureStore, GraphStore
        from pylibcugraph.comms import cugraph_comms_create_unique_id, cugraph_comms_init

        rmm.reinitialize(devices=0, managed_memory=True, pool_allocator=False)
        alone_on_the_gpu()
        uid = cugraph_comms_create_unique_id()
        cugraph_comms_init(rank=0, world_size=1, uid=uid, device=0)
        features, graph, n = FeatureStore(location="cuda"), GraphStore(), len(self.y)
        features["node", "x", None], features["node", "y", None] = self.x, self.y
        graph[("node", "to", "node"), "coo", False, (n, n)] = self.edge_index
        self.stores = features, graph

    def make_loader(self, gathers):
        from cugraph_pyg.loader import NeighborLoader

        return NeighborLoader(
            self.stores, num_neighbors=self.job.fanout, input_nodes=self.train.to(self.device),
            batch_size=self.job.batch, shuffle=True,
        )


class WholeGraph(PyG):
    """WholeGraph, as in its examples: graph and features in the GPU's memory, a layer of PyG's on
    each hop's edges."""

    def __init__(self, saved, job, device="cuda"):
        super().__init__(saved, job, device)
        import pylibwholegraph.torch as wgth

        alone_on_the_gpu()
        on_gpu = (wgth.get_local_node_communicator(), "continuous", "cuda")

        def kept(values):
            tensor = wgth.create_wholememory_tensor(*on_gpu, [len(values)], values.dtype, [1])
            tensor.get_local_tensor()[0].copy_(values)
            return tensor

        self.graph = wgth.GraphStructure()
        self.graph.set_csr_graph(kept(saved["indptr"]), kept(saved["indices"].int()))
        self.features = wgth.create_embedding(*on_gpu, self.x.dtype, list(self.x.shape))
        self.features.get_embedding_tensor().get_local_tensor()[0].copy_(self.x)
        self.y = self.y.to(self.device)

    def batches(self, gathers):
        order = self.train[torch.randperm(len(self.train))].to(self.device)
        for seeds in order.split(self.job.batch):
            sampled = self.graph.multilayer_sample_without_replacement(seeds.int(), self.job.fanout)
            vertices, edges = sampled[:2]  # of the hop far from the seeds first
            blocks = [(len(known), e.long()) for known, e in zip(vertices[1:], edges)]
            n = sum(e.size(1) for _, e in blocks)
            if gathers:
                yield n, blocks, self.features.gather(vertices[0]), self.y[seeds]
            else:
                yield n, None, None, None

    def model(self):
        model = self.network()

        def forward(blocks, x):
            for i, (layer, (known, edges)) in enumerate(zip(model.convs, blocks)):
                x = layer((x, x[:known]), edges)
                if i + 1 < len(blocks):
                    x = nn.functional.dropout(x.relu(), DROPOUT, model.training)
            return x

        model.forward = forward
        return model


PEERS = {"dgl": Dgl, "graphbolt": GraphBolt, "pyg": PyG, "loader": Loader}
PEERS_OF_GPUS = {"pyg": PyG, "cugraph": CuGraph, "wholegraph": WholeGraph}


# ---- measurements -------------------------------------------------------------------------------


class Loading:
    """An iteration; `seconds` is what its user has waited for it."""

    def __init__(self, batches):
        self.batches, self.seconds = batches, 0

    def __iter__(self):
        return self

    def __next__(self):
        begin = time.monotonic()
        try:
            return next(self.batches)
        finally:
            self.seconds += time.monotonic() - begin


def train_epoch(peer, model, optimizer, precision="fp32", first=None):
    """Seconds, edges, and seconds that the loader took; calls first() behind the first update."""
    bf16 = torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16")
    model.train()
    edges, begin, batches = 0, time.monotonic(), Loading(peer.batches(True))
    for n, graph, x, y in batches:
        optimizer.zero_grad(set_to_none=True)
        with bf16:
            out = model(graph, x)
        peer.loss(out.float(), y).backward()
        optimizer.step()
        edges += n
        if first:
            first()
            first = None
    return time.monotonic() - begin, edges, batches.seconds


def first_batch(peer):
    """Seconds of a loader's constructor, and until its first batch has come."""
    begin = time.monotonic()
    peer.loader(True)
    opened = time.monotonic()
    batches = peer.batches(True)
    next(batches)
    came = time.monotonic()
    batches.close()
    return {"opened": opened - begin, "seconds": came - begin}


def own_memory():
    """Bytes of this process that are in no file: its own, and its part of what others have too."""
    with open("/proc/self/smaps_rollup") as file:
        found = dict(re.findall(r"^Pss_(Anon|Shmem): +(\d+)", file.read(), re.M))
    return np.array([int(found[kind]) << 10 for kind in ("Anon", "Shmem")])


def memory(peer):
    """Bytes that an epoch adds to the process, its own and shared, at most; and of all tensors of
    its largest batch."""
    before, most, largest = own_memory(), 0, 0
    for batch in peer.loader(True):
        tensors = [value for _, value in batch if torch.is_tensor(value)]
        largest = max(largest, sum(t.numel() * t.element_size() for t in tensors))
        most = np.maximum(most, own_memory() - before)
    own, shared = most.tolist()
    return {"own": own, "shared": shared, "batch": largest}


def start(peer, *kind):
    model = peer.model(*kind)
    return model, torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)


def whole_graph(peer):
    """Seconds of every vertex's output by a model that has learned nothing."""
    model = peer.model().eval()
    begin = time.monotonic()
    with torch.no_grad():
        peer.predict(model)
    return {"seconds": time.monotonic() - begin}


def accuracy(peer, wanted, epochs):
    """Seconds of training and of evaluation until the validation accuracy is as wanted."""
    model, optimizer = start(peer)
    begin, found = time.monotonic(), []
    while len(found) < epochs and max(found, default=0) < wanted:
        train_epoch(peer, model, optimizer)
        model.eval()
        with torch.no_grad():
            right = peer.predict(model)[peer.val].argmax(1) == peer.y[peer.val]
        found.append(float(right.float().mean()))
        say(epoch=len(found), accuracy=found[-1], elapsed=time.monotonic() - begin)
    return {"seconds": time.monotonic() - begin, "accuracy": found}


def measure(peer, what, *words):
    if what in ("sample", "gather"):
        begin, batches, edges = time.monotonic(), 0, 0
        for n, *_ in peer.batches(what == "gather"):
            batches += 1
            edges += n
        return {"seconds": time.monotonic() - begin, "batches": batches, "edges": edges}
    if what in ("epoch", "first"):
        first = (lambda: say(first=time.monotonic())) if what == "first" else None
        precision, *kind = words
        seconds, edges, loading = train_epoch(peer, *start(peer, *kind), precision, first)
        return {"seconds": seconds, "edges": edges, "loading": loading}
    if what == "predict":
        return whole_graph(peer)
    if what == "open":
        return first_batch(peer)
    if what == "memory":
        return memory(peer)
    if what == "python":
        return {"us": peer.python()}
    if what == "accuracy":
        return accuracy(peer, float(words[0]), int(words[1]))
    raise ValueError(f"'{what}' is no measurement")


# ---- commands -----------------------------------------------------------------------------------


def say(**facts):
    print(json.dumps(facts), flush=True)


def serve(name, path, job):
    kind = PEERS[name]
    peer = kind(kind.read(path), Job(**json.loads(job)))
    with peer.pins:
        for line in sys.stdin:
            try:
                answer = measure(peer, *line.split())
            except Exception as error:  # noqa: BLE001 - the peer's own, which the table then says
                traceback.print_exc()
                answer = {"error": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
            say(done=True, **answer)


def versions():
    facts = {"torch": torch.__version__, "threads": torch.get_num_threads(), "absent": {}}
    facts["loader"] = package().version()
    try:
        import dgl
        import dgl.graphbolt  # noqa: F401 - its library is of one version of torch

        facts["dgl"] = facts["graphbolt"] = dgl.__version__
    except Exception as error:  # noqa: BLE001
        facts["absent"]["dgl"] = facts["absent"]["graphbolt"] = str(error).splitlines()[0]
    try:
        import torch_geometric
        import torch_geometric.typing as typing

        library = "pyg-lib" if typing.WITH_PYG_LIB else "torch-sparse"
        if not (typing.WITH_PYG_LIB or typing.WITH_TORCH_SPARSE):
            raise ImportError("neither pyg-lib nor torch-sparse, which NeighborLoader samples with")
        facts["pyg"] = f"{torch_geometric.__version__} with {library}"
    except Exception as error:  # noqa: BLE001
        facts["absent"]["pyg"] = str(error).splitlines()[0]
    say(**facts)


def main(command, *arguments):
    if command == "convert":
        name, dataset, path = arguments
        PEERS[name].convert(arrays(dataset), path)
    elif command == "serve":
        serve(*arguments)
    else:
        versions()


if __name__ == "__main__":
    main(*sys.argv[1:])
