"""A long cable: two network devices, and a process that carries frames between them, each of them
late. So kernels delay packets that have netem; this one wants /dev/net/tun alone."""

import collections
import ctypes
import fcntl
import os
import select
import signal
import struct
import time

from harness import Skip, default_signals

TUNSETIFF, TAP_WITHOUT_INFO = 0x400454CA, 0x1002  # linux/if_tun.h
NEW_NET = 0x40000000  # linux/sched.h
DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
FRAME_BYTES = 65536


def enter(pid):
    """From here on this process makes network devices where that one has its own."""
    fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(fd, NEW_NET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
    os.close(fd)


def device(pid, name):
    enter(pid)
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), TAP_WITHOUT_INFO))
    return fd


def send(fd, frame):
    try:
        os.write(fd, frame)
    except OSError:
        pass  # its end is down: a cable loses what nobody takes


def carry(ends, seconds):
    """For ever: what comes at one end leaves the other one so much later, in its order."""
    under_way = {end: collections.deque() for end in ends}  # towards it: (when, frame)
    other = dict(zip(ends, reversed(ends)))
    while True:
        due = [frames[0][0] for frames in under_way.values() if frames]
        wait = max(0, min(due) - time.monotonic()) if due else None
        for end in select.select(ends, [], [], wait)[0]:
            frame = os.read(end, FRAME_BYTES)
            under_way[other[end]].append((time.monotonic() + seconds, frame))
        for end, frames in under_way.items():
            while frames and frames[0][0] <= time.monotonic():
                send(end, frames.popleft()[1])


class LongCable:
    """Between device `name` of process `pid` and `other_name` of `other_pid`, until it is closed or
    the test ends."""

    def __init__(self, pid, name, other_pid, other_name, seconds):
        ready, said = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                default_signals()
                ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
                ends = [device(pid, name), device(other_pid, other_name)]
                os.write(said, b"ready")
                carry(ends, seconds)
            except OSError as error:
                os.write(said, str(error).encode())
            finally:
                os._exit(1)
        os.close(said)
        word = os.read(ready, 200).decode()
        os.close(ready)
        if word != "ready":
            self.close()
            raise Skip(f"no network devices of programs here: {word}")

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
