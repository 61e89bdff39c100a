"""Charts and tables on a page of SVG (svg_page.py): curves, groups of bars, rows of text.

A chart fills a box (left, top, width, height): its y label and legend above, the x label below.
"""

import math

from svg_page import GREY, INK, LINE, PAPER, nice_step, text_width

COLOURS = ("#2563A8", "#D1602B", "#3B8C5A", "#8A4FA3", "#B08900", "#5F6B76")
SMALL = 11


def axis_number(value):
    for unit, one in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= 2 * one or value == one:
            return f"{value / one:g} {unit}"
    return f"{value:g}"


def log_ticks(low, high):
    """1, 2 and 5 times powers of ten around what there is; powers alone where these are many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 2)
    found = [m * 10.0**p for p in powers for m in ((1, 2, 5) if len(powers) < 5 else (1,))]
    below = max(i for i, tick in enumerate(found) if tick <= low)
    above = min(i for i, tick in enumerate(found) if tick > high)
    return found[below : above + 1]


class Axis:
    """Values of one direction to places on the page, from `begin` to `end`."""

    def __init__(self, values, begin, end, log=False, ticks=None, top=None, zero=True):
        self.log, self.begin, self.end = log, begin, end
        low, high = min(values), max(values)
        if log:
            self.ticks = ticks or log_ticks(low, high)
            self.low, self.high = math.log10(self.ticks[0]), math.log10(self.ticks[-1])
        else:
            self.low, self.high = 0 if zero else low, (top or high) or 1
            step = nice_step(self.high - self.low, 5)
            if not top and not ticks:
                self.high = self.low + math.ceil((self.high - self.low) / step - 1e-9) * step
            n = round((self.high - self.low) / step)
            self.ticks = ticks or [self.low + i * step for i in range(n + 1)]
        if self.high == self.low:
            self.high = self.low + 1

    def __call__(self, value):
        value = math.log10(value) if self.log else value
        return self.begin + (value - self.low) / (self.high - self.low) * (self.end - self.begin)


def legend(page, left, top, width, names, colours):
    """Names beside their colours, in as many lines as they need; the place below them."""
    x = left
    for name, colour in zip(names, colours):
        wide = 16 + text_width(name, SMALL) + 14
        if x > left and x + wide > left + width:
            x, top = left, top + 16
        page.rect(x, top - 9, 10, 10, colour)
        page.text(x + 15, top, name, SMALL)
        x += wide
    return top + 18


def frame(page, box, names, title, x_label, y_label, colours=COLOURS):
    """Titles and legend of a chart; (left, right, top, bottom) of what is left for its plot."""
    left, top, width, height = box
    page.text(left, top + 12, title, 13, bold=True, width=width)
    below = legend(page, left, top + 30, width, names, colours) if len(names) > 1 else top + 30
    page.text(left, below, y_label, SMALL, GREY, width=width)
    page.text(left + width, top + height - 2, x_label, SMALL, GREY, anchor="end", width=width)
    return left + 46, left + width - 10, below + 12, top + height - 34


def grid(page, plot, axis, name):
    left, right = plot[:2]
    for tick in axis.ticks:
        page.line(left, axis(tick), right, axis(tick))
        page.text(left - 6, axis(tick) + 4, name(tick), SMALL, GREY, anchor="end")


def lines(page, box, series, title="", x="", y="", log=(False, False), x_ticks=None, top=None,
          x_name=axis_number, y_name=axis_number, marks=(), rules=(), colours=COLOURS):  # fmt: skip
    """Curves of {name: [(x, y), ...]}; `marks` are (x, y, text) from elsewhere, hollow, and
    `rules` (x, text) are places that deserve a name. A
    logarithmic axis leaves out what is zero, less than the clock could tell."""
    if log[1]:
        series = {name: [p for p in values if p[1] > 0] for name, values in series.items()}
    plot = left, right, above, bottom = frame(page, box, list(series), title, x, y, colours)
    points = [p for values in series.values() for p in values] + [m[:2] for m in marks]
    if not points:
        page.text(left, above + 20, "nothing was measured", 12, GREY)
        return
    places = [p[0] for p in points] + [rule[0] for rule in rules] + list(x_ticks or ())
    across = Axis(places, left, right, log[0], x_ticks, zero=False)
    up = Axis([p[1] for p in points], bottom, above, log[1], top=top)
    grid(page, plot, up, y_name)
    for tick in across.ticks:
        page.text(across(tick), bottom + 16, x_name(tick), SMALL, GREY, anchor="middle")
    for i, (where, text) in enumerate(sorted(rules)):
        page.line(across(where), above, across(where), bottom, GREY, 1, "3 3")
        late = across(where) > (left + right) / 2
        page.text(across(where) + (-4 if late else 4), above + 12 + 14 * i, text, 10, GREY,
                  anchor="end" if late else "start")  # fmt: skip
    for values, colour in zip(series.values(), colours):
        if not values:
            continue
        path = " L".join(f"{across(a):.1f} {up(b):.1f}" for a, b in values)
        page.add(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for a, b in values:
            page.add(
                f'<circle cx="{across(a):.1f}" cy="{up(b):.1f}" r="3" fill="{colour}">'
                f"<title>{x_name(a)}: {b:.4g}</title></circle>"
            )
    for a, b, text in marks:
        page.add(
            f'<path d="M{across(a):.1f} {up(b) - 6:.1f} l6 6 l-6 6 l-6 -6 z" fill="{PAPER}" '
            f'stroke="{INK}" stroke-width="1.5"/>'
        )
        late = across(a) + 10 + text_width(text, SMALL) > right
        begin = across(a) + (-10 - text_width(text, SMALL) if late else 10)
        page.add(f'<g paint-order="stroke" stroke="{PAPER}" stroke-width="3">')  # over curves
        page.text(begin, up(b) + 4, text, SMALL)
        page.add("</g>")


def bars(page, box, groups, names, title="", x="", y="", top=None, name=axis_number):
    """Groups [(label, [value for each name])]; values stand over bars where all of them fit.
    A label may have two lines."""
    plot = left, right, above, bottom = frame(page, box, names, title, x, y)
    values = [v for _, group in groups for v in group]
    if not values:
        page.text(left, above + 20, "nothing was measured", 12, GREY)
        return
    up = Axis(values, bottom, above, top=top)
    grid(page, plot, up, name)
    wide = (right - left) / len(groups)
    bar = min((wide - 10) / len(names), 40)
    fit = all(text_width(f"{value:.3g}", 9) <= bar + 2 for value in values)
    for i, (label, group) in enumerate(groups):
        begin = left + i * wide + (wide - bar * len(names)) / 2
        for k, text in enumerate(label.split("\n")):
            page.text(left + (i + 0.5) * wide, bottom + 16 + 13 * k, text, SMALL, GREY,
                      anchor="middle", width=wide)  # fmt: skip
        for j, value in enumerate(group):
            height = bottom - up(value)
            page.rect(begin + j * bar, bottom - height, bar - 1.5, height, COLOURS[j],
                      title=f"{label}, {names[j]}: {value:.4g}")  # fmt: skip
            if fit:
                page.text(begin + (j + 0.5) * bar, bottom - height - 3, f"{value:.3g}", 9,
                          anchor="middle")  # fmt: skip
    page.line(left, bottom, right, bottom, GREY)


def table(page, left, columns, rows, spans=()):
    """`columns` are (heading, width); the first is text, the others numbers. `spans` are
    (heading, first column, last column) above them. Moves page.y below the table."""
    ends, x = [], left
    for _, width in columns:
        x += width
        ends.append(x)

    def put(i, y, text, **how):
        if i == 0:
            page.text(left, y, text, 12, width=columns[0][1] - 8, **how)
        else:
            page.text(ends[i], y, text, 12, anchor="end", width=columns[i][1] - 6, **how)

    if spans:
        page.y += 20
        for heading, first, last in spans:
            begin = ends[first - 1] + 12
            page.text((begin + ends[last]) / 2, page.y, heading, 12, anchor="middle", bold=True)
            page.line(begin, page.y + 6, ends[last], page.y + 6, GREY)
    page.y += 22
    for i, (heading, _) in enumerate(columns):
        put(i, page.y, heading, bold=True)
    page.y += 7
    page.line(left, page.y, ends[-1], page.y, INK)
    for row in rows:
        page.y += 19
        for i, text in enumerate(row):
            put(i, page.y, text)
        page.line(left, page.y + 5, ends[-1], page.y + 5, LINE)
    page.y += 12
