"""libsluice through ctypes. The tables here mirror include/sluice.h, field by field; a test of the
project compares the two. Nothing else of the package knows ctypes.

Pointers are plain addresses (c_void_p): an array is made of one by array_at(), which makes no type
for each length, as arrays of ctypes would.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from ._errors import CLASSES, Error

API_VERSION = 8
MAX_HOPS = 8
SONAME = "libsluice.so.0"

RESULTS: Dict[str, int] = {
    "OK": 0,
    "TIMEOUT": 1,
    "END": 2,
    "EINVAL": -1,
    "EFORMAT": -2,
    "ENOENT": -3,
    "EACCESS": -4,
    "EEXIST": -5,
    "ENOMEM": -6,
    "EIO": -7,
    "ESYS": -8,
    "ERANGE": -9,
    "ETIMEDOUT": -10,
    "EABORTED": -11,
    "EBUSY": -12,
    "ESTALE": -13,
    "EUNSUPPORTED": -14,
    "EPROTO": -15,
    "EFAILED": -16,
    "EDEVICE": -17,
    "ECHANGED": -19,
}
OK, TIMEOUT, END = (RESULTS[name] for name in ("OK", "TIMEOUT", "END"))
ESTALE = RESULTS["ESTALE"]

TYPES: Dict[str, int] = {"NONE": 0, "F32": 1, "F16": 2, "I32": 3}
I64 = np.dtype("<i8")
DTYPES = {1: np.dtype("<f4"), 2: np.dtype("<f2"), 3: np.dtype("<i4")}

_i32, _i64 = ctypes.c_int32, ctypes.c_int64
_u32, _u64, _size = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_size_t
_int, _text, _pointer = ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p
ON_WAIT = ctypes.CFUNCTYPE(_int, _pointer)


class Sized(ctypes.Structure):
    """Says what the caller's version of it has, in its first field."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(size=ctypes.sizeof(self), **fields)


class Options(Sized):
    _fields_ = [
        ("size", _size),
        ("job", _text),
        ("origin", _text),
        ("attach", _text),
        ("rank", _i32),
        ("start_timeout_ms", _u32),
        ("prefetch", _u32),
        ("programs", _text),
        ("arrays", _u32),
        ("on_wait", ON_WAIT),
        ("context", _pointer),
    ]


class VertexType(ctypes.Structure):
    _fields_ = [
        ("name", _text),
        ("first", _u64),
        ("n", _u64),
        ("feat_dim", _u32),
        ("feat_type", _u32),
        ("feat_row_bytes", _u64),
    ]


class Relation(ctypes.Structure):
    _fields_ = [
        ("name", _text),
        ("source", _u32),
        ("target", _u32),
        ("first_edge", _u64),
        ("n_edges", _u64),
        ("fanout", _i64 * MAX_HOPS),
    ]


class Info(Sized):
    _fields_ = [
        ("size", _size),
        ("n_nodes", _u64),
        ("n_edges", _u64),
        ("n_items", _u64),
        ("n_batches", _u64),
        ("n_own_batches", _u64),
        ("seed", _u64),
        ("batch_size", _u32),
        ("n_hops", _u32),
        ("fanout", _i64 * MAX_HOPS),
        ("feat_dim", _u32),
        ("feat_type", _u32),
        ("feat_row_bytes", _u64),
        ("label_type", _u32),
        ("n_targets", _u32),
        ("n_classes", _u32),
        ("world", _u32),
        ("rank", _u32),
        ("has_edge_ids", _u32),
        ("has_weights", _u32),
        ("prefetch", _u32),
        ("broker", _i64),
        ("dataset", _text),
        ("job_name", _text),
        ("output", _text),
        ("feat_device", _i32),
        ("same_order", _u32),
        ("has_pairs", _u32),
        ("per_positive", _u32),
        ("n_types", _u32),
        ("n_relations", _u32),
        ("types", ctypes.POINTER(VertexType)),
        ("relations", ctypes.POINTER(Relation)),
        ("linked", _u32),
    ]

    def rows(self) -> List[Tuple[int, np.dtype]]:
        """Width and type of the features of each type; of one without, 0 and anything."""
        found = self.__dict__.get("_rows")
        if found is None:
            types = self.types[: self.n_types]
            found = [(t.feat_dim, DTYPES.get(t.feat_type, DTYPES[1])) for t in types]
            self.__dict__["_rows"] = found
        return found


class Hop(ctypes.Structure):
    _fields_ = [
        ("n_dst", _u32),
        ("n_edges", _u32),
        ("indptr", _pointer),
        ("indices", _pointer),
        ("edge_ids", _pointer),
        ("weights", _pointer),
    ]


class Part(ctypes.Structure):
    _fields_ = [
        ("first", _u32),
        ("n_after", _u32 * (MAX_HOPS + 1)),
    ]


class Run(ctypes.Structure):
    _fields_ = [
        ("hop", _u32),
        ("relation", _u32),
        ("n_dst", _u32),
        ("n_edges", _u32),
        ("indptr", _pointer),
        ("indices", _pointer),
        ("edge_ids", _pointer),
        ("weights", _pointer),
    ]


class Batch(Sized):
    _fields_ = [
        ("size", _size),
        ("id", _u64),
        ("number", _u64),
        ("first_item", _u64),
        ("epoch", _u32),
        ("n_seeds", _u32),
        ("n_nodes", _u32),
        ("n_hops", _u32),
        ("n_edges", _u64),
        ("nodes", _pointer),
        ("n_nodes_after", _pointer),
        ("labels", _pointer),
        ("hop", Hop * MAX_HOPS),
        ("n_pairs", _u32),
        ("n_positive", _u32),
        ("per_positive", _u32),
        ("pairs", _pointer),
        ("pair_weights", _pointer),
        ("n_types", _u32),
        ("n_runs", _u32),
        ("parts", ctypes.POINTER(Part)),
        ("block", _pointer),
    ]

    def by_hop(self, n_hops: int) -> Tuple[Tuple[int, ...], Tuple[int, ...]]:
        """Vertices that there are before each of the block's hops, and its edges."""
        found = _BY_HOP(self, Batch.hop.offset)
        return found[: 2 * n_hops : 2], found[1 : 2 * n_hops : 2]


# What each batch is asked for, in one reading: a field that ctypes reads costs as much as all here.
_BY_HOP = struct.Struct("=" + f"2I{ctypes.sizeof(Hop) - 8}x" * MAX_HOPS).unpack_from
# id, number, epoch, n_seeds, n_nodes, n_hops of a Batch
HEAD = struct.Struct("=8xQQ8x4I").unpack_from


class TypeArrays(ctypes.Structure):
    _fields_ = [
        ("n_nodes", _u64),
        ("nodes", _pointer),
        ("features", _pointer),
    ]


class RelationArrays(ctypes.Structure):
    _fields_ = [
        ("n_edges", _u64),
        ("n_after", _u64 * MAX_HOPS),
        ("edges", _pointer),
        ("edge_ids", _pointer),
        ("weights", _pointer),
    ]


class Arrays(Sized):
    _fields_ = [
        ("size", _size),
        ("memory", _pointer),
        ("n_edges", _u64),
        ("nodes", _pointer),
        ("edges", _pointer),
        ("edge_ids", _pointer),
        ("weights", _pointer),
        ("labels", _pointer),
        ("features", _pointer),
        ("places", _pointer),
        ("seed_of", _pointer),
        ("pairs", _pointer),
        ("pair_weights", _pointer),
        ("types", ctypes.POINTER(TypeArrays)),
        ("relations", ctypes.POINTER(RelationArrays)),
    ]


_NO_ARRAYS = bytes(Arrays())
_ALL_ARRAYS = struct.Struct("=8x14Q").unpack_from


class SamplerOptions(Sized):
    _fields_ = [
        ("size", _size),
        ("job", _text),
        ("origin", _text),
        ("features", _u32),
    ]


class Stats(Sized):
    _fields_ = [
        ("size", _size),
        ("batches", _u64),
        ("returned", _u64),
        ("held", _u64),
        ("edges", _u64),
        ("feature_bytes", _u64),
        ("wait_ns", _u64),
        ("gather_ns", _u64),
        ("user_ns", _u64),
        ("epoch", _u32),
        ("absent", _i32),
    ]


STRUCTURES = {
    "sluice_options": Options,
    "sluice_vertex_type": VertexType,
    "sluice_relation": Relation,
    "sluice_info": Info,
    "sluice_hop": Hop,
    "sluice_part": Part,
    "sluice_run": Run,
    "sluice_batch": Batch,
    "sluice_type_arrays": TypeArrays,
    "sluice_relation_arrays": RelationArrays,
    "sluice_arrays": Arrays,
    "sluice_sampler_options": SamplerOptions,
    "sluice_stats": Stats,
}

# Name -> (result, arguments). A loader is an address.
FUNCTIONS: Dict[str, Tuple[Any, Sequence[Any]]] = {
    "sluice_open": (_int, [ctypes.POINTER(Options), ctypes.POINTER(_pointer)]),
    "sluice_close": (None, [_pointer]),
    "sluice_get_info": (_int, [_pointer, ctypes.POINTER(Info)]),
    "sluice_get_run": (_int, [ctypes.POINTER(Batch), _u32, ctypes.POINTER(Run)]),
    "sluice_next": (_int, [_pointer, _u32, ctypes.POINTER(Batch)]),
    "sluice_done": (_int, [_pointer, _u64]),
    "sluice_return": (_int, [_pointer, _u64]),
    "sluice_start": (_int, [_pointer, _u32, _u64]),
    "sluice_features": (_int, [_pointer, ctypes.POINTER(Batch), _pointer, _size]),
    "sluice_features_view": (_int, [_pointer, ctypes.POINTER(Batch), ctypes.POINTER(_pointer)]),
    "sluice_take": (_int, [_pointer, ctypes.POINTER(Batch), ctypes.POINTER(Arrays)]),
    "sluice_wait": (_int, [_pointer, _u64, _u32]),
    "sluice_free": (None, [_pointer]),
    "sluice_sampler_open": (_int, [ctypes.POINTER(SamplerOptions), ctypes.POINTER(_pointer)]),
    "sluice_sampler_close": (None, [_pointer]),
    "sluice_sampler_get_info": (_int, [_pointer, ctypes.POINTER(Info)]),
    "sluice_sampler_draw": (
        _int,
        [_pointer, _u32, _u32, _pointer, _u32, ctypes.POINTER(Batch), ctypes.POINTER(Arrays)],
    ),
    "sluice_stats": (_int, [_pointer, ctypes.POINTER(Stats)]),
    "sluice_error": (_text, []),
    "sluice_version": (_text, []),
}

HERE = os.path.dirname(os.path.abspath(__file__))
# Folders that programs and the library stand in: of a wheel, then of a tree that was built.
_PLACES = [HERE, os.path.join(HERE, "..", "..", "build")]


def places(kind: str, name: str) -> List[str]:
    """Where a file of `kind` ("lib", "bin") may stand, the likeliest first."""
    found = [os.path.normpath(os.path.join(place, kind, name)) for place in _PLACES]
    return [path for path in found if os.path.exists(path)]


class Library:
    """libsluice, loaded. Its functions are called by `call`, which raises what they report."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            raise Error(
                f"{path}: cannot be loaded: {error}: `make` builds it; SLUICE_LIBRARY names "
                "another place"
            ) from None
        for name, (result, arguments) in FUNCTIONS.items():
            try:
                function = getattr(library, name)
            except AttributeError:
                raise Error(
                    f"{path}: has no {name}: it is older than this package: build both from the "
                    "same sources, or install the package again"
                ) from None
            function.restype, function.argtypes = result, arguments
            setattr(self, name[len("sluice_") :], function)
        self.version_text = str(self.version().decode())  # type: ignore[attr-defined]

    def fail(self, code: int) -> Error:
        """The error that a function of this thread has just reported."""
        text = self.error().decode("utf-8", "replace")  # type: ignore[attr-defined]
        name = next((n for n, value in RESULTS.items() if value == code), "")
        if text.startswith("sluice: "):
            text = text[len("sluice: ") :]
        return CLASSES.get(name, Error)(text or f"libsluice: error {code}", code)

    def call(self, name: str, *arguments: Any) -> int:
        """A function's result from 0 on; errors are raised."""
        code = getattr(self, name)(*arguments)
        if code < 0:
            raise self.fail(code)
        return code


_loaded: Optional[Library] = None


def library() -> Library:
    """The library: $SLUICE_LIBRARY, else beside the package, else of the tree's build, else where
    the system's loader finds it. Loaded once."""
    global _loaded
    if _loaded is None:
        if sys.platform != "linux":
            raise Error(f"sluice runs on Linux, this is {sys.platform}")
        named = os.environ.get("SLUICE_LIBRARY")
        _prefer_the_systems(os.path.join(HERE, "lib", "gcc"))
        _loaded = Library(named or next(iter(places("lib", SONAME)), SONAME))
    return _loaded


def _prefer_the_systems(folder: str) -> None:
    """A wheel brings the compiler's run-time libraries along, for machines without. The first ones
    in a process serve everybody in it, so where the machine has its own, perhaps newer ones that
    PyTorch needs, those are loaded."""
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        try:
            ctypes.CDLL(name)
        except OSError:
            pass


class _Memory(ctypes.c_char * (1 << 46)):  # type: ignore[misc]
    """Whatever begins at an address."""


def array_at(owner: Any, address: int, shape: Tuple[int, ...], kind: Any) -> np.ndarray:
    """An array of `shape` and NumPy's type `kind` there, which keeps its owner. Of all ways to one
    this touches the least: each batch finds the caches full of rows."""
    memory = _Memory.from_address(address)
    memory.owner = owner
    return np.ndarray(shape, kind, memory)


class Taken:
    """Memory of a batch, filled in by "take"; it goes back when this and all views are gone."""

    __slots__ = ("arrays", "_free")

    def __init__(self, library: Library) -> None:
        self.arrays = Arrays.from_buffer_copy(_NO_ARRAYS)
        self._free = library.free  # type: ignore[attr-defined]

    def __del__(self) -> None:
        if self.arrays.memory:
            self._free(self.arrays.memory)

    def fields(self) -> Tuple[int, ...]:
        """Those of `arrays` from `memory` on; a pointer of 0: there is none."""
        return _ALL_ARRAYS(self.arrays)

    def view(self, address: Optional[int], shape: Tuple[int, ...], kind: Any) -> np.ndarray:
        """As array_at(). An empty one needs no memory."""
        if not address or 0 in shape:
            return np.empty(shape, kind)
        return array_at(self, address, shape, kind)


class Numbers:
    """Parts of the piece of memory that has a batch's numbers of 64 bits, those of vertices at its
    `begin`: parts of one array cost less than arrays."""

    __slots__ = ("_begin", "_all")

    def __init__(self, taken: Taken, begin: int, end: int) -> None:
        self._begin, self._all = begin, taken.view(begin, ((end - begin) // 8,), I64)

    def at(self, address: int, n: int) -> np.ndarray:
        """int64 (n); without any the address may be 0."""
        first = (address - self._begin) // 8 if n else 0
        return self._all[first : first + n]


def numbers_of(structures: Any, n: int, width: int) -> List[List[int]]:
    """Of n structures at a pointer the fields, all of `width` bytes: addresses, too."""
    if n == 0:
        return []
    address, size = ctypes.addressof(structures.contents), ctypes.sizeof(structures.contents)
    return list(array_at(structures, address, (n, size // width), f"<u{width}").tolist())


def rows_of(
    taken: Taken, begin: int, types: Sequence[Sequence[int]], widths: Sequence[Tuple[int, np.dtype]]
) -> List[np.ndarray]:
    """The rows of each type (n, feat_dim), which lie in one piece; types: n_nodes, nodes, features
    of each. Of one without features anything."""
    if begin == 0:
        return []
    found = [(at, n, *width) for (n, _, at), width in zip(types, widths)]
    ends = [at + n * dim * kind.itemsize for at, n, dim, kind in found]
    whole = taken.view(begin, (max(ends) - begin,), "|u1")
    return [
        whole[at - begin : end - begin].view(kind).reshape(n, dim)
        for (at, n, dim, kind), end in zip(found, ends)
    ]


class Buffers:
    """Memory of arrays that comes back when they and all views are gone, for the next ones: new
    memory costs a page fault each 4 KiB, together more than filling it."""

    KEPT = 2  # that wait: a loop lets a batch go just behind the moment when it gets the next

    def __init__(self) -> None:
        self.free: List[np.ndarray] = []

    def array(self, shape: Tuple[int, ...], kind: np.dtype) -> np.ndarray:
        """An array with whatever is in it."""
        n_bytes = int(np.prod(shape)) * kind.itemsize
        if n_bytes == 0:
            return np.empty(shape, kind)
        memory = self.free.pop() if self.free else np.empty(0, np.uint8)
        if memory.nbytes < n_bytes:
            memory = np.empty(n_bytes + n_bytes // 8, np.uint8)
        return array_at(_Loan(self, memory), memory.ctypes.data, shape, kind)


class _Loan:
    """The owner of an array of Buffers."""

    __slots__ = ("_of", "_memory")

    def __init__(self, of: Buffers, memory: np.ndarray) -> None:
        self._of, self._memory = of, memory

    def __del__(self) -> None:
        if len(self._of.free) < Buffers.KEPT:
            self._of.free.append(self._memory)
