"""What a daemon and its clients do with bad input, bad neighbours and a bad day."""

import fcntl
import os
import re
import shutil
import signal
import struct
import subprocess

import harness
from harness import BIN, CORES, SLOW, Skip, cases, not_under, read_json, small_job

try:
    import zmq
except ImportError:  # scripts/packages has it
    zmq = None

PROTOCOL = 3
F_OFD_SETLK = 37  # of Linux; not in every version of the module


def varint(n):
    out = b""
    while n > 0x7F:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    """One protobuf field: an int, or bytes (a message, a text)."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def envelope(body, protocol=PROTOCOL, content=b""):
    return field(1, protocol) + field(body, content)


LIST, SUBSCRIBE, REFUSED = 19, 8, 15


class Daemon(harness.Daemon):
    """With short words for what these tests do all the time."""

    def job(self, name):
        return self.jobs()[name]

    def submit(self, name="one", **changes):
        box = self.box
        config = small_job(
            box.shared_dataset("small"),
            output=changes.pop("output", f"runs/{name}"),
            **{"name": name, "devices": [{"kind": "cpu", "cores": str(CORES[0])}] * 2, **changes},
        )
        path = box.job(config, f"{name}.json")
        return self.do("submit", path, "--detach", "-o", "json")

    def end(self):
        return self.stop().ok()

    def endpoint(self, name="control.sock"):
        return f"ipc://{self.folder}/{name}"


SLOW_JOB = {"throttle": {"train": 0.1}, "epochs": 200}


def dealer(context, endpoint):
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.LINGER, 0)
    socket.connect(endpoint)
    return socket


def test_without_a_daemon_every_command_says_how_to_start_one(box):
    path = box.job(small_job(box.shared_dataset("small")))
    for command in (
        *(("stats", "x"), ("logs", "x"), ("stop", "x"), ("pause", "x"), ("resume", "x")),
        *(("wait", "x"), ("scale", "x", "samplers=1"), ("trace", "x"), ("submit", path)),
    ):
        result = box.sluice(*command, env={"SLUICE_RUNTIME_DIR": box.path("nowhere")})
        assert "no daemon runs for" in result.err and "sluice-broker" in result.err, result
        assert result.rc == 2 and len(result.errors()) == 1, result
        assert not os.path.exists(box.path("nowhere"))
    box.assert_no_run()


def test_a_directory_that_another_user_has_made_first(box):
    """The message names two ways out, and both lead to a daemon that commands find."""
    if os.geteuid() != 0:
        raise Skip("only root can make another user's directory")
    taken = box.path("taken")
    os.makedirs(taken, 0o700)
    os.chown(taken, 65534, 65534)
    env = {"SLUICE_RUNTIME_DIR": taken}
    refused = box.start(program="sluice-broker", env=env).wait()
    assert refused.rc == 2 and refused.err.count("\n") == 1, refused
    assert "--runtime-dir DIR" in refused.err and "SLUICE_RUNTIME_DIR=DIR" in refused.err, refused
    assert "--runtime-dir DIR" in box.sluice("ps", env=env).err
    daemon = Daemon(box, folder="own")  # SLUICE_RUNTIME_DIR=DIR
    listed = box.sluice("ps", "--runtime-dir", box.path("own"), env=env).ok()
    assert f"process {daemon.running.process.pid}" in listed.out, listed
    daemon.end()


def test_a_second_daemon_on_the_same_directory(box):
    first = Daemon(box)
    second = box.start("--runtime-dir", box.path("rt"), program="sluice-broker").wait()
    assert second.rc == 2 and str(first.running.process.pid) in second.err, second
    first.do("ps").ok()
    first.end()


def test_a_directory_that_others_may_enter(box):
    os.makedirs(box.path("rt"), mode=0o755)
    os.chmod(box.path("rt"), 0o755)
    result = box.start("--runtime-dir", box.path("rt"), program="sluice-broker").wait()
    assert result.rc == 2 and "0700" in result.err, result


def test_a_directory_with_too_long_a_name(box):
    folder = box.path("x" * 100)
    result = box.start("--runtime-dir", folder, program="sluice-broker").wait(10)
    assert result.rc == 2 and "107" in result.err, result
    result = box.sluice("ps", "--runtime-dir", folder)
    assert result.rc == 2, result


@cases("in-its-lock", "in-its-answer")
def test_a_daemon_of_another_version(box, told):
    """A newer one: its lock tells, or the one message that never changes."""
    folder = box.path("rt")
    os.makedirs(folder, mode=0o700)
    with open(os.path.join(folder, "daemon.lock"), "w") as lock:
        # An open file description's write lock on all of it, as a living daemon holds one.
        fcntl.fcntl(lock, F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        lock.write(f"{os.getpid()} {9 if told == 'in-its-lock' else PROTOCOL} 9.9.9\n")
        lock.flush()
        context = zmq.Context()
        router = context.socket(zmq.ROUTER)
        router.setsockopt(zmq.LINGER, 0)
        router.bind(f"ipc://{folder}/control.sock")
        asking = box.start("stats", "x", env={"SLUICE_RUNTIME_DIR": folder})
        if told == "in-its-answer":
            assert router.poll(5000 * SLOW), "the client did not even ask"
            name = router.recv_multipart()[0]
            refused = field(1, 9) + field(2, b"sluice 9.9.9 speaks protocol 9")
            router.send_multipart([name, envelope(REFUSED, 9, refused)])
        result = asking.wait(20)
        router.close()
        context.term()
    assert result.rc == 2 and "protocol" in result.err and "9" in result.err, result


def test_what_can_not_be_resumed_is_refused_before_it_waits(box):
    daemon = Daemon(box)
    daemon.submit("one", **SLOW_JOB).ok()
    going = daemon.do("resume", "one").ok()  # starting or running: nothing to be done
    assert "not paused" in going.out, going
    daemon.until_state("one", "running")
    assert "not paused" in daemon.do("resume", "one").ok().out
    named = daemon.do("resume", "one", "--checkpoint", "000000000001")
    assert named.rc == 1 and "sluice stop 1" in named.err, named
    daemon.submit("two", **SLOW_JOB).ok()
    assert "queued already" in daemon.do("resume", "two").ok().out
    named = daemon.do("resume", "two", "--checkpoint", "foo")
    assert named.rc == 1 and "none at all" in named.err, named
    daemon.do("stop", "two", "one").ok()
    newest = sorted(os.listdir(box.path("runs/one/checkpoints")))[-1]
    named = daemon.do("resume", "one", "--checkpoint", "foo")
    assert named.rc == 1 and newest in named.err, named
    shutil.rmtree(box.path("runs/one"))
    gone = daemon.do("resume", "one")
    assert gone.rc == 1 and "is gone" in gone.err and "sluice submit" in gone.err, gone
    assert daemon.job("one")["state"] == "stopped"
    daemon.do("resume", "two").ok()  # it never began: there is nothing to be missed
    daemon.until_state("two", "running")
    daemon.do("stop", "two").ok()
    daemon.end()


def test_options_of_the_daemon_that_are_none(box):
    for arguments, said in (
        (["--foo"], "unknown option --foo: 'sluice-broker --help' lists"),
        (["--htp", "1"], "did you mean --http?"),
        (["--http", "99999", "--cores", "4000"], "from 0 (any free one) to 65535"),
    ):
        arguments += ["--runtime-dir", box.path("rt")]
        result = box.start(*arguments, program="sluice-broker").wait(10)
        assert result.rc == 2 and said in result.err, result
        assert not os.path.exists(box.path("rt"))


def test_a_job_that_fails_says_so_everywhere(box):
    daemon = Daemon(box)
    daemon.submit("one", **{"arena": {"memory": "4KiB"}}).ok()
    job = daemon.until_state("one", "failed")
    assert job["exit_status"] == 2 and "arena.memory" in job["message"], job
    waited = daemon.do("wait", "one")
    assert waited.rc != 0 and "arena.memory" in waited.err + waited.out, waited
    box.assert_no_run()
    daemon.end()


def test_a_client_that_stops_reading(box):
    """It is left behind; nobody waits for it."""
    daemon = Daemon(box)
    daemon.submit("one", throttle={"train": 0.05}, epochs=10).ok()
    stuck = daemon.background("stats", "one", "--follow", "-o", "json")
    stuck.until(lambda: stuck.output()[0], "its first line")
    stuck.process.send_signal(signal.SIGSTOP)
    daemon.do("wait", "one").ok()
    report = read_json(box.path("runs/one/report.json"))
    assert report["status"] == "done", report["status"]
    daemon.do("ps").ok()
    stuck.process.send_signal(signal.SIGCONT)
    assert stuck.wait(20).rc == 0
    daemon.end()


def batches(daemon):
    return daemon.do("stats", "one", "-o", "json").ok().json()["totals"]["batches"]


def test_two_hundred_clients_and_a_flood(box):
    daemon = Daemon(box)
    daemon.submit("one", **SLOW_JOB).ok()
    daemon.until_state("one", "running")
    context = zmq.Context(4)
    clients = [dealer(context, daemon.endpoint()) for _ in range(200)]
    for client in clients:
        client.send(envelope(SUBSCRIBE, content=field(2, 1)))
    flood = dealer(context, daemon.endpoint())
    for i in range(4000):
        frames = [[b"\xff" * 30], [b""], [os.urandom(40)], [b"a", b"b", b"c"]][i % 4]
        try:
            flood.send_multipart(frames, flags=zmq.DONTWAIT)
        except zmq.Again:
            flood.poll(60000 * SLOW, zmq.POLLOUT)
    daemon.do("ps").ok()
    heard = 0
    for client in clients:
        heard += bool(client.poll(60000 * SLOW))
    assert heard == 200, f"{heard} of 200 clients heard anything"
    for client in (*clients, flood):
        client.close()
    context.term()
    before = batches(daemon)
    daemon.running.until(lambda: batches(daemon) > before, "batch after the flood")
    daemon.do("stop", "one").ok()
    daemon.end()
    assert "refused" in daemon.running.output()[1], "the log says nothing of the flood"


def test_a_daemon_that_is_stopped_interrupts_and_goes_on(box):
    """SIGTERM: jobs leave a checkpoint; the next daemon goes on with those that ask for it."""
    daemon = Daemon(box, env={"SLUICE_FAILPOINT": "trainer_claimed:20:stop"})
    daemon.submit("one", epochs=6, resume="auto").ok()
    box.until_stopped(daemon.running, "trainer")  # in the middle of its second epoch
    daemon.end()
    box.until_gone()
    daemon = Daemon(box)
    daemon.do("wait", "one").ok()
    report = read_json(box.path("runs/one/report.json"))
    assert report["status"] == "done" and len(report["resumes"]) == 1, report["resumes"]
    assert re.search(r"goes on from", daemon.running.output()[1]), daemon.running.output()[1]
    daemon.end()


def test_auto_devices_are_those_that_the_daemon_gives_away(box):
    daemon = Daemon(box, "--cores", str(CORES[0]))
    daemon.submit("one", devices="auto", allocation={"samplers": 1, "trainers": 1}).ok()
    assert daemon.job("one")["cores"] == str(CORES[0]), daemon.job("one")
    daemon.do("wait", "one").ok()
    listed = read_json(box.path("runs/one/config.json"))["devices"]
    assert {d["cores"] for d in listed} == {str(CORES[0])}, listed
    daemon.end()
    if CORES[0] != CORES[1]:
        daemon = Daemon(box, "--cores", str(CORES[0]))
        other = daemon.submit("two", devices=[{"kind": "cpu", "cores": str(CORES[1])}] * 2)
        assert other.rc == 2 and "cores" in other.err, other
        daemon.end()


def test_readiness_and_watchdog(box):
    """sd_notify by hand: READY, STATUS, WATCHDOG, STOPPING on the socket that systemd names."""
    import socket

    path = box.path("notify")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind(path)
    listener.settimeout(60 * SLOW)
    env = {
        "SLUICE_RUNTIME_DIR": box.path("rt"),
        "NOTIFY_SOCKET": path,
        "WATCHDOG_USEC": "400000",
    }
    running = box.start(program="sluice-broker", env=env)
    said = ""
    while said.count("WATCHDOG=1") < 3:
        said += listener.recv(4096).decode() + "\n"
    assert "READY=1" in said and said.count("WATCHDOG=1") >= 3, said
    running.process.send_signal(signal.SIGTERM)
    running.wait(20).ok()
    while "STOPPING=1" not in said:  # it has been sent: it ends with the daemon
        said += listener.recv(4096).decode() + "\n"
    listener.close()
    os.unlink(path)
    assert "STOPPING=1" in said, said


def test_frames_of_the_envelope(box):
    """The hand-made messages of this file are what the protocol says."""
    daemon = Daemon(box)
    context = zmq.Context()
    client = dealer(context, daemon.endpoint())
    client.send(envelope(LIST))
    assert client.poll(60000 * SLOW)
    answer = client.recv()
    assert answer.startswith(field(1, PROTOCOL)) and b"sluice.jobs/1" in answer, answer[:200]
    client.send(envelope(LIST, protocol=1))
    assert client.poll(60000 * SLOW), "a message of another protocol version is answered"
    assert varint(REFUSED << 3 | 2) in client.recv()
    client.close()
    context.term()
    daemon.end()


@not_under("address", "a sanitizer needs descriptors of its own")
@cases(20, 40)
def test_few_descriptors(box, limit):
    """A daemon that cannot have them says so; none aborts."""
    shell = f"ulimit -n {limit}; exec {BIN}/sluice-broker --runtime-dir {box.path('rt')}"
    running = subprocess.Popen(
        ["sh", "-c", shell], stderr=subprocess.PIPE, text=True, env=box.environment()
    )
    try:
        running.wait(2)
    except subprocess.TimeoutExpired:
        running.terminate()
        assert running.wait(20) == 0
        return
    err = running.stderr.read()
    assert running.returncode == 2 and err.startswith("sluice-broker: "), (running.returncode, err)
    assert "too many open files" in err.lower(), err


def test_a_job_whose_log_can_not_be_opened(box):
    """It runs: its lines go where the daemon's go."""
    daemon = Daemon(box)
    os.mkdir(os.path.join(daemon.folder, "jobs", "1.log"))
    daemon.submit("one", epochs=1).ok()
    daemon.until_state("one", "done")
    assert "1.log' cannot be opened" in daemon.running.output()[1]
    daemon.end()
