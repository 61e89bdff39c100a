"""A daemon whose GPUs take long to answer, or never do: nobody waits for them who needs none.

SLUICE_SIMT_HOLD holds the emulated driver as long as a file is there.
"""

import contextlib
import os
import socket
import threading

from harness import BIN, CORES, Daemon, Skip, gone, not_under, read_json, small_job, timeout

PLUGIN = os.path.join(os.path.dirname(BIN), "lib", "libsluice_cuda_simt.so")
CPU = {"kind": "cpu", "cores": str(CORES[0])}
GPU = {"kind": "cuda", "index": 0}
SANITIZED = "the emulation and the sanitizer both take over the stacks of threads"
LONG = {"throttle": {"train": 0.05}, "epochs": 1000}


class Held:
    """A daemon with a GPU that does not answer before it is let go."""

    def __init__(self, box, **env):
        if not os.path.exists(PLUGIN):
            raise Skip(f"{PLUGIN} is not there: make tests builds it")
        self.box, self.file = box, box.path("hold")
        self.hold()
        self.gpu = {"SLUICE_CUDA_PLUGIN": PLUGIN, "CUDA_VISIBLE_DEVICES": "0"}
        self.daemon = Daemon(box, env={**self.gpu, "SLUICE_SIMT_HOLD": self.file, **env})

    def hold(self):
        open(self.file, "w").close()

    def let_go(self):
        os.unlink(self.file)

    def job(self, name, devices, **changes):
        config = small_job(
            self.box.shared_dataset("gpu", n=400),
            output=f"runs/{name}",
            **{
                "name": name,
                "epochs": 2,
                "model.hidden": 8,
                "sampler.fanout": [3, 3],
                "evaluate.fanout": [4, 4],
                "allocation": {},
                **changes,
            },
        )
        config["devices"] = devices
        return self.box.job(config, f"{name}.json")

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


@not_under("address", SANITIZED)
@not_under("thread", SANITIZED)
@timeout(120)
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


@not_under("address", SANITIZED)
@not_under("thread", SANITIZED)
def test_a_submit_that_is_given_up_is_not_taken(box):
    held = Held(box)
    command = held.submit("one", [CPU, GPU])
    held.until_waiting(1)
    command.interrupt()
    result = command.wait(10)
    assert result.rc == 130 and "may have been taken" in result.err, result
    held.until_waiting(0)
    held.let_go()
    again = held.submit("two", [CPU, GPU], "--detach").wait(30).ok()
    assert list(held.daemon.jobs()) == ["two"], again
    held.daemon.do("wait", "two").ok()
    held.daemon.stop().ok()


@not_under("address", SANITIZED)
@not_under("thread", SANITIZED)
def test_a_daemon_that_ends_meanwhile_leaves_no_job_behind(box):
    held = Held(box)
    daemon = held.daemon
    command = held.submit("one", [CPU, GPU])
    held.until_waiting(1)
    daemon.running.process.terminate()
    ended, result = daemon.running.wait(10), command.wait(10)
    ended.ok()
    assert result.rc == 2 and "the daemon is stopping, and has not taken" in result.err, result
    for pid in held.children():
        with contextlib.suppress(ProcessLookupError):
            gone(pid)
    held.let_go()
    daemon.start()
    assert daemon.jobs() == {}
    daemon.stop().ok()


@not_under("address", SANITIZED)
@not_under("thread", SANITIZED)
def test_a_driver_that_hangs_is_said_to(box):
    held = Held(box, SLUICE_GPU_SECONDS="2")
    result = held.submit("one", [CPU, GPU], "--detach").wait(20)
    assert result.rc == 2 and "did not answer within 2 s" in result.err, result
    assert "may have been taken" not in result.err, result
    again = held.submit("two", [CPU, GPU], "--detach").wait(20)
    assert again.rc == 2, again
    asked = held.daemon.running.output()[1].count("GPUs: found none")
    assert asked == 1, "the answer holds for a while"
    # On cores, as the daemon has found out.
    held.submit("auto", "auto", "--detach").wait(20).ok()
    held.daemon.do("wait", "auto", seconds=40).ok()
    assert held.daemon.jobs()["auto"]["state"] == "done"
    held.daemon.stop().ok()


@not_under("address", SANITIZED)
@not_under("thread", SANITIZED)
@timeout(90)
def test_a_job_is_gone_on_with_once_the_gpus_are_known(box):
    """A daemon that was started anew does not know them."""
    held = Held(box)
    daemon = held.daemon
    held.let_go()
    daemon.do("submit", held.job("one", [CPU, GPU], **LONG), "--detach").ok()
    daemon.until_state("one", "running")
    daemon.do("stop", "one").ok()
    daemon.stop().ok()
    held.hold()
    daemon.start()
    command = daemon.background("resume", "one")
    held.until_waiting(1)
    assert daemon.state("one") == "stopped"
    held.let_go()
    command.wait(20).ok()
    daemon.until_state("one", "running")
    daemon.do("stop", "one").ok()
    daemon.stop().ok()
