"""A page of SVG: texts measured before they are placed, shapes, numbers as people read them."""

import math
import re
import unicodedata
from xml.sax.saxutils import escape, quoteattr

WIDTH, MARGIN = 1120, 32
FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"

INK, GREY, LINE, PAPER = "#1F2933", "#5F6B76", "#CBD2D9", "#FFFFFF"

# Advance widths of DejaVu Sans in thousandths of the size; others that may be used are narrower.
WIDTHS = {}
for width, letters in (
    (275, "'ijl"), (295, "IJ"), (337, " ,-.:;/\\|"), (392, "()[]frt!"), (460, '"'),
    (525, "sz?*_`"), (555, "cL"), (592, "kvxy"), (635, "abdeghnopqu0123456789$EFST{}"),
    (700, "ABCKPRVXYZ"), (780, "DGHNOQU&"), (838, "#+<=>^~Mw"), (1000, "%@Wm"),
):  # fmt: skip
    WIDTHS.update(dict.fromkeys(letters, width))


def text_width(text, size, bold=False):
    units = sum(
        WIDTHS.get(c) or (1050 if unicodedata.east_asian_width(c) in "WF" else 850) for c in text
    )
    return units * size * (1.12 if bold else 1) / 1000


def cut(text, size, width, bold=False):
    """The text, or as much of it as fits, and an ellipsis."""
    if text_width(text, size, bold) <= width:
        return text
    while text and text_width(text + "…", size, bold) > width:
        text = text[:-1]
    return text.rstrip() + "…"


def wrap(text, size, width, most=6):
    """Lines that fit; words longer than a line are cut."""
    lines = [""]
    for word in filter(None, text.split(" ")):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if text_width(longer, size) <= width:
            lines[-1] = longer
        elif lines[-1]:
            lines.append(word)
        else:
            lines[-1] = word
    if len(lines) > most:
        lines = lines[: most - 1] + [" ".join(lines[most - 1 :])]
    return [cut(line, size, width) for line in lines]


# ---- numbers as people read them ----------------------------------------------------------------


def number(value, default=0.0):
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return value if good else default


def three(value):
    """Three digits: 0.123, 1.23, 12.3, 123."""
    if value and abs(value) < 0.01:
        return f"{value:.2g}"
    return f"{value:.{2 if abs(value) < 10 else 1 if abs(value) < 100 else 0}f}"


def seconds(value):
    if value >= 120:
        minutes = value / 60
        return f"{three(minutes)} min" if minutes < 120 else f"{three(minutes / 60)} h"
    if value >= 1:
        return f"{three(value)} s"
    return f"{three(value * 1e3)} ms" if value >= 1e-3 else f"{three(value * 1e6)} µs"


def axis_time(value, step):
    """For an axis with that step: no more digits than it needs."""
    if not value:
        return "0"
    unit, one = ("s", 1.0) if step >= 1 else ("ms", 1e-3) if step >= 1e-3 else ("µs", 1e-6)
    return f"{value / one:g} {unit}"


def size(value):
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            return f"{value:.0f} B" if unit == "B" else f"{three(value)} {unit}"
        value /= 1024


def count(value):
    for unit, one in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= 10 * one:
            return f"{three(value / one)} {unit}"
    return f"{value:,.0f}"


def plural(n, word):
    return f"{n:,} {word}{'' if n == 1 else 's'}"


def percent(value):
    return f"{100 * value:.1f} %"


def nice_step(span, steps):
    """1, 2 or 5 times a power of ten, so that about `steps` of them make the span."""
    raw = span / max(steps, 1)
    power = 10 ** math.floor(math.log10(raw)) if raw > 0 else 1
    return next((m * power for m in (1, 2, 5, 10) if m * power >= raw), 10 * power)


# ---- drawing ------------------------------------------------------------------------------------


class Page:
    def __init__(self):
        self.parts = []
        self.y = MARGIN

    def add(self, part):
        self.parts.append(part)

    def rect(self, x, y, w, h, fill, stroke=None, radius=0, title=None):
        edge = f' stroke="{stroke}"' if stroke else ""
        corner = f' rx="{radius}"' if radius else ""
        shape = f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(w, 0):.1f}" height="{max(h, 0):.1f}"'
        end = f"><title>{escape(title)}</title></rect>" if title else "/>"
        self.add(f'{shape} fill="{fill}"{edge}{corner}{end}')

    def line(self, x1, y1, x2, y2, stroke=LINE, width=1.0, dash=None):
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.add(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
            f'stroke="{stroke}" stroke-width="{width:g}"{dashes}/>'
        )

    def text(self, x, y, text, size=12, fill=INK, bold=False, anchor="start", width=None,
             symbols=False):  # fmt: skip
        """Text whose baseline is at y; cut to `width`, then the whole is its tooltip."""
        if not text:
            return
        shown = cut(text, size, width, bold) if width is not None else text
        weight = ' font-weight="bold"' if bold else ""
        side = f' text-anchor="{anchor}"' if anchor != "start" else ""
        whole = f"<title>{escape(text)}</title>" if shown != text else ""
        words, keep = escape(shown), ' xml:space="preserve"' if symbols else ""
        if symbols:  # T_s: a T with a small s below the line; what follows goes up again
            low = r'\1<tspan dy="3" font-size="75%">\2</tspan><tspan dy="-3">\3</tspan>'
            words = re.sub(r"\b([TN])_(\w)([^TN]*)", low, words)
        self.add(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" fill="{fill}"{weight}{side}{keep}>'
            f"{whole}{words}</text>"
        )

    def arrow(self, x1, x2, y, stroke):
        """A horizontal arrow from x1 to x2."""
        way = 1 if x2 > x1 else -1
        self.line(x1, y, x2 - 7 * way, y, stroke, 2.5)
        self.add(
            f'<path d="M{x2:.1f} {y:.1f} l{-10 * way} -5.5 v11 z" fill="{stroke}"/>'
        )

    def heading(self, text, note=""):
        self.y += 30
        self.text(MARGIN, self.y, text, 15, bold=True)
        x = MARGIN + text_width(text, 15, True) + 14
        self.text(x, self.y, note, 12, GREY, width=WIDTH - MARGIN - x, symbols=True)
        self.y += 12

    def finish(self, name):
        height = self.y + MARGIN
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" '
                f'viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label={quoteattr(name)} '
                f'font-family="{FONT}">',
                f'<rect width="{WIDTH}" height="{height:.0f}" fill="{PAPER}"/>',
                *self.parts,
                "</svg>",
                "",
            ]
        )
