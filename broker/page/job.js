// job.js - what is known of the job that is shown, and of the server.

const OVER = ["done", "failed", "stopped", "interrupted"];
const isStatic = !!$("sluice-data");
const server = {
  jobs: [],
  daemon: null,
  steered: false,
  hello: false,
  lost: false,
  refused: "",  // why, where the server does not let this browser read
  heard: 0
};
let job = null;  // {key, entry, about, stats, history, epochs, events, over}
let token = "";
const draft = {
  samplers: null,
  trainers: null,
  busy: false,
  ask: 0
};

function newJob(key) {
  return {
    key,
    entry: null,
    about: null,
    stats: null,
    history: {},
    epochs: new Map(),
    events: [],
    seen: new Set(),
    over: false
  };
}
function addEvent(e) {
  const id = `${e.time}|${e.seconds}|${e.kind}|${e.text}`;
  if (job.seen.has(id)) return;
  job.seen.add(id);
  job.events.push(e);
}
function takeAbout(about) {
  job.about = about;
  const report = about.report || {};
  for (const e of about.epochs || report.epochs || []) job.epochs.set(e.epoch, e);
  for (const e of about.events || []) addEvent(e);
  job.events.sort((a, b) => (a.time - b.time) || (a.seconds - b.seconds));
  if (about.stats && !job.stats) job.stats = about.stats;
  job.over = job.over || isStatic || !!about.report || OVER.includes(about.state);
}
const at = (tree, path) => path.split(".").reduce((x, key) => x?.[key], tree);
// As sl_stats_history_add() does; the server rounds the times that it tells.
function takeStats(s) {
  const h = job.history;
  job.stats = s;
  const last = h.time?.[h.time.length - 1];
  if (last != null && s.time <= last + 0.05 && s.time > last - HISTORY.setBack) return;
  for (const [name, path] of Object.entries(COLUMNS)) {
    const column = (h[name] ||= []);
    column.push(at(s, path) ?? null);
    if (column.length > HISTORY.lines) column.shift();
  }
}
const epochsOf = () => [...job.epochs.values()].sort((a, b) => a.epoch - b.epoch);
const current = () => job.stats || {};

// Whom an epoch's bottleneck names: its first word.
const limitOf = (words) =>
    (/^(samplers|trainers|memory|updates|drive|nodes|network)\b/.exec(words || "") || [])[1] ||
    "none";
// What the statistics were like in the last epoch of a job that is over.
function statsOfReport() {
  const list = epochsOf(), e = list[list.length - 1], report = job.about?.report || {};
  if (!e) return null;
  const process = (name) => (report.processes || []).find((p) => p.name === name);
  const cacheOf = (name) => (report.cache?.trainers || []).find((t) => t.worker === name);
  const workers =
      (report.devices || job.about?.devices ||
       []).flatMap((d) => (d.workers || []).map((name, i) => ({
                                                  name,
                                                  role: d.roles?.[i] || name.split(" ")[0],
                                                  device: d.index,
                                                  state: "",
                                                  memory: process(name)?.peak_rss,
                                                  cache: cacheOf(name)?.bytes
                                                })));
  const of = (role) => workers.filter((w) => w.role === role);
  const stages = {};
  for (const [name, s] of Object.entries(e.stages || {})) {
    const n = ["sample", "mark", "copy", "backpressure"].includes(name) ? e.samplers : e.trainers;
    stages[name] = {...s, busy: e.seconds > 0 && n > 0 ? s.seconds / (n * e.seconds) : null};
  }
  for (const w of workers)
    w.busy = w.role === "sampler" ? stages.sample?.busy :
        w.role === "trainer"      ? stages.train?.busy :
                                    null;
  const per = (x) => (e.seconds > 0 ? x / e.seconds : null);
  const config = job.about?.config || {};
  return {
    samplers: e.samplers,
    trainers: e.trainers,
    workers,
    stages,
    devices: [],
    rates: {batches: per(e.batches), positives: per(e.positives), negatives: per(e.negatives)},
    standby: {there: of("standby").length, awake: 0},
    queue: {
      batches: e.queue?.depth_mean,
      most: e.queue?.depth_max,
      batch_bytes: e.batches > 0 ? e.bytes?.blocks / e.batches : null,
      capacity_bytes: report.arena?.payload_bytes
    },
    bytes: {
      features_cache: per(e.cache?.hit_bytes),
      features_store: per(e.cache?.miss_bytes),
      blocks: per(e.bytes?.blocks)
    },
    cache: {
      policy: report.cache?.policy || config.cache?.policy,
      hit_rate: e.cache?.ranked ? e.cache.hit_rate : null,
      hit_rate_total: null
    },
    updates: {
      mode: config.updates?.mode,
      version: null,
      staleness_mean: e.updates?.staleness_mean,
      staleness_max: e.updates?.staleness_max
    },
    bottleneck: e.bottleneck,
    bottleneck_role: limitOf(e.bottleneck),
  };
}
const shown = () => (job.over ? statsOfReport() || job.stats || {} : current());
