#!/usr/bin/python3
"""Writes the first inputs of the fuzz targets, corpus/TARGET/NAME: make_corpus.py [BIN]

Small good files as other programs write them (NumPy its own), the messages and job files of the
tests, and the state of a checkpoint that a run with the programs in BIN has left. Inputs that a
fuzzer has found are kept beside them under their own names and are never touched here.
"""

import io
import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
import harness  # noqa: E402
import torch_saved  # noqa: E402


def write(target, name, content):
    folder = os.path.join(HERE, "corpus", target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())


# ---- files of arrays ----------------------------------------------------------------------------

ARRAYS = {
    "float": np.arange(6, dtype="<f4").reshape(2, 3),
    "int": np.arange(5, dtype="<i8"),
    "half": np.ones((2, 2, 2), "<f2"),
    "bool": np.array([True, False]),
    "scalar": np.array(3.5),
    "empty": np.zeros((0, 4), "<i4"),
    "big": np.arange(4, dtype=">i4"),
    "fortran": np.asfortranarray(np.arange(6, dtype="<f8").reshape(2, 3)),
    "text": np.array(["paper", "author"], "U6"),
    "bytes": np.array([b"ab", b"c"], "S2"),
}


def npy_of(array, version=None):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version)
    return out.getvalue()


def npz_of(save, **arrays):
    out = io.BytesIO()
    save(out, **arrays)
    return out.getvalue()


def arrays():
    for name, array in ARRAYS.items():
        write("data_npy", name, npy_of(array))
    write("data_npy", "version2", npy_of(ARRAYS["int"], (2, 0)))
    write("data_npy", "version3", npy_of(ARRAYS["float"], (3, 0)))
    wraps = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }\n"
    write("data_npy", "wraps", b"\x93NUMPY\1\0" + struct.pack("<H", len(wraps)) + wraps)
    write("data_npy", "longer", npy_of(ARRAYS["int"]) + b"x")
    write("data_npy", "shorter", npy_of(ARRAYS["int"])[:-1])
    write("dataset_npz", "plain", npz_of(np.savez, a=ARRAYS["int"], b=ARRAYS["float"]))
    small, foreign = {"num": ARRAYS["int"], "x": ARRAYS["half"]}, {"big": ARRAYS["big"]}
    foreign["f"] = ARRAYS["fortran"]
    write("dataset_npz", "deflated", npz_of(np.savez_compressed, **small))
    write("dataset_npz", "foreign", npz_of(np.savez_compressed, **foreign))
    write("dataset_npz", "text", npz_of(np.savez, t=ARRAYS["text"], s=ARRAYS["scalar"]))
    write("dataset_npz", "none", npz_of(np.savez))
    write("dataset_npz", "npy", npy_of(ARRAYS["big"]))


def safetensors_of(header, data):
    text = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + data


def safetensors():
    def entry(kind, shape, begin, end):
        return {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}

    write("data_safetensors", "empty", safetensors_of({}, b""))
    some = {
        "__metadata__": {"format": "pt", "job": "a job"},
        "convs.0.lin_l.weight": entry("F32", [2, 3], 0, 24),
        "norm.num_batches_tracked": entry("I64", [], 24, 32),
        "half": entry("F16", [2], 32, 36),
        "brain": entry("BF16", [1, 2], 36, 40),
        "none": entry("F64", [0, 7], 40, 40),
        "double": entry("F64", [1], 40, 48),
        "ids": entry("I32", [1], 48, 52),
    }
    write("data_safetensors", "types", safetensors_of(some, bytes(range(52))))
    odd = {"a": entry("F16", [1], 0, 2), "b": entry("F32", [1], 2, 6)}
    write("data_safetensors", "unaligned", safetensors_of(odd, bytes(6)))
    over = {"a": entry("F16", [2], 0, 4), "b": entry("F16", [2], 2, 6)}
    write("data_safetensors", "overlap", safetensors_of(over, bytes(6)))
    hole = {"a": entry("F16", [1], 0, 2), "b": entry("F16", [1], 4, 6)}
    write("data_safetensors", "hole", safetensors_of(hole, bytes(6)))
    wraps = {"a": entry("F32", [1 << 53, 1 << 9], 0, 0)}
    write("data_safetensors", "wraps", safetensors_of(wraps, b""))


def torch_files():
    edge, weight = ARRAYS["int"][:4].reshape(2, 2), ARRAYS["float"][0]
    arrays = {"edge": edge, "weight": weight, "year": [1990]}
    tensors = {"edge": torch_saved.Tensor(edge, skip=1), "weight": torch_saved.Tensor(weight)}
    for name, value in (("arrays", {"train": arrays}), ("tensors", {"train": tensors})):
        for protocol in (2, 5):
            for old in (False, True):
                form = f"{name}{protocol}{'old' if old else ''}"
                write("dataset_torch", form, torch_saved.dumps(value, old, protocol))


# ---- job files ----------------------------------------------------------------------------------

OVERRIDES = [
    "model.layers=2", "sampler.fanout=[10, 5]", "devices[0].memory=64MiB", "dataset=data/x",
    'model={"kind": "gcn", "layers": 2}', "optimizer.lr=0.5", "evaluate.fanout=[1, 2]",
    "schedule[1].batch=8", "cache.ratio=auto", "devices=auto", "devices=cpu", "devices[0].index=1",
    'devices=[{"kind": "cuda", "index": 1, "memory": "1GiB"}]',
    'devices=[{"kind": "cpu", "cores": "0"}]',
    'schedule=[{"epoch": 1, "samplers": 1, "trainers": 1}]',
]


def jobs():
    small = {**harness.small_job("data/products"), "devices": [{"kind": "cpu", "cores": "0"}] * 2}
    write("config_job", "small", json.dumps(small))
    full = {
        **small,
        "name": "a job",
        "sampler": {"kind": "walk", "fanout": [10, -1], "batch_size": 1000, "paths": 5, "length": 4,
                    "restart": 0.3},
        "optimizer": {"kind": "sgd", "lr": 0.1, "weight_decay": 5e-4, "momentum": 0.9},
        "updates": {"mode": "ordered", "batches_per_update": 4, "exchange": "board"},
        "devices": [{"kind": "cpu", "cores": "0", "memory": "1.5MiB"}, *small["devices"]],
        "cache": {"policy": "presc", "presample_epochs": 2, "ratio": 0.25, "report_optimal": True},
        "allocation": {"samplers": "auto", "trainers": 2, "switching": False},
        "schedule": [{"epoch": 3, "samplers": 1, "trainers": 2},
                     {"epoch": 4, "batch": 7, "samplers": 2, "trainers": 1}],
        "throttle": {"sample": 0.5, "standby": 1},
        "arena": {"memory": 1000000},
        "epochs": 12,
        "precision": "bf16",
        "evaluate": {"every": 0, "fanout": "full"},
        "output": 'somewhere \u00e4 "else"',
    }
    write("config_job", "full", json.dumps(full, indent=1))
    late = {"mode": "async", "staleness": 2}
    write("config_job", "async", json.dumps({**small, "updates": late}))
    write("config_job", "gpus", json.dumps({**small, "devices": [{"kind": "cuda", "index": 0}] * 2,
                                            "updates": {"mode": "ordered", "exchange": "nccl"}}))
    fanout = {"author -writes-> paper": [15, 10], "cites": [-1, 0], "*": [2, 2]}
    typed = {**small, "sampler": {"fanout": fanout}, "evaluate": {"fanout": {"*": [0, 1]}}}
    write("config_job", "typed", json.dumps(typed))
    for i, text in enumerate(OVERRIDES):
        write("config_override", f"{i:02}", text)


YAML = """# of a data set
dataset_name: ogbn-products
graph:
  type: FusedCSCSamplingGraph
  path: preprocessed/fused_csc_sampling_graph.pt
feature_data:
- domain: node
  name: feat
  format: numpy
  in_memory: false
  path: 'preprocessed/node-feat.npy'
tasks:
  - name: "node_classification"
    num_classes: 47
    train_set:
      - data: [{name: seeds, path: a.npy}, {name: labels, path: "b \\u00e9\\n.npy"}]
    metrics: [1, -2.5e3, true, null, ~, text]
"""


def edgelists():
    konect = "% bip posweighted\n% 2 1 2\n1\t1 2 1138206644\n1 2 3 9\n"
    snap = "# Undirected graph: x\n# Nodes: 3 Edges: 2\n0\t1\n1\t2\n"
    mtx = "%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2 .5\n"
    quoted = '"a ""b""",w,item,\n"0",,1\n"""";x\n"1\n 2 , 3 ,"4",\r\n'
    write("dataset_edgelist", "konect", "\n" + konect)
    write("dataset_edgelist", "snap", "1,2\n" + snap)
    write("dataset_edgelist", "mtx", "\n" + mtx)
    write("dataset_edgelist", "quoted", 'item,"a ""b""",w\n' + quoted)
    write("dataset_edgelist", "semicolons", "source,target,time\n0;1;12\n\n;;\n0;1;2;3;4\n")


def yaml():
    write("dataset_yaml", "graphbolt", YAML)
    write("dataset_yaml", "flow", "---\n{a: [1, {b: 'it''s'}], c: }\n")
    write("dataset_yaml", "list", "- a\n- - b\n  - c: d\n    e: f\n-\n")


# ---- messages -----------------------------------------------------------------------------------


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def message(*fields):
    """Fields as (number, value): an int, a text or bytes (also of a message), a float (32 bits)."""
    out = b""
    for number, value in fields:
        if isinstance(value, float):
            out += varint(number << 3 | 5) + struct.pack("<f", value)
        elif isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            value = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(value)) + value
    return out


def envelope(case, body, *more, protocol=3):
    return message((1, protocol), (case, body), *more)


def messages():
    def tensor(name, shape, role=0, twin=0):
        packed = b"".join(map(varint, shape))
        more = [(6, twin)] if twin else []
        return message((1, name), (2, packed), (3, 1.0), (4, 0.5), (5, role), *more)

    tensors = [tensor("convs.0.weight", [3, 4]), tensor("convs.0.bias", [3]),
               tensor("norm.running_mean", [3], 1), tensor("norm.num_batches_tracked", [], 3)]
    hello = message((1, 1), (2, 5), (3, 99), *((7, t) for t in tensors), (8, 16), (9, 2))
    write("broker_hello", "trainer", envelope(3, hello))
    twin = message((1, 1), *((7, t) for t in (tensor("lin_l.weight", [3, 4]), tensor("b", [3]),
                                              tensor("lin_r.weight", [3, 4], 4, 2))), (8, 16))
    write("broker_hello", "twin", envelope(3, twin))
    wraps = message((1, 1), (7, tensor("a", [1 << 40, 1 << 24])), (8, 16), (9, 2))
    write("broker_hello", "wraps", envelope(3, wraps))
    twice = message((1, 1), (7, tensor("a", [3])), (7, tensor("a", [3])), (8, 16), (9, 2))
    write("broker_hello", "twice", envelope(3, twice))
    write("broker_hello", "sampler", envelope(3, message((2, 1), (5, 4096), (6, 2048))))
    bodies = {
        "hello": (3, hello), "attach": (4, b""), "ready": (5, message((1, 7))),
        "failed": (6, message((1, 3), (2, "no memory"))), "stop": (7, b""),
        "subscribe": (8, message((1, 1), (2, 1))), "log": (9, message((1, 2), (2, "a line"))),
        "progress": (10, message((1, "train"), (2, 1))), "epoch": (11, message((1, "{}"))),
        "finished": (12, message((1, 0), (2, ""))), "scale": (13, message((1, 2), (3, 1))),
        "refused": (15, message((1, 3), (2, "another version"))),
        "answer": (17, message((1, 1), (3, "done"), (4, "{}"))),
        "submit": (18, message((1, "{}"), (2, "/r.json"))), "list": (19, b""),
        "trace": (22, message((2, 4))), "chunk": (23, message((1, "{}"), (2, 1))),
        "state": (27, message((1, "{}"))),
    }
    for name, (case, body) in bodies.items():
        write("bus_envelope", name, envelope(case, body, (40, "7"), (42, 300)))
    write("bus_envelope", "request", envelope(7, b"", (42, (1 << 64) - 1)))
    write("bus_envelope", "older", envelope(7, b"", protocol=1))


# ---- the arena ----------------------------------------------------------------------------------


def spec(**changes):
    fields = {
        "n_devices": 2, "n_cells": 16, "n_train": 100, "n_params": 50, "n_state": 2, "async": 0,
        "staleness": 0, "exchange": 0, "batches_per_update": 4, "act_banks": 2, "act_rows": 64,
        "act_width": 16, "jumping_width": 0, "predict_rows": 32, "predict_words": 1,
        "visit_rows": 64, "hot_rows": 64, "probe_bytes": 4096, "payload_bytes": 1 << 18, **changes,
    }  # fmt: skip
    return struct.pack("<IIQQIIIIIIQIIQIxxxxQQQQ", *fields.values())


def arenas():
    write("arena_attach", "ordered", spec())
    write("arena_attach", "async", spec(**{"async": 1, "staleness": 3, "batches_per_update": 1}))
    write("arena_attach", "group", spec(exchange=1, jumping_width=8))
    write("arena_attach", "moved", spec() + struct.pack("<HQ", 40, 1 << 40))
    write("arena_attach", "overflow", spec(n_train=1 << 62))


# ---- HTTP ---------------------------------------------------------------------------------------

STATS = {
    "schema": "sluice.stats/1", "job": "a", "id": "7", "seconds": 1, "samplers": 1, "trainers": 2,
    "epoch": 3, "epochs": 5, "phase": "train", "done": 4, "total": 49, "loss": 0.5,
    "queue": {"batches": 3, "bytes": 4096}, "cache": {"hit_rate": 0.5},
    "bottleneck": {"name": "sampling"}, "workers": [{"name": "sampler 0", "pid": 5, "busy": 0.5}],
    "devices": [{"index": 0, "kind": "cpu", "cpu_load": 0.9, "roles": ["sampler"]}],
}  # fmt: skip


def http():
    def request(path, body="", listen="8080", host="127.0.0.1:8080", origin=None):
        lines = [listen, host, origin or f"http://{host}", "Bearer open-sesame", path, body]
        return "\n".join(lines)

    write("http_request", "scale", request("/api/jobs/7/scale", '{"samplers": 2, "undo": false}'))
    write("http_request", "many", request("/api/jobs/7/scale", '{"samplers": 65536}'))
    write("http_request", "rebound", request("/", host="127.0.0.1.evil.org:80"))
    write("http_request", "stop", request("/api/jobs/a/stop", '{"kill": true}', "[::1]:0"))
    write("http_request", "dry", request("/api/jobs/7/scale", '{"trainers": 1, "dry_run": true}'))
    write("http_request", "pause", request("/api/jobs/7/pause", "", host="localhost"))
    write("http_request", "list", request("/api/jobs", host="[::1]:80", origin="http://evil.org"))
    write("http_request", "key", request("/api/jobs/7/history", '{"' + "\u00e9" * 40 + '": 1}'))
    line = json.dumps(STATS, separators=(",", ":"))
    entry = '{"id":"7","name":"a","state":"running"}'
    other = '{"id":"6","name":"b","state":"done"}'
    listed = '{"schema":"sluice.jobs/1","jobs":[' + entry + "," + other + "]}"
    write("http_job_stats", "lines", f"s{line}\nt{line}\ne{entry}\nl{listed}\nx7\n")
    write("http_job_stats", "entry", f"e{entry}\ns{line}\n")


# ---- checkpoints --------------------------------------------------------------------------------


RECORD_BYTES = 112  # struct sl_cell_record


def checkpoint():
    with tempfile.TemporaryDirectory() as folder:
        dataset = harness.write_dataset(os.path.join(folder, "data"), harness.planted(n=60))
        run = os.path.join(folder, "run")
        job = harness.small_job(dataset, output=run, epochs=2, **{"sampler.batch_size": 4})
        job["checkpoint"] = {"every_updates": 12}
        path = os.path.join(folder, "job.json")
        with open(path, "w") as file:
            json.dump(job, file)
        subprocess.run([os.path.join(harness.BIN, "sluice"), "run", path], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        name = max(os.listdir(os.path.join(run, "checkpoints")))
        state = harness.read_json(os.path.join(run, "checkpoints", name, "state.json"))
    # Update 12, as the target calls it, of two epochs of 8 batches; all counters agree.
    config = {
        "name": "test", "epochs": 2, "digest": True, "devices": [{}, {}],
        "updates": {"mode": "ordered", "batches_per_update": 1},
    }  # fmt: skip
    first, last = (dict(state["history"]["epochs"][0], epoch=e) for e in (0, 1))
    state.update(version=12, config=config, epochs=2, split={"samplers": 1, "trainers": 1},
                 best={"epoch": 0, "value": 0.5, "mark": None, "waited": 0})

    def written(name, cells, epochs, **changes):
        history = {**state["history"], "epochs": epochs}
        records = b"".join(struct.pack("<I", c) + bytes(RECORD_BYTES - 4) for c in cells)
        text = json.dumps({**state, "history": history, "batches_done": len(cells), **changes})
        write("broker_checkpoint", name, text.encode() + b"\0" + records)

    unsaid = {"samples_digest": None, "split": None, "best": None}
    late = {**config, "digest": False, "updates": {"mode": "async", "staleness": 1}}
    written("middle", range(4), [first], status="running", epoch=1, batches=8)
    unsaid.update(status="stopped", config=late)
    written("any", [0, 2, 5, 7], [first], epoch=1, batches=8, **unsaid)
    written("end", [], [first, last], status="done", epoch=2, batches=6)
    written("edited", [], [first, last], status="done", epoch=2, batches=6, schema="another")


if __name__ == "__main__":
    arrays()
    safetensors()
    torch_files()
    jobs()
    edgelists()
    yaml()
    messages()
    arenas()
    http()
    checkpoint()
