"""What the benches that draw have in common: charts by matplotlib, and a page of HTML around them.

Without matplotlib (Debian's python3-matplotlib, or PyPI's) a page has its tables and texts alone.
"""

from html import escape

STYLE = "body{font-family:sans-serif;max-width:72rem;margin:1rem auto}img{max-width:100%}"
STYLE += "td,th{padding:.1rem .6rem;text-align:right}td:first-child{text-align:left}"


def drawn(draw, *arguments):
    """What draw() makes for a page, or why it cannot."""
    try:
        return draw(*arguments)
    except ImportError as why:
        return [f"Nothing is drawn here: {why}."]


def sheet(rows, columns=1, height=3.4):
    """A figure, and its charts one after another."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, height * rows), layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def curves(chart, series, title="", x="", y="", log="", marks=(), rules=(), ticks=None):
    """Curves of {name: [(x, y), ...]}; `marks` (x, y, text) are from elsewhere, hollow; `rules`
    (x, text) are places that deserve a name; `log` names the logarithmic axes."""
    for name, points in series.items():
        chart.plot(*zip(*points), marker="o", label=name)
    for at, height, text in marks:
        chart.plot(at, height, marker="D", mfc="none", mec="black", ls="")
        chart.annotate(text, (at, height), xytext=(6, -3), textcoords="offset points", size=8)
    for at, text in rules:
        chart.axvline(at, ls="--", color="grey", lw=0.8)
        chart.text(at, 0.98, text, rotation=90, size=7, va="top", transform=chart.get_xaxis_transform())
    for axis, scale in (("x", chart.set_xscale), ("y", chart.set_yscale)):
        if axis in log:
            scale("log")
    if "y" not in log:
        chart.set_ylim(bottom=0)
    if ticks:
        chart.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    chart.set(title=title, xlabel=x, ylabel=y)
    chart.grid(alpha=0.3)
    if len(series) > 1:
        chart.legend(fontsize=8)


def bars(chart, groups, names, title="", y=""):
    """Groups {label: [a value for each name]}, the values over the bars."""
    wide = 0.8 / len(names)
    for i, name in enumerate(names):
        places = [j + (i - (len(names) - 1) / 2) * wide for j in range(len(groups))]
        drawn = chart.bar(places, [values[i] for values in groups.values()], wide, label=name)
        chart.bar_label(drawn, fmt="%.3g", size=7)
    chart.set_xticks(range(len(groups)), groups, size=8)
    chart.set(title=title, ylabel=y)
    chart.legend(fontsize=8)


def table(heading, rows):
    """As HTML: a list for each row, the first column text and the others numbers."""
    lines = [("th", heading), *(("td", row) for row in rows)]
    cells = ("".join(f"<{tag}>{escape(str(c))}</{tag}>" for c in row) for tag, row in lines)
    return "<table>" + "".join(f"<tr>{row}</tr>\n" for row in cells) + "</table>\n"


def page(path, title, parts):
    """`parts` are HTML: an <h2> begins with its text, what has no tag is a paragraph."""
    with open(path, "w") as file:
        file.write(f'<!DOCTYPE html>\n<meta charset="utf-8"><title>{escape(title)}</title>\n')
        file.write(f"<style>{STYLE}</style>\n<h1>{escape(title)}</h1>\n")
        for part in parts:
            file.write(part if part.startswith("<") else f"<p>{escape(part)}</p>\n")


def save(figure, path):
    """The <img> that shows it beside a page in the same folder."""
    figure.savefig(path)
    return f'<p><img src="{path.rpartition("/")[2]}"></p>\n'
