// timeline.js - the time axis: splits as areas, what happened as marks, and the list of it.

const KINDS = {
  start: ["▶", "good"],
  end: ["■", "dim"],
  split: ["⇄", "queue"],
  scale: ["⇄", "sampler"],
  death: ["✕", "bad"],
  pause: ["Ⅱ", "standby"],
  resume: ["▶", "good"],
  checkpoint: ["▣", "cache"],
  early_stop: ["■", "standby"],
  warning: ["!", "bad"],
};
const WORDS = {
  early_stop: "early stop"
};
const colour = (cls) => `var(--${{dim: "dim", bad: "bad", good: "good"}[cls] || cls})`;
function steps(events, end) {
  const out = [];
  for (const e of events) {
    const last = out[out.length - 1];
    if (!known(e.samplers) || !known(e.trainers) ||
        (last && last.s === e.samplers && last.t === e.trainers))
      continue;
    if (last) last.to = e.seconds;
    out.push({s: e.samplers, t: e.trainers, from: e.seconds, to: end});
  }
  return out;
}
// Events whose places are less than `room` behind the first of their group: {x, events}.
function near(events, X, room) {
  const groups = [];
  for (const e of events) {
    const last = groups[groups.length - 1], x = X(e.seconds);
    if (last && x - last.x < room)
      last.events.push(e);
    else
      groups.push({x, events: [e]});
  }
  return groups;
}
function drawTimeline() {
  const host = $("timeline"), W = host.clientWidth,
        all = job.events.filter((e) => known(e.seconds));
  if (!W) return;
  const end = Math.max(
      1, current().seconds || 0, job.about?.report?.wall_seconds || 0,
      ...all.slice(-1).map((e) => e.seconds));
  const L = 44, R = 10, X = (t) => L + (clamp(t / end, 0, 1)) * (W - L - R), H = 124, top = 34,
        floor = 92, parts = [];
  const splits = steps(all, end), most = Math.max(1, ...splits.map((s) => s.s + s.t)),
        Y = (n) => floor - (n / most) * (floor - top - 6);
  for (const t of [0, most]) parts.push(text(L - 6, Y(t) + 4, "tick", String(t), "end"));
  for (const s of splits) {
    const w = Math.max(1, X(s.to) - X(s.from));
    parts.push(hint(
        sv("g", {}, sv("rect", {
             x: X(s.from),
             y: Y(s.s),
             width: w,
             height: Y(0) - Y(s.s),
             fill: "var(--sampler)",
             opacity: 0.75
           }),
           sv("rect", {
             x: X(s.from),
             y: Y(s.s + s.t),
             width: w,
             height: Y(s.s) - Y(s.s + s.t),
             fill: "var(--trainer)",
             opacity: 0.75
           })),
        () => `${plural(s.s, "sampler")}, ${plural(s.t, "trainer")}\nfrom ${clock(s.from)} to ${
            clock(s.to)}`));
    if (w > 74)
      parts.push(
          sv("text", {x: X(s.from) + 6, y: Y(0) - 4, class: "tick inside", fill: "#fff"},
             `${s.s} + ${s.t}`));
  }
  parts.push(sv("line", {x1: L, x2: W - R, y1: floor, y2: floor, class: "axis"}));
  for (const t of timeTicks(0, end, (W - L - R) / 1.5))
    parts.push(text(X(t), floor + 16, "tick", clock(t), "middle"));
  parts.push(text(W - R, H - 1, "tick", "time since the start", "end"));
  const epochs = all.filter((e) => e.kind === "epoch"),
        gap = Math.ceil(epochs.length / Math.max(1, (W - L) / 5));
  epochs.forEach((e, i) => i % gap === 0 && parts.push(sv("line", {
    x1: X(e.seconds),
    x2: X(e.seconds),
    y1: floor,
    y2: floor + 5,
    stroke: "var(--dim)"
  })));
  // Switches are many: thin ticks of the standby trainers' colour, one for all that are near.
  const switches = near(all.filter((e) => e.kind === "switch"), X, 4);
  for (const {x, events} of switches)
    parts.push(hint(
        sv("g", {class: "switch"},
           sv("rect", {x: x - 2, y: top - 10, width: 4, height: 12, opacity: 0}), sv("line", {
             x1: x,
             x2: x,
             y1: top - 7,
             y2: top + 1,
             stroke: colour("standby"),
             "stroke-width": 1.5
           })),
        () => wordsOf(events)));
  // Marks; those that would lie on one another become one.
  for (const g of near(all.filter((e) => KINDS[e.kind]), X, 19)) parts.push(markOf(g));
  if (!all.length) parts.push(text(W / 2, 60, "tick", "nothing yet", "middle"));
  host.replaceChildren(
      sv("svg", {
        width: W,
        height: H,
        role: "group",
        "aria-label": "Time axis: samplers and trainers, and what happened"
      },
         ...parts),
      el("div", {class: "legend"}, el("span", {class: "c-sampler"}, el("i"), "samplers"),
         el("span", {class: "c-trainer"}, el("i"), "trainers"),
         el("span", {}, "⇄ new split   ❘ switch   ✕ death   ▣ checkpoint   Ⅱ pause")));
}
const rank = (e) => ["death", "scale", "split", "pause", "resume", "early_stop", "end", "start",
                     "checkpoint"]
                        .indexOf(e.kind);
// A job that somebody stopped has ended as it was told to.
const isBad = (e) =>
    e.kind === "death" || (e.ok === false && !(e.kind === "end" && e.text.startsWith("stopped")));
const wordsOf = (events) =>
    events.slice(0, 8).map((e) => `${clock(e.seconds)}  ${e.text}`).join("\n") +
    (events.length > 8 ? `\nand ${events.length - 8} more` : "");
function markOf(group) {
  const first = [...group.events].sort((a, b) => rank(a) - rank(b))[0],
        [sign, cls] = KINDS[first.kind], n = group.events.length;
  const what = () => wordsOf(group.events);
  return hint(
      sv("g", {tabindex: 0, role: "img", "aria-label": what()},
         sv("line", {x1: group.x, x2: group.x, y1: 26, y2: 92, stroke: colour(cls), opacity: 0.5}),
         sv("circle", {
           cx: group.x,
           cy: 15,
           r: 10,
           class: "event-mark",
           stroke: colour(isBad(first) ? "bad" : cls)
         }),
         sv("text", {x: group.x, y: 19, "text-anchor": "middle", fill: colour(cls)}, sign),
         n > 1 ? text(group.x + 9, 9, "tick strong many", String(n)) : null),
      what);
}
function drawEvents() {
  const host = $("events"), often = ["epoch", "switch"];
  const rare = job.events.filter((e) => !often.includes(e.kind));
  const all = $("every").checked ? job.events : rare, list = all.slice(-200).reverse();
  const newest =
      `${$("every").checked}|${all.length}|${list[0]?.time}|${list[0]?.text}|${host.clientWidth}`;
  $("every").parentElement.hidden = rare.length === job.events.length;
  if (host.dataset.newest === newest) return;
  host.dataset.newest = newest;
  host.replaceChildren(...list.map(
      (e) =>
          el("li", {}, el("time", {}, known(e.seconds) ? clock(e.seconds) : ""),
             el("span", {class: "kind" + (isBad(e) ? " bad" : "")}, WORDS[e.kind] || e.kind),
             el("span", {}, tied(e.text)))));
  if (all.length > list.length)
    host.append(
        el("li", {}, el("time"), el("span"),
           el("span", {}, `and ${all.length - list.length} older, which sluice logs has`)));
  wholeRows(host, [...host.children], 320, $("events-note"));
}
