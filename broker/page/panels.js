// panels.js - head, bottleneck, stage times, curves, devices, epochs.

// ---- head, bottleneck, stages -------------------------------------------------------------------

function metricName() {
  const named = current().metric?.name || job.about?.report?.best_metric?.name ||
      job.about?.config?.evaluate?.metric;
  if (named && named !== "auto") return named;
  const e = epochsOf().find((x) => x.val), keys = Object.keys(e?.val || {});
  return keys.includes("accuracy") ? "accuracy" : keys.find((k) => k !== "loss") || "accuracy";
}
const nameOf = (m) => (MEASURES[m]?.name || m.replaceAll("_", " "))
                          .replace("@K", `@${job.about?.config?.evaluate?.k ?? "K"}`);
const isShare = (m) => MEASURES[m]?.share;
// Of an evaluation and the accuracy that stands beside it. null: the labels do not define it.
const ofMetric = (m, found, accuracy) => found?.[m] ?? (m === "accuracy" ? accuracy : null);
const valueOf = (m, e) => ofMetric(m, e.val, e.val_accuracy);
function bestOf(m, list) {
  const values = list.map((e) => valueOf(m, e)).filter(known);
  return values.length ? (MEASURES[m]?.less ? Math.min : Math.max)(...values) : null;
}
const score = (m, x) => (!known(x) ? "–" : isShare(m) ? (x * 100).toFixed(2) + " %" : loss(x));
function stateNow() {
  const listed = job.entry?.state, ended = {0: "done", 130: "stopped"};
  if (!job.over) return current().state || listed || job.about?.state || "starting";
  if (OVER.includes(listed)) return listed;
  if (job.finished) return ended[job.finished.exit_status] || "failed";
  return job.about?.report?.status || job.about?.state || "done";
}

function tiles(list) {
  const host = $("tiles");
  if (host.children.length !== list.length)
    host.replaceChildren(...list.map(() => el("div", {}, el("dt"), el("dd"))));
  list.forEach(([name, value, small], i) => {
    set(host.children[i].firstChild, name);
    const dd = host.children[i].lastChild, whole = value + "\n" + (small || "");
    if (dd.dataset.v !== whole) {
      dd.dataset.v = whole;
      dd.replaceChildren(value, ...(small ? [el("small", {}, " " + small)] : []));
    }
  });
}
// What was asked for, of the resolved job.
function factsOf({model: m, sampler: s, optimizer: o, updates: u, task: t}, relation) {
  const links = t?.kind === "link";
  return [
    links && `links: ${t.decoder}, ${t.loss}, ${t.per_positive} ${t.negatives} a positive`,
    relation && `pairs of ${relation}`,
    m &&
        [m.kind, known(m.layers) && `${m.layers} layers of ${m.hidden}`].filter(Boolean).join(", "),
    s && [s.kind, (s.fanout || []).map((n) => (n < 0 ? "all" : n)).join(", ")].join(" ").trim(),
    known(s?.batch_size) && `${s.batch_size} ${links ? "positives" : "seeds"} a batch`,
    u?.mode && `${u.mode} updates`, known(o?.lr) && `${o.kind}, lr ${o.lr}`
  ];
}
function drawHead() {
  const s = current(), about = job.about || {}, report = about.report || {}, list = epochsOf(),
        last = list[list.length - 1], m = metricName();
  const epochs = s.epochs ?? about.config?.epochs ?? job.entry?.epochs, state = stateNow();
  set($("name"), about.job || s.job || job.entry?.name || "job");
  document.title = `${$("name").textContent} · sluice`;
  set($("state"), state);
  $("state").className = "pill " + state;
  const used = report.devices || about.devices || s.devices || [],
        devices = used[0]?.name === "pool" ? "a pool of cores" :
      used.length                          ? plural(used.length, "device") :
                                             "";
  set($("facts"), [
    about.id && `job ${about.id}`,
    ...factsOf(about.config || {}, s.metric?.relation || report.pair_relation),
    known(report.num_params) && `${report.num_params.toLocaleString("en")} parameters`,
    about.config?.dataset?.split("/").pop(), devices, about.output
  ].filter(Boolean).join("  ·  "));
  set($("warnings"), (report.warnings || []).join("\n"));
  const best = s.best?.value ?? bestOf(m, list);
  const now = job.over ?
      [
        ["Epochs", String(list.length), epochs && list.length !== epochs ? `of ${epochs}` : ""],
        ["Loss", loss(last?.loss)],
        [`Best validation ${nameOf(m)}`, score(m, best)],
        [`Test ${nameOf(m)}`, score(m, ofMetric(m, report.test, report.test_accuracy))],
        ["Took", duration(report.wall_seconds ?? s.seconds)],
        ["Memory, most", bytes(report.peak_memory ?? s.memory?.peak)],
      ] :
      [
        [
          "Epoch", known(s.epoch) ? String(Math.min(s.epoch + 1, epochs ?? Infinity)) : "–",
          epochs ? `of ${epochs}` : ""
        ],
        ["Loss", loss(s.loss ?? last?.loss)],
        [
          `Validation ${nameOf(m)}`, score(m, s.metric?.value),
          s.metric ? `epoch ${s.metric.epoch + 1}` : ""
        ],
        ["Best", score(m, best)],
        ["Running for", known(s.seconds) ? clock(s.seconds) : "–"],
        ["Time left", known(s.seconds_left) ? clock(s.seconds_left) : "–"],
      ];
  tiles(now);
  const part = s.phase === "train" && s.total ? s.done / s.total : 0;
  const share = job.over       ? (epochs ? list.length / epochs : 1) :
      known(s.epoch) && epochs ? (s.epoch + part) / epochs :
                                 0;
  $("progress").firstChild.style.width = clamp(share, 0, 1) * 100 + "%";
  $("progress").setAttribute("aria-valuenow", Math.round(share * 100));
  const phases = {
    start: "starting",
    presample: "sampling ahead",
    rank: "ranking vertices",
    train: "training",
    evaluate: "evaluating",
    test: "testing",
    save: "saving"
  };
  const waits = job.entry?.state === "queued" ?
      `in the queue, position ${job.entry.position ?? "?"}${
          job.entry.why ? `: ${job.entry.why}` : ""}` :
                          "";
  set($("phase"),
      job.over ? report.message || job.finished?.message || about.message || "" :
                 waits ||
              (s.phase ? `${phases[s.phase] || s.phase}${
                             s.total ? `, batch ${s.done} of ${s.total}` : ""}` :
                         ""));
}
function drawNeck() {
  const s = shown(), role = s.bottleneck_role || "none", a = !job.over && s.advice;
  const use = a && (a.samplers !== s.samplers || a.trainers !== s.trainers);
  // Trainers that take the time, in front of a queue that is full, are how it should be.
  const calm = role === "none" || (role === "trainers" && !use);
  $("neck").hidden = !s.bottleneck;
  $("neck").className = "neck " + (calm ? "calm" : role);
  const line = s.bottleneck ? s.bottleneck[0].toUpperCase() + s.bottleneck.slice(1) +
          (/[.!]$/.test(s.bottleneck) ? "" : ".") :
                              "";
  set($("neck-text"),
      tied(line) + (calm && role === "trainers" ? " Training is the limit, as it should be." : ""));
  $("advice").hidden = !use || !token;
  if (use)
    set($("advice"),
        `Try ${plural(a.samplers, "sampler")}, ${plural(a.trainers, "trainer")}${
            known(a.epoch_seconds_then) ? `: ${duration(a.epoch_seconds_then)} an epoch` : ""}`);
}
const STAGES = [
  ["sample", "sample", "sampler"], ["mark", "mark cached", "sampler"], ["copy", "copy", "sampler"],
  ["backpressure", "wait: memory", "queue"], ["extract", "extract", "cache"],
  ["train", "train", "trainer"], ["wait", "wait: batch", "dim"], ["evaluate", "evaluate", "standby"]
];
function drawStages() {
  const s = shown().stages || {}, rows = STAGES.filter(([k]) => s[k]?.count > 0 && known(s[k].p50));
  const most = (k) => s[k].p99 ?? s[k].p50;
  const scale = Math.max(
      1e-9,
      ...rows.filter(([k]) => !["wait", "backpressure", "evaluate"].includes(k))
          .map(([k]) => most(k)));
  const beyond = (k) => most(k) > scale * (1 + 1e-9);
  const host = $("stages"), shape = rows.map((r) => r[0]).join();
  if (host.dataset.shape !== shape) {
    host.dataset.shape = shape;
    host.replaceChildren(
        ...rows.map(
            ([k, name, cls]) => hint(
                el("div", {class: "stage"}, el("span", {}, name),
                   el("span", {class: `bar2 c-${cls}`}, el("i"), el("i")),
                   el("span", {}, el("b"), el("span"))),
                () => {
                  const x = shown().stages?.[k] || {};
                  return `${name}: half take less than ${duration(x.p50)}, 99 of 100 less than ${
                      duration(x.p99)}\n${count(x.count)} times, ${duration(x.seconds)} in all${
                      known(x.busy) ? `\n${percent(x.busy)} of its workers' time` : ""}`;
                })),
        el("p", {class: "key"}));
  }
  set(host.lastChild,
      !rows.length ? "nothing yet" :
                     "solid: half of the batches (p50); light: 99 of 100 (p99)" +
              (rows.some(([k]) => beyond(k)) ? "; torn: longer than fits" : ""));
  rows.forEach(([k], i) => {
    const [, bar, label] = host.children[i].children,
                  w = (x) => clamp((x || 0) / scale, 0, 1) * 100 + "%";
    bar.children[0].style.width = w(s[k].p99);
    bar.children[1].style.width = w(s[k].p50);
    bar.classList.toggle("torn", beyond(k));
    set(label.firstChild, duration(s[k].p50));
    set(label.lastChild, ` · ${duration(s[k].p99)}`);
  });
  set($("stage-note"), job.over ? "of the last epoch" : "for one batch");
}

// ---- curves of the page -------------------------------------------------------------------------

const plots = {};
// A series looks the same in whichever plot it is.
const SERIES = {
  training: {name: "training", cls: "c-trainer"},
  validation: {name: "validation", cls: "c-sampler", dash: 2},
  test: {name: "test", cls: "c-cache", dash: 3, optional: true},
  evaluation: {name: "evaluation", cls: "c-standby", dash: 2},
  drawing: {name: "drawing", cls: "c-sampler"},
  full: {name: "waiting for room in the queue", cls: "c-queue", dash: 3},
  waiting: {name: "waiting for a batch or an update", cls: "c-dim", dash: 3},
};
const overTime = {
  x: clock,
  xName: "time since the start",
  zero: true,
  span: 30
};
const overEpochs = {
  x: (e) => String(e),
  xAt: (e) => `epoch ${e}`,
  xName: "epoch",
  wholeX: true,
  zero: true
};
function makePlots() {
  const make = (id, o) => {
    $("plot-" + id).replaceChildren();
    plots[id] = new Plot($("plot-" + id), o);
  };
  const t = job.over ? overEpochs : overTime;
  make("rate", {
    ...t,
    y: rate,
    yTick: axisRate,
    area: true,
    series: [{name: "batches trained", cls: "c-trainer"}]
  });
  make("queue", {
    ...t,
    yTick: axisNumber,
    y: (v) => (known(v) && !Number.isInteger(v) && v < 100 ? v.toFixed(1) : count(v)),
    area: true,
    series: job.over ?
        [{name: "batches ready, mean", cls: "c-queue"}, {name: "most", cls: "c-dim", dash: 3}] :
        [{name: "batches ready", cls: "c-queue"}]
  });
  make("hit", {
    ...t,
    y: percent,
    yTick: axisPercent,
    max: 1,
    area: true,
    series: [
      {name: "of input rows", cls: "c-cache"},
      {name: "optimal", cls: "c-dim", dash: 3, optional: true}
    ]
  });
  const ofTime = {...t, y: percent, yTick: axisPercent, max: 1, parts: true};
  make("draws", {...ofTime, series: [SERIES.drawing, SERIES.full]});
  make("trains", {
    ...ofTime,
    series: job.over ? [SERIES.training, SERIES.waiting] :
                       [SERIES.training, SERIES.evaluation, SERIES.waiting]
  });
  make("loss", {
    ...overEpochs,
    zero: false,
    y: loss,
    yTick: axisNumber,
    series: [SERIES.training, {...SERIES.validation, optional: true}]
  });
  make("score", {
    ...overEpochs,
    zero: false,
    y: (v) => score(metricName(), v),
    yTick: (v, a) => (isShare(metricName()) ? axisPercent : axisNumber)(v, a),
    series: [{...SERIES.training, optional: true}, SERIES.validation, SERIES.test]
  });
  make("seconds", {
    ...overEpochs,
    y: duration,
    yTick: axisTime,
    unitOf: (most) => unitOf(most, AXIS_TIMES)[1],
    series: [SERIES.training, SERIES.evaluation]
  });
  plots.over = job.over;
}
function drawPlots() {
  if (plots.over !== job.over || !plots.rate) makePlots();
  const list = epochsOf(), x = list.map((e) => e.epoch + 1),
        of = (f) => list.map((e) => f(e) ?? null), m = metricName();
  const h = job.history, xs = h.seconds || [];
  if (job.over) {
    // A part of the time that the workers of a role lived, which older reports do not say.
    const per = (stage, role) => (e) => e.worker_seconds?.[role] > 0 ?
        Math.min((e.stages?.[stage]?.seconds || 0) / e.worker_seconds[role], 1) :
        null;
    plots.rate.set(x, [of((e) => (e.seconds > 0 ? e.batches / e.seconds : null))]);
    plots.queue.set(x, [of((e) => e.queue?.depth_mean), of((e) => e.queue?.depth_max)]);
    const hits = (key) => of((e) => (e.cache?.ranked ? e.cache[key] : null));
    plots.hit.set(x, [hits("hit_rate"), hits("optimal_hit_rate")]);
    plots.draws.set(x, [of(per("sample", "samplers")), of(per("backpressure", "samplers"))]);
    plots.trains.set(x, [of(per("train", "trainers")), of(per("wait", "trainers"))]);
  } else {
    plots.rate.set(xs, [h.batches || []]);
    plots.queue.set(xs, [h.queue || []]);
    plots.hit.set(xs, [h.hit_rate || [], []]);
    plots.draws.set(xs, [h.sample || [], h.blocked || []]);
    plots.trains.set(xs, [h.train || [], h.evaluate || [], h.wait || []]);
  }
  // An evaluation of links has the bce of its pairs, which is no curve beside another loss.
  const {kind, loss: learned} = job.about?.config?.task || {},
                     other = kind === "link" && learned !== "bce";
  plots.loss.set(x, [of((e) => e.loss), of((e) => (other ? null : e.val?.loss))]);
  plots.score.set(x, [
    of((e) => (m === "accuracy" ? e.train_accuracy : null)), of((e) => valueOf(m, e)),
    of((e) => e.test?.[m])
  ]);
  plots.seconds.set(x, [of((e) => e.seconds), of((e) => e.evaluate_seconds)]);
  const rates = shown().rates || {};
  set($("rate-note"),
      known(rates.positives) ?
          `${count(rates.positives)} positives, ${count(rates.negatives)} negatives a second` :
          "");
  set($("score-title"), nameOf(m)[0].toUpperCase() + nameOf(m).slice(1));
  const policy = shown().cache?.policy || job.about?.config?.cache?.policy;
  // What an epoch has not brought, none will: an empty plot says nothing.
  for (const id of ["loss", "score", "seconds"])
    $(id + "-card").hidden = list.length && !plots[id].any;
  $("hit-card").hidden = !policy || policy === "none" || (job.over && !plots.hit.any);
}

// ---- devices, epochs, configuration -------------------------------------------------------------

// share: null where there is no bound that it could be a share of.
function gauge(name, share, what, cls) {
  const bar = el("i");
  bar.style.width = clamp(share || 0, 0, 1) * 100 + "%";
  bar.style.background = `var(--${cls})`;
  const meter = el("div", {class: "meter" + (share > 1 ? " torn" : "")}, bar);
  return el("div", {class: "gauge"}, name, known(share) ? meter : null, el("span", {}, what));
}
// How much it has read in whose memory, of what GPUs hold together: a table of each kind.
function readsOf(device, links) {
  const from = (x) => x.from === "memory" ? "the machine's memory" :
      Number(x.from) === device           ? "its own memory" :
                                            `device ${x.from}`;
  const tableOf = (kind, ways) => {
    const all = sum(ways, (x) => x.bytes);
    const rows = ways.map(
        (x) =>
            el("tr", {}, el("td", {}, from(x)),
               el("td", {}, `${bytes(x.bytes)}, ${percent(x.bytes / all)}`)));
    return el("table", {}, el("caption", {}, `${kind} read from`), el("tbody", {}, rows));
  };
  const ways = links.filter((x) => x.reader === device);
  return [...new Set(ways.map((x) => x.kind))].map(
      (kind) => tableOf(kind, ways.filter((x) => x.kind === kind)));
}
function drawDevices() {
  const s = shown(), report = job.about?.report, workers = s.workers || [];
  const devices =
      (job.over ? report?.devices || job.about?.devices : s.devices || job.about?.devices) || [];
  const links = (job.over ? report?.store?.links : s.links) || [];
  $("devices-card").hidden = !devices.length;
  $("devices").replaceChildren(...devices.map((d) => {
    const name = d.name || `${d.kind} ${d.index}`,
          cores = Array.isArray(d.cores) ? ranges(d.cores) : d.cores;
    return el(
        "div", {class: "device"},
        el("h3", {}, name,
           el("small", {},
              [
                known(d.gpu) && `GPU ${d.gpu}`,
                cores != null && cores !== "" ? `${isNaN(cores) ? "cores" : "core"} ${cores}` :
                                                d.kind,
                known(d.memory) && bytes(d.memory)
              ].filter(Boolean)
                  .join(", "))),
        known(d.cpu_load) ? gauge("load", d.cpu_load, percent(d.cpu_load), "sampler") : null,
        known(d.gpu_load) ?
            gauge(
                "GPU", d.gpu_load,
                percent(d.gpu_load) +
                    (known(d.gpu_memory_load) ? `, its memory ${percent(d.gpu_memory_load)}` : ""),
                "trainer") :
                                                null,
        known(d.memory_used) ?
            gauge(
                "memory", d.memory_budget ? d.memory_used / d.memory_budget : null,
                bytes(d.memory_used) + (d.memory_budget ? ` of ${bytes(d.memory_budget)}` : ""),
                "queue") :
                                                          null,
        known(d.gpu_memory_used) && d.gpu_memory_total ?
            gauge(
                "GPU memory", d.gpu_memory_used / d.gpu_memory_total,
                `${bytes(d.gpu_memory_used)} of ${bytes(d.gpu_memory_total)} in use, by whomever`,
                "trainer") :
            null,
        el("table", {},
           el("tbody", {},
              inOrder(workers.filter((w) => w.device === d.index))
                  .map(
                      (w) => el(
                          "tr", {},
                          el("td", {
                            class:
                                `c-${["sampler", "standby"].includes(w.role) ? w.role : "trainer"}`
                          },
                             el("span", {class: "dot"}), el("span", {class: "ink"}, w.name)),
                          el("td", {},
                             [
                               stateText(w), known(w.busy) && `${percent(w.busy)} busy`,
                               w.cache && `cache ${bytes(w.cache)}`,
                               w.restarts && `replaced ${w.restarts}×`
                             ].filter(Boolean)
                                 .join(", ")))))),
        workers.some((w) => w.device === d.index) ? null :
                                                    el("p", {class: "key"}, "no worker is here"),
        readsOf(d.index, links));
  }));
}
// Of a job on several nodes; while it runs what they do now, then what they have done.
function drawNodes() {
  const list = (job.over ? job.about?.report?.nodes : shown().nodes) || [], live = !job.over;
  $("nodes-card").hidden = !list.length;
  const of = (text, x) => known(x) ? text(x) : "–", rate = (x) => `${bytes(x)}/s`;
  const head = [
    "node", "split", "batches", ...(live ? ["batches/s", "queue", "train", "wait"] : []), "late",
    "wire", "received", "remote rows", "remote", "after", "memory", "host"
  ];
  const rows = list.map(
      (n) =>
          [n.rank, known(n.samplers) ? `${n.samplers} + ${n.trainers}` : "–", of(count, n.batches),
           ...(live ?
                   [
                     of((x) => x.toFixed(1), n.batches_per_second), of(count, n.queue),
                     of(percent, n.trains), of(percent, n.waits)
                   ] :
                   []),
           live ? of(percent, n.late) : of(duration, n.late_seconds),
           live ? of(percent, n.wire) : of(duration, n.wire_seconds),
           live ? of(rate, n.received_per_second) : of(bytes, n.received_bytes),
           of(count, n.remote_rows), of(percent, n.remote_share), of(duration, n.remote_seconds),
           of(bytes, n.memory), n.host ?? "–"]);
  $("nodes").replaceChildren(plainTable(head, rows));
}
function plainTable(head, rows) {
  return el(
      "table", {}, el("thead", {}, el("tr", {}, head.map((h) => el("th", {scope: "col"}, h)))),
      el("tbody", {}, rows.map((r) => el("tr", {}, r.map((x) => el("td", {}, String(x)))))));
}
// Of a graph of several types, where it is opened: what was gathered and drawn, and caches hold.
function drawTypes() {
  const from = (job.over ? job.about?.report : shown()) || {}, types = from.types || [];
  $("types-card").hidden = !types.length;
  if (!types.length || !$("types-card").open) return;
  const relations = from.relations || [], all = sum(relations, (r) => r.sampled_edges || 0);
  const held = (job.over ? from.cache?.held : from.held) || [];
  const of = (text, x) => known(x) ? text(x) : "–";
  $("types").replaceChildren(
      plainTable(
          ["type", "rows", "hits", "from caches", "from the store"],
          types.map(
              (t) =>
                  [t.name, of(count, t.input_nodes),
                   t.input_nodes ? percent(t.hits / t.input_nodes) : "–", of(bytes, t.hit_bytes),
                   of(bytes, t.miss_bytes)])),
      plainTable(
          ["relation", "edges", "share"],
          relations.map(
              (r) =>
                  [`${r.source} -${r.name}-> ${r.target}`, of(count, r.sampled_edges),
                   all ? percent(r.sampled_edges / all) : "–"])),
      ...(held.length ?
              [plainTable(
                  ["held by", "type", "rows", "bytes"],
                  held.map((h) => [h.worker, h.type, of(count, h.rows), of(bytes, h.bytes)]))] :
              []));
}
function drawEpochs() {
  const list = epochsOf(), m = metricName();
  $("epochs-card").hidden = !job.over || !list.length;
  const shape = `${list.length}|${$("epochs").clientWidth}`;
  if (!job.over || $("epochs").dataset.shape === shape) return;
  $("epochs").dataset.shape = shape;
  const value = (e) => valueOf(m, e), best = bestOf(m, list);
  const tested = list.some((e) => e.test), testOf = (e) => tested ? [score(m, e.test?.[m])] : [];
  const helped = list.some((e) => e.switching?.batches > 0);
  const head = [
    "epoch", "time", "loss", `validation ${nameOf(m)}`, ...(tested ? ["test"] : []), "split",
    "batches", ...(helped ? ["by standby"] : []), "queue", "hit rate", "switches", "what limited it"
  ];
  $("epochs").replaceChildren(el(
      "table", {}, el("thead", {}, el("tr", {}, head.map((h) => el("th", {scope: "col"}, h)))),
      el("tbody", {},
         list.map((e) => el("tr", {class: known(value(e)) && value(e) === best ? "best" : null}, [
                    e.epoch + 1, duration(e.seconds), loss(e.loss), score(m, value(e)),
                    ...testOf(e), `${e.samplers} + ${e.trainers}`, e.batches,
                    ...(helped ? [count(e.switching?.batches)] : []),
                    known(e.queue?.depth_mean) ? e.queue.depth_mean.toFixed(1) : "–",
                    e.cache?.ranked ? percent(e.cache.hit_rate) : "–", e.switches,
                    tied(e.bottleneck || "")
                  ].map((x) => el("td", {}, String(x))))))));
  wholeRows($("epochs"), [...$("epochs").querySelectorAll("tbody tr")], 480, $("epochs-note"));
}
function drawConfig() {
  const config = job.about?.config;
  $("config-card").hidden = !config;
  if (config) set($("config"), JSON.stringify(config, null, 2));
}
