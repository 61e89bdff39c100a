#!/usr/bin/env python3
"""Are a run's parameters those of PyTorch Geometric's models?

    scripts/check_pyg.py RUN... [--data DATA]    the runs that are named
    scripts/check_pyg.py --all DATA              trains each of the models a little first

For each run: model.safetensors is loaded into the matching class of torch_geometric.nn.models with
load_state_dict(strict=True), the model is built from config.json alone. Its logits over the whole
graph, in double precision, are compared with those of `sluice predict` (or of --logits FILE.npy).
Prints the largest difference, and how large it is beside the largest logit; exit status 1 when that
is more than 1e-5 or a file does not load, 2 when something is missing. Models of graphs of several
types (scripts/pyg_typed.py), which are evaluated by batches of all neighbours, are compared by the
run's last loss of the validation vertices.

Needs torch and torch_geometric, which sluice itself does not:

    python3 -m venv VENV && VENV/bin/pip install numpy torch torch_geometric
    VENV/bin/python scripts/check_pyg.py --all DATA
"""
import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
import warnings

warnings.simplefilter("ignore", FutureWarning)  # torch's, about its own parts

try:
    import numpy as np
    import torch
    import torch_geometric
    from torch_geometric.nn.models import GAT, GCN, GIN, GraphSAGE
    from torch_geometric.nn.models.basic_gnn import BasicGNN
    from torch_geometric.utils import add_remaining_self_loops, remove_self_loops
except ImportError as error:
    print(
        f"check_pyg: {error.name} is not installed for {sys.executable}: make a virtual "
        "environment and install numpy, torch and torch_geometric there (see the top of this file)",
        file=sys.stderr,
    )
    sys.exit(2)

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.append(os.path.join(ROOT, "tests"))
from pyg_typed import KINDS as TYPED_KINDS, TypedModel  # noqa: E402
from tensors import read_tensors  # noqa: E402

TOLERANCE = 1e-5
NORMS = {"none": None, "batch": "BatchNorm", "layer": "LayerNorm"}


class Problem(Exception):
    """Something that keeps a run from being checked."""


class PinSAGEConv(torch.nn.Module):
    """Algorithm 1 of Ying et al., KDD 2018, with the mean over all neighbours: PyG has no such."""

    def __init__(self, d_in, d_out, last):
        super().__init__()
        self.last = last
        self.lin_q = torch.nn.Linear(d_in, d_out)
        self.lin_self = torch.nn.Linear(d_in, d_out, bias=False)
        self.lin_nbr = torch.nn.Linear(d_out, d_out)

    def forward(self, x, edge_index):
        q = self.lin_q(x).relu()
        source, target = edge_index
        n = x.new_zeros(x.size(0), q.size(1)).index_add(0, target, q[source])
        count = x.new_zeros(x.size(0)).index_add(0, target, x.new_ones(target.numel()))
        z = self.lin_self(x) + self.lin_nbr(n / count.clamp(min=1).unsqueeze(1))
        return z if self.last else torch.nn.functional.normalize(z.relu(), dim=1)


class PinSAGE(BasicGNN):
    """PinSAGEConv within what PyG's models have around their layers."""

    supports_edge_weight = False
    supports_edge_attr = False

    def init_conv(self, in_channels, out_channels, **kwargs):
        return PinSAGEConv(in_channels, out_channels, getattr(self, "_is_conv_to_out", False))


class GraphSAGEGCN(GraphSAGE):
    """aggregator "gcn": the mean over the neighbours and the vertex itself, no second weight."""

    def forward(self, x, edge_index):
        edge_index, _ = add_remaining_self_loops(
            remove_self_loops(edge_index)[0], num_nodes=x.size(0)
        )
        return super().forward(x, edge_index)


def build(model, feat_dim, outputs, edge_dim=None):
    """The torch module for "model" of a job's resolved configuration."""
    kind = model["kind"]
    norm = NORMS[model.get("norm", "none")]
    jumping = model.get("jumping", "none")
    options = {
        "act": model.get("activation", "relu"),
        "norm": norm,
        "norm_kwargs": {"mode": "node"} if norm == "LayerNorm" else None,
        "jk": None if jumping == "none" else jumping,
    }
    make = {
        "gcn": GCN,
        "graphsage": GraphSAGE,
        "gat": GAT,
        "gatv2": GAT,  # with v2
        "gin": GIN,
        "pinsage": PinSAGE,
    }[kind]
    if kind == "gcn":
        if model.get("degrees", "graph") != "graph":
            raise Problem('model.degrees "block" is DGL\'s formula, which PyG has not')
        options["add_self_loops"] = model.get("self_loops", True)
    elif kind == "graphsage":
        aggregator = model.get("aggregator", "mean")
        options["aggr"] = "max" if aggregator == "max" else "mean"
        if aggregator == "gcn":
            make = GraphSAGEGCN
            options["root_weight"] = False
    elif kind in ("gat", "gatv2"):
        options["v2"] = kind == "gatv2"
        options["heads"] = model.get("heads", 8)
        options["residual"] = model.get("residual", False)
        if model.get("edge_features"):
            options["edge_dim"] = edge_dim
    elif kind == "gin":
        options["eps"] = model.get("eps", 0.0)
        options["train_eps"] = model.get("train_eps", False)
    return make(feat_dim, model["hidden"], model["layers"], outputs, **options)


class Graph:
    """What a data set directory has: edges as PyG wants them, and features."""

    def __init__(self, path):
        def load(name):
            return np.load(os.path.join(path, name), mmap_mode="r")

        with open(os.path.join(path, "metadata.json"), encoding="utf-8") as f:
            self.outputs = json.load(f)["num_classes"]
        indptr = np.asarray(load("indptr.npy"), np.int64)
        source = np.array(load("indices.npy"), np.int64)
        target = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        self.edge_index = torch.from_numpy(np.stack([source, target]))
        self.x = torch.from_numpy(np.array(load("node_feat.npy"), np.float64))
        self.edge_attr = None
        if os.path.exists(os.path.join(path, "edge_feat.npy")):
            rows = torch.from_numpy(np.array(load("edge_feat.npy"), np.float64))
            self.edge_attr = rows.reshape(len(rows), -1)

    def of_edges(self, model):
        """What a model that reads the edges' features is given besides."""
        return {"edge_attr": self.edge_attr} if model.get("edge_features") else {}


def run_sluice(arguments):
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Problem(f"$ {' '.join(arguments)}\nexit status {done.returncode}\n{done.stderr}")


def predict(args, run, weights):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "logits.npy")
        # On cores: a GPU may compute in another precision (tf32).
        command = [args.sluice, "predict", run, "--weights", weights, "--device", "cpu"]
        run_sluice([*command, "--out", out, "--quiet"])
        return np.load(out)


@functools.lru_cache(maxsize=1)
def graph_of(path):
    return Graph(path)


class TypedGraph:
    """The same of a graph of several types: edges and features by type."""

    def __init__(self, path):
        def load(name):
            return np.load(os.path.join(path, name), mmap_mode="r")

        with open(os.path.join(path, "metadata.json"), encoding="utf-8") as f:
            told = json.load(f)
        self.outputs = told["num_classes"]
        counts = {t["name"]: t["count"] for t in told["types"]}
        self.widths = {t["name"]: t.get("feat_dim", 0) for t in told["types"]}
        first = dict(zip(counts, np.cumsum([0, *counts.values()]).tolist()))
        indptr = np.asarray(load("indptr.npy"), np.int64)
        indices = np.asarray(load("indices.npy"), np.int64)
        self.edges, self.edge_attr, row = {}, {}, 0
        for r in told["relations"]:
            rows = indptr[row : row + counts[r["target"]] + 1]
            source = indices[rows[0] : rows[-1]] - first[r["source"]]
            target = np.repeat(np.arange(len(rows) - 1), np.diff(rows))
            edges = torch.from_numpy(np.stack([source, target]))
            relation = (r["source"], r["name"], r["target"])
            self.edges[relation] = edges
            file = os.path.join(path, f"edge_feat.{'.'.join(relation)}.npy")
            if os.path.exists(file):
                rows = torch.from_numpy(np.array(np.load(file), np.float64))
                self.edge_attr[relation] = rows.reshape(len(rows), -1)
            row += counts[r["target"]]
        self.x = {
            t: torch.from_numpy(np.array(load(f"node_feat.{t}.npy"), np.float64))
            if dim
            else torch.ones(counts[t], 1, dtype=torch.float64)
            for t, dim in self.widths.items()
        }
        self.labels, self.val = load("node_label.npy"), load("val_idx.npy")


def check_typed(args, run, config, data):
    """The same of a model of a graph of several types, by its validation loss."""
    graph = TypedGraph(data or config["dataset"])
    edge_widths = {r: rows.size(1) for r, rows in graph.edge_attr.items()}
    model = TypedModel(config["model"], graph.widths, list(graph.edges), graph.outputs, edge_widths)
    if not load_strictly(run, model):
        return False
    with torch.no_grad():
        logits = model.double().eval()(graph.x, graph.edges, graph.edge_attr).numpy()
    if args.logits:
        return tell(run, model, np.load(args.logits), logits)
    with open(os.path.join(run, "report.json"), encoding="utf-8") as f:
        found = json.load(f)["epochs"][-1]["val"]["loss"]
    val = np.array(graph.val, np.int64)
    labels = torch.from_numpy(np.array(graph.labels[val], np.int64))
    rows = torch.from_numpy(logits[val])
    wanted = float(torch.nn.functional.cross_entropy(rows, labels, ignore_index=-1))
    agrees = abs(found - wanted) <= TOLERANCE * wanted
    print(
        f"{run}: strict load into {type(model).__name__}; validation loss {found:.9g}, "
        f"{wanted:.9g} here: {'ok' if agrees else 'DIFFERENT'}",
        flush=True,
    )
    return agrees


def check(args, run, data):
    """True when the run's logits are those of PyG's model."""
    with open(os.path.join(run, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    if config["model"]["kind"] in TYPED_KINDS:
        return check_typed(args, run, config, data)
    graph = graph_of(data or config["dataset"])
    if config["sampler"]["kind"] == "walk":
        raise Problem("sampler.kind walk: predictions are over random walks, not all neighbours")
    weights = os.path.join(run, "model.safetensors")
    edges = graph.of_edges(config["model"])
    edge_dim = edges["edge_attr"].size(1) if edges else None
    model = build(config["model"], graph.x.size(1), graph.outputs, edge_dim)
    if not load_strictly(run, model):
        return False
    model = model.double().eval()
    with torch.no_grad():
        wanted = model(graph.x, graph.edge_index, **edges).numpy()
    found = np.load(args.logits) if args.logits else predict(args, run, weights)
    return tell(run, model, found, wanted)


def load_strictly(run, model):
    try:
        path = os.path.join(run, "model.safetensors")
        tensors = {k: torch.from_numpy(v.copy()) for k, v in read_tensors(path).items()}
        model.load_state_dict(tensors, strict=True)
    except RuntimeError as error:
        print(f"{run}: DOES NOT LOAD: {error}")
        return False
    return True


def tell(run, model, found, wanted):
    if found.shape != wanted.shape:
        raise Problem(f"logits have shape {found.shape}, PyG's model gives {wanted.shape}")
    difference = np.abs(found - wanted).max()
    relative = difference / np.abs(wanted).max()
    agrees = bool(relative <= TOLERANCE)  # false for NaN
    name = type(model).__name__
    print(
        f"{run}: strict load into {name}; largest difference of {wanted.size} logits "
        f"{difference:.3g}, {relative:.2g} of the largest: {'ok' if agrees else 'DIFFERENT'}",
        flush=True,
    )
    return agrees


MODELS = {
    "gcn": {"kind": "gcn", "layers": 2, "hidden": 16},
    "graphsage": {"kind": "graphsage", "layers": 2, "hidden": 32},
    "gat": {"kind": "gat", "layers": 2, "hidden": 64, "heads": 8, "activation": "elu"},
    "gatv2": {"kind": "gatv2", "layers": 2, "hidden": 64, "heads": 8, "residual": True},
    "gin": {"kind": "gin", "layers": 3, "hidden": 32, "norm": "batch", "jumping": "cat"},
    "pinsage": {"kind": "pinsage", "layers": 2, "hidden": 32},
}
TYPED_MODELS = {
    "rsage": {"kind": "rsage", "layers": 2, "hidden": 32, "norm": "layer"},
    "rsage-mean": {"kind": "rsage", "layers": 3, "hidden": 16, "relations": "mean"},
    "rgat": {"kind": "rgat", "layers": 2, "hidden": 32, "heads": 4, "activation": "leaky_relu"},
    "rgat-residual": {"kind": "rgat", "layers": 3, "hidden": 16, "heads": 2, "residual": True},
    "rgatv2": {"kind": "rgatv2", "layers": 2, "hidden": 32, "heads": 4, "norm": "layer"},
    "rgatv2-residual": {"kind": "rgatv2", "layers": 3, "hidden": 16, "heads": 2,
                        "residual": True, "relations": "mean"},
    "rgcn": {"kind": "rgcn", "layers": 2, "hidden": 32, "norm": "batch"},
    "rgcn-bases": {"kind": "rgcn", "layers": 2, "hidden": 32, "bases": 3},
    "rgcn-blocks": {"kind": "rgcn", "layers": 2, "hidden": 32, "blocks": 4},
    "hgt": {"kind": "hgt", "layers": 2, "hidden": 32, "heads": 4, "norm": "layer"},
}


def train(args, name, model, folder):
    """Trains a model for a few epochs; returns its run directory."""
    run = os.path.join(folder, name)
    model = dict(model, dropout=0.5)
    job = {
        "name": f"check-{name}",
        "dataset": os.path.abspath(args.all),
        "model": model,
        "sampler": {"kind": "khop", "fanout": [10] * model["layers"], "batch_size": 256},
        "optimizer": {"kind": "adam", "lr": 0.01},
        "epochs": args.epochs,
        "seed": 7,
        "output": run,
    }
    path = os.path.join(folder, f"{name}.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(job, f)
    run_sluice([args.sluice, "run", path, "--quiet"])
    return run


def check_all(args):
    agrees = True
    with open(os.path.join(args.all, "metadata.json"), encoding="utf-8") as f:
        models = TYPED_MODELS if "types" in json.load(f) else MODELS
    with tempfile.TemporaryDirectory(prefix="sluice-pyg-") as folder:
        for name, model in models.items():
            agrees &= check(args, train(args, name, model, folder), args.all)
    return agrees


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("runs", nargs="*", metavar="RUN", help="run directories")
    p.add_argument("--data", metavar="DATA", help="data set (default: config.json's)")
    p.add_argument("--all", metavar="DATA", help="train each of the models on this data set")
    p.add_argument("--epochs", type=int, default=5, help="of --all (default 5)")
    p.add_argument("--logits", metavar="FILE.npy", help="instead of running `sluice predict`")
    p.add_argument(
        "--sluice",
        default=os.path.join(os.environ.get("BIN", os.path.join(ROOT, "build", "bin")), "sluice"),
        help="the program (default: $BIN/sluice, else build/bin/sluice)",
    )
    args = p.parse_args()
    if bool(args.all) == bool(args.runs):
        p.error("wanted either --all DATA, or run directories")
    print(f"torch {torch.__version__}, torch_geometric {torch_geometric.__version__}")
    try:
        if args.all:
            agrees = check_all(args)
        else:
            agrees = all([check(args, run, args.data) for run in args.runs])
    except (Problem, OSError) as error:
        print(f"check_pyg: {error}", file=sys.stderr)
        return 2
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())
