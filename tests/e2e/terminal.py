"""A terminal for tests: a pseudo-terminal whose other end is drawn into a grid of characters.

`Terminal.screen()` is what a user would see; `assert_restored()` whether the program that has ended
left the terminal as it found it.
"""

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import harness

BAR = re.compile(r"epoch +\d+/\d+ \[")


class Terminal:
    """A command of sluice on a terminal of its own; `raw`: all that it has written there."""

    def __init__(self, box, *arguments, columns=80, rows=24, term="vt100", env=None):
        try:
            from screen import Screen, Stream
        except ModuleNotFoundError:
            raise harness.Skip("pyte is not installed (Debian's package: python3-pyte)") from None
        self.box = box
        self.master, self.slave = pty.openpty()
        self.grid = Screen(columns, rows)
        self.stream = Stream(self.grid)
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.raw = ""
        self.set_size(columns, rows)
        self.before = termios.tcgetattr(self.slave)
        environment = box.environment({"TERM": term, **(env or {})})
        environment.pop("COLUMNS", None)
        environment.pop("LINES", None)
        self.process = subprocess.Popen(
            [os.path.join(harness.BIN, "sluice"), *map(str, arguments)],
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            cwd=box.folder,
            env=environment,
            start_new_session=True,
            preexec_fn=self.enter,
        )

    @staticmethod
    def enter():
        """In the child: the terminal is its own, and so are the signals that it sends."""
        harness.default_signals()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def set_size(self, columns, rows):
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, size)

    def resize(self, columns, rows=24):
        self.read()
        self.grid.resize(rows, columns)
        self.grid.erase_in_display(2)
        self.set_size(columns, rows)
        self.signal(signal.SIGWINCH)

    def signal(self, number):
        os.kill(self.process.pid, number)

    def press(self, keys):
        os.write(self.master, keys.encode())

    def read(self, seconds=0.0):
        while select.select([self.master], [], [], seconds)[0]:
            text = self.decoder.decode(os.read(self.master, 65536))
            self.raw += text
            self.stream.feed(text)
            seconds = 0

    def screen(self):
        self.read()
        return "\n".join(row.rstrip() for row in self.grid.display)

    def bars(self):
        """Bars of progress that have been drawn, one over the other, without their colours."""
        plain = re.sub(r"\x1b\[[0-9;]*[mK]", "", self.raw)
        return [part for part in re.split(r"[\r\n]+", plain) if BAR.match(part)]

    def until(self, words, seconds=harness.PATIENCE):
        """Waits until the screen has these words (or condition(screen) holds); the screen."""
        condition = words if callable(words) else lambda screen: words in screen
        end = time.monotonic() + seconds * harness.SLOW
        while not condition(self.screen()):
            if time.monotonic() > end or self.process.poll() is not None:
                state = f"exit status {self.process.poll()}"
                raise AssertionError(
                    f"no {words!r} on the screen ({state}):\n{self.screen()}\n{self.raw[-3000:]!r}"
                )
            self.read(0.05)
        self.read(0.05)  # the rest of a picture that was only half there
        return self.screen()

    def wait(self, seconds=harness.PATIENCE):
        """The exit status of a program that ends by itself."""
        end = time.monotonic() + seconds * harness.SLOW
        while self.process.poll() is None:
            if time.monotonic() > end:
                self.process.kill()
                raise AssertionError(f"still there after {seconds} s:\n{self.screen()}")
            self.read(0.02)
        self.read()
        return self.process.returncode

    def assert_restored(self):
        # The number of a line discipline's speed and so on are part of it: all has to be equal.
        assert termios.tcgetattr(self.slave) == self.before, "the terminal's settings have changed"
        assert not self.grid.alternate, "the terminal shows the other screen"
        assert not self.grid.cursor.hidden, "the cursor is hidden"

    def hang_up(self):
        """The window is closed: the kernel sends SIGHUP."""
        os.close(self.master)

    def close(self):
        self.hang_up()
        os.close(self.slave)
