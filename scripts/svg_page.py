"""A page of SVG: texts measured before they are placed, shapes, numbers as people read them."""

import math
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


def three(value):
    """Three digits: 0.123, 1.23, 12.3, 123."""
    if value and abs(value) < 0.01:
        return f"{value:.2g}"
    return f"{value:.{2 if abs(value) < 10 else 1 if abs(value) < 100 else 0}f}"


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

    def text(self, x, y, text, size=12, fill=INK, bold=False, anchor="start", width=None):
        """Text whose baseline is at y; cut to `width`, then the whole is its tooltip."""
        if not text:
            return
        shown = cut(text, size, width, bold) if width is not None else text
        weight = ' font-weight="bold"' if bold else ""
        side = f' text-anchor="{anchor}"' if anchor != "start" else ""
        whole = f"<title>{escape(text)}</title>" if shown != text else ""
        self.add(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" fill="{fill}"{weight}{side}>'
            f"{whole}{escape(shown)}</text>"
        )

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
