"""What a daemon and its clients do with bad input, bad neighbours and a bad day."""

import fcntl
import os
import struct
import subprocess

import harness
from harness import BIN, CORES, SLOW, Skip, cases, not_under, small_job

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


REFUSED = 15


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


def test_what_a_daemon_can_not_have_is_refused(box):
    everybodys = box.path("everybodys")
    os.mkdir(everybodys)
    os.chmod(everybodys, 0o777)
    for arguments, said in (
        (["--cores", "1-"], "--cores '1-': "),
        (["--cores", "4000"], "--cores"),
        (["--cores", "1023"], "--cores: found core 1023, wanted cores among "),
        (["--state-dir", box.path("no/such")], "--state-dir '"),
        (["--state-dir", everybodys], "can be written by others: wanted one that only user "),
        (["--listen", "tcp://127.0.0.1:0"], "--listen needs --keys FILE"),
        (["--listen", "tcp://127.0.0.1:0", "--keys", box.path("no.key")], "no.key"),
    ):
        arguments += ["--runtime-dir", box.path("rt")]
        result = box.start(*arguments, program="sluice-broker").wait(10)
        assert result.rc == 2 and said in result.err, (said, result)
    version = box.start("--version", program="sluice-broker").wait(10)
    assert version.rc == 0 and f"(protocol {PROTOCOL})" in version.out, version


def test_a_job_that_fails_says_so_everywhere(box):
    daemon = Daemon(box)
    daemon.submit("one", **{"arena": {"memory": "4KiB"}}).ok()
    job = daemon.until_state("one", "failed")
    assert job["exit_status"] == 2 and "arena.memory" in job["message"], job
    waited = daemon.do("wait", "one")
    assert waited.rc != 0 and "arena.memory" in waited.err + waited.out, waited
    box.assert_no_run()
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
