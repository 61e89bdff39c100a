"""The loader: epochs of mini-batches from a job's samplers, leased and completed through libsluice.

Of a batch that user code has, one lease is held: it is completed when the next batch is asked for,
and given back when the iteration is left instead. `_lent` is the structure that the library writes
to, and the only note of that lease, so that an interrupt at any instruction loses none.

One lock guards the library's loader. Waiting is done in slices, between which Python handles
signals and another thread may close the loader.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import json
import os
import threading
import time
import types
import warnings
import weakref
from typing import Any, Callable, Dict, Generator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import _batch, _dataset, _draws, _job, _lib, _typed, _world
from ._errors import Error, LoaderTimeoutError, UsageError
from ._staged import StagedDataset

WAIT_SLICE_MS = 100
ABSENT_WARNING_S = 60  # without a batch, while a rank is absent and there is no bound
SECONDS_MAX = 1000000
EPOCH_MAX = (1 << 32) - 2
# What others look for in a DataLoader of torch, as in one that works in its own process.
OF_TORCH = {
    **dict.fromkeys("sampler batch_sampler generator worker_init_fn prefetch_factor".split()),
    "num_workers": 0,
    "persistent_workers": False,
    "multiprocessing_context": None,
}
# What two loaders have in common whose batches are the same.
SAME = ("seed", "n_nodes", "n_edges", "n_items", "n_batches", "batch_size", "world", "rank")


def _take_signals(raised: List[BaseException]) -> Generator[int, Any, None]:
    """Its send() is what the library asks while it waits, so that Python sees signals meanwhile.
    What a signal's handler raises is kept and ends the wait. A generator, since a function could be
    interrupted before it can catch anything: and what leaves a call of C's is lost."""
    said = 0
    while True:
        try:
            yield said
        except GeneratorExit:  # it is not needed any more
            return
        except BaseException as error:
            raised.append(error)
            said = 1


class _Handle:
    """The library's loader, and what goes away with it. Owned by the process that opened it."""

    def __init__(self, library: "_lib.Library") -> None:
        self.library, self.owner = library, os.getpid()
        self.lock = threading.RLock()
        self.address: Optional[int] = None
        self.staged: Optional[StagedDataset] = None
        self.says: Sequence[Tuple[str, str]] = ()  # replacements in messages: the user's own words
        self.closed = False

    def open(self, options: "_lib.Options") -> None:
        address, raised = ctypes.c_void_p(), []
        asked = _take_signals(raised)
        next(asked)
        options.on_wait = _lib.ON_WAIT(asked.send)
        code = self.library.open(  # type: ignore[attr-defined]
            ctypes.byref(options), ctypes.byref(address)
        )
        if raised:
            raise raised[0]
        self._checked(code)
        self.address = address.value

    def call(self, name: str, *arguments: Any) -> int:
        """A function of the library, of this loader."""
        if self.address is None:
            raise Error("the loader is closed")
        return self._checked(getattr(self.library, name)(self.address, *arguments))

    def _checked(self, code: int) -> int:
        if code < 0:
            raise self.worded(self.library.fail(code))
        return code

    def worded(self, error: Error) -> Error:
        """The error in the user's own words."""
        text = str(error)
        for theirs, word in [*self.says, *(self.staged.says if self.staged else ())]:
            text = text.replace(theirs, word)
        return type(error)(text, error.code)

    def __enter__(self) -> "_Handle":
        self.lock.acquire()
        return self

    def __exit__(self, *_: Any) -> None:
        self.lock.release()

    def shut(self) -> None:
        """Ends the job, or leaves it; the data set stays."""
        with self.lock:
            address, self.address = self.address, None
            if address:
                self.library.close(address)  # type: ignore[attr-defined]

    def close(self) -> None:
        if os.getpid() != self.owner:
            return
        self.closed = True
        self.shut()
        if self.staged:
            self.staged.close()


class _Iteration:
    """One pass over an epoch. Another one of the same loader ends it."""

    def __init__(self, loader: "Loader", number: int) -> None:
        self._loader, self.number, self.ended = loader, number, False

    def __iter__(self) -> "_Iteration":
        return self

    def __next__(self) -> Any:
        return self._loader._next(self)

    def __len__(self) -> int:
        return len(self._loader)

    def close(self) -> None:
        """Leaves the epoch; the batch that was handed out last is given back."""
        self._loader._leave(self)

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # at the interpreter's end there is nobody left to tell
            pass


def _by_place(init: Callable[..., None]) -> Callable[..., None]:
    """Says so where arguments stand in the places that torch_geometric has for them."""

    @functools.wraps(init)
    def checked(self: Any, *given: Any, **named: Any) -> None:
        third = given[2] if len(given) > 2 else 0
        seeds = isinstance(third, (str, list, tuple)) or getattr(third, "ndim", 0) > 0
        if seeds or (len(given) > 2 and "batch_size" in named):
            raise UsageError(
                "NeighborLoader: the third argument is batch_size, the fourth input_nodes: give "
                "both by name"
            )
        init(self, *given, **named)

    return checked


class Loader:
    """Mini-batches of a large graph, sampled by processes of sluice, in the manner of
    torch_geometric.loader.NeighborLoader, of which this is a subclass where that is installed.

    data            a data set directory (str or path; common/data/README.md has its files); or a
                    job file (.json) or dictionary, whose sampler, store, cache, devices, order,
                    memory mean what they mean to `sluice run`; or a torch_geometric.data.Data or
                    HeteroData, a SciPy sparse matrix, a sluice.Dataset, which go to the samplers in
                    shared memory
    num_neighbors   list of int: neighbours sampled of each vertex, the hop next to the seeds first;
                    -1 takes all. Of a graph with types for each relation, or a dictionary that has
                    a list for each ("author", "writes", "paper"); 0 takes none
    batch_size      seeds of a batch; the last one of an epoch may have fewer. 1, or the job's
    input_nodes     seeds: "train", "val", "test", "all" (None), or ids (n) or a mask (num_nodes) as
                    an array or tensor, each vertex at most once. Of a job None is what it says. Of
                    a graph with types also a type, or (type, ids)
    shuffle         whether each epoch has an order of its own; else that of input_nodes
    seed            int: everything random is a function of it, whatever the number of samplers
    drop_last       whether a last batch with fewer seeds is left out
    weight_attr     sample by the edges' weights: "edge_weight" of a data set directory, the name of
                    an attribute of a Data; a vertex without positive weights has no neighbours
    replace         whether neighbours are drawn with replacement: as many edges as num_neighbors
                    says of each vertex that has any, each drawn among all of them; -1 takes each
                    once. Default: False, or what the job says
    subgraph_type   which edges between its vertices a batch has: "directional", those that were
                    sampled; "induced", all there are in the graph, with weight_attr those of
                    positive weight; "bidirectional", those that were sampled, and back. Default:
                    "directional", or what the job says
    disjoint        whether each seed has vertices and edges of its own: those of a batch of that
                    seed alone. Default: False, or what the job says
    time_attr       "time": a seed's part of a batch has no edge later than the seed. Seeds are
                    disjoint then. temporal_strategy: "uniform", "last": the latest edges
    input_time      times of input_nodes (n); default: node_time of the data set
    transform       called with each batch, returns what the loop gets
    samplers        "auto" or how many sampler processes; `sluice scale` changes it while they work
    rank, world     of several training processes; default: torch.distributed's, else 0 of 1
    even            whether every rank gets the same number of batches, for which what is left of an
                    epoch after its last full round is left out. Default: as shuffle. The same on
                    all ranks, as drop_last: torch.distributed's are compared, attach='s are not
    balance         "fixed": batch k is of rank k mod world; "dynamic": of whoever comes first
    attach          instead of data: name or output directory of a running job with model.kind
                    "external"; e_id and input_id are then those of its data set
    prefetch        gather features of the next batch in a thread while this one is worked on
    pin_memory      tensors in page-locked memory, for copies to a GPU
    timeout         seconds that a batch may take to come before LoaderTimeoutError; 0: no bound,
                    but a warning after 60 when another rank is absent
    start_timeout   seconds that the samplers may take to load the graph
    arrays          "pyg" (torch_geometric.data.Data), "torch" or "numpy" (objects with the same
                    names); default: the first that is installed
    adj             "csc": edge_index is a torch_geometric.EdgeIndex that says by what it is sorted:
                    layers of PyG that multiply by sparse matrices, such as SAGEConv, are faster

    A batch has
        x           (n_nodes, feat_dim) float32 or float16, rows of the data set bit for bit; in
                    the GPU's memory where the job's trainers are on one that torch sees. Of a Data
                    x may have any type and shape (num_nodes, ...), as everything else it has
        y           labels of the seeds: int64 (batch_size), -1 unlabelled; or float32 (batch_size,
                    numbers), (batch_size) where node_label.npy is a list. Of a Data its y of all
                    n_nodes vertices, as everything else it has
        edge_index  int64 (2, n_edges): sources, destinations; local numbers, sorted by destination
        n_id        int64 (n_nodes): vertices, seeds first and in order, then by hop
        e_id        int64 (n_edges): edges, by their place in indices.npy, or column of
                    data.edge_index
        edge_attr, edge_weight   (n_edges, ...), (n_edges): rows of the data set, where it has them
        batch       int64 (n_nodes): number of the seed that a vertex is of, where disjoint
        batch_size  int: number of seeds
        input_id    int64 (batch_size): places of the seeds in input_nodes, of a mask the vertices
        num_sampled_nodes, num_sampled_edges   lists of int by hop, as trim_to_layer() wants them;
                    where subgraph_type is not "directional" edges are of no hop, and the latter
                    is missing

    Of a graph with types a batch is a HeteroData, where torch_geometric is used: batch["paper"] has
    these of its vertices, batch["author", "writes", "paper"] of its edges. n_id counts within the
    type, e_id within the relation (a column of the HeteroData's edge_index, or of that of
    sluice.open(path).to_pyg()); y, input_id and batch_size are of the seeds' type alone.

    Iterating gives an epoch; iterating again the next one, also after a break. A batch counts as
    consumed when the next one is asked for. What transform raises reaches the loop; the batch was
    handed out by then, and next() goes on behind it. The loader is used in the process that opened
    it, by any thread, in one iteration at a time. It ends with close(), at the end of a `with`,
    when it is collected, and with the process, in whatever way; nothing is left behind.

    Raises UsageError for what is wrong with arguments, job or data set (nothing has started then),
    JobError when the job is over, LoaderTimeoutError, OutOfMemoryError; all are sluice.Error.
    """

    EXPAND = "new"  # sampler.expand of its jobs
    _links: Optional["_job.Links"] = None  # of a loader of links
    __setattr__ = object.__setattr__  # torch's DataLoader asks about each attribute that is set

    @_by_place
    def __init__(
        self,
        data: Any = None,
        num_neighbors: Optional[Sequence[int]] = None,
        batch_size: Optional[int] = None,
        input_nodes: Any = None,
        shuffle: Optional[bool] = None,
        seed: Optional[int] = None,
        drop_last: bool = False,
        *,
        weight_attr: Optional[str] = None,
        replace: Optional[bool] = None,
        subgraph_type: Any = None,
        disjoint: Optional[bool] = None,
        time_attr: Optional[str] = None,
        temporal_strategy: Optional[str] = None,
        input_time: Any = None,
        transform: Optional[Callable[[Any], Any]] = None,
        samplers: Union[int, str] = "auto",
        rank: Optional[int] = None,
        world: Optional[int] = None,
        even: Optional[bool] = None,
        balance: Optional[str] = None,
        attach: Optional[str] = None,
        prefetch: bool = True,
        pin_memory: bool = False,
        timeout: float = 0,
        start_timeout: float = 120,
        arrays: Optional[str] = None,
        adj: Optional[str] = None,
        **others: Any,
    ) -> None:
        name = type(self).__name__
        known = {
            argument: None
            for one in (Loader, type(self))
            for argument in inspect.signature(one).parameters
        }
        _job.refuse(others, list(known), name)
        if arrays not in (None, "pyg", "torch", "numpy"):
            raise UsageError(f"arrays={arrays!r}: wanted 'pyg', 'torch' or 'numpy'")
        if (data is None) == (attach is None):
            raise UsageError(f"{name}: wanted data, or attach=NAME of a running job")
        asked = {
            "num_neighbors": num_neighbors,
            "batch_size": batch_size,
            "input_nodes": input_nodes,
            "shuffle": shuffle,
            "seed": seed,
            "weight_attr": weight_attr,
            "replace": replace,
            "subgraph_type": getattr(subgraph_type, "value", subgraph_type),
            "disjoint": disjoint,
            **dict(time_attr=time_attr, temporal_strategy=temporal_strategy, input_time=input_time),
            "balance": balance,
            "samplers": None if samplers == "auto" else samplers,
        }
        flags = dict(shuffle=shuffle, replace=replace, drop_last=drop_last, even=even)
        for name, value in {**flags, "prefetch": prefetch, "pin_memory": pin_memory}.items():
            if not isinstance(value, (bool, np.bool_, type(None))) and value not in (0, 1):
                raise UsageError(f"{name}={value!r}: wanted True or False")
        for name, seconds in (("timeout", timeout), ("start_timeout", start_timeout)):
            if not isinstance(seconds, (int, float, np.number)) or not 0 <= seconds < SECONDS_MAX:
                raise UsageError(f"{name}={seconds!r}: wanted seconds from 0 to {SECONDS_MAX - 1}")
        if transform is not None and not callable(transform):
            raise UsageError(f"transform={transform!r}: wanted a function of the batch")
        kind = arrays or _batch.best_kind()
        if adj not in (None, "csc") or (adj and kind != "pyg"):
            raise UsageError(f"adj={adj!r}: wanted 'csc', with batches of arrays='pyg'")
        self._on_gpu = _batch.has_gpu(kind)
        if pin_memory and not self._on_gpu:
            raise UsageError("pin_memory=True: needs PyTorch and a GPU that it sees: leave it out")
        self._draws: Optional[_draws.Draws] = None
        self._finish = _batch.finish(kind, pin_memory)
        self._buffers = _lib.Buffers()
        self.transform, self.timeout = transform, float(timeout)
        self._options = {
            "prefetch": int(prefetch),
            # 2: the batch is made while its rows are gathered; a page-locked copy wants them first.
            "arrays": (1 if pin_memory else 2) if prefetch and self.EXPAND == "new" else 0,
            "start_timeout_ms": max(int(start_timeout * 1000), 1),  # 0: the library's default
        }
        self._world = _world.find(rank, world)
        self._handle = _Handle(_lib.library())
        self._finalizer = weakref.finalize(self, self._handle.close)
        try:
            self._attach = attach
            if attach is not None:
                refuse_beside_attach(asked)
                self._plan = _job.Plan("", "")
            else:
                self._plan = _job.plan(data, asked, self._world, self.EXPAND, self._links)
                self._handle.staged, self._handle.says = self._plan.staged, self._plan.says
            self._given = {"even": even, "drop_last": bool(drop_last)}
            self._open()
            self._seen = _dataset.Seen(self._dataset_path)
            self._check_items()
            self._known = self._find_known(kind, pin_memory)
            self._make = self._known.maker(kind, adj is not None)
        except BaseException:
            self.close()
            raise
        self.pin_memory = bool(pin_memory)
        self._even, self.drop_last = self._counting().values()
        self._data: Any = None
        self._copied: Any = None  # event of a GPU: the batch's rows have been copied
        self._iterations = 0
        self._current = 0  # number of the iteration that may go on
        # Epoch and number of the batch that comes next: all before it have come, or were left.
        self._position: Tuple[int, int] = (0, 0)
        self._warned = False  # of a rank that is absent
        self._under_way = False  # some batches of the epoch have come, and not its end
        self._wanted: Optional[Tuple[int, int]] = None  # position that the next iteration begins at

    # ---- the job --------------------------------------------------------------------------------

    def _open(self) -> None:
        """Starts the job, or takes a seat of one that runs."""
        if self._attach is not None:
            self._take_seat(self._attach)
        elif self._world.size == 1:
            self._start()
        elif self._world.distributed:
            address, counting = _world.started_by_the_first(
                self._world, lambda: (self._start(), self._counting())
            )
            if self._world.rank > 0:
                self._take_seat(address)
                self._check_counting(counting)
        elif self._world.rank == 0:
            self._start()
        else:
            raise UsageError(
                f"rank={self._world.rank}: rank 0 starts the job, and its loader's `job_name` "
                "is what the others attach to: attach=...; or call "
                "torch.distributed.init_process_group() before"
            )
        self._lent = _lib.Batch()

    def _start(self) -> str:
        self._open_with(
            job=self._plan.text.encode("utf-8", "surrogateescape"),
            origin=self._plan.origin.encode("utf-8", "surrogateescape"),
            rank=self._world.rank,
        )
        return self.job_name

    def _counting(self) -> Dict[str, bool]:
        """What says how many batches a rank has, beside the job."""
        even = self._given["even"]
        return {**self._given, "even": not self._info.same_order if even is None else bool(even)}

    def _check_counting(self, first: Dict[str, bool]) -> None:
        for name, own in self._counting().items():
            if own != first[name]:
                raise UsageError(
                    f"rank {self._world.rank}: {name}={own}, and rank 0 has {name}={first[name]}: "
                    "their numbers of batches would differ: give all ranks the same"
                )

    def _take_seat(self, address: str) -> None:
        rank = self._world.rank if self._world.size > 1 else -1
        self._open_with(attach=os.fsencode(address), rank=rank)

    def _open_with(self, **options: Any) -> None:
        handle = self._handle
        handle.open(_lib.Options(**self._options, **options))
        self._info = _lib.Info()
        handle.call("get_info", ctypes.byref(self._info))
        # Texts are the library's until it closes the loader, whose name may be asked for later.
        info = self._info
        self._dataset_path, self._job_name, self._output = (
            text.decode("utf-8", "surrogateescape")
            for text in (info.dataset, info.job_name, info.output)
        )

    def _check_items(self) -> None:
        """Of an open job: whether its batches are what this loader hands out."""
        if bool(self._info.has_pairs) != (self._links is not None):
            found = "link" if self._info.has_pairs else "node"
            other = "sluice.NeighborLoader" if self._links else "sluice.LinkNeighborLoader"
            raise UsageError(f'task.kind: the job says "{found}": use {other}')
        if self._info.n_types and self.EXPAND != "new":
            raise UsageError("the job's graph has types: use sluice.NeighborLoader")
        if self._links is not None:
            self._links = self._links.fitted(self._info.n_items, self._info.per_positive)

    def _find_known(self, kind: str, pin: bool) -> "Union[_batch.Known, _typed.Known]":
        """What the job's data set has beside what the job reads. Of a Data all is taken from there.
        """
        known = _batch.Known()
        edge_attr: Mapping[Any, Any] = {}
        if self._plan.pyg is None:
            try:
                dataset = _dataset.open_dataset(self._dataset_path)
                known = _batch.known_of(dataset, kind, pin)
                edge_attr = _batch.rows_of(dataset.edge_attr(), kind)
            except UsageError as error:
                raise self._handle.worded(error) from None
        known = known._replace(edge_numbers=self._plan.edge_map)
        schema = _typed.schema_of_info(self._info)
        return known if schema is None else _typed.Known(schema, known, edge_attr)

    def _text_anywhere(self) -> str:
        """The job, also when the working directory has changed."""
        self._seen.check()  # somebody opens the data set again
        return json.dumps({**json.loads(self._plan.text), "dataset": self._dataset_path})

    def _start_again(self, epoch: int) -> None:
        """The job from its first epoch: epochs only rise while it runs."""
        shared = self._attach is not None or self._world.size > 1
        if shared or self._output:
            raise UsageError(
                f"epoch {epoch}: was begun, and the epochs of a job with "
                f"{'several loaders' if shared else 'an output directory'} only rise: "
                "load_state_dict() and set_epoch() of an earlier one are for a new loader"
            )
        self._plan = self._plan._replace(text=self._text_anywhere())
        self._handle.shut()
        self._open()
        self._position, self._under_way = (0, 0), False

    # ---- what it is like ------------------------------------------------------------------------

    @property
    def output(self) -> Optional[str]:
        """The job's directory; None: the job has none and leaves no files."""
        return self._output or None

    @property
    def job_name(self) -> str:
        """What `sluice stats`, `sluice scale` and attach=... know the job by."""
        return self._job_name

    @property
    def batch_size(self) -> int:
        return self._info.batch_size

    @property
    def num_neighbors(self) -> Any:
        """A list of int; by relation where these have unlike ones."""
        return self._known.fanout(self._info)

    @property
    def dataset(self) -> range:
        """As of torch's loaders: one for each seed."""
        return range(self._info.n_items)

    @property
    def data(self) -> Any:
        """The whole graph as a torch_geometric.data.Data: the one given, or of the data set, whose
        features stay mapped."""
        if self._data is None:
            if self._plan.pyg is not None:
                self._data = self._plan.pyg
            else:
                dataset = self._dataset()
                dataset.edge_map = self._plan.edge_map  # by which a batch's e_id counts
                self._data = dataset.to_pyg()
        return self._data

    @property
    def node_sampler(self) -> Any:
        """What torch_geometric asks a loader's sampler for: num_neighbors."""
        return types.SimpleNamespace(num_neighbors=self.num_neighbors, edge_permutation=None)

    def _dataset(self) -> _dataset.Dataset:
        if self._handle.closed and self._handle.staged:
            raise Error("the loader is closed")
        self._seen.check()
        return _dataset.open_dataset(self._dataset_path)

    def __len__(self) -> int:
        """Batches of this rank in an epoch."""
        info, ranks = self._info, self._info.world
        partial = self.drop_last and info.n_items % info.batch_size != 0
        if ranks == 1 or info.n_own_batches == info.n_batches:
            return info.n_own_batches - partial
        whole = info.n_batches - partial
        if self._even:
            return whole // ranks
        return len(range(info.rank, whole, ranks))

    def stats(self) -> Dict[str, int]:
        """Since it was opened: batches done and returned, held now, edges, feature_bytes gathered,
        nanoseconds waiting for batches (wait_ns), gathering (gather_ns), in user code (user_ns);
        and now: epoch, the lowest rank that the others wait for and that is not there, or -1
        (absent)."""
        stats = _lib.Stats()
        with self._usable() as handle:
            handle.call("stats", ctypes.byref(stats))
        return {name: int(getattr(stats, name)) for name, _ in _lib.Stats._fields_[1:]}

    def __repr__(self) -> str:
        if self._handle.closed:
            return f"{type(self).__name__}(closed)"
        info, staged = self._info, self._handle.staged
        what = staged.what if staged else self._dataset_path
        return (
            f"{type(self).__name__}({what}, "
            f"num_neighbors={self.num_neighbors}, batch_size={info.batch_size}, "
            f"{info.n_items} {'pairs' if self._links else 'seeds'}, {len(self)} batches)"
        )

    # ---- its end --------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends the job and its processes, or leaves the job that was attached to."""
        self._finalizer()
        if self._draws is not None:
            self._draws.close()

    def __enter__(self) -> "Loader":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __reduce_ex__(self, _: Any) -> Any:
        raise Error(
            "a loader cannot be pickled or copied: its batches are leased by this process: open "
            "one where it is used"
        )

    def __call__(self, index: Any) -> Any:
        """The batch of input_nodes[index] alone, as torch_geometric's loaders have it; index (n):
        ints or a mask, each place once. Drawn in this thread while the call lasts, whereas the
        loader's samplers work ahead. The same for the same vertices.

        Raises UsageError for a bad index, and for a loader that has attached to a job."""
        with self._usable():
            plan = self._plan
        if self._links is not None:
            raise UsageError(
                "a loader of links cannot be called: open one with these pairs as edge_label_index"
            )
        if self._attach is not None:
            raise UsageError(
                "a loader that has attached to a job cannot be called: open one with the job's "
                "dataset as data, and these vertices as input_nodes"
            )
        places = _dataset.vertex_ids(index, self._info.n_items, "index")
        if len(places) == 0:
            raise UsageError("index: is empty, wanted a place in input_nodes or more")
        nodes, first = places, 0
        if plan.split != "all":
            dataset = self._dataset()
            nodes = np.asarray(dataset.arrays[f"{plan.split}_idx"])[places]
            first = dataset.first_listed
        if self._draws is None:
            plan = plan._replace(text=self._text_anywhere(), staged=None)
            self._draws = _draws.Draws(plan, features=True, known=self._known)
        fields = self._draws.draw((0, 0), nodes + first, self._finish)
        seeds = self._known.seeds(fields)
        seeds["input_id"] = self._finish(nodes if plan.by_mask else places)
        if plan.pyg is not None:
            fields.update(self._known.of_graph(plan.pyg, fields, self.pin_memory))
        batch = self._make(fields)
        return batch if self.transform is None else self.transform(batch)

    collate_fn = __call__

    def __getitem__(self, index: Any) -> Any:
        raise UsageError(
            "a loader has no batch by number: it is a DataLoader itself, which samples ahead: "
            "`for batch in loader`; put no torch.utils.data.DataLoader around it"
        )

    def _usable(self) -> "_Handle":
        """The handle, whose lock the caller enters. Error where the loader cannot be used here."""
        handle = self._handle
        if os.getpid() != handle.owner:
            raise Error(
                f"the loader was opened by process {handle.owner}; after fork() it is that "
                "process's: open one in the process that uses it"
            )
        if handle.closed:
            raise Error("the loader is closed")
        return handle

    # ---- epochs ---------------------------------------------------------------------------------

    def __iter__(self) -> Any:
        with self._usable():
            self._give_back()
            self._turn_to(self._coming())
            self._wanted = None
            self._iterations += 1
            self._current = self._iterations
            return _Iteration(self, self._current)

    def _coming(self) -> Tuple[int, int]:
        """Position that the next iteration begins at."""
        return self._wanted or ((self._position[0] + 1, 0) if self._under_way else self._position)

    def _turn_to(self, position: Tuple[int, int]) -> None:
        if position < self._position:
            self._start_again(position[0])
        if position != self._position:
            self._handle.call("start", *position)
        self._position, self._under_way = position, False

    def set_epoch(self, epoch: int) -> None:
        """The next iteration will be of this epoch, from 0."""
        epoch = _job.whole(epoch, "set_epoch: epoch")
        with self._usable():
            self._check_position("set_epoch", epoch, 0)
            if epoch != self._coming()[0]:
                self._wanted = (epoch, 0)

    def _check_position(self, call: str, epoch: int, number: int) -> None:
        for name, value, most in (
            ("epoch", epoch, EPOCH_MAX),
            ("number", number, self._info.n_batches),
        ):
            if not 0 <= value <= most:
                raise UsageError(f"{call}: {name}: is {value}, wanted 0 to {most}")

    def state_dict(self) -> Dict[str, Any]:
        """What load_state_dict() of a loader with the same arguments needs to go on with the very
        next batch: its epoch and number, and what tells loaders apart. Plain numbers.

        While the loop has an epoch's last batch, that is the epoch's end: the next iteration has
        nothing left of it, as with torchdata's StatefulDataLoader, and the one after is of the next
        epoch. Behind the loop it is the next epoch's first batch."""
        self._refuse_dynamic()
        with self._usable():
            epoch, number = self._wanted or self._position
            return {"epoch": epoch, "number": number, "same": self._same()}

    def _same(self) -> Dict[str, Any]:
        same: Dict[str, Any] = {name: int(getattr(self._info, name)) for name in SAME}
        if self._links is not None:
            same["per_positive"] = int(self._info.per_positive)
        same["shuffle"] = not self._info.same_order
        if self._plan.list:  # which one that is attached to a job does not know
            same["input_nodes" if self._links is None else "edge_label_index"] = self._plan.list
            same.update(_job.drawn_by(self._plan.text))
        fanout = self.num_neighbors
        return {**same, "fanout": fanout if isinstance(fanout, list) else str(fanout)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next iteration goes on where state_dict() was called. UsageError for a state of a
        loader whose batches are others."""
        self._refuse_dynamic()
        with self._usable():
            try:
                theirs, position = dict(state["same"]), (int(state["epoch"]), int(state["number"]))
            except (KeyError, TypeError, ValueError):
                raise UsageError("load_state_dict: wanted what state_dict() has returned") from None
            for name, value in self._same().items():
                if theirs.get(name, value) != value:
                    raise UsageError(
                        f"load_state_dict: {name}: the state is of a loader with "
                        f"{theirs.get(name)}, this one has {value}: its batches are others"
                    )
            self._check_position("load_state_dict", *position)
            self._wanted = position

    def _refuse_dynamic(self) -> None:
        info = self._info
        if info.world > 1 and info.n_own_batches == info.n_batches:
            raise UsageError(
                "state_dict: with balance='dynamic' no rank knows what the others have had: use "
                "balance='fixed'"
            )

    # ---- batches --------------------------------------------------------------------------------

    def _give_back(self) -> None:
        self._finish_lease("return")

    def _finish_lease(self, how: str) -> None:
        """Ends the lease of the batch that user code has, if there is one."""
        lent = self._lent
        tag, _, _, _, _, n_hops = _lib.HEAD(lent)
        if n_hops == 0:
            return
        if self._copied is not None:  # the library's memory is still read
            self._copied.synchronize()
            self._copied = None
        try:
            self._handle.call(how, tag)
        except Error as error:
            if error.code != _lib.ESTALE:  # which an interrupted call has ended already
                raise
        lent.n_hops = 0

    def _leave(self, iteration: _Iteration) -> None:
        handle = self._handle
        if os.getpid() != handle.owner or handle.closed:
            return
        with handle.lock:
            if handle.address and iteration.number == self._current:
                self._current = 0
                self._give_back()

    def _next(self, iteration: _Iteration) -> Any:
        if iteration.ended:
            raise StopIteration
        since = time.monotonic()
        batch, handle = None, self._handle
        while batch is None:
            if handle.closed or os.getpid() != handle.owner:
                self._usable()  # says why not
            with handle.lock:
                if iteration.number != self._current:
                    if iteration.ended:  # by another thread
                        raise StopIteration
                    raise Error(
                        "another iteration of this loader has begun, or this one was closed: a "
                        "loader is iterated once at a time: open a second loader"
                    )
                self._finish_lease("done")
                code = handle.call("next", WAIT_SLICE_MS, ctypes.byref(self._lent))
                if code == _lib.END:
                    iteration.ended, self._current = True, 0
                    self._position, self._under_way = (self._position[0] + 1, 0), False
                    raise StopIteration
                if code == _lib.OK and self._take():
                    batch = self._make(self._fields())
                    while handle.call("wait", self._lent.id, WAIT_SLICE_MS) == _lib.TIMEOUT:
                        pass
            if batch is None and code == _lib.TIMEOUT:
                self._check_wait(since)
        return batch if self.transform is None else self.transform(batch)

    def _check_wait(self, since: float) -> None:
        """After a slice without a batch: who is waited for. LoaderTimeoutError past the bound."""
        late = time.monotonic() - since > (self.timeout or ABSENT_WARNING_S)
        if not late or (self.timeout == 0 and self._warned):
            return
        absent = self.stats()["absent"]
        if absent >= 0:
            why = (
                f"rank {absent} of {self._info.world} is absent, and with balance='fixed' its "
                "batches are waited for: start it (again), or use balance='dynamic'"
            )
        elif self.timeout == 0:
            return
        else:
            why = f"`sluice stats {self.job_name}` shows what the samplers do"
        if self.timeout > 0:
            raise LoaderTimeoutError(
                f"no batch has come within {self.timeout:g} s: {why}; timeout=0 waits without a "
                "bound"
            )
        self._warned = True
        warnings.warn(
            f"sluice: no batch has come for {ABSENT_WARNING_S:g} s: {why}; timeout=SECONDS makes "
            "this an error",
            stacklevel=4,
        )

    def _take(self) -> bool:
        """Notes that the batch has come; whether it is for the user."""
        lent, info = self._lent, self._info
        _, number, epoch, n_seeds, _, _ = _lib.HEAD(lent)
        if (epoch, number) < self._position:
            return False  # had been handed out, and went back when its iteration was left
        self._position, self._under_way = (epoch, number + 1), True
        if self.drop_last and (lent.n_positive or n_seeds) < info.batch_size:
            return False
        if not self._even or info.world == 1 or info.n_own_batches == info.n_batches:
            return True
        return number < len(self) * info.world

    def _fields(self) -> Dict[str, Any]:
        """The batch as user code gets it, under PyG's names."""
        lent, plan, finish = self._lent, self._plan, self._finish
        taken = _lib.Taken(self._handle.library)
        self._handle.call("take", ctypes.byref(lent), ctypes.byref(taken.arrays))
        out = self._known.fields(lent, self._info, taken, finish)
        if self._info.feat_device >= 0:
            out["x"] = self._features()
        if plan.by_mask:
            seeds = self._known.seeds(out)
            seeds["input_id"][:] = seeds["n_id"][: lent.n_seeds]
        links = self._links
        seeds = self._known.seeds(out)
        pairs = links.fields(lent, taken, seeds["input_id"], finish) if links else {}
        if plan.pyg is not None:
            # What a Data says of pairs is of others than those of the batch.
            hidden = _job.PAIR_FIELDS if links else ()
            out.update(self._known.of_graph(plan.pyg, out, self.pin_memory, hidden))
        if links:
            self._known.add_pairs(out, pairs)
        return out

    def _features(self) -> Any:
        """A copy of the rows; in the memory of the GPU that gathered them, where tensors can be."""
        info, lent, call = self._info, self._lent, self._handle.call
        shape, kind = (lent.n_nodes, info.feat_dim), _lib.DTYPES[info.feat_type]
        if not self._on_gpu or info.feat_device < 0:
            x = self._buffers.array(shape, kind)
            call("features", ctypes.byref(lent), x.ctypes.data, x.nbytes)
            return self._finish(x)
        rows = ctypes.c_void_p()
        call("features_view", ctypes.byref(lent), ctypes.byref(rows))
        x, self._copied = _batch.rows_on_gpu(rows.value or 0, shape, kind.str, info.feat_device)
        return x


def refuse_beside_attach(asked: Mapping[str, Any]) -> None:
    given = [name for name, value in asked.items() if value is not None]
    if given:
        raise UsageError(
            f"{given[0]}={asked[given[0]]!r}: is the running job's to say: leave it out"
        )


def class_of(loader: type, name: str) -> type:
    """The loader under the name that torch_geometric's has, of which it is a subclass where that is
    installed: BasicGNN.inference() and others ask for one."""
    bases: tuple = (loader,)
    if _batch.best_kind() == "pyg":
        import torch_geometric.loader

        # Its constructor is not called: what makes such a loader work is overridden.
        bases = (loader, getattr(torch_geometric.loader, name))
    body = {**OF_TORCH, "__doc__": loader.__doc__, "__module__": "sluice"}
    return type(name, bases, body)


def neighbor_loader() -> type:
    return class_of(Loader, "NeighborLoader")
