"""From a loader's arguments to the job that its samplers work for: what is checked here is what the
job file has no word for; everything else is checked, and said, by the job's own reader."""

from __future__ import annotations

import difflib
import json
import operator
import os
import warnings
import zlib
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from . import _dataset, _typed
from ._dataset import Dataset
from ._errors import UsageError
from ._staged import StagedDataset, stage
from ._world import World

# Arguments of torch_geometric's and torch's loaders that are not there, and what to use.
REFUSED = {
    "transform_sampler_output": "samplers are other processes: use transform, of the batch",
    "neighbor_sampler": "sluice samples: use torch_geometric.loader.NodeLoader for a sampler of "
    "your own",
    "custom_cls": "batches are torch_geometric.data.Data: use transform",
    "collate_fn": "batches come whole: use transform",
    "sampler": "the order is the job's: use input_nodes, shuffle and seed",
    "batch_sampler": "the order is the job's: use input_nodes, shuffle, seed and batch_size",
    "generator": "the order is the job's: use seed",
    "dataset": "use data",
    "directed": "use subgraph_type='induced'",
    "edge_label_time": "pairs are not sampled by time: take the edges up to a time into a data set",
}
# Those that mean nothing here: what is given is said, and does no harm.
NEEDLESS = {
    "num_workers": "samplers are processes of their own: samplers=N",
    "persistent_workers": "samplers last as long as the loader",
    "prefetch_factor": "a batch ahead is gathered: prefetch=True",
    "multiprocessing_context": "samplers are processes of their own",
    "worker_init_fn": "samplers are processes of their own",
}
# Values that say what is the case anyway.
HARMLESS = {
    "is_sorted": (True, False),
    "filter_per_worker": (True, False),
    "num_workers": (0,),
    "persistent_workers": (False,),
    "directed": (True,),
}


def refuse(
    arguments: Mapping[str, Any], known: Sequence[str] = (), loader: str = "NeighborLoader"
) -> None:
    """Raises UsageError for an argument that is not there, by its name and with what to use; warns
    of one that means nothing. `known` are those that are there."""
    for name, value in arguments.items():
        harmless = HARMLESS.get(name, ())
        if value is None or any(value is known or value == known for known in harmless):
            continue
        if name in REFUSED:
            raise UsageError(f"{name}={value!r}: {REFUSED[name]}")
        if name not in NEEDLESS:
            near = difflib.get_close_matches(name, known, 1)
            raise TypeError(
                f"{loader}() got an unexpected keyword argument '{name}'"
                + (f": did you mean {near[0]}?" if near else "")
            )
        warnings.warn(f"sluice: {name}={value!r} has no effect: {NEEDLESS[name]}", stacklevel=4)


MODES = ("binary", "triplet")
# Of a batch, whatever a Data has under these names.
PAIR_FIELDS = ("edge_label", "edge_label_index", "edge_label_weight")
# Arguments of links that are keys of the job.
LINK_KEYS = {
    "negatives": "task.negatives",
    "strict": "task.strict",
    "exclude": "task.exclude",
}


class Links(NamedTuple):
    """What a loader of links has been asked for. None: not given; the job may say it."""

    mode: Optional[str]
    amount: Optional[int]  # negatives of each positive
    keys: Mapping[str, Any]  # by LINK_KEYS
    label: Optional[np.ndarray]  # (n, ...) of the pairs
    label_shift: bool

    def fitted(self, n_items: int, per_positive: int) -> "Links":
        """Of a job that has so many pairs, and negatives of each. UsageError."""
        if self.label is not None and len(self.label) != n_items:
            raise UsageError(
                f"edge_label: has {len(self.label)} rows, wanted {n_items}, one for each pair"
            )
        if self.mode and self.amount != per_positive:
            raise UsageError(
                f"neg_sampling: wanted {self.amount} for each positive, and the job says "
                f"task.per_positive {per_positive}: say the same"
            )
        return self

    def put_into(self, job: Dict[str, Any], is_job: bool) -> None:
        put(job, "task.kind", "link", "LinkNeighborLoader")
        if self.amount is not None or not is_job:
            put(job, "task.per_positive", self.amount or 0, "neg_sampling")
        for argument, value in self.keys.items():
            if value is not None:
                put(job, LINK_KEYS[argument], value, argument)

    def pairs_of(
        self, asked: Any, dataset: Optional[Dataset], of: Optional["_typed.Relation"] = None
    ) -> Optional[np.ndarray]:
        """The caller's own list (n, 2) of pairs; None: they are those of the data set. of: a
        graph with types has the relation that they are of."""
        if isinstance(asked, str):
            if asked not in _dataset.SPLITS:
                raise UsageError(
                    f"edge_label_index={asked!r}: wanted 'train', 'val', 'test', or an array (2, n)"
                )
            if dataset is not None:
                raise UsageError(
                    f"edge_label_index={asked!r}: is for a data set directory, which has lists of "
                    "edges: give the pairs themselves, (2, n)"
                )
            return None
        if asked is None:  # all edges, by their numbers in the caller's graph
            return None if dataset is None else dataset.numbered_edges(of)
        return _dataset.pairs_of(asked, "edge_label_index")

    def fields(
        self, lent: Any, taken: Any, input_id: Any, finish: Callable[[np.ndarray], Any]
    ) -> Dict[str, Any]:
        """What a batch says of its pairs, under PyG's names."""
        n, n_positive, amount = lent.n_pairs, lent.n_positive, lent.per_positive
        ends = taken.view(taken.arrays.pairs, (2, n), "<i8")
        weight = finish(taken.view(taken.arrays.pair_weights, (n,), "<f4"))
        if self.mode == "triplet":
            shape = (n_positive,) if amount == 1 else (n_positive, amount)
            return {
                "src_index": finish(ends[0, :n_positive]),
                "dst_pos_index": finish(ends[1, :n_positive]),
                "dst_neg_index": finish(ends[1, n_positive:].reshape(shape)),
                "edge_label_weight": weight,
            }
        out = {"edge_label_index": finish(ends), "edge_label_weight": weight}
        if self.label is not None:
            label = np.zeros((n, *self.label.shape[1:]), self.label.dtype)
            label[:n_positive] = self.label[np.asarray(input_id)] + int(self.label_shift)
            out["edge_label"] = finish(label)
        elif amount:
            label = np.zeros(n, np.float32)
            label[:n_positive] = 1
            out["edge_label"] = finish(label)
        return out


def links_of(
    neg_sampling: Any, ratio: Any, label: Any, label_shift: bool, keys: Mapping[str, Any]
) -> Links:
    """From a link loader's arguments. UsageError."""
    if ratio is not None and ratio != 0:
        if neg_sampling is not None:
            raise UsageError("neg_sampling and neg_sampling_ratio: wanted one of them")
        neg_sampling = ("binary", ratio)
    mode, amount = _negatives_of(neg_sampling)
    if label is not None:
        if mode == "triplet":
            raise UsageError(
                "edge_label: is given with neg_sampling='triplet', whose negatives are told apart "
                "by dst_neg_index: leave it out"
            )
        label = _dataset._array(label, "edge_label")
        if label_shift and label.dtype.kind == "b":
            label = label.astype(np.int64)
    if not isinstance(label_shift, (bool, np.bool_)) or (label_shift and label is None):
        raise UsageError(
            f"label_shift={label_shift!r}: wanted True or False; True with an edge_label, of which "
            "each is raised by 1"
        )
    return Links(mode, amount, keys, label, bool(label_shift))


def _negatives_of(asked: Any) -> Tuple[Optional[str], Optional[int]]:
    """Mode and amount of what PyG takes for neg_sampling."""
    if asked is None:
        return None, None
    amount: Any = 1
    if isinstance(asked, Mapping):
        unknown = set(asked) - {"mode", "amount"}
        if unknown:
            raise UsageError(f"neg_sampling: has {sorted(unknown)}, wanted 'mode' and 'amount'")
        mode, amount = asked.get("mode", "binary"), asked.get("amount", 1)
    elif isinstance(asked, (tuple, list)):
        mode, amount = (*asked, 1)[:2] if 1 <= len(asked) <= 2 else (asked, 1)
    elif hasattr(asked, "mode"):  # torch_geometric.sampler.NegativeSampling
        mode, amount = asked.mode, asked.amount
        for weight in ("weight", "src_weight", "dst_weight"):
            if getattr(asked, weight, None) is not None:
                raise UsageError(
                    f"neg_sampling: has {weight}: negatives are drawn as negatives= says: "
                    "'uniform', 'degree', 'batch'"
                )
    elif isinstance(asked, (int, float, np.number)) and not isinstance(asked, bool):
        mode, amount = "binary", asked
    else:
        mode = asked
    mode = getattr(mode, "value", mode)
    if mode not in MODES:
        raise UsageError(
            f"neg_sampling={mode!r}: wanted 'binary', 'triplet', None, or a number of negatives"
        )
    number = isinstance(amount, (int, float, np.number)) and not isinstance(amount, bool)
    if not number or not 1 <= amount <= 65536 or amount != int(amount):
        raise UsageError(
            f"neg_sampling: amount: is {amount!r}, wanted a whole number from 1 to 65536: each "
            "positive has as many negatives"
        )
    return mode, int(amount)


class Source(NamedTuple):
    """What a loader is made of: dataset (arrays), a job (dictionary), or a text that is none."""

    dataset: Optional[Dataset] = None
    job: Optional[Dict[str, Any]] = None
    job_text: Optional[str] = None  # no JSON object: the job's reader says why
    origin: Optional[str] = None
    pyg: Any = None  # the Data that `dataset` was made of


def schema_of(source: Source) -> Optional["_typed.Schema"]:
    """Of a graph with types what they are; of a plain one, and where nobody knows, None."""
    if source.dataset is not None:
        return source.dataset.schema
    return _typed.schema_at((source.job or {}).get("dataset"))


def source_of(
    data: Any,
    weight_attr: Optional[str] = None,
    split: Any = None,
    time_attr: Optional[str] = None,
) -> Source:
    """What the loader's first argument is; `split`: whose vertices are wanted. UsageError for
    anything else."""
    if isinstance(data, (str, os.PathLike)):
        path = os.fspath(data)
        if not path.endswith(".json") and not os.path.isfile(path):
            _dataset.check_directory(path)
            return Source(job={"dataset": path}, origin="NeighborLoader")
        if path.endswith(".npy") or os.path.basename(path) == "metadata.json":
            raise UsageError(
                f"{path}: is a file of a data set, wanted its directory, "
                f"{os.path.dirname(path) or '.'}"
            )
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                text = file.read()
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
        return _job_of(text, path)
    if isinstance(data, Mapping):
        try:
            return Source(job=json.loads(json.dumps(data, default=_for_json)), origin="job")
        except (TypeError, ValueError) as error:
            raise UsageError(f"job: cannot be written as JSON: {error}") from None
    if isinstance(data, Dataset):
        # Of a directory its own files are used, and its validation is remembered.
        if data.path:
            return source_of(data.path)
        if weight_attr not in (None, "edge_weight") or (
            weight_attr and weight_attr not in data.arrays
        ):
            raise UsageError(
                f"weight_attr={weight_attr!r}: wanted 'edge_weight', and weights in "
                f"{data.words['edge_weight']}"
            )
        return Source(dataset=data)
    if hasattr(data, "tocsc"):
        dataset = _dataset.from_scipy(data, weights=weight_attr is not None)
        dataset.words.update({f"{s}_idx": f"list {s!r} of a matrix" for s in _dataset.SPLITS})
        return Source(dataset=dataset)
    if hasattr(data, "edge_types") and not _dataset.holds_graphs(data):
        named, listed = split, split
        if isinstance(split, (tuple, list)) and len(split) == 2:
            named, listed = split
        splits = [listed] if isinstance(listed, str) and listed in _dataset.SPLITS else []
        dataset = _dataset.from_pyg(
            data,
            weight_attr or False,
            labels=False,
            splits=splits,
            edge_attr=False,
            features=False,
            first=_first_of(data, named, splits),
            time_attr=time_attr,
        )
        return Source(dataset=dataset, pyg=data)
    if hasattr(data, "edge_index") or _dataset.holds_graphs(data):
        # What samplers have no use for is like any attribute: gathered in this process.
        splits = [split] if isinstance(split, str) and split in _dataset.SPLITS else []
        dataset = _dataset.from_pyg(
            data,
            weight_attr or False,
            labels=False,
            splits=splits,
            edge_attr=False,
            features=not _dataset.is_other_than_features(data),
        )
        return Source(dataset=dataset, pyg=data)
    raise UsageError(
        f"data: is {type(data).__name__}, wanted a data set directory, a job file or dictionary, a "
        "torch_geometric.data.Data, a SciPy sparse matrix or a sluice.Dataset"
    )


def _first_of(data: Any, named: Any, splits: Sequence[str]) -> Optional[str]:
    """Of a HeteroData the type that seeds are named of, or the only one that has such a mask."""
    if isinstance(named, str) and named in data.node_types:
        return named
    having = [name for name in data.node_types if any(f"{s}_mask" in data[name] for s in splits)]
    return having[0] if len(having) == 1 else None


SPLITS_AND_ALL = (*_dataset.SPLITS, "all")
HOPS_MAX = 8
BATCH_SIZE_MAX = 1 << 31
# By sampler.expand, what a job says that has the other one.
EXPANDS = {
    "new": 'sampler.expand: is "all", which draws each vertex anew in each hop, so that no single '
    'edge_index has the batch: wanted "new"; blocks hop by hop are what sluice.dgl and '
    "include/sluice.h have",
    "all": 'sampler.expand: is "new", which draws a vertex once: blocks, as DGL has them, draw it '
    'anew in each hop: wanted "all"',
}


class _Twice(ValueError):
    pass


def _job_of(text: str, origin: str) -> Source:
    def once(pairs: List[Any]) -> Dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise _Twice
        return found

    try:
        job = json.loads(text, object_pairs_hook=once)
    except ValueError:
        job = None
    if isinstance(job, dict):
        return Source(job=job, origin=origin)
    return Source(job_text=text, origin=origin)


def put(job: Dict[str, Any], key: str, value: Any, argument: str) -> None:
    """Says `value` in the job. UsageError where the job says another one."""
    *folders, name = key.split(".")
    at: Any = job
    for folder in folders:
        at = at.setdefault(folder, {})
        if not isinstance(at, dict):
            return  # which the job's reader refuses
    found = at.setdefault(name, value)
    if found != value:
        raise UsageError(
            f"{argument}={value!r}: the job says {key} {json.dumps(found)}: say it in one place"
        )


def get(job: Mapping[str, Any], key: str) -> Any:
    at: Any = job
    for name in key.split("."):
        at = at.get(name) if isinstance(at, Mapping) else None
    return at


def fanout_of(num_neighbors: Any, schema: Optional["_typed.Schema"] = None) -> Any:
    """The fanout of num_neighbors: a list of ints, the hop next to the seeds first; or one by the
    name of each relation."""
    if num_neighbors is None:
        return None
    by_relation, default = num_neighbors, None
    if hasattr(by_relation, "default"):  # torch_geometric.sampler.NumNeighbors
        by_relation, default = by_relation.values, by_relation.default
    if isinstance(by_relation, Mapping):
        if schema is None:
            raise UsageError(
                "num_neighbors: is a dictionary by edge type, and the graph has one kind of edges: "
                "wanted a list"
            )
        lists = schema.fanout(by_relation, default)
        found = {relation: fanout_of(values) for relation, values in lists.items()}
        (first, wanted), *others = found.items()
        for relation, values in others:
            if len(values) != len(wanted):
                raise UsageError(
                    f"num_neighbors: {relation!r} has {len(values)} hops and {first!r} "
                    f"{len(wanted)}: wanted as many for each relation: 0 where a hop leaves one out"
                )
        return found
    values = by_relation
    if hasattr(values, "tolist"):  # a tensor or an array
        values = values.tolist()
    if not isinstance(values, Sequence) or isinstance(values, (str, bytes)):
        raise UsageError(f"num_neighbors={values!r}: wanted a list, a number for each hop")
    if not 1 <= len(values) <= HOPS_MAX:
        raise UsageError(
            f"num_neighbors: has {len(values)} hops, wanted 1 to {HOPS_MAX}: a number for each"
        )
    return [whole(value, f"num_neighbors[{hop}]") for hop, value in enumerate(values)]


def check_split(name: str, source: Source) -> None:
    """UsageError where `name` is none of the lists of seeds that there are."""
    if name not in SPLITS_AND_ALL:
        meant = next((s for s in _dataset.SPLITS if name.lower().startswith(s)), None)
        advice = f": use {meant!r}" if meant else ""
        raise UsageError(
            f"input_nodes={name!r}: wanted 'train', 'val', 'test', 'all', ids or a mask{advice}"
        )
    if source.dataset is None or name == "all":
        return
    found = source.dataset.arrays.get(f"{name}_idx")
    if found is None or len(found) == 0:
        what = source.dataset.words[f"{name}_idx"]
        raise UsageError(
            f"input_nodes={name!r}: {what} is {'missing' if found is None else 'empty'}: give ids "
            "or a mask as input_nodes, or None for all vertices"
        )


def whole(value: Any, what: str) -> int:
    """The whole number that an argument is. UsageError."""
    try:
        return operator.index(value)
    except TypeError:
        raise UsageError(f"{what}={value!r}: wanted a whole number") from None


class Plan(NamedTuple):
    """What a loader opens, and what it has to know of it."""

    text: str  # the job
    origin: str  # what messages call it
    staged: Optional[StagedDataset] = None  # its data set, where that is the loader's own
    split: str = "train"  # input_nodes, in the data set; "all": every vertex
    by_mask: bool = False  # a seed's place in input_nodes is the vertex itself
    edge_map: Optional[np.ndarray] = None
    pyg: Any = None
    says: Sequence[Tuple[str, str]] = ()  # replacements in messages: arguments for keys
    list: str = ""  # which seeds or pairs, by the split's name or a checksum; "": the job says it


LISTED = "listed"  # order.kind of an epoch in the list's own order
SHUFFLES = {False: LISTED, True: "shuffled"}
# Arguments that are keys of the job.
KEYS = {
    "num_neighbors": "sampler.fanout",
    "batch_size": "sampler.batch_size",
    "seed": "seed",
    "balance": "allocation.balance",
    "samplers": "allocation.samplers",
}
# Those that are only said where they are not what a job does anyway.
UNUSUAL = {
    "replace": ("sampler.replace", False),
    "subgraph_type": ("sampler.subgraph", "directional"),
    "disjoint": ("sampler.disjoint", False),
}


def drawn_by(text: str) -> Dict[str, Any]:
    """What a job says, beside its fanout, of how batches are drawn."""
    job = json.loads(text)
    keys = {
        **UNUSUAL,
        "weight_attr (sampler.kind)": ("sampler.kind", "khop"),
        "temporal_strategy (sampler.time)": ("sampler.time", "none"),
    }
    return {name: get(job, key) or usual for name, (key, usual) in keys.items()}


# Of temporal_strategy what sampler.time says.
TIME_RULES = {"uniform": "uniform", "last": "latest"}
TIME_NAMES = ("time", "edge_time")


def put_times(job: Dict[str, Any], source: Source, asked: Mapping[str, Any]) -> None:
    """time_attr and temporal_strategy into the job. UsageError."""
    name, rule = asked.get("time_attr"), asked.get("temporal_strategy")
    if name is None and (rule not in (None, "uniform") or asked.get("input_time") is not None):
        given = "input_time" if rule in (None, "uniform") else f"temporal_strategy={rule!r}"
        if get(job, "sampler.time") in (None, "none") or rule not in (None, "uniform"):
            raise UsageError(f"{given}: is for sampling by time: give time_attr='time', too")
    if name is None:
        return
    arrays = source.dataset.arrays if source.dataset is not None else {"edge_time": None}
    made = not any(array.partition(".")[0] == "edge_time" for array in arrays)
    hetero = source.pyg is not None and not made
    if made and source.pyg is not None:
        raise UsageError(
            f"time_attr={name!r}: edges of a Data have no times here, those of a HeteroData have: "
            "give data.to_heterogeneous(), whose vertices are of type '0'"
        )
    if (name not in TIME_NAMES and not hetero) or made:
        raise UsageError(
            f"time_attr={name!r}: wanted 'time', of a data set directory or a sluice.Dataset that "
            "has edge_time, rising in each list: `sluice import edgelist --times` makes one"
        )
    if hetero and "node_time" not in arrays and asked.get("input_time") is None:
        raise UsageError(
            f"input_time: is needed: edges have times (time_attr={name!r}), and seeds have none"
        )
    if rule is not None and rule not in TIME_RULES:
        raise UsageError(f"temporal_strategy={rule!r}: wanted 'uniform' or 'last'")
    if rule == "last" and asked.get("weight_attr") is not None:
        raise UsageError(
            "temporal_strategy='last': the latest edges are taken, not drawn by weight: leave "
            "weight_attr out, or take 'uniform'"
        )
    put(job, "sampler.time", TIME_RULES[rule or "uniform"], "time_attr")


def times_of(asked: Any, seeds: Optional[np.ndarray], dataset: Dataset) -> Optional[np.ndarray]:
    """int64 (num_timed) from times of the seeds, None: of all vertices. UsageError."""
    if asked is None:
        return None
    time = _dataset._array(asked, "input_time")
    n = dataset.num_timed if seeds is None else len(seeds)
    if time.dtype.kind not in "iu" or time.shape != (n,):
        raise UsageError(
            f"input_time: is {time.dtype} {list(time.shape)}, wanted whole numbers [{n}], one for "
            "each of input_nodes"
        )
    out = np.zeros(dataset.num_timed, np.int64)
    out[slice(None) if seeds is None else seeds] = time
    return out


def plan(
    data: Any,
    asked: Dict[str, Any],
    world: World,
    expand: str = "new",
    links: Optional[Links] = None,
) -> Plan:
    """The job of a loader, by its arguments (None: not given). The data set in memory is that of
    rank 0, which starts the job. links: whose items are pairs, which input_nodes are then, too."""
    weight_attr, input_nodes = asked["weight_attr"], asked["input_nodes"]
    time_attr = asked.get("time_attr")
    source = source_of(data, weight_attr, None if links else input_nodes, time_attr)
    if source.job_text is not None:
        return Plan(source.job_text, source.origin or "job")
    schema = schema_of(source)
    if schema is not None and expand != "new":
        raise UsageError(
            f"data: is a graph with types ({schema.names()}), which sluice.NeighborLoader takes"
        )
    job: Dict[str, Any] = source.job if source.job is not None else {}
    metadata = _metadata_of(source) if schema else {}
    kind = relation = None
    if links is not None and schema is not None:
        linked = get(job, "task.relation") or metadata.get("pair_relation")
        relation, input_nodes = schema.pairs(input_nodes, linked)
    elif links is None and schema is not None:
        kind, input_nodes = schema.seeds(input_nodes, metadata.get("list_type"))
    elif links is None:
        input_nodes = _of_one_type(input_nodes)
    is_job = source.origin not in (None, "NeighborLoader")  # not a data set
    asked = {**asked, "num_neighbors": fanout_of(asked["num_neighbors"], schema)}
    if asked["batch_size"] is not None:
        asked["batch_size"] = whole(asked["batch_size"], "batch_size")
        if not 1 <= asked["batch_size"] <= BATCH_SIZE_MAX:
            raise UsageError(
                f"batch_size={asked['batch_size']}: wanted a whole number from 1 to "
                f"{BATCH_SIZE_MAX}"
            )
    if not is_job:
        if asked["num_neighbors"] is None:
            raise UsageError("num_neighbors: is needed: a number for each hop, such as [15, 10, 5]")
        asked["batch_size"] = 1 if asked["batch_size"] is None else asked["batch_size"]
        asked["shuffle"] = bool(asked["shuffle"])
        asked["seed"] = 0 if asked["seed"] is None else asked["seed"]
        if input_nodes is None and links is None:
            input_nodes = "all"
    for argument, key in KEYS.items():
        if asked[argument] is not None:
            put(job, key, plain(asked[argument]), argument)
    if asked["shuffle"] is False or (asked["shuffle"] and get(job, "order.kind") == LISTED):
        put(job, "order.kind", SHUFFLES[asked["shuffle"]], "shuffle")
    for argument, (key, usual) in UNUSUAL.items():
        value = plain(asked[argument])
        if value is not None and (value != usual or get(job, key) not in (None, usual)):
            put(job, key, value, argument)
    if weight_attr is not None:
        if not source.dataset and weight_attr != "edge_weight":
            raise UsageError(
                f"weight_attr={weight_attr!r}: wanted 'edge_weight': a data set directory has its "
                "weights in edge_weight.npy"
            )
        put(job, "sampler.kind", "weighted", "weight_attr")
    put_times(job, source, asked)
    if world.size > 1:
        put(job, "allocation.trainers", world.size, "world")
    own_list = not (input_nodes is None or isinstance(input_nodes, str))
    seeds = pairs = None
    if links is not None:
        links.put_into(job, is_job)
        pairs = links.pairs_of(input_nodes, source.dataset, relation)
        own_list = pairs is not None
        split = input_nodes if isinstance(input_nodes, str) else "train"
        if input_nodes is not None or not is_job:
            put(job, "input.split", split, "edge_label_index")
    elif isinstance(input_nodes, str):
        check_split(input_nodes, source)
        put(job, "input.split", input_nodes, "input_nodes")
    elif own_list:
        put(job, "input.split", "train", "input_nodes")
    if relation is not None and schema is not None:
        put(job, "task.relation", relation.text, "edge_label_index")
        if get(job, "task.exclude") is None and not schema.reverse(relation, metadata):
            put(job, "task.exclude", "self", "exclude")  # there is no reverse
    complete(job, expand)
    staged = None
    input_time = asked.get("input_time")
    if input_time is not None and not own_list and input_nodes not in (None, "all"):
        raise UsageError(
            f"input_time: is for seeds that are given, and input_nodes is {input_nodes!r}: give "
            "the vertices themselves, or node_time in the data set"
        )
    if source.dataset or own_list or input_time is not None:
        dataset = source.dataset or _dataset.open_dataset(str(job.get("dataset")))
        if own_list and links is None:
            n = schema.type(kind, "input_nodes").n if schema and kind else dataset.num_nodes
            seeds = _dataset.vertex_ids(input_nodes, n, "input_nodes")
            if len(seeds) == 0:
                raise UsageError("input_nodes: is empty, wanted a vertex or more")
        if world.rank == 0:
            of = {} if kind is None or seeds is None else {"list_type": kind}
            if relation is not None and pairs is not None:
                of["pair_relation"] = relation.text
            if input_time is not None and schema and kind not in (None, schema.first):
                raise UsageError(
                    f"input_time: is of {kind!r}, wanted vertices of {schema.first!r}, the first "
                    "type, which alone have times as seeds"
                )
            times = times_of(input_time, seeds, dataset)
            staged = stage(dataset, seeds, pairs, times, of)
            job["dataset"] = staged.path
        if source.dataset:
            put(job, "store.features", "memory", "data")
    origin = source.origin or "NeighborLoader"
    return Plan(
        json.dumps(job),
        origin,
        staged,
        get(job, "input.split") or "train",
        links is None and own_list and _dataset.is_mask(input_nodes),
        source.dataset.edge_map if source.dataset else None,
        source.pyg,
        [
            (f"{of}{key}: ", f"{argument}: ")
            for argument, key in {
                **KEYS,
                **{a: key for a, (key, _) in UNUSUAL.items()},
                **(LINK_KEYS if links is not None else {}),
            }.items()
            for of in (f"{origin}: ", "")
            if {**asked, **(links.keys if links is not None else {})}.get(argument) is not None
        ],
        _checksum(seeds if links is None else pairs) or get(job, "input.split") or "train",
    )


def _metadata_of(source: Source) -> Mapping[str, Any]:
    """Of a graph with types."""
    if source.dataset is not None:
        return source.dataset.metadata
    return _dataset.open_dataset(str((source.job or {}).get("dataset"))).metadata


def _of_one_type(input_nodes: Any) -> Any:
    if isinstance(input_nodes, tuple) and len(input_nodes) == 2 and isinstance(input_nodes[0], str):
        raise UsageError(
            f"input_nodes: is ({input_nodes[0]!r}, ...), and the graph has vertices of one kind: "
            "give the vertices alone"
        )
    return input_nodes


def _checksum(ids: Optional[np.ndarray]) -> str:
    return "" if ids is None else f"{zlib.crc32(np.ascontiguousarray(ids, '<i8').data):08x}"


def plain(value: Any) -> Any:
    """A number, array, tensor or path as what JSON knows; anything else as it is."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _for_json(value: Any) -> Any:
    found = plain(value)
    if found is value:
        advice = ": give it as data, without a job" if hasattr(value, "edge_index") else ""
        raise TypeError(f"it has a {type(value).__name__}{advice}")
    return found


def complete(job: Dict[str, Any], expand: str = "new") -> None:
    """What every loader's job says. UsageError for a job whose batches are of the other kind."""
    said = get(job, "sampler.expand")
    if said in EXPANDS and said != expand:
        raise UsageError(EXPANDS[expand])
    kind = get(job, "model.kind")
    if kind not in (None, "external"):
        raise UsageError(
            f'model.kind: is {json.dumps(kind)}, wanted "external" or no model: the model is yours '
            "here; `sluice run` trains models of sluice's"
        )
    walks = get(job, "sampler.kind") == "walk"  # neighbours of a walk are no edges
    common = {"model.kind": "external", "sampler.expand": expand}
    for key, value in {**common, **({} if walks else {"sampler.edge_ids": True})}.items():
        folders, name = key.split(".")
        at = job.setdefault(folders, {})
        if isinstance(at, dict):
            at.setdefault(name, value)
    job.setdefault("epochs", "auto")
