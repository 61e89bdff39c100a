"""include/sluice.h for the tests, by ctypes: the calls as they are, and loops around them.

As a program it is a training loop that others kill: libsluice.py JOB.json ACTION, which prints a
line of JSON once it has come to where ACTION says, and then stands still. Actions: "open", "hold"
(has a batch), "waits" (in sluice_next(), all batches in hand), "exits" (leaves by os._exit()).
"""

import ctypes as c
import json
import os
import sys
import time

import numpy as np

OK, TIMEOUT, END = 0, 1, 2
EINVAL, ENOENT, ENOMEM, ERANGE, ETIMEDOUT, EABORTED, EBUSY, ESTALE, EFAILED = (
    -1, -3, -6, -9, -10, -11, -12, -13, -16,
)  # fmt: skip
F32, F16, I32 = 1, 2, 3
U32P, U64P, F32P = c.POINTER(c.c_uint32), c.POINTER(c.c_uint64), c.POINTER(c.c_float)
I64P = c.POINTER(c.c_int64)


class Sized(c.Structure):
    def __init__(self, **fields):
        super().__init__(size=c.sizeof(self), **fields)


class Options(Sized):
    _fields_ = [
        ("size", c.c_size_t),
        ("job", c.c_char_p),
        ("origin", c.c_char_p),
        ("attach", c.c_char_p),
        ("rank", c.c_int32),
        ("start_timeout_ms", c.c_uint32),
        ("prefetch", c.c_uint32),
        ("programs", c.c_char_p),
        ("arrays", c.c_uint32),
    ]


class Info(Sized):
    _fields_ = [
        ("size", c.c_size_t),
        *[(n, c.c_uint64) for n in "n_nodes n_edges n_items n_batches n_own_batches seed".split()],
        ("batch_size", c.c_uint32),
        ("n_hops", c.c_uint32),
        ("fanout", c.c_int64 * 8),
        ("feat_dim", c.c_uint32),
        ("feat_type", c.c_uint32),
        ("feat_row_bytes", c.c_uint64),
        *[(n, c.c_uint32) for n in "label_type n_targets n_classes world rank".split()],
        *[(n, c.c_uint32) for n in "has_edge_ids has_weights prefetch".split()],
        ("broker", c.c_int64),
        *[(n, c.c_char_p) for n in "dataset job_name output".split()],
        ("feat_device", c.c_int32),
    ]


class Hop(c.Structure):
    _fields_ = [
        ("n_dst", c.c_uint32),
        ("n_edges", c.c_uint32),
        ("indptr", U32P),
        ("indices", U32P),
        ("edge_ids", U64P),
        ("weights", F32P),
    ]


class Batch(Sized):
    _fields_ = [
        ("size", c.c_size_t),
        *[(n, c.c_uint64) for n in "id number first_item".split()],
        *[(n, c.c_uint32) for n in "epoch n_seeds n_nodes n_hops".split()],
        ("n_edges", c.c_uint64),
        ("nodes", U32P),
        ("n_nodes_after", U32P),
        ("labels", c.c_void_p),
        ("hop", Hop * 8),
    ]


class Arrays(Sized):
    _fields_ = [
        ("size", c.c_size_t),
        ("memory", c.c_void_p),
        ("n_edges", c.c_uint64),
        *[(n, I64P) for n in "nodes edges edge_ids".split()],
        ("weights", F32P),
        *[(n, c.c_void_p) for n in "labels features".split()],
    ]


class Stats(Sized):
    _fields_ = [
        ("size", c.c_size_t),
        *[
            (n, c.c_uint64)
            for n in "batches returned held edges feature_bytes wait_ns gather_ns user_ns".split()
        ],
        ("epoch", c.c_uint32),
    ]


LIBRARY = os.environ.get("LIBSLUICE") or os.path.join(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
    "build/lib/libsluice.so.0",
)


def load(path=LIBRARY):
    lib = c.CDLL(path)
    for name in ("error", "version"):
        getattr(lib, f"sluice_{name}").restype = c.c_char_p
    lib.sluice_next.argtypes = c.c_void_p, c.c_uint32, c.c_void_p
    lib.sluice_features.argtypes = c.c_void_p, c.c_void_p, c.c_void_p, c.c_size_t
    lib.sluice_features_view.argtypes = c.c_void_p, c.c_void_p, c.c_void_p
    for name in ("done", "return"):
        getattr(lib, f"sluice_{name}").argtypes = c.c_void_p, c.c_uint64
    lib.sluice_start.argtypes = c.c_void_p, c.c_uint32, c.c_uint64
    for name in ("get_info", "stats"):
        getattr(lib, f"sluice_{name}").argtypes = c.c_void_p, c.c_void_p
    lib.sluice_take.argtypes = c.c_void_p, c.c_void_p, c.c_void_p
    lib.sluice_free.argtypes, lib.sluice_free.restype = (c.c_void_p,), None
    lib.sluice_open.argtypes = c.c_void_p, c.c_void_p
    lib.sluice_close.argtypes = (c.c_void_p,)
    lib.sluice_close.restype = None
    return lib


class Failed(Exception):
    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class Loader:
    def __init__(self, job=None, lib=None, **options):
        self.lib, self.at = lib or load(), c.c_void_p()
        for name in ("attach", "origin", "programs"):
            if isinstance(options.get(name), str):
                options[name] = options[name].encode()
        text = json.dumps(job) if isinstance(job, dict) else job
        o = Options(job=text.encode() if text else None, **{"rank": -1, **options})
        self.check(self.lib.sluice_open(c.byref(o), c.byref(self.at)))

    def check(self, rc):
        if rc < 0:
            raise Failed(rc, self.lib.sluice_error().decode())
        return rc

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.lib.sluice_close(self.at)
        self.at = c.c_void_p()

    @property
    def info(self):
        info = Info()
        self.check(self.lib.sluice_get_info(self.at, c.byref(info)))
        return info

    @property
    def stats(self):
        stats = Stats()
        self.check(self.lib.sluice_stats(self.at, c.byref(stats)))
        return stats

    def next(self, ms=60000):
        """A batch, or END, or TIMEOUT."""
        batch = Batch()
        rc = self.check(self.lib.sluice_next(self.at, ms, c.byref(batch)))
        return batch if rc == OK else rc

    def done(self, batch):
        self.check(self.lib.sluice_done(self.at, batch.id))

    def take(self, batch):
        """Its arrays; who has them frees them."""
        arrays = Arrays()
        self.check(self.lib.sluice_take(self.at, c.byref(batch), c.byref(arrays)))
        return arrays

    def give_back(self, batch):
        self.check(self.lib.sluice_return(self.at, batch.id))

    def start_epoch(self, epoch):
        self.check(self.lib.sluice_start(self.at, epoch, 0))

    def epoch(self):
        """Its batches; each is done before the next is asked for."""
        while not isinstance(batch := self.next(), int):
            yield batch
            self.done(batch)
        assert batch == END, batch

    def features(self, batch, dtype=np.float32):
        rows = np.empty((batch.n_nodes, self.info.feat_dim), dtype)
        self.check(
            self.lib.sluice_features(self.at, c.byref(batch), rows.ctypes.data, rows.nbytes)
        )
        return rows

    def features_view(self, batch, dtype=np.float32):
        at, dim = c.c_void_p(), self.info.feat_dim
        self.check(self.lib.sluice_features_view(self.at, c.byref(batch), c.byref(at)))
        if not at.value:
            return None
        n = batch.n_nodes * dim * np.dtype(dtype).itemsize
        raw = (c.c_char * n).from_address(at.value)
        return np.frombuffer(raw, dtype).reshape(batch.n_nodes, dim)


def array(pointer, n):
    return np.ctypeslib.as_array(pointer, (n,)) if n else np.empty(0, np.uint32)


def nodes(batch):
    return array(batch.nodes, batch.n_nodes)


def seeds(batch):
    return nodes(batch)[: batch.n_seeds]


def labels(batch):
    return array(c.cast(batch.labels, c.POINTER(c.c_int32)), batch.n_seeds)


def edges(batch):
    """(source, destination) vertices of the data set, hop by hop."""
    here = nodes(batch)
    for hop in batch.hop[: batch.n_hops]:
        indptr = array(hop.indptr, hop.n_dst + 1)
        dst = np.repeat(np.arange(hop.n_dst), np.diff(indptr))
        yield here[array(hop.indices, hop.n_edges)], here[dst]


def everything(batch):
    """A copy of all that a batch has views of."""
    parts = [nodes(batch), labels(batch), *[a for pair in edges(batch) for a in pair]]
    return [np.array(part) for part in parts]


def main():
    with open(sys.argv[1]) as file:
        loader = Loader(file.read())
    held = []
    if sys.argv[2] in ("hold", "exits"):
        held.append(loader.next())
    if sys.argv[2] == "waits":
        for _ in range(loader.info.n_batches):
            held.append(loader.next())
    print(json.dumps({"broker": loader.info.broker, "held": len(held)}), flush=True)
    if sys.argv[2] == "exits":
        os._exit(0)
    while sys.argv[2] == "waits":
        try:
            loader.next(1000)
        except Failed:
            pass
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main()
