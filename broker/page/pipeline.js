// pipeline.js - the pipeline: samplers, queue, features, trainers, updates, and what flows.
//
// It is built anew when workers come or go or the window changes, and only moved in between: what
// is drawn again from nothing cannot glide.

const flows = [];  // {node, speed, at}
let pipe = null;

const isTrainer = (w) => w.role !== "sampler";
const numberOf = (w) => Number((w.name.match(/\d+/) || [0])[0]);
const inOrder = (list) => [...list].sort(
    (a, b) => (a.role === "standby") - (b.role === "standby") || numberOf(a) - numberOf(b));
const shortBatch = (b) => (b || "").replace(/ of epoch.*/, "");
const STATES = {
  blocked: "queue is full"
};
const stateText = (w) => w.state === "working" && w.batch ?
    shortBatch(w.batch) :
    STATES[w.state] || w.state || (w.role === "standby" ? "standby" : "");

function chips(g, list, x, y, w, h, columns) {
  const refs = new Map();
  list.forEach((worker, i) => {
    const cw = (w - (columns - 1) * 6) / columns, cx = x + (i % columns) * (cw + 6),
          cy = y + Math.floor(i / columns) * (h + 6);
    const two = h >= 44, r = {worker};
    // How busy it is: a bar below the words, or where they have one line, behind them.
    const bar = {x: cx + 12, y: cy + 38, width: cw - 20, height: 4, rx: 2};
    const track = two ? sv("rect", {...bar, class: "track"}) : null;
    r.fill = two ?
        sv("rect", {...bar, width: 0, class: "fill level"}) :
        sv("rect", {x: cx + 1, y: cy + 1, width: 0, height: h - 2, rx: 6, class: "fill"});
    r.name = text(
        cx + 12, cy + (two ? 17 : h / 2 + 4), "strong",
        columns > 1 ? worker.name.replace(/^(\w)\w* /, "$1") : worker.name);
    r.state = two ? text(cx + 12, cy + 34, "dim", "") :
                    text(cx + cw - 8, cy + h / 2 + 4, "dim", "", "end");
    r.rate = two ? text(cx + cw - 8, cy + 17, "", "", "end") : null;
    r.busy = two ? text(cx + cw - 8, cy + 34, "dim", "", "end") : null;
    r.more = two ?
        [58, 76, 94, 112].filter((y) => y + 6 <= h).map((y) => text(cx + 12, cy + y, "dim", "")) :
        [];
    r.width = two ? bar.width : cw - 2;
    r.g =
        sv("g", {tabindex: 0, role: "img"},
           sv("rect", {x: cx, y: cy, width: cw, height: h, rx: 7, class: "chip"}), track, r.fill,
           sv("rect", {x: cx, y: cy + 5, width: 4, height: h - 10, rx: 2, class: "edge"}), r.name,
           r.state, r.rate, r.busy, r.more);
    hint(r.g, () => tipOf(r.worker));
    g.append(r.g);
    refs.set(worker.name, r);
  });
  return refs;
}
function tipOf(w) {
  return [
    `${w.name}${w.role === "standby" ? " (standby)" : ""}${w.state ? `: ${w.state}` : ""}`, w.batch,
    w.busy != null &&
        `busy ${percent(w.busy)}${w.wait != null ? `, waits ${percent(w.wait)}` : ""}`,
    w.batches != null &&
        `${plural(w.batches, "batch")} done${
            w.batches_per_second != null ? `, ${rate(w.batches_per_second)}` : ""}`,
    w.memory && `${bytes(w.memory)} of memory`,
    w.restarts ? `replaced ${plural(w.restarts, "time")}` : "", w.pid && `process ${w.pid}`
  ].filter(Boolean)
      .join("\n");
}
// From one point to another, straight: a band as wide as its share, with something that moves on
// it.
function flow(g, x1, y1, x2, y2, cls) {
  const dx = Math.sign(x2 - x1), dy = Math.sign(y2 - y1), ex = x2 - dx * 9, ey = y2 - dy * 9;
  const line = (c) => sv("line", {x1, y1, x2: ex, y2: ey, class: `flow ${c}`});
  const f = {
    bed: line("bed"),
    node: line("run"),
    head: sv("path", {class: "head"}),
    ex,
    ey,
    dx,
    dy,
    speed: 0,
    at: 0
  };
  f.g = sv("g", {class: `stream ${cls}`}, f.bed, f.node, f.head);
  g.append(f.g);
  flows.push(f);
  return f;
}
function run(f, share, speed) {
  const w = share > 0 ? 5 + 11 * Math.sqrt(clamp(share, 0, 1)) : 2, r = w / 2 + 4,
        {ex, ey, dx, dy} = f;
  f.speed = speed;
  f.bed.setAttribute("stroke-width", w.toFixed(1));
  f.node.setAttribute("stroke-width", share > 0 && speed > 0 ? (w * 0.34).toFixed(1) : 0);
  f.head.setAttribute(
      "d",
      `M${ex + dy * r} ${ey + dx * r}L${ex + dx * 10} ${ey + dy * 10}L${ex - dy * r} ${
          ey - dx * r}Z`);
  f.head.setAttribute("opacity", share > 0 ? 1 : 0.4);
}
// Few of them fill the room that there is anyway.
function sizes(n, wide, room) {
  const columns = n <= (wide ? 7 : 3) ? 1 : n > 24 ? 3 : 2, rows = Math.ceil(n / columns);
  const least = columns > 1 ? 26 : n > 4 ? 30 : 44;
  return {h: Math.max(least, Math.floor((room + 6) / Math.max(1, rows)) - 6), columns};
}
const stack = (n, s) => Math.ceil(n / s.columns) * (s.h + 6) - 6;

const CHIPS_MOST = 60;                          // workers that are drawn
const LANE_H = 208, QUEUE_H = 112, BASIN = 66;  // the queue's words stand above its basin
const box = (b) => sv("rect", {x: b.x, y: b.y, width: b.w, height: b.h, rx: 8, class: "box"});
// The boxes of the queue, the features and the updates, and what is said in them.
function fillBoxes(p, g, q, c, u) {
  // the queue: below its words a basin whose level is the memory that is taken
  p.q = q;
  const rim = sv("line", {x1: q.x, x2: q.x + q.w, y1: q.y + BASIN, y2: q.y + BASIN, class: "axis"});
  p.water = sv("rect", {x: q.x + 1, y: q.y + q.h, width: q.w - 2, height: 0, class: "water"});
  p.surface = sv("line", {x1: q.x + 1, x2: q.x + q.w - 1, class: "surface"});
  p.batches = sv("g");
  p.queueBig = text(q.x + 10, q.y + 24, "large", "");
  p.queueSub = text(q.x + 10, q.y + 42, "dim", "");
  p.queueSub2 = text(q.x + 10, q.y + 58, "dim", "");
  g.append(hint(
      sv("g", {}, box(q), rim, p.water, p.surface, p.batches, p.queueBig, p.queueSub, p.queueSub2),
      () => p.queueTip || ""));
  // features: what the caches had, what the store had to give
  p.c = c;
  p.hit = sv("rect", {x: c.x + 10, y: c.y + c.h - 20, width: 0, height: 10, class: "hit"});
  p.miss = sv("rect", {x: c.x + 10, y: c.y + c.h - 20, width: c.w - 20, height: 10, class: "miss"});
  p.cacheBig = text(c.x + 10, c.y + 24, "large", "");
  p.cacheSub = text(c.x + 10, c.y + 41, "dim", "");
  p.cacheSub2 = p.wide ? null : text(c.x + 10, c.y + 57, "dim", "");
  g.append(box(c), p.miss, p.hit, p.cacheBig, p.cacheSub, ...(p.cacheSub2 ? [p.cacheSub2] : []));
  p.updateBig = text(u.x + 10, u.y + 24, "large", "");
  p.updateSub = text(u.x + 10, u.y + 42, "dim", "");
  p.updateSub2 = p.wide ? text(u.x + 10, u.y + 58, "dim", "") :
                          text(u.x + u.w - 10, u.y + 42, "dim", "", "end");
  g.append(box(u), p.updateBig, p.updateSub, p.updateSub2);
}
function buildPipe(W, workers) {
  const wide = W >= 700, g = sv("g"), p = {wide, W};
  const samplers = inOrder(workers.filter((w) => !isTrainer(w))).slice(0, CHIPS_MOST),
        trainers = inOrder(workers.filter(isTrainer)).slice(0, CHIPS_MOST);
  const ss = sizes(samplers.length, wide, wide ? QUEUE_H : 0),
        ts = sizes(trainers.length, wide, wide ? LANE_H : 0);
  flows.length = 0;
  let H;
  const title = (x, y, what) => {
    const t = text(x, y, "strong", what), s = text(x, y, "dim", "");
    g.append(t, s);
    return {t, s, x};
  };
  let q, c, u, S, T;
  if (wide) {
    const top = 28,
          inner = Math.max(stack(samplers.length, ss), stack(trainers.length, ts), LANE_H);
    H = top + inner + 6;
    S = {x: 1, y: top, w: 0.22 * W};
    T = {x: 0.575 * W, y: top, w: 0.25 * W};
    q = {x: 0.305 * W, y: top, w: 0.165 * W, h: QUEUE_H};
    c = {x: q.x, y: top + 140, w: q.w, h: 68};
    const mid = q.y + 56;
    u = {x: 0.885 * W, y: mid - 33, w: 0.115 * W - 1, h: 66};
    p.s2q = flow(g, S.x + S.w + 6, mid, q.x - 5, mid, "s");
    p.q2t = flow(g, q.x + q.w + 6, mid, T.x - 5, mid, "q");
    p.cache = flow(g, c.x + c.w + 6, c.y + 23, T.x - 5, c.y + 23, "c");
    p.store = flow(g, c.x + c.w + 6, c.y + 46, T.x - 5, c.y + 46, "f");
    p.t2u = flow(g, T.x + T.w + 6, mid, u.x - 5, mid, "t");
    p.s2qText = text((S.x + S.w + q.x) / 2, mid - 17, "", "", "middle");
    p.q2tText = text((q.x + q.w + T.x) / 2, mid - 17, "", "", "middle");
    p.cacheText = text((q.x + q.w + T.x) / 2, c.y + 9, "dim", "", "middle");
    p.storeText = text((q.x + q.w + T.x) / 2, c.y + 68, "dim", "", "middle");
    p.t2uText = text((T.x + T.w + u.x) / 2, mid - 17, "", "", "middle");
  } else {
    let y = 22;
    S = {x: 1, y, w: W - 2};
    y += Math.max(stack(samplers.length, ss), 20);
    p.s2q = flow(g, W * 0.25, y + 5, W * 0.25, y + 42, "s");
    p.s2qText = text(W * 0.25 + 18, y + 27, "", "");
    q = {x: 1, y: y + 64, w: W * 0.5 - 6, h: 100};
    c = {x: W * 0.5 + 5, y: y + 64, w: W * 0.5 - 6, h: 100};
    y = q.y + q.h;
    p.q2t = flow(g, W * 0.25, y + 5, W * 0.25, y + 42, "q");
    p.cache = flow(g, W * 0.7, y + 5, W * 0.7, y + 42, "c");
    p.store = flow(g, W * 0.8, y + 5, W * 0.8, y + 42, "f");
    p.q2tText = text(W * 0.25 + 18, y + 27, "", "");
    p.cacheText = p.storeText = text(0, 0, "dim", "");
    T = {x: 1, y: y + 64, w: W - 2};
    y = T.y + Math.max(stack(trainers.length, ts), 20);
    p.t2u = flow(g, W * 0.25, y + 5, W * 0.25, y + 42, "t");
    p.t2uText = text(W * 0.25 + 18, y + 27, "", "");
    u = {x: 1, y: y + 64, w: W - 2, h: 58};
    H = u.y + u.h + 4;
  }
  g.append(p.s2qText, p.q2tText, p.cacheText, p.storeText, p.t2uText);
  p.samplerTitle = title(S.x, S.y - 10, "Samplers");
  p.trainerTitle = title(T.x, T.y - 10, "Trainers");
  p.queueTitle = title(q.x, q.y - 10, "Queue");
  p.cacheTitle = title(c.x, c.y - 10, "Features");
  p.updateTitle = title(u.x, u.y - 10, "Updates");
  const gs = sv("g"), gt = sv("g");
  p.refs = new Map([
    ...chips(gs, samplers, S.x, S.y, S.w, ss.h, ss.columns),
    ...chips(gt, trainers, T.x, T.y, T.w, ts.h, ts.columns)
  ]);
  g.append(gs, gt);
  fillBoxes(p, g, q, c, u);
  $("pipe").replaceChildren(sv(
      "svg",
      {width: W, height: H, role: "group", "aria-label": "Samplers, queue, trainers and updates"},
      g));
  return p;
}
function setTitle(t, what, sub) {
  set(t.t, what);
  set(t.s, sub);
  t.s.setAttribute("x", t.x + t.t.getComputedTextLength() + 8);
}
function drawPipe() {
  const s = shown(), W = Math.floor($("pipe").clientWidth), workers = s.workers || [];
  if (!W) return;
  const shape = W + "|" + workers.map((w) => w.name + w.role).join();
  if (!pipe || pipe.shape !== shape) {
    pipe = buildPipe(W, workers);
    pipe.shape = shape;
  }
  const p = pipe, moving = !job.over && !server.lost && s.state !== "paused";
  const samplers = workers.filter((w) => !isTrainer(w)), trainers = workers.filter(isTrainer);
  const standby = s.standby?.there ?
      `${s.standby.there} standby${s.standby.awake ? `, ${s.standby.awake} awake` : ""}` :
                                                     "";
  const n = (x, list) => x ?? list.length;
  const left = (list) =>
      list.length > CHIPS_MOST ? `${list.length - CHIPS_MOST} of them listed below alone` : "";
  setTitle(
      p.samplerTitle, plural(n(s.samplers, samplers), "sampler"),
      left(samplers) ||
          (p.wide || !samplers.length ? "" : `p50 ${duration(s.stages?.sample?.p50)}`));
  setTitle(
      p.trainerTitle, plural(n(s.trainers, trainers), "trainer"),
      [standby && `+ ${standby}`, left(trainers)].filter(Boolean).join(", "));
  setTitle(p.queueTitle, "Queue", "");
  setTitle(p.cacheTitle, "Features", "");
  setTitle(p.updateTitle, "Updates", "");
  for (const w of workers) drawWorker(p.refs.get(w.name), w, s.bottleneck_role);
  // flows
  const out = job.over ? s.rates?.batches : sum(samplers, (w) => w.batches_per_second),
        done = s.rates?.batches ?? sum(trainers, (w) => w.batches_per_second);
  const most = Math.max(out, done, 1e-9),
        speed = (x) => (moving && x > 0 ? 14 + 26 * Math.log10(1 + x) : 0);
  run(p.s2q, out / most, speed(out));
  run(p.q2t, done / most, speed(done));
  run(p.t2u, done / most, speed(done));
  const of = (x, what) => (known(x) ? rate(x).replace("/", p.wide ? "/" : ` ${what}/`) : "");
  set(p.s2qText, of(out, "batches"));
  set(p.q2tText, of(done, "batches"));
  set(p.t2uText, of(s.rates?.updates, "updates"));
  const fc = s.bytes?.features_cache || 0, fs = s.bytes?.features_store || 0,
        fa = Math.max(fc + fs, 1e-9);
  p.cache.g.setAttribute("visibility", fc > 0 ? "visible" : "hidden");  // none without a cache
  run(p.cache, fc / fa, speed(fc && done));
  run(p.store, fs / fa, speed(fs && done));
  if (p.wide) {
    set(p.cacheText, fc ? bytes(fc) + "/s" : "");
    set(p.storeText, fs ? bytes(fs) + "/s" : "");
  }
  drawQueue(p, s);
  drawFeatures(p, s, fc, fs);
  drawUpdates(p, s);
  set($("pipe-note"),
      job.over                 ? "averages of the last epoch" :
          s.state === "paused" ? "paused" :
                                 "live: widths and speeds follow the numbers");
}
function drawWorker(r, w, limit) {
  if (!r) return;
  r.worker = w;
  const role = ["sampler", "standby"].includes(w.role) ? w.role : "trainer";
  // Whoever waits for room in the queue is marked where memory is what is short.
  const mark = w.state === "blocked" && limit !== "memory" ? "" : w.state || "";
  r.g.setAttribute("class", `worker ${role} ${mark}`);
  r.g.setAttribute("aria-label", tipOf(w).replaceAll("\n", ", "));
  r.fill.style.width = clamp((w.busy || 0) * r.width, 0, r.width) + "px";
  set(r.state, stateText(w));
  if (r.rate) {
    set(r.rate, known(w.batches_per_second) ? rate(w.batches_per_second) : "");
    set(r.busy, known(w.busy) ? percent(w.busy) + " busy" : "");
  }
  const more = [
    known(w.batches) && `${plural(w.batches, "batch")} done`,
    w.memory && `${bytes(w.memory)} of memory`, known(w.wait) && `waits ${percent(w.wait)}`,
    w.pid && `process ${w.pid}${w.restarts ? `, replaced ${w.restarts}×` : ""}`
  ].filter(Boolean);
  r.more.forEach((node, i) => set(node, more[i] || ""));
}
function drawQueue(p, s) {
  const q = s.queue || {}, b = p.q,
        level = q.capacity_bytes && known(q.used_bytes) ?
      clamp(q.used_bytes / q.capacity_bytes, 0, 1) :
      0;
  const h = level * (b.h - BASIN - 1), y = b.y + b.h - 1 - h;
  p.water.style.height = h + "px";
  p.water.style.y = y + "px";
  p.surface.setAttribute("y1", y);
  p.surface.setAttribute("y2", y);
  p.surface.setAttribute("visibility", level > 0.01 ? "visible" : "hidden");
  // A square for each batch; where they are more than the basin's rows hold, a number for the rest.
  const n = Math.round(q.batches || 0), across = Math.max(6, Math.floor((b.w - 20) / 9)),
        room = across * Math.floor((b.h - BASIN - 6) / 10), drawn = n > room ? room - 5 : n;
  const place = (i) => [b.x + 10 + (i % across) * 9, b.y + b.h - 14 - Math.floor(i / across) * 10];
  if (p.batches.dataset.n !== String(n)) {
    p.batches.dataset.n = String(n);
    p.batches.replaceChildren(...Array.from({length: drawn}, (_, i) => {
      const [x, y] = place(i);
      return sv("rect", {x, y, width: 7, height: 8, rx: 1.5, class: "batch"});
    }));
    if (n > drawn)
      p.batches.append(text(place(drawn)[0], place(drawn)[1] + 8, "tick strong", `+${n - drawn}`));
  }
  set(p.queueBig,
      known(q.batches) ? (Number.isInteger(q.batches) ? plural(q.batches, "batch") :
                                                        `${q.batches.toFixed(1)} batches`) :
                                                        "–");
  set(p.queueSub,
      job.over             ? "ready, on average" :
          q.capacity_bytes ? `${percent(level)} of ${bytes(q.capacity_bytes)}` :
                             "");
  set(p.queueSub2,
      known(q.sampling) ? `${q.sampling} drawn · ${q.training} trained` :
          known(q.batch_bytes) ? `${bytes(q.batch_bytes)} a batch` :
                                 "");
  p.queueTip = job.over ?
      `at most ${q.most} batches ready\nroom for ${bytes(q.capacity_bytes)}` :
      known(q.sampling) ?
      `${plural(n, "batch")} ready: ${bytes(q.bytes)}\n${q.sampling} being sampled, ${
          q.training} being trained\n${bytes(q.used_bytes)} of ${bytes(q.capacity_bytes)} taken${
          s.bytes?.blocks_near ? `\n${bytes(s.bytes.blocks)} of blocks a second, ${
                                     bytes(s.bytes.blocks_near)} near: within a GPU` :
                                 ""}` :
      "";
}
function drawFeatures(p, s, fc, fs) {
  const c = s.cache || {}, none = !c.policy || c.policy === "none",
        hit = c.hit_rate ?? c.hit_rate_total;
  const gathered = fc + fs ? bytes(fc + fs) + "/s" : "";
  set(p.cacheBig, (none ? gathered : known(hit) && percent(hit)) || "–");
  set(p.cacheSub, none ? "no cache" : `in cache (${c.policy})`);
  if (p.cacheSub2) set(p.cacheSub2, none ? "" : gathered);
  p.hit.style.width = (none ? 0 : clamp(hit || 0, 0, 1) * (p.c.w - 20)) + "px";
  p.miss.setAttribute("visibility", none ? "hidden" : "visible");
}
function drawUpdates(p, s) {
  const u = s.updates || {}, total = s.totals?.updates;
  set(p.updateBig,
      known(u.version) ? count(u.version) :
          known(total) ? count(total) :
                         u.mode || "–");
  set(p.updateSub, known(u.version) ? `version · ${u.mode}` : "");
  set(p.updateSub2,
      known(u.staleness_mean) ? `${digits(u.staleness_mean, 2)} behind, most ${u.staleness_max}` :
                                "");
}
const still = matchMedia("(prefers-reduced-motion: reduce)");
let before = 0;
function move(now) {
  const dt = Math.min(0.1, (now - before) / 1000);
  before = now;
  for (const f of flows)
    if (f.speed) {
      f.at = (f.at - f.speed * dt) % 17;
      f.node.setAttribute("stroke-dashoffset", f.at.toFixed(2));
    }
  moveFlows();
}
function moveFlows() {
  if (!still.matches) requestAnimationFrame(move);
}
still.addEventListener("change", moveFlows);
