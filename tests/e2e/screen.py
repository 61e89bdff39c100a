"""The screen of the tests' terminal: pyte's, with what curses sends to an xterm and pyte lacks."""

import pyte

ALTERNATE = 1049 << 5  # as pyte numbers the private modes


class Stream(pyte.Stream):
    """What curses sends to an xterm and pyte does not know; `noted` is what changes no cell."""

    csi = {**pyte.Stream.csi, "b": "repeat", "t": "noted"}
    escape = {**pyte.Stream.escape, "=": "noted", ">": "noted"}


class Screen(pyte.Screen):
    """`alternate`: the screen of full-screen programs is shown. An unknown sequence is an error."""

    @property
    def alternate(self):
        return ALTERNATE in self.mode

    def draw(self, data):
        self.last = data[-1]
        super().draw(data)

    def repeat(self, times=1):
        self.draw(self.last * times)

    def noted(self, *_, **__):
        pass

    def debug(self, *numbers, **_):
        raise AssertionError(f"an unknown sequence (numbers: {numbers}) was sent to the terminal")
