// steer.js - controls: what is asked of the job, and what it answers. Locked without the token.

function steps2(role) {
  const host = $("step-" + role), out = el("output", {"aria-live": "polite"});
  const button = (sign, by, word) =>
      el("button", {type: "button", "aria-label": `${word} ${role}`}, sign);
  const less = button("−", -1, "fewer"), more = button("+", 1, "more");
  less.addEventListener("click", () => change(role, -1));
  more.addEventListener("click", () => change(role, 1));
  host.append(el("label", {}, role[0].toUpperCase() + role.slice(1)), less, out, more);
}
const split = () => ({
  samplers: draft.samplers ?? current().samplers ?? 0,
  trainers: draft.trainers ?? current().trainers ?? 0
});
const changed = () => {
  const d = split(), s = current();
  return d.samplers !== s.samplers || d.trainers !== s.trainers;
};
function say(what, bad) {
  $("steer-text").textContent = what;
  $("steer-text").className = bad ? "bad" : "";
}
function change(role, by) {
  draft[role] = clamp(split()[role] + by, role === "samplers" ? 1 : 0, 999);
  drawSteer();
  clearTimeout(draft.ask);
  if (!changed()) return say("");
  say("What would it do? …");
  draft.ask = setTimeout(tryOut, 250);
}
async function tryOut() {
  const d = split(), r = await post("scale", {...d, dry_run: true});
  const now = split();
  if (!r || now.samplers !== d.samplers || now.trainers !== d.trainers) return;
  say(r.ok ? `It would: ${r.body.message}.` : r.body.message || r.body.error, !r.ok);
}
async function act(action, body, done) {
  draft.busy = true;
  drawSteer();
  say("Working on it …");
  const r = await post(action, body);
  draft.busy = false;
  if (r) {
    if (r.ok) draft.samplers = draft.trainers = null;
    say(r.ok ? r.body.message || done : r.body.message || r.body.error || `refused (${r.status})`,
        !r.ok);
  }
  drawSteer();
  refresh();
}
async function post(action, body) {
  try {
    const r = await fetch(`/api/jobs/${encodeURIComponent(job.key)}/${action}`, {
      method: "POST",
      headers: {Authorization: `Bearer ${token}`, "Content-Type": "application/json"},
      body: JSON.stringify(body || {})
    });
    const answer = await r.json().catch(() => ({}));
    if (r.status === 401) {
      setToken("");
      say("The token is wrong: unlock again.", true);
      return null;
    }
    return {ok: r.ok && answer.ok !== false, status: r.status, body: answer};
  } catch (e) {
    say("The server does not answer.", true);
    return null;
  }
}
function drawSteer() {
  const s = current(), live = !isStatic && !job.over && !!job.stats,
        on = live && !!token && !draft.busy, d = split();
  $("steer").hidden = !live;
  if (isStatic) return;
  $("steer-set").disabled = !on;
  $("steer-set").hidden = !token;  // what cannot be pressed is not shown; the text says why
  for (const role of ["samplers", "trainers"]) {
    set($("step-" + role).querySelector("output"), String(d[role]));
    $("step-" + role).classList.toggle("changed", d[role] !== s[role]);
  }
  $("apply").disabled = $("reset").disabled = !changed();
  set($("pause"), s.state === "paused" ? "Go on" : "Pause");
  $("lock").hidden = isStatic || !server.steered;
  set($("lock"), token ? "Lock controls" : "Unlock controls");
  if (live && !token && !draft.busy && !$("steer-text").textContent)
    say(server.steered ?
            "Locked: unlock with the token to steer the job from here." :
            "This page is read-only. Start with --http-token FILE to steer jobs from here.");
}
function setToken(t) {
  token = t;
  try {
    t ? sessionStorage.setItem("sluice-token", t) : sessionStorage.removeItem("sluice-token");
  } catch (e) { /* private mode */
  }
  say("");
  if (job) drawSteer();
}
function ask(title, what, {input = false, yes = "OK", danger = false} = {}) {
  set($("ask-title"), title);
  set($("ask-text"), what);
  set($("ask-yes"), yes);
  $("ask-yes").className = danger ? "danger" : "go";
  $("ask-label").hidden = !input;
  $("ask-input").value = "";
  $("ask").returnValue = "no";
  $("ask").showModal();
  return new Promise(
      (done) => $("ask").addEventListener(
          "close",
          () => done(
              $("ask").returnValue === "yes" ? (input ? $("ask-input").value.trim() : true) : null),
          {once: true}));
}
function wireSteer() {
  steps2("samplers");
  steps2("trainers");
  $("apply").addEventListener("click", () => act("scale", split(), "The new split holds."));
  $("reset").addEventListener("click", () => {
    draft.samplers = draft.trainers = null;
    say("");
    drawSteer();
  });
  $("undo").addEventListener(
      "click", () => act("scale", {undo: true}, "Back to the split before."));
  $("pause").addEventListener(
      "click", () => act(current().state === "paused" ? "resume" : "pause", {}, ""));
  $("stop").addEventListener("click", async () => {
    if (await ask(
            "Stop the job?",
            "It finishes the batches that it is working on, writes its report and ends. " +
                "What it has learned so far is kept.",
            {yes: "Stop it", danger: true}))
      act("stop", {}, "The job is stopping.");
  });
  $("advice").addEventListener("click", () => {
    const a = current().advice;
    if (!a) return;
    draft.samplers = a.samplers;
    draft.trainers = a.trainers;
    drawSteer();
    tryOut();
    $("steer").scrollIntoView({block: "nearest"});
  });
  $("lock").addEventListener("click", async () => {
    if (token) return setToken("");
    const t = await ask(
        "Unlock the controls", "The token is the text of the file that --http-token names.",
        {input: true, yes: "Unlock"});
    if (t) setToken(t);
  });
}
