"""An nvidia-cuda-mps-control that does as NVIDIA's: `-f` is the daemon, which listens at `control`,
and without an option it hands a line of standard input to that.

    FAKE_MPS=dies     it says why and ends
    FAKE_MPS=silent   it never listens
    FAKE_MPS=deaf     it listens, and does not end when it is told to
"""

import os
import sys

PROGRAM = """#!{python}
import os, signal, socket, sys, time

mode, folder = os.environ.get("FAKE_MPS"), os.environ["CUDA_MPS_PIPE_DIRECTORY"]
control = socket.socket(socket.AF_UNIX)
if sys.argv[1:] != ["-f"]:
    control.connect(folder + "/control")
    control.sendall(sys.stdin.read().encode())
    sys.exit(0 if control.recv(16) == b"done" else 1)
with open({calls!r}, "a") as file:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "all")
    print(os.getpid(), os.environ["CUDA_MPS_LOG_DIRECTORY"], folder, visible, file=file)
if mode == "dies":
    sys.exit("no device is there to be served")
if mode == "silent":
    signal.pause()
if mode == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
# Whoever sees the socket finds the file.
with open(folder + "/nvidia-cuda-mps-control.pid", "w") as file:
    file.write(str(os.getpid()))
control.bind(folder + "/control")
control.listen()
while True:
    with control.accept()[0] as client:
        said = client.recv(64).split()
        if mode == "deaf":
            client.sendall(b"done")
        elif said == [b"quit"]:
            os.remove(folder + "/nvidia-cuda-mps-control.pid")
            client.sendall(b"done")
            sys.exit(0)
"""


class FakeMps:
    """Puts it into a folder of the box; `path` is a PATH that has it first."""

    def __init__(self, box):
        self.folder = box.path("mps-tools")
        self.calls_file = os.path.join(self.folder, "calls")
        self.path = f"{self.folder}:{os.environ['PATH']}"
        os.makedirs(self.folder)
        program = os.path.join(self.folder, "nvidia-cuda-mps-control")
        with open(program, "w", encoding="utf-8") as file:
            file.write(PROGRAM.format(python=sys.executable, calls=self.calls_file))
        os.chmod(program, 0o755)

    def calls(self):
        """What daemons were started: (process, folder of logs, of pipes, the GPUs it sees)."""
        try:
            with open(self.calls_file, encoding="utf-8") as file:
                return [line.split() for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []
