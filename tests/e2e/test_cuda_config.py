"""Jobs on GPUs as the command line sees them: what is listed, resolved, refused, and said of it.

Nothing here computes. A machine with any GPUs, or a broken driver, is made up by a program that
stands in the place of `sluice-trainer` and answers `--devices` for it; at the end the real one is
asked, of the emulated plug-in (tests/simt).
"""

import json
import os
import re
import shutil
import stat

from harness import BIN, CORES, Skip, cases, small_job
from test_cuda import CPU, PLUGIN

GIB = 1 << 30


def gpu(index, total=16 * GIB, free=15 * GIB, cores="", maps_files=False, reads=None):
    """reads: GB/s of each GPU whose memory it reads, by number; 0: not known."""
    reads = reads or {}
    return {
        "index": index,
        "name": f"Pretend {index}",
        "compute_capability": "9.0",
        "processors": 132,
        "memory_total": total,
        "memory_free": free,
        "bus_id": f"0000:0{index}:00.0",
        "cores": cores,
        "peers": list(reads),
        "links": [reads.get(i, 0) for i in range(8)],
        "maps_files": maps_files,
    }


NCCL = "libnccl.so.2, version 2.28.3"


def answer(gpus=(), problem="", driver=13000, nccl=NCCL):
    return json.dumps(
        {
            "schema": "sluice.devices/1",
            "plugin": "/opt/sluice/lib/libsluice_cuda.so",
            "driver_version": driver,
            "runtime_version": 13000,
            "cublas": "libcublas.so.13, version 13.0.0",
            "nccl": nccl,
            "problem": problem,
            "devices": list(gpus),
        }
    )


class Machine:
    """The programs in a folder of their own, where another program tells of GPUs."""

    def __init__(self, box, script):
        self.box, self.folder = box, box.path("bin")
        os.makedirs(self.folder, exist_ok=True)
        for program in ("sluice", "sluice-broker", "sluice-sampler"):
            if not os.path.exists(self.path(program)):
                shutil.copy(os.path.join(BIN, program), self.path(program))
        # Only where there is something to open is anybody asked.
        open(self.path("libsluice_cuda.so"), "w").close()
        with open(self.path("sluice-trainer"), "w") as file:
            file.write(f'#!/bin/sh\n[ "$*" = "--devices" ] || exec {BIN}/sluice-trainer "$@"\n')
            file.write(script)
        os.chmod(self.path("sluice-trainer"), stat.S_IRWXU)

    @classmethod
    def with_gpus(cls, box, *gpus, **more):
        with open(box.path("gpus.json"), "w") as file:
            file.write(answer(gpus, **more))
        return cls(box, f"echo asked >> {box.path('asked')}\ncat {box.path('gpus.json')}\n")

    def path(self, name):
        return os.path.join(self.folder, name)

    def sluice(self, *arguments, seconds=30, env=None):
        return self.box.start(*arguments, env=env, program=self.path("sluice")).wait(seconds)

    def plan(self, **changes):
        """What a dry run of a small job with these changes would do."""
        job = small_job(self.box.shared_dataset("small"), allocation={}, **changes)
        path = self.box.job(job)
        return self.sluice("run", path, "--dry-run", "-o", "json")

    def asked(self):
        path = self.box.path("asked")
        return len(open(path).readlines()) if os.path.exists(path) else 0


def devices_of(result):
    return result.ok().json()["config"]["devices"]


# ---- "auto", and what it becomes ----------------------------------------------------------------


def test_auto_takes_all_gpus(box):
    machine = Machine.with_gpus(box, gpu(0), gpu(1, cores=str(CORES[1])))
    result = machine.plan(devices="auto")
    devices = devices_of(result)
    assert [(d["kind"], d["index"]) for d in devices] == [("cuda", 0), ("cuda", 1)], devices
    assert devices[1]["cores"] == str(CORES[1]), devices
    assert devices[0]["memory"] == "14GiB", devices  # 15 free, less two processes' own
    assert result.json()["allocation"]["sampler_devices"] == [0]
    assert result.json()["allocation"]["trainer_devices"] == [1]
    assert machine.asked() == 1


def test_jobs_on_cores_ask_for_no_gpu(box):
    machine = Machine.with_gpus(box, gpu(0))
    for devices in "cpu", [CPU, CPU]:
        listed = devices_of(machine.plan(devices=devices))
        assert {d["kind"] for d in listed} == {"cpu"}, listed
    assert machine.asked() == 0


def test_without_a_driver_auto_is_the_cores_and_nothing_is_said(box):
    machine = Machine.with_gpus(box, problem="no NVIDIA driver was found", driver=0)
    result = machine.plan(devices="auto")
    assert {d["kind"] for d in devices_of(result)} == {"cpu"}
    assert "GPU" not in result.err, result


def test_a_driver_that_gives_no_gpu_is_told(box):
    machine = Machine.with_gpus(box, problem="the driver is of CUDA 11.4: update it", driver=11040)
    result = machine.plan(devices="auto")
    assert {d["kind"] for d in devices_of(result)} == {"cpu"}
    assert "sluice: note: no GPU is used: the driver is of CUDA 11.4: update it" in result.err


# ---- CPU devices and GPUs together --------------------------------------------------------------


def test_cpu_devices_sample_and_gpus_train(box):
    machine = Machine.with_gpus(box, gpu(0))
    result = machine.plan(devices=[CPU, CPU, {"kind": "cuda", "index": 0}])
    plan = result.ok().json()["allocation"]
    assert plan["sampler_devices"] == [0, 1] and plan["trainer_devices"] == [2], plan
    assert plan["standby_devices"] == [], plan  # on a CPU its sums would be others
    assert plan["reason"] == "the CPU devices sample and the GPUs train"
    text = machine.sluice("run", box.path("job.json"), "--dry-run").ok().out
    assert f"  cpu 0: core {CORES[0]}: sampler 0\n" in text, text
    assert "  cuda 2: GPU 0, at most 14 GiB, host core" in text, text


def test_trainers_of_two_kinds_are_warned_of(box):
    machine = Machine.with_gpus(box, gpu(0))
    job = small_job(
        box.shared_dataset("small"),
        devices=[CPU, CPU, {"kind": "cuda", "index": 0}],
        allocation={"samplers": 1, "trainers": 2},
    )
    result = machine.sluice("run", box.job(job), "--dry-run", "-o", "json").ok()
    assert "sluice: note: device 1 and device 2 train, a CPU and a GPU" in result.err, result


# ---- what cannot run ---------------------------------------------------------------------------


def test_more_memory_than_is_free_is_noted(box):
    machine = Machine.with_gpus(box, gpu(0, free=GIB))
    result = machine.plan(devices=[{"kind": "cuda", "index": 0, "memory": "8GiB"}]).ok()
    assert "the devices on GPU 0 may take 8589934592 bytes (8.0 GiB)" in result.err, result


# ---- gradients from GPU to GPU ------------------------------------------------------------------

SUMMED = {"exchange": "nccl", "batches_per_update": 4}


def test_trainers_without_a_batch_are_noted(box):
    machine = Machine.with_gpus(box, *(gpu(i) for i in range(4)))
    updates = {"exchange": "nccl", "batches_per_update": 2}
    result = machine.plan(devices="auto", updates=updates).ok()
    assert "note: 3 trainers for updates of 2 mini-batches: 1 of them" in result.err, result
    result = machine.plan(devices="auto", updates={"batches_per_update": 2}).ok()
    assert "note" not in result.err, result


# ---- doctor -------------------------------------------------------------------------------------


def doctor(machine, seconds=30, env=None):
    result = machine.sluice("doctor", "-o", "json", seconds=seconds, env=env)
    return result, json.loads(result.out)["checks"]


def test_doctor_lists_gpus(box):
    machine = Machine.with_gpus(box, gpu(0, cores="0-1"), gpu(1, free=GIB))
    result, checks = doctor(machine)
    result.ok()
    assert checks["gpus"]["found"].startswith("2, taken by"), checks["gpus"]
    assert "CUDA 13.0" in checks["gpu_driver"]["found"], checks["gpu_driver"]
    first = checks["gpu0"]["found"]
    assert first.startswith("Pretend 0, capability 9.0, 15.0 GiB free of 16.0 GiB"), first
    assert first.endswith("bus 0000:00:00.0, near cores 0-1"), first
    assert checks["gpu1"]["verdict"] == "warning" and "nvidia-smi" in checks["gpu1"]["advice"]
    assert checks["gpu_plugin"]["found"] == "/opt/sluice/lib/libsluice_cuda.so"
    assert "libcublas" in checks["cublas"]["found"]
    assert checks["nccl"]["found"].startswith(NCCL), checks["nccl"]
    assert "only" in checks["nccl"]["found"] and checks["nccl"]["verdict"] == "ok", checks["nccl"]
    assert "GPU 1" in machine.sluice("doctor").ok().out


def test_doctor_says_who_reads_whose_memory(box):
    machine = Machine.with_gpus(box, gpu(0, reads={1: 50, 2: 0}), gpu(1, reads={0: 50}), gpu(2))
    _, checks = doctor(machine)
    reads = [checks[f"gpu{i}_reads"]["found"] for i in range(3)]
    wanted = ["GPU 1 at 50 GB/s, 2 at 25 GB/s (assumed)", "GPU 0 at 50 GB/s", "GPU none"]
    assert reads == wanted, reads
    _, checks = doctor(Machine.with_gpus(box, gpu(0)))
    assert "gpu0_reads" not in checks, checks


@cases(
    ((True, False), "1 of 2 GPUs read the files of data sets in place: a job has one pinned copy"),
    ((False, False), "no GPU reads the files of data sets in place: a job has one pinned copy"),
)
def test_doctor_says_whether_files_are_read_in_place(box, maps_files, words):
    machine = Machine.with_gpus(box, *(gpu(i, maps_files=m) for i, m in enumerate(maps_files)))
    _, checks = doctor(machine)
    assert checks["gpu_files"]["found"].startswith(words), checks["gpu_files"]
    assert checks["gpu_files"]["verdict"] == "ok", checks["gpu_files"]
    huge = "moved to them" in checks["huge_pages"]["found"]
    found = checks["gpu_files"]["found"]
    said = re.search(r"in pages of (\S+ \S+), .*, now \S+ [KMG]iB at most", found)
    assert all(maps_files) or said[1] == ("2 MiB" if huge else "4 KiB"), checks


@cases(
    ("files", True, {}, "file", "pins memory that is only read"),
    ("copy", False, {}, "copy", "does not pin the files"),
    ("cached", False, {"cache": {"policy": "degree", "ratio": "auto"}}, "staged", "every row"),
    ("cores", False, {"devices": "cpu"}, None, None),
)
def test_a_dry_run_says_how_features_get_to_gpus(box, name, maps_files, changes, way, why):
    machine = Machine.with_gpus(box, gpu(0, maps_files=maps_files))
    job = {"devices": [CPU, {"kind": "cuda", "index": 0}], "cache": {"policy": "none"}, **changes}
    store = machine.plan(**job).ok().json()["store"]
    assert store.get("gpu_way") == way and (why or "") in store.get("gpu_reason", ""), store
    path = box.job(small_job(box.shared_dataset("small"), allocation={}, **job))
    text = machine.sluice("run", path, "--dry-run").ok().out
    assert ("  GPUs " in text) == bool(way) and (why or "") in text, text


# ---- the programs together with the emulated plug-in --------------------------------------------


def emulation(**settings):
    if not os.path.exists(PLUGIN):
        raise Skip("the emulated plug-in is not built")
    return {"SLUICE_CUDA_PLUGIN": PLUGIN, **settings}


def test_emulated_gpus_are_found(box):
    env = emulation(SLUICE_SIMT_DEVICES="2", SLUICE_SIMT_MEMORY=str(256 << 20))
    job = box.job(small_job(box.shared_dataset("small"), devices="auto", allocation={}))
    devices = devices_of(box.sluice("run", job, "--dry-run", "-o", "json", env=env))
    assert [(d["index"], d["memory"]) for d in devices] == [(0, "192MiB"), (1, "192MiB")], devices
    checks = json.loads(box.sluice("doctor", "-o", "json", env=env).out)["checks"]
    assert "GPU 1" in box.sluice("doctor", env=env).out
    assert checks["gpus"]["found"].startswith("2, taken by"), checks["gpus"]
    assert checks["gpu_files"]["found"].startswith("no GPU reads"), checks["gpu_files"]
    env["SLUICE_SIMT_READ_ONLY"] = "1"
    checks = json.loads(box.sluice("doctor", "-o", "json", env=env).out)["checks"]
    assert checks["gpu_files"]["found"].endswith("are read in place"), checks["gpu_files"]


def test_an_emulated_driver_that_can_not_be_used(box):
    env = emulation(SLUICE_SIMT_FAIL="olddriver")
    listed = small_job(
        box.shared_dataset("small"), devices=[{"kind": "cuda", "index": 0}], allocation={}
    )
    words = "the NVIDIA driver is too old"
    result = box.sluice("run", box.job(listed), env=env)
    assert result.rc == 2 and words in result.err, result
    checks = json.loads(box.sluice("doctor", "-o", "json", env=env).out)["checks"]
    assert words in checks["gpus"]["advice"] and checks["gpus"]["verdict"] == "warning", checks


def test_an_emulated_nccl_that_is_not_there(box):
    env = emulation(SLUICE_SIMT_DEVICES="2", SLUICE_SIMT_NCCL="none")
    job = small_job(box.shared_dataset("small"), devices="auto", allocation={}, updates=SUMMED)
    result = box.sluice("run", box.job(job), env=env)
    assert result.rc == 2 and len(result.errors()) == 1, result
    assert "updates.exchange: found \"nccl\", and there is no NCCL to do it (none: " in result.err
    assert not os.path.exists(box.path("runs")), "a run directory was made"
    checks = json.loads(box.sluice("doctor", "-o", "json", env=env).out)["checks"]
    assert checks["nccl"]["found"].startswith("none: "), checks["nccl"]
    env["SLUICE_SIMT_NCCL"] = ""
    box.sluice("run", box.job(job), "--dry-run", env=env).ok()


def test_a_plug_in_that_is_not_one(box):
    with open(box.path("plugin.so"), "w") as file:
        file.write("no library\n")
    env = {"SLUICE_CUDA_PLUGIN": box.path("plugin.so")}
    checks = json.loads(box.sluice("doctor", "-o", "json", env=env).out)["checks"]
    assert checks["gpus"]["verdict"] == "warning", checks["gpus"]
    assert "plugin.so" in checks["gpus"]["advice"], checks["gpus"]
    job = box.job(small_job(box.shared_dataset("small"), devices="auto", allocation={}))
    result = box.sluice("run", job, "--dry-run", env=env).ok()
    assert "sluice: note: no GPU is used: " in result.err, result
