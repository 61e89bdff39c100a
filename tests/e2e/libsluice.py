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

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))

from sluice._lib import (  # noqa: E402
    END,
    OK,
    RESULTS,
    Arrays,
    Batch,
    Info,
    Options,
    SamplerOptions,
    Stats,
)

EINVAL, ENOENT, ENOMEM, ERANGE = (RESULTS[n] for n in "EINVAL ENOENT ENOMEM ERANGE".split())
ETIMEDOUT, EABORTED, EBUSY = (RESULTS[n] for n in "ETIMEDOUT EABORTED EBUSY".split())
ESTALE, EFAILED = (RESULTS[n] for n in "ESTALE EFAILED".split())
TIMEOUT = RESULTS["TIMEOUT"]

LIBRARY = os.environ.get("LIBSLUICE") or os.path.join(ROOT, "build/lib/libsluice.so.0")


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
    for name in ("get_info", "stats", "sampler_get_info"):
        getattr(lib, f"sluice_{name}").argtypes = c.c_void_p, c.c_void_p
    lib.sluice_get_run.argtypes = c.c_void_p, c.c_uint32, c.c_void_p
    lib.sluice_take.argtypes = c.c_void_p, c.c_void_p, c.c_void_p
    lib.sluice_free.argtypes, lib.sluice_free.restype = (c.c_void_p,), None
    lib.sluice_open.argtypes = lib.sluice_sampler_open.argtypes = c.c_void_p, c.c_void_p
    lib.sluice_sampler_draw.argtypes = (c.c_void_p, c.c_uint32, c.c_uint32) + (
        (c.c_void_p, c.c_uint32) + (c.c_void_p,) * 2
    )
    for close in lib.sluice_close, lib.sluice_sampler_close:
        close.argtypes, close.restype = (c.c_void_p,), None
    return lib


class Failed(Exception):
    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class Sampler:
    def __init__(self, job, lib, features=0):
        self.lib, self.at = lib, c.c_void_p()
        o = SamplerOptions(job=json.dumps(job).encode(), features=features)
        self.check(lib.sluice_sampler_open(c.byref(o), c.byref(self.at)))

    def check(self, rc):
        if rc < 0:
            raise Failed(rc, self.lib.sluice_error().decode())

    @property
    def info(self):
        info = Info()
        self.check(self.lib.sluice_sampler_get_info(self.at, c.byref(info)))
        return info

    def draw(self, epoch, number, seeds, arrays=True):
        """The batch, and its arrays where they are wanted."""
        seeds, batch, taken = np.asarray(seeds, np.uint32), Batch(), Arrays()
        to = c.byref(taken) if arrays else None
        at = seeds.ctypes.data if len(seeds) else None
        rc = self.lib.sluice_sampler_draw(
            self.at, epoch, number, at, len(seeds), c.byref(batch), to
        )
        self.check(rc)
        return batch, taken

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.lib.sluice_sampler_close(self.at)


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

    def features_view(self, batch, kind="<f4"):
        at, dim = c.c_void_p(), self.info.feat_dim
        self.check(self.lib.sluice_features_view(self.at, c.byref(batch), c.byref(at)))
        return array(at.value, (batch.n_nodes, dim), kind) if at.value else None


def array(address, shape, kind="<u4"):
    """A view of the library's memory."""
    n_bytes = np.dtype(kind).itemsize * int(np.prod(shape))
    if not n_bytes:
        return np.empty(shape, kind)
    return np.frombuffer((c.c_char * n_bytes).from_address(address), kind).reshape(shape)


def nodes(batch):
    return array(batch.nodes, batch.n_nodes)


def seeds(batch):
    return nodes(batch)[: batch.n_seeds]


def labels(batch):
    return array(batch.labels, batch.n_seeds, "<i4")


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
