"""`sluice predict` and `embed` on a GPU: the emulated one (tests/simt).

What comes out is compared with what the cores compute from the same parameters (test_predict.py
compares those with numpy), and of one GPU with itself under other memory: there the bits agree.
"""

import json
import os
import signal

import numpy as np

from edge_papers import papers as papers_of_edges
from harness import cases, whole
from test_bad_input import refused
from test_cuda import CPU, PLUGIN, SANITIZED, gpu, gpu_job
from test_cuda import run as run_job
from test_cuda_config import GIB, Machine
from test_cuda_config import gpu as pretend_gpu
from test_predict import trained, writers
from test_typed_jobs import WALKS, papers
from test_typed_jobs import job as typed_job
from test_typed_links import tastes

NOT_UNDER = {"address": SANITIZED}

MIB = 1 << 20
GPU = {"SLUICE_CUDA_PLUGIN": PLUGIN, "CUDA_VISIBLE_DEVICES": "0,1,2,3"}
LARGE = {"n": 20000, "degree": 6}  # more than two pieces of inference


def predict(box, run, *arguments, command="predict", name="rows.npy", env=None, seconds=100):
    """The finished command."""
    return box.sluice(
        command,
        run,
        "--out",
        box.path(name),
        "--force",
        "-o",
        "json",
        *arguments,
        env={**GPU, **(env or {})},
        seconds=seconds,
    )


def rows(box, run, *arguments, **more):
    """What it writes, and its summary."""
    result = predict(box, run, *arguments, **more).ok()
    assert "error" not in result.err, result
    return np.load(box.path(more.get("name", "rows.npy"))), json.loads(result.out)


def close(found, wanted):
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())


def model(box, name="run", large=False, **changes):
    """A run directory of parameters that were trained on cores."""
    gpu_job(box, [])  # skips where there is no plug-in
    dataset = box.shared_dataset("large", **LARGE) if large else box.shared_dataset("small")
    return trained(box, name, dataset, epochs=1, **changes)[0]


KINDS = (
    ("graphsage-max-layer", {"model.aggregator": "max", "model.norm": "layer"}),
    ("gcn", {"model.kind": "gcn", "model.jumping": "cat", "model.layers": 3}),
    ("gat", {"model.kind": "gat", "model.heads": 2, "model.jumping": "max"}),
    ("gin", {"model.kind": "gin", "model.norm": "batch"}),
    (
        "walks",
        {
            "model.kind": "pinsage",
            "sampler": {"kind": "walk", "fanout": [4, 4], "paths": 5, "length": 3},
        },
    ),
)


@cases(*KINDS)
def test_rows_are_those_of_the_cores(box, name, changes):
    if "model.layers" in changes:
        changes = {**changes, "sampler.fanout": [3, 3, 3]}
    run = model(box, **changes)
    wanted, summary = rows(box, run, "--device", "cpu")
    assert summary["device"] == "cpu" and "gpu" not in summary, summary
    found, summary = rows(box, run, "--device", "cuda:0")
    assert summary["device"] == "cuda:0" and summary["gpu"], summary
    assert summary["gpu_memory"] == 768 * MIB, summary  # of 1 GiB, less a quarter
    close(found, wanted)
    # Gathered by the processor: nothing may be pinned, and a list does not pay for a copy.
    ids = np.array([7, 1499, 7, 0, 311])
    np.save(box.path("ids.npy"), ids)
    few, _ = rows(box, run, "--device", "cuda", "--nodes", box.path("ids.npy"))
    close(few, wanted[ids])
    hidden, _ = rows(box, run, "--device", "cpu", command="embed")
    close(rows(box, run, "--device", "cuda", command="embed")[0], hidden)


# ---- several types ------------------------------------------------------------------------------


# Finds what is read of the processor's memory without having been brought.
CHECKED = {"SLUICE_CUDA_PLUGIN": PLUGIN.replace(".so", "_checked.so")}
TYPED = (
    ("rsage", {}),
    ("rgat", {"heads": 2}),
    ("rgatv2", {"heads": 2}),
    ("rgcn", {"bases": 2}),
    ("hgt", {"heads": 2, "norm": "batch"}),
)


def typed(box, kind, dataset=None, name="run", **changes):
    """A run of a graph of several types, whose parameters were trained on cores."""
    gpu_job(box, [])
    job = typed_job(box, dataset=dataset or papers(box, 400), output=box.path(name),
                    **{"model": {"kind": kind, "layers": 2, "hidden": 8}, "epochs": 1,
                       "evaluate.batch_size": 50, **changes})
    box.run(job, "--quiet")[0].ok()
    return box.path(name)


def as_cores_say(box, run, *arguments, command="predict"):
    """Of both devices: the same rows, as many of them computed, and the same file."""
    wanted, by_cores = rows(box, run, "--device", "cpu", *arguments, command=command)
    found, by_gpu = rows(box, run, "--device", "cuda:0", *arguments, command=command, env=CHECKED)
    assert by_gpu["device"] == "cuda:0" and by_cores["device"] == "cpu", (by_gpu, by_cores)
    for said in "rows", "bytes", "computed_rows", "layer":
        assert by_gpu[said] == by_cores[said], (by_gpu, by_cores)
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())
    return by_gpu["computed_rows"]


@cases(*TYPED)
def test_rows_of_types_are_those_of_the_cores(box, kind, more):
    """Layer by layer, and in one mini-batch of few vertices; of another type, and of a layer."""
    run = typed(box, kind, model={"kind": kind, "layers": 2, "hidden": 8, **more})
    np.save(box.path("ids.npy"), np.array([7, 199, 7, 0]))
    few = ("--nodes", box.path("ids.npy"))
    assert as_cores_say(box, run) > 400 > as_cores_say(box, run, *few)
    for options in ((), ("--layer", "0"), ("--type", "author"), ("--type", "author", *few)):
        as_cores_say(box, run, *options, command="embed")


@whole
@cases("walks", "edges", "links")
def test_rows_of_more_models_of_types(box, name):
    gpu_job(box, [])
    if name == "walks":
        as_cores_say(box, typed(box, "rsage", **WALKS))
    elif name == "edges":
        for kind in "rgat", "rgatv2":
            model = {"kind": kind, "layers": 2, "hidden": 8, "edge_features": True}
            as_cores_say(box, typed(box, kind, papers_of_edges(box), name=kind, model=model))
    else:
        run = typed(box, "rsage", tastes(box), task={"kind": "link", "dim": 12})
        as_cores_say(box, run, "--pairs", os.path.join(tastes(box), "test_edges.npy"))
        as_cores_say(box, run, "--type", "user", command="embed")


@cases("a piece", "a mini-batch")
def test_a_death_over_types_leaves_nothing(box, name):
    """The same command, started again, writes the bits of one that lived."""
    run = typed(box, "hgt", model={"kind": "hgt", "layers": 2, "hidden": 8})
    few = ()
    if name == "a mini-batch":
        np.save(box.path("ids.npy"), np.array([7, 199, 7, 0]))
        few = ("--nodes", box.path("ids.npy"))
    os.mkdir(box.path("out"))
    whole, _ = rows(box, run, "--device", "cuda", *few)
    killed = box.start("predict", run, "--out", box.path("out/rows.npy"), "--device", "cuda", *few,
                       env={**GPU, "SLUICE_FAILPOINT": "trainer_infer:1:stop"})
    computes = box.until_stopped(killed)
    assert writers(box.path("out"))
    killed.kill()
    killed.wait()
    os.kill(computes, signal.SIGCONT)  # it was told to end
    box.until_gone()
    assert os.listdir(box.path("out")) == []
    again, _ = rows(box, run, "--device", "cuda", *few, env={"SLUICE_SIMT_SEED": "7"})
    assert (again == whole).all()


def test_a_run_of_types_computes_where_it_trained(box):
    """Cores, or a GPU if one is there; learned rows are read on cores alone."""
    job = typed_job(box, dataset=papers(box, 400), output=box.path("run"), epochs=1,
                    allocation={"samplers": 1, "trainers": 1, "switching": False})
    job["devices"] = [CPU, gpu()]
    gpu_job(box, [])
    run_job(box, job)[0].ok()
    _, said = rows(box, box.path("run"))
    assert said["device"] == "cuda:0", said
    learned = typed(box, "rsage", name="learned", **{"features.kind": "both", "features.dim": 5})
    no(box, learned, "--device", "cuda", words=["--device cuda:0", "learned rows", "cpu"])


# ---- memory -------------------------------------------------------------------------------------

WIDE = {"n": 20000, "degree": 6, "feat_dim": 128}  # 9.8 MiB of features


def wide(box, name="run"):
    gpu_job(box, [])
    return trained(box, name, box.shared_dataset("wide", **WIDE), epochs=1)[0]


def test_bits_depend_on_no_memory(box):
    run = wide(box)
    log = {"SLUICE_LOG": "debug"}
    whole, _ = rows(box, run, "--device", "cuda")
    close(whole, rows(box, run, "--device", "cpu")[0])

    def again(*arguments, **env):
        result = predict(box, run, "--device", "cuda", *arguments, env={**log, **env}).ok()
        assert (np.load(box.path("rows.npy")) == whole).all(), result
        return result.err

    assert "9 MiB are copied" in again("--chunk", 1)
    # The features alone fit, and the work beside them does not. Streams that run late find lists
    # and banks as they were.
    late = {"SLUICE_SIMT_READ_ONLY": "1", "SLUICE_SIMT_SEED": "7"}
    said = again("--gpu-memory", "18MiB", **late)
    for told in ("9 MiB on the device are freed for the work", "9 MiB are read in place"):
        assert told in said, said


@whole
def test_any_allocation_may_fail(box):
    """Some can be done without; the others end it with what was wanted and what to change."""
    run = wide(box)
    whole, _ = rows(box, run, "--device", "cuda")
    ways = set()
    for n in range(1, 8):
        env = {"SLUICE_LOG": "debug", "SLUICE_SIMT_FAIL": f"malloc:{n},noregister"}
        result = predict(box, run, "--device", "cuda", env=env, name=f"{n}.npy")
        if result.rc == 0:
            assert (np.load(box.path(f"{n}.npy")) == whole).all(), result
            ways |= {way for way in ("gathered by", "copied to") if way in result.err}
        else:
            assert result.rc == 2 and len(result.errors()) == 1, result
            for words in ("GPU 0 has no room", "MiB more were wanted", "--device cpu"):
                assert words in result.errors()[0], result
            assert not os.path.exists(box.path(f"{n}.npy")), result
            ways.add("refused")
    assert ways == {"gathered by", "copied to", "refused"}, ways


def test_too_little_memory_is_told(box):
    run = model(box, large=True)
    result = predict(box, run, "--device", "cuda", "--gpu-memory", "2MiB")
    words = ("GPU 0 has no room", "2.0 MiB of --gpu-memory", "of the GPU's 1024.0 MiB are free")
    refused(box, result, *words, "--device cpu", output="rows.npy")
    assert "batch_size" not in result.err, result


# ---- faults -------------------------------------------------------------------------------------


@cases("sync:4", "launch:1")
def test_a_gpu_that_faults_ends_it(box, fail):
    run = model(box)
    os.mkdir(box.path("out"))
    result = predict(
        box, run, "--device", "cuda", name="out/rows.npy", env={"SLUICE_SIMT_FAIL": fail}
    )
    assert result.rc == 1 and len(result.errors()) == 1, result
    assert "GPU 0" in result.errors()[0], result
    assert os.listdir(box.path("out")) == [], "something is left"


# ---- which device -------------------------------------------------------------------------------


def no(box, run, *arguments, words, env=None, output="no.npy"):
    result = predict(box, run, *arguments, "--quiet", name="no.npy", env=env)
    refused(box, result, *words, output=output)


def test_devices_that_are_refused(box):
    run = model(box)
    no(box, run, "--device", "gpu", words=["--device", "'gpu'", "auto, cpu, cuda, or cuda:N"])
    no(box, run, "--device", "cuda:", words=["'cuda:'"])
    no(box, run, "--device", "cuda:64", words=["'cuda:64'", "0 to 63"])
    no(box, run, "--device", "cuda:1", words=["found cuda:1", "GPU 0 (", "1.0 GiB", "doctor"])
    no(box, run, "--device", "cuda", "--gpu-memory", "2GiB", words=["--gpu-memory", "2.00 GiB"])
    no(box, run, "--device", "cpu", "--gpu-memory", "1GiB", words=["--gpu-memory", "--device cuda"])
    no(box, run, "--gpu-memory", "1GiB", words=["trained on cores", "--device cuda"])
    for failure, words in (("nodevice", "no NVIDIA driver"), ("olddriver", "is too old")):
        env = {"SLUICE_SIMT_FAIL": failure}
        no(box, run, "--device", "cuda", words=["none: ", words, "--device cpu"], env=env)
    env = {"SLUICE_CUDA_PLUGIN": box.path("nothing.so")}
    no(box, run, "--device", "cuda:0", words=["found cuda:0", "nothing.so"], env=env)
    # Those that know of no GPU do not mind.
    rows(box, run, env=env)
    rows(box, run, "--device", "cpu", env=env)


def trained_on_gpu(box):
    job = gpu_job(box, [CPU, gpu()], output=box.path("run"), epochs=1)
    run_job(box, job)[0].ok()
    return box.path("run")


def test_the_default_is_the_kind_that_trained(box):
    run = trained_on_gpu(box)
    result = predict(box, run).ok()
    assert result.json()["device"] == "cuda:0" and "note" not in result.err, result
    found = np.load(box.path("rows.npy"))
    result = predict(box, run, env={"SLUICE_SIMT_FAIL": "nodevice"}).ok()
    assert result.json()["device"] == "cpu", result
    assert "sluice: note: the run trained on a GPU, and none can be used here" in result.err
    assert "no NVIDIA driver" in result.err and "--device cpu" in result.err, result
    close(found, np.load(box.path("rows.npy")))
    for more in (["--quiet"], ["--device", "cpu"]):
        result = predict(box, run, *more, env={"SLUICE_SIMT_FAIL": "nodevice"}).ok()
        assert "note" not in result.err, result
    text = box.sluice("predict", run, "--out", box.path("t.npy"), env=GPU).ok().out
    assert "  device     GPU 0 (" in text and "at most 768 MiB of its memory" in text, text
    text = box.sluice("predict", model(box, "cores"), "--out", box.path("c.npy"), env=GPU).ok().out
    assert "  device     cores, " in text, text


def asks(machine, run, *arguments):
    """What a machine of pretended GPUs, whose work the emulated ones do, makes of it."""
    result = machine.sluice(
        *("predict", run, "--out", machine.box.path("rows.npy"), "--force", "-o", "json"),
        *arguments,
        env={**GPU, "SLUICE_SIMT_DEVICES": "2"},
        seconds=60,
    )
    return result


def test_the_gpu_with_the_most_memory_is_taken(box):
    run = trained_on_gpu(box)
    busy, free = pretend_gpu(0, free=GIB // 4), pretend_gpu(1, free=GIB)
    machine = Machine.with_gpus(box, busy, free)
    for arguments, device in ((), "cuda:1"), (["--device", "cuda"], "cuda:1"):
        summary = asks(machine, run, *arguments).ok().json()
        assert summary["device"] == device and summary["gpu"] == "Pretend 1", summary
        assert summary["gpu_memory"] == 768 * MIB, summary
    assert machine.asked() == 2
    summary = asks(machine, run, "--device", "cuda:0").ok().json()
    assert summary["device"] == "cuda:0" and summary["gpu_memory"] == 192 * MIB, summary
    result = asks(machine, run, "--device", "cuda:0", "--gpu-memory", "512MiB").ok()
    assert "note: --gpu-memory is 512 MiB, but GPU 0 has 256 MiB free" in result.err, result
    # Where others have the memory of all, the cores do it, unless a GPU was asked for.
    asked = machine.asked()
    machine = Machine.with_gpus(box, busy)
    result = asks(machine, run).ok()
    assert result.json()["device"] == "cpu" and "no GPU here has room" in result.err, result
    assert asks(machine, run, "--gpu-memory", "128MiB").ok().json()["device"] == "cuda:0"
    asks(machine, run, "--device", "cpu").ok()
    assert machine.asked() == asked + 2


def test_a_gpu_without_free_memory(box):
    run = model(box)
    machine = Machine.with_gpus(box, pretend_gpu(0, free=1 << 19))
    result = asks(machine, run, "--device", "cuda")
    refused(box, result, "GPU 0 (Pretend 0) has no memory free", "nvidia-smi", output="rows.npy")
