"""A terminal for tests: a pseudo-terminal whose other end is drawn into a grid of characters.

It knows what curses sends to a vt100 and to an xterm, no more. `Terminal.screen()` is what a user
would see; `restored()` whether the program that has ended left the terminal as it found it.
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
SEQUENCE = re.compile(r"\x1b(?:\[([?>]?)([\d;]*)([@-~])|[()*+].|[=>78DEHMc])")


class Grid:
    """What stands where; `alternate`: the screen of full-screen programs is shown."""

    def __init__(self, columns, rows):
        self.x = self.y = 0
        self.alternate = False
        self.cursor = True
        self.resize(columns, rows)

    def resize(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.cells = [[" "] * columns for _ in range(rows)]
        self.top, self.bottom = 0, rows
        self.x, self.y = min(self.x, columns - 1), min(self.y, rows - 1)

    def scroll(self, lines):
        """The lines of the scroll region move up; down when negative."""
        region = self.cells[self.top : self.bottom]
        for _ in range(min(abs(lines), len(region))):
            blank = [" "] * self.columns
            region = region[1:] + [blank] if lines > 0 else [blank] + region[:-1]
        self.cells[self.top : self.bottom] = region

    def feed(self, text):
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                match = SEQUENCE.match(text, at)
                if not match:
                    if len(text) - at < 24:
                        return text[at:]  # the rest of it comes later
                    raise AssertionError(f"unknown sequence {text[at:at + 12]!r}")
                if match[3]:
                    self.control(match[1], match[2], match[3])
                elif match[0] == "\x1bM" and self.y == self.top:
                    self.scroll(-1)
                elif match[0] == "\x1bM":
                    self.y = max(0, self.y - 1)
                at = match.end()
            else:
                self.put(text[at])
                at += 1
        return ""

    def put(self, c):
        if c == "\r":
            self.x = 0
        elif c == "\n" and self.y == self.bottom - 1:
            self.scroll(1)
        elif c == "\n":
            self.y = min(self.rows - 1, self.y + 1)
        elif c == "\b":
            self.x = max(0, self.x - 1)
        elif c >= " " and c != "\x7f":
            if self.x >= self.columns:
                self.x, self.y = 0, min(self.rows - 1, self.y + 1)
            self.cells[self.y][self.x] = c
            self.x += 1

    def control(self, private, numbers, what):
        n = [int(number or 0) for number in numbers.split(";")]
        one = max(1, n[0])
        row = self.cells[self.y]
        x = min(self.x, self.columns - 1)
        if private:
            if what in "hl" and {47, 1047, 1049} & set(n):
                self.alternate = what == "h"
            if what in "hl" and 25 in n:
                self.cursor = what == "h"
        elif what in "Hf":
            self.y = min(self.rows, one) - 1
            self.x = min(self.columns, max(1, n[1] if len(n) > 1 else 1)) - 1
        elif what == "A":
            self.y = max(0, self.y - one)
        elif what in "Be":
            self.y = min(self.rows - 1, self.y + one)
        elif what in "Ca":
            self.x = min(self.columns - 1, self.x + one)
        elif what == "D":
            self.x = max(0, self.x - one)
        elif what in "G`":
            self.x = min(self.columns, one) - 1
        elif what == "d":
            self.y = min(self.rows, one) - 1
        elif what == "K":
            begin, end = {0: (x, self.columns), 1: (0, x + 1)}.get(n[0], (0, self.columns))
            row[begin:end] = [" "] * (end - begin)
        elif what == "J":
            self.control("", "2" if n[0] == 2 else "0", "K")
            for y in range(0 if n[0] == 2 else self.y + 1, self.rows):
                self.cells[y] = [" "] * self.columns
        elif what == "X":
            row[x : x + one] = [" "] * len(row[x : x + one])
        elif what == "P":
            row[x:] = (row[x + one :] + [" "] * one)[: self.columns - x]
        elif what == "@":
            row[x:] = ([" "] * one + row[x:])[: self.columns - x]
        elif what in "ST":
            self.scroll(one if what == "S" else -one)
        elif what in "LM":
            self.top, top = self.y, self.top
            self.scroll(one if what == "M" else -one)
            self.top = top
        elif what == "r":
            self.top = one - 1
            self.bottom = min(self.rows, n[1] if len(n) > 1 and n[1] else self.rows)
            self.x = self.y = 0
        elif what == "b":
            for _ in range(one):
                self.put(row[self.x - 1])
        elif what not in "mhlcnt":
            raise AssertionError(f"unknown sequence CSI {private}{numbers}{what}")


class Terminal:
    """A command of sluice on a terminal of its own; `raw`: all that it has written there."""

    def __init__(self, box, *arguments, columns=80, rows=24, term="vt100", env=None):
        self.box = box
        self.master, self.slave = pty.openpty()
        self.grid = Grid(columns, rows)
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.rest, self.raw = "", ""
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
        self.grid.resize(columns, rows)
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
            self.rest = self.grid.feed(self.rest + text)
            seconds = 0

    def screen(self):
        self.read()
        return "\n".join("".join(row).rstrip() for row in self.grid.cells)

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
        assert self.grid.cursor, "the cursor is hidden"

    def hang_up(self):
        """The window is closed: the kernel sends SIGHUP."""
        os.close(self.master)

    def close(self):
        self.hang_up()
        os.close(self.slave)
