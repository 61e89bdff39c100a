// live.js - draws all of it, from the server's event stream or from the data in the page.

// ---- all of it ----------------------------------------------------------------------------------

function draw() {
  if (!job) return;
  $("main").hidden = false;
  $("empty").hidden = true;
  const nothing = !job.stats && !job.epochs.size;
  for (const id of ["pipe-card", "neck"]) $(id).hidden = nothing;
  document.querySelector(".grid").hidden = nothing;
  drawHead();
  if (!nothing) {
    drawNeck();
    drawPipe();
    drawStages();
    drawPlots();
    drawSteer();
  }
  drawTimeline();
  drawEvents();
  drawNodes();
  drawTypes();
  drawDevices();
  drawEpochs();
  drawConfig();
}
// Soon, once for all that came until then: a page that draws each message falls behind where the
// processor is busy, and answers to nobody.
let due = 0;
function render() {
  due ||= setTimeout(() => {
    due = 0;
    draw();
  }, 100);
}
function drawLink() {
  document.body.classList.toggle("stale", server.lost);
  $("link").classList.toggle("lost", server.lost);
  const over = job?.finished && !server.daemon;
  set($("link"),
      isStatic           ? "" :
          server.refused ? "not let in" :
          server.lost    ? (over ? "the job has ended, and its server with it" :
                                   "connection lost: the daemon is gone or away; trying again") :
          server.hello   ? "live" :
                           "connecting");
}
function drawEmpty() {
  if (job) return;
  $("main").hidden = true;
  $("empty").hidden = false;
  set($("empty"),
      server.refused || (server.lost ? "" : "No job yet.\nStart one with: sluice submit JOB.json"));
}

// ---- the server ---------------------------------------------------------------------------------

async function get(path) {
  const r = await fetch(path, token ? {headers: {Authorization: `Bearer ${token}`}} : {});
  const kept = r.status === 401 || r.status === 403;
  server.refused = kept ? (await r.json().catch(() => ({}))).error : "";
  if (!r.ok) throw new Error(`${path}: ${r.status}`);
  return r.json();
}
const keyOf = (j) => j.id ?? "0";
function drawPick() {
  const options =
      server.jobs.map((j) => [keyOf(j), `${j.id ? j.id + "  " : ""}${j.name}  (${j.state})`]);
  const now = JSON.stringify([options, job?.key]);
  $("pick").parentElement.hidden = !server.daemon && options.length < 2;  // nothing to choose from
  if ($("pick").dataset.now === now) return;
  $("pick").dataset.now = now;
  $("pick").replaceChildren(
      ...options.map(([k, name]) => el("option", {value: k, selected: k === job?.key}, name)));
  if (job) $("pick").value = job.key;
}
async function loadJobs() {
  const list = await get("/api/jobs");
  server.daemon = list.daemon;
  server.jobs = list.jobs || [];
  const entry = job && server.jobs.find((j) => keyOf(j) === job.key);
  if (entry) job.entry = entry;
  set($("foot"), [
    list.daemon ?
        `daemon ${list.daemon.pid}, sluice ${list.daemon.version}, cores ${list.daemon.cores}${
            list.daemon.free_cores ? ` (free: ${list.daemon.free_cores})` : ""}` :
                                     server.version && `sluice ${server.version}`,
    "times are of one batch; widths, levels and curves follow the last seconds"
  ].filter(Boolean).join("  ·  "));
}
function choose() {
  const wanted = new URLSearchParams(location.search).get("job"),
        byKey = server.jobs.find((j) => keyOf(j) === wanted || j.name === wanted);
  const active = [...server.jobs].reverse().find(
      (j) => ["running", "starting", "paused", "finishing"].includes(j.state));
  return byKey || active || server.jobs[server.jobs.length - 1];
}
async function loadJob(key) {
  const fresh = !job || job.key !== key, mine = fresh ? newJob(key) : job;
  const path = `/api/jobs/${encodeURIComponent(key)}`, about = await get(path).catch(() => null);
  // Only of a job that runs is there a history.
  const past = about?.stats && !about.report && !mine.history.time?.length ?
      await get(path + "/history").catch(() => null) :
      null;
  if (fresh) {
    job = mine;
    pipe = null;
    draft.samplers = draft.trainers = null;
    delete $("epochs").dataset.shape;
    delete $("events").dataset.newest;
    say("");
  }
  job.entry = server.jobs.find((j) => keyOf(j) === key) || job.entry;
  if (about) takeAbout(about);
  if (past?.time?.length >= (job.history.time?.length || 0)) {
    for (const name of Object.keys(COLUMNS)) job.history[name] = [...(past[name] || [])];
  }
  if (OVER.includes(job.entry?.state))
    job.over = true;
  else if (server.daemon && job.entry) {
    job.over = false;
    job.finished = null;
  }
}
let refreshing = null, again = false;
function refresh() {
  if (isStatic) return null;
  if (refreshing) {
    again = true;
    return refreshing;
  }
  refreshing = (async () => {
    try {
      await loadJobs();
      const entry = job ? server.jobs.find((j) => keyOf(j) === job.key) || choose() : choose();
      if (entry) await loadJob(keyOf(entry));
    } catch (e) { /* the stream notices, and refreshes when it is back */
    }
    refreshing = null;
    drawPick();
    drawEmpty();
    render();
    if (again) {
      again = false;
      refresh();
    }
  })();
  return refreshing;
}
let stream = null;
function listen(key) {
  if (stream) stream.close();
  // It can send no header. For this machine's other users: see guard.h.
  const asked = new URLSearchParams({...(key && {job: key}), ...(token && {token})});
  stream = new EventSource("/api/stream" + (asked.size ? `?${asked}` : ""));
  stream.key = key;
  const on = (kind, take) => stream.addEventListener(kind, (e) => {
    server.heard = Date.now();
    if (server.lost) {
      server.lost = false;
      drawLink();
    }
    take(JSON.parse(e.data));
  });
  on("hello", async (m) => {
    server.hello = true;
    server.steered = m.steered;
    server.version = m.version;
    drawLink();
    await refresh();
    if (job && stream.key !== job.key) listen(job.key);
  });
  on("stats", (s) => {
    if (job && (s.id ?? "0") === job.key && !job.finished) {
      takeStats(s);
      if (job.over && !job.about?.report) job.over = false;
      render();
    } else if (!job)
      refresh();
  });
  on("epoch", (m) => {
    if (job && m.id === job.key && m.epoch) {
      job.epochs.set(m.epoch.epoch, m.epoch);
      render();
    }
  });
  on("event", (m) => {
    if (job && m.id === job.key && m.event) {
      addEvent(m.event);
      render();
    }
  });
  on("progress", (m) => {
    if (draft.busy) say(m.text);
  });
  on("state", (m) => {
    if (!job || m.id === job.key) {
      if (job && ["queued", "starting"].includes(m.state)) {
        job.over = false;
        job.finished = null;
      }
      refresh();
    } else
      loadJobs().then(drawPick, () => {});
  });
  on("finished", (m) => {
    if (job && m.id === job.key) {
      job.finished = m.finished;
      job.over = true;
      render();
      refresh();
    }
  });
  on("ping", () => {});
  stream.onerror = () => {
    server.lost = true;
    drawLink();
    drawEmpty();
    if (job) render();
    if (stream.readyState === EventSource.CLOSED) {  // refused: the answer to a question says why
      get("/api/jobs").catch(() => {}).then(drawLink).then(drawEmpty);
      setTimeout(() => listen(stream.key), 2000);
    }
  };
}

// ---- start --------------------------------------------------------------------------------------

function startStatic() {
  document.body.classList.add("static");
  $("words-card").append(document.querySelector(".words"));
  job = newJob("0");
  takeAbout(JSON.parse($("sluice-data").textContent));
  set($("foot"), "written by sluice report --html");
  draw();
}
function startLive() {
  const hash = new URLSearchParams(location.hash.slice(1));
  let t = "";
  try {
    t = sessionStorage.getItem("sluice-token") || "";
  } catch (e) { /* private mode */
  }
  if (hash.get("token")) {
    t = hash.get("token");
    hash.delete("token");
    history.replaceState(
        null, "", location.pathname + location.search + (hash.size ? "#" + hash : ""));
  }
  wireSteer();
  setToken(t);
  $("pick").addEventListener("change", () => {
    const key = $("pick").value;
    history.replaceState(null, "", "?job=" + encodeURIComponent(key));
    job = null;
    loadJob(key).then(() => {
      render();
      listen(key);
    });
  });
  setInterval(() => {
    if (server.hello && !server.lost && Date.now() - server.heard > 16000) {
      server.lost = true;
      drawLink();
      listen(job?.key);
    }
  }, 2000);
  drawLink();
  listen(new URLSearchParams(location.search).get("job") || "");
}
$("every").addEventListener("change", () => job && drawEvents());
$("types-card").addEventListener("toggle", () => job && drawTypes());
addEventListener("scroll", hideTip, {passive: true});
addEventListener("keydown", (e) => {
  if (e.key === "Escape") hideTip();
});
new ResizeObserver(() => {
  if (job) {
    drawPipe();
    drawTimeline();
    drawEvents();
    drawEpochs();
  }
}).observe($("main"));
moveFlows();
isStatic ? startStatic() : startLive();
