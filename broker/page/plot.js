// plot.js - curves: one SVG each, with axes, a legend, and the values under the mouse.

// ---- axes ---------------------------------------------------------------------------------------

// The smallest of 1, 2, 5 times a power of ten that makes at most n steps of the span, and more
// than 0 whatever the span is.
function tickStep(span, n) {
  const raw = clamp(span / n || 1, 1e-300, 1e300), mag = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].find((m) => m * mag >= raw * 0.999) * mag;
}
// Multiples of the step from lo to hi; counted, since a small step does not change a large number.
function ticks(lo, hi, step) {
  const from = Math.ceil(lo / step - 1e-6), n = Math.floor(hi / step + 1e-6) - from;
  const out = [];
  for (let i = 0; i <= Math.min(n, 100); i++) out.push((from + i) * step || 0);
  return out;
}
// What a value axis spans, {lo, hi, ticks, step}: whole steps, and more than a point. `zero` takes
// 0 in; `max` ends it; unitOf: in what a number of that size is told, for steps that are whole
// there.
function valueAxis(values, zero, max, unitOf) {
  const more = zero ? [...values, 0] : values;
  let hi = max ?? more.reduce((a, b) => Math.max(a, b));
  let lo = more.reduce((a, b) => Math.min(a, b), hi);
  const size = Math.max(Math.abs(lo), Math.abs(hi));
  if (!(hi - lo > size * 1e-9)) {
    if (max == null) hi += size * 0.1 || 1;
    if (!zero || hi <= lo) lo -= size * 0.1 || 1;
  }
  const unit = unitOf ? unitOf(Math.max(Math.abs(lo), Math.abs(hi))) : 1,
        step = tickStep((hi - lo) / unit, 5) * unit;
  lo = Math.floor(lo / step + 1e-6) * step;
  if (max == null) hi = Math.max(Math.ceil(hi / step - 1e-6) * step, lo + step);
  return {lo, hi, step, ticks: ticks(lo, hi, step)};
}
const TIME_STEPS = [
  1,   2,   5,   10,   15,   20,   30,   60,    120,   180,
  300, 600, 900, 1200, 1800, 3600, 7200, 10800, 21600, 43200
];
const labelWidth = (label) => 6.6 * label.length;
// The closest ticks whose labels leave room for one another on so many pixels.
function closeTicks(lo, hi, px, label, steps, gap) {
  for (const step of steps) {
    if ((hi - lo) / step > 200) continue;
    const list = ticks(lo, hi, step), most = Math.max(0, ...list.map((t) => labelWidth(label(t))));
    if ((step / (hi - lo)) * px >= most + gap) return list;
  }
  return [];
}
function timeTicks(lo, hi, px) {
  const days = [1, 2, 5, 10, 20, 50, 100].map((d) => d * 86400), steps = [...TIME_STEPS, ...days];
  const list = closeTicks(lo, hi, px, clock, steps, 14);
  return list.length < 3 ? closeTicks(lo, hi, px, clock, steps, 5) : list;
}
// Of things that are counted: the first, the last, and round ones between them.
function wholeTicks(lo, hi, px, label) {
  if (hi - lo < 1) return [lo];
  const steps = [];
  for (let mag = 1; mag <= hi - lo; mag *= 10) steps.push(mag, 2 * mag, 5 * mag);
  const room = (a, b) =>
      ((b - a) / (hi - lo)) * px - (labelWidth(label(a)) + labelWidth(label(b))) / 2 >= 8;
  const list = closeTicks(lo, hi, px, label, steps, 18);
  return [lo, ...list.filter((t) => room(lo, t) && room(t, hi)), hi];
}
const styleOf = (s) => `${s.cls} s${s.dash || 1}`;
const HUGE = 1e300;  // the distance of two values must be a number, too

// ---- curves -------------------------------------------------------------------------------------

// Parts of a whole are never more than it: where rounding or a batch that began earlier made them
// so, each gives way in proportion.
function partsOf(ys, whole) {
  const all = (ys[0] || []).map((_, i) => sum(ys, (y) => y[i]));
  return ys.map((y) => y.map((v, i) => known(v) && all[i] > whole ? v * whole / all[i] : v));
}
// Each on top of those before it.
const piled = (ys) =>
    ys.map((y, k) => y.map((v, i) => known(v) ? sum(ys.slice(0, k + 1), (z) => z[i]) : null));

// options: series [{name, cls, dash, optional}] (dash: 1 none, 2 dashes, 3 dots; optional: not
// there while no value of it is known), y and x (formats), yTick (label of a tick on an axis),
// unitOf (of valueAxis), zero, max, wholeX, height; parts: they are of one whole, which is max, and
// stand on one another
class Plot {
  constructor(host, options) {
    this.host = host;
    this.o = options;
    this.all = options.series;
    this.xs = [];
    this.ys = this.tops = [];
    host.classList.add("plot");
    this.legend = host.appendChild(el("div", {class: "legend"}));
    this.svg = host.appendChild(sv("svg", {role: "img", tabindex: 0}));
    this.hover = null;
    this.svg.addEventListener(
        "pointermove", (e) => this.point(e.clientX - this.svg.getBoundingClientRect().left));
    this.svg.addEventListener("pointerleave", () => this.point(null));
    this.svg.addEventListener("keydown", (e) => this.key(e));
    this.svg.addEventListener("blur", () => this.point(null));
    new ResizeObserver(() => this.draw()).observe(host);
  }
  // Points whose place is not known are left out; when time begins again (a job that was gone on
  // with), so does the curve.
  set(xs, ys) {
    let use = xs.map((x, i) => i).filter((i) => known(xs[i]));
    const again = use.findLastIndex((i, k) => k > 0 && xs[i] < xs[use[k - 1]]);
    if (again > 0) use = use.slice(again);
    this.xs = use.map((i) => xs[i]);
    const there = (_, k) => !this.all[k].optional || ys[k].some(known);
    this.o.series = this.all.filter(there);
    ys = ys.filter(there);
    const shown = ys.map((y) => use.map((i) => (known(y[i]) ? clamp(y[i], -HUGE, HUGE) : null)));
    this.ys = this.o.parts ? partsOf(shown, this.o.max) : shown;
    this.tops = this.o.parts ? piled(this.ys) : this.ys;
    this.any = this.ys.some((y) => y.some(known));
    if (this.hover >= this.xs.length) this.hover = null;
    this.draw();
  }
  point(px) {
    this.hover = px == null || !this.xs.length ? null : this.nearest(px);
    this.draw();
  }
  key(e) {
    const move = {ArrowLeft: -1, ArrowRight: 1}[e.key];
    if (!move || !this.xs.length) return;
    e.preventDefault();
    this.hover = clamp((this.hover ?? this.xs.length - 1) + move, 0, this.xs.length - 1);
    this.draw();
  }
  nearest(px) {
    let best = 0;
    this.xs.forEach((x, i) => {
      if (Math.abs(this.X(x) - px) < Math.abs(this.X(this.xs[best]) - px)) best = i;
    });
    return best;
  }
  draw() {
    const {o, xs, ys} = this, W = this.host.clientWidth, H = o.height || 200;
    if (!W) return;
    const R = 12, T = 8, B = 30;
    const all = ys.flat().filter(known);
    this.svg.setAttribute("width", W);
    this.svg.setAttribute("height", H);
    if (!all.length || !xs.length) {
      this.legend.replaceChildren();
      this.svg.setAttribute("aria-label", "nothing yet");
      this.svg.replaceChildren(text(W / 2, H / 2, "tick", "nothing yet", "middle"));
      return;
    }
    let x0 = xs[0], x1 = xs[xs.length - 1];
    if (x1 - x0 < (o.span || 1)) o.wholeX ? (x0 -= 0.5, x1 += 0.5) : (x1 = x0 + (o.span || 1));
    if (!o.wholeX && x0 > 0 && x0 < 0.1 * x1) x0 = 0;
    const axis = valueAxis(all, o.zero, o.max, o.unitOf), {lo, hi} = axis;
    const labels = axis.ticks.map((t) => (o.yTick || axisNumber)(t, axis));
    const L = clamp(Math.ceil(Math.max(...labels.map(labelWidth))) + 9, 44, W / 3);
    this.X = (x) => L + ((x - x0) / (x1 - x0)) * (W - L - R);
    const Y = (y) => T + (1 - clamp((y - lo) / (hi - lo), 0, 1)) * (H - T - B);
    const parts = [];
    axis.ticks.forEach(
        (t, i) => parts.push(
            sv("line", {x1: L, x2: W - R, y1: Y(t), y2: Y(t), class: "axis"}),
            text(L - 6, Y(t) + 4, "tick", labels[i], "end")));
    for (const t of o.wholeX ? wholeTicks(xs[0], xs[xs.length - 1], W - L - R, o.x) :
                               timeTicks(x0, x1, W - L - R)) {
      const half = labelWidth(o.x(t)) / 2;
      parts.push(
          sv("line", {x1: this.X(t), x2: this.X(t), y1: H - B, y2: H - B + 4, class: "axis"}),
          text(clamp(this.X(t), half, W - half), H - B + 15, "tick", o.x(t), "middle"));
    }
    parts.push(text(W - R, H - 2, "tick", o.xName, "end"));
    const tops = this.tops;
    tops.forEach((y, k) => parts.push(this.series(y, k, Y, H - B)));
    const at = this.hover ?? xs.length - 1;
    if (this.hover != null) {
      parts.push(
          sv("line", {x1: this.X(xs[at]), x2: this.X(xs[at]), y1: T, y2: H - B, class: "cross"}));
      tops.forEach(
          (y, k) => known(y[at]) &&
              parts.push(
                  sv("g", {class: o.series[k].cls},
                     sv("circle", {cx: this.X(xs[at]), cy: Y(y[at]), r: 4, class: "dot"}))));
    }
    this.svg.replaceChildren(...parts);
    this.legend.replaceChildren(...o.series.map((s, k) => {
      let i = at;
      if (this.hover == null)
        while (i > 0 && !known(ys[k]?.[i])) i--;
      return el(
          "span", {class: styleOf(s)}, el("i"), el("b", {class: "ink"}, o.y(ys[k]?.[i])), " ",
          s.name,
          this.hover != null && k === o.series.length - 1 ?
              ` at ${o.xAt ? o.xAt(xs[at]) : o.x(xs[at])}` :
              "");
    }));
    this.svg.setAttribute(
        "aria-label", o.series.map((s, k) => `${s.name}: ${o.y(ys[k]?.[at])}`).join(", "));
  }
  series(y, k, Y, floor) {
    const {xs, o} = this, g = sv("g", {class: styleOf(o.series[k])});
    let d = "", area = "", from = null, dots = [];
    const below = o.parts && this.tops[k - 1];
    const foot = (i) => `L${this.X(xs[i])} ${below && known(below[i]) ? Y(below[i]) : floor}`;
    const close = (i) => {
      if (from != null) {
        for (let j = i; j > from; j = below ? j - 1 : from) area += foot(j);
        area += foot(from) + "Z";
      }
      from = null;
    };
    y.forEach((v, i) => {
      if (!known(v)) return close(i - 1);
      const p = `${this.X(xs[i]).toFixed(1)} ${Y(v).toFixed(1)}`;
      d += (from == null ? "M" : "L") + p;
      area += (from == null ? "M" : "L") + p;
      if (from == null) {
        from = i;
        if (!known(y[i + 1])) dots.push(i);
      }
    });
    close(y.length - 1);
    if (o.parts || (o.area && k === 0)) g.append(sv("path", {d: area, class: "area"}));
    g.append(sv("path", {d, class: "path"}));
    if (o.wholeX && xs.length <= 40) dots = y.map((v, i) => i).filter((i) => known(y[i]));
    for (const i of dots)
      g.append(sv("circle", {cx: this.X(xs[i]), cy: Y(y[i]), r: 2.6, class: "dot"}));
    return g;
  }
}
