// The page draws a job: live from the server's event stream, or from the data in the page itself.
//
// One script in the program, several files here, in this order:
//
//   base      making elements, numbers for people, hints over the mouse or the focus
//   job       what is known of the job that is shown, and of the server
//   plot      curves
//   pipeline  samplers, queue, features, trainers, updates, and what flows between them
//   panels    head, bottleneck, stage times, devices, epochs
//   timeline  what happened, on a time axis
//   steer     controls
//   live      draws all of it when something comes
//
// A line of statistics comes once a second, so everything is drawn again then; only what moves
// between two lines (the flows of the pipeline) has a loop of its own. Texts of a job become text
// nodes, never markup. Nothing is fetched but /api/ of the server that sent this.
"use strict";

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

function fill(node, attrs, kids) {
  for (const [k, v] of Object.entries(attrs || {}))
    if (v != null && v !== false) node.setAttribute(k, v);
  for (const kid of kids.flat())
    if (kid != null) node.append(kid);
  return node;
}
const el = (tag, attrs, ...kids) => fill(document.createElement(tag), attrs, kids);
const sv = (tag, attrs, ...kids) => fill(document.createElementNS(SVG, tag), attrs, kids);
const text = (x, y, cls, what, anchor) =>
    sv("text", {x, y, class: cls, "text-anchor": anchor}, what);
const set = (node, value) => {
  if (node.textContent !== value) node.textContent = value;
};
const clamp = (x, lo, hi) => Math.min(hi, Math.max(lo, x));
const known = (x) => x != null && Number.isFinite(x);
const sum = (list, of) => list.reduce((s, x) => s + (of(x) || 0), 0);

// ---- numbers for people -------------------------------------------------------------------------

// Units: what they are called, how large they are, from what number on they are taken.
const TIMES = [
  [" h", 3600], [" min", 60], [" s", 1, 0.9995], [" ms", 1e-3, 0.9995e-3], [" µs", 1e-6, 0.9995e-6],
  [" ns", 1e-9]
];
const COUNTS = [["G", 1e9, 1e9], ["M", 1e6, 1e6], ["k", 1e3, 1e4], ["", 1]];
const SIZES =
    [[" TiB", 2 ** 40], [" GiB", 2 ** 30], [" MiB", 2 ** 20], [" KiB", 2 ** 10], [" B", 1]];
const unitOf = (x, units) =>
    units.find(([, size, from]) => x >= (from ?? size)) || units[units.length - 1];

// n digits that count, zeros among them: numbers that follow one another keep their width.
function digits(x, n) {
  const a = Math.abs(x);
  if (a !== 0 && (a >= 1e9 || a < 1e-6)) return x.toExponential(Math.max(0, n - 2));
  return a === 0 ? "0" : a >= 10 ** n ? String(Math.round(x)) : x.toPrecision(n);
}
function duration(s) {
  if (!known(s)) return "–";
  if (s === 0) return "0 s";
  const m = Math.round(s / 60), [unit, size] = unitOf(s, TIMES.slice(2));
  if (s < 59.95) return digits(s / size, 3) + unit;
  if (s < 3600) return `${Math.floor(Math.round(s) / 60)} min ${Math.round(s) % 60} s`;
  return `${Math.floor(m / 60)} h ${m % 60} min`;
}
function clock(s) {
  const t = Math.max(0, Math.round(s)), two = (x) => String(x).padStart(2, "0");
  const h = Math.floor(t / 3600), m = Math.floor(t / 60) % 60;
  return h ? `${h}:${two(m)}:${two(t % 60)}` : `${m}:${two(t % 60)}`;
}
function count(x) {
  if (!known(x)) return "–";
  const [unit, size] = unitOf(Math.abs(x), COUNTS);
  return unit || !Number.isInteger(x) ? digits(x / size, 3) + unit : String(x);
}
function bytes(x) {
  if (!known(x)) return "–";
  const [unit, size] = unitOf(x, SIZES), n = x / size;
  return (size === 1 ? Math.round(x) : Number.isInteger(n) ? n : digits(n, 3)) + unit;
}
// As the command line writes a loss: four places, where that tells something.
function loss(x) {
  if (!known(x)) return "–";
  const a = Math.abs(x);
  return a >= 1e3 || (a < 1e-2 && a > 0) ? digits(x, 4) : x.toFixed(4);
}
const percent = (x) =>
    (!known(x)   ? "–" :
         x === 0 ? "0 %" :
         x === 1 ? "100 %" :
                   (x * 100).toFixed(1) + " %");
const rate = (x) => (!known(x) ? "–" : (x >= 1e4 ? count(x) : digits(x, 3)) + "/s");
// Of a tick on an axis {lo, hi, step}: its places follow from the step, so that all of an axis have
// as many.
function places(x, step, unit) {
  if (x === 0) return unit.length > 1 ? "0" + unit : "0";
  const a = Math.abs(x), at = Math.floor(Math.log10(step) + 1e-6);
  if (a >= 1e9 || a < 1e-9)
    return x.toExponential(clamp(Math.floor(Math.log10(a)) - at, 0, 9)) + unit;
  return x.toFixed(clamp(-at, 0, 12)) + unit;
}
function axisIn(units, x, a) {
  const [unit, size] = unitOf(Math.max(Math.abs(a.lo), Math.abs(a.hi)), units);
  return places(x / size, a.step / size, unit);
}
const axisNumber = (x, a) => axisIn([["", 1, 1e12], ...COUNTS], x, a);
const axisRate = (x, a) => axisNumber(x, a) + "/s";
const axisPercent = (x, a) => places(x * 100, a.step * 100, " %");
const AXIS_TIMES = TIMES.map(([unit, size]) => [unit, size]);
const axisTime = (x, a) => axisIn(AXIS_TIMES, x, a);
// A number and its unit stay on one line.
const tied = (what) => what.replace(/(\d) (?=(%|[µmun]?s|[KMGT]i?B|B)(?![\w]))/g, "$1\u00a0");
// 0, 1, 2, 5 as "0-2,5".
function ranges(list) {
  const out = [];
  for (const n of list)
    if (out.length && n === out[0][1] + 1)
      out[0][1] = n;
    else
      out.unshift([n, n]);
  return out.reverse().map(([from, to]) => (from === to ? from : `${from}-${to}`)).join(",");
}
const plural = (n, one) => `${n} ${one}${n === 1 ? "" : one.endsWith("tch") ? "es" : "s"}`;

// A list that scrolls ends in a whole row; the note says that there are more.
function wholeRows(host, rows, most, note) {
  const at = host.scrollTop;
  host.style.maxHeight = "none";
  const top = host.getBoundingClientRect().top, rim = host.offsetHeight - host.clientHeight,
        ends = rows.map((r) => r.getBoundingClientRect().bottom - top),
        fit = ends.filter((e) => e <= most).length;
  const cut = fit > 0 && fit < rows.length;
  if (cut) host.style.maxHeight = Math.ceil(ends[fit - 1] + rim) + "px";
  host.scrollTop = at;
  set(note, cut ? `${fit} of ${rows.length} fit here: scroll for the rest` : "");
}

// ---- hints over the mouse or the focus ----------------------------------------------------------

const tip = $("tip");
function showTip(what, x, y) {
  tip.textContent = what;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = clamp(x + 12, 4, innerWidth - box.width - 4) + "px";
  tip.style.top = clamp(y - box.height - 10, 4, innerHeight - box.height - 4) + "px";
}
const hideTip = () => {
  tip.hidden = true;
};
function hint(node, what) {
  node.addEventListener("pointermove", (e) => showTip(what(), e.clientX, e.clientY));
  node.addEventListener("pointerleave", hideTip);
  node.addEventListener("focus", () => {
    const b = node.getBoundingClientRect();
    showTip(what(), b.left, b.top);
  });
  node.addEventListener("blur", hideTip);
  return node;
}
