"""A daemon whose GPUs take long to answer, or never do: nobody waits for them who needs none.

SLUICE_SIMT_HOLD holds the emulated driver as long as a file is there.
"""

import os
import socket
import threading

from harness import Daemon, read_json
from test_cuda import CPU, PLUGIN, SANITIZED, gpu, gpu_job

GPU = gpu()
NOT_UNDER = {"address": SANITIZED}
LONG = {"throttle": {"train": 0.05}, "epochs": 1000}


class Held:
    """A daemon with a GPU that does not answer before it is let go."""

    def __init__(self, box, **env):
        self.box, self.file = box, box.path("hold")
        self.hold()
        self.gpu = {"SLUICE_CUDA_PLUGIN": PLUGIN, "CUDA_VISIBLE_DEVICES": "0"}
        self.daemon = Daemon(box, env={**self.gpu, "SLUICE_SIMT_HOLD": self.file, **env})

    def hold(self):
        open(self.file, "w").close()

    def let_go(self):
        os.unlink(self.file)

    def job(self, name, devices, **changes):
        own = {"name": name, "output": f"runs/{name}", "allocation": {}}
        return self.box.job(gpu_job(self.box, devices, **own, **changes), f"{name}.json")

    def submit(self, name, devices, *arguments):
        return self.daemon.background("submit", self.job(name, devices), *arguments)

    def waiting(self):
        return self.daemon.listed()[0]["waiting_for_gpus"]

    def until_waiting(self, n):
        self.daemon.until(lambda: self.waiting() == n, f"{n} jobs that wait for the GPUs")

    def children(self):
        """Those that are asked for GPUs."""
        lines = self.box.processes("trainer").items()
        return [pid for pid, line in lines if "--devices" in line.split("\0")]


class Pings:
    """What a service manager hears."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.path, self.said = path, []
        self.thread = threading.Thread(target=self.listen, daemon=True)
        self.thread.start()

    def listen(self):
        while True:
            said = self.socket.recv(4096).decode()
            if said == "end":
                return
            self.said.append(said)

    def alive(self):
        """Signs of life so far."""
        return sum("WATCHDOG=1" in said for said in self.said)

    def end(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.sendto(b"end", self.path)
        self.thread.join()
        self.socket.close()
        os.unlink(self.path)


def test_slow_gpus_hold_up_only_who_needs_them(box):
    pings = Pings(box.path("notify"))
    held = Held(box, NOTIFY_SOCKET=pings.path, WATCHDOG_USEC="2000000")
    daemon = held.daemon
    daemon.do("submit", held.job("cpu", [CPU, CPU], **LONG), "--detach").ok()
    daemon.until_state("cpu", "running")
    waiting = [held.submit("gpu", [CPU, GPU]), held.submit("auto", "auto", "--detach")]
    held.until_waiting(2)
    alive, epochs = pings.alive(), set()

    def goes_on():
        """All of it is answered though the GPUs never do: who waited for them would hang."""
        daemon.do("ps", "-o", "json").ok()
        epochs.add(daemon.do("stats", "cpu", "-o", "json").ok().json()["done"])
        daemon.do("pause", "cpu").ok()
        daemon.do("resume", "cpu").ok()
        return len(epochs) > 1 and pings.alive() >= alive + 3

    daemon.until(goes_on, "progress of the job on cores, or sign of life", 60)
    assert len(held.children()) == 1 and held.waiting() == 2
    assert not any(command.finished() for command in waiting)
    assert "asks which GPUs there are" in waiting[0].output()[1]
    another = held.submit("cores", [CPU, CPU], "--detach").wait(10)
    assert another.ok(), "a job without GPUs waits for its cores alone"
    daemon.do("stop", "cpu").ok()
    held.let_go()
    for command in waiting:
        command.wait(60).ok()
    daemon.do("wait", "auto", "cores", seconds=60).ok()
    report = read_json(box.path("runs/gpu/report.json"))
    assert report["status"] == "done" and report["devices"][1]["kind"] == "cuda", report["devices"]
    daemon.stop().ok()
    pings.end()
    assert any("asking for the GPUs" in said for said in pings.said), pings.said
