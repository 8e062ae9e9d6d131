// The page: asks the server, shows what it says. Plain JavaScript, no framework, nothing from elsewhere.
"use strict";

const $ = (id) => document.getElementById(id);
const percent = (p, digits = 1) => (100 * p).toFixed(digits) + " %";
const plural = (n, word) => n.toLocaleString("en") + " " + word + (n === 1 ? "" : "s");

// The token follows # in the address, where no server sees it, and stays in this tab.
const store = (() => { try { return window.sessionStorage; } catch { return null; } })();
let token = location.hash.slice(1);
if (!/^[0-9a-f]{32}$/.test(token)) token = "";
if (token) { store?.setItem("s2m-token", token); history.replaceState(null, "", location.pathname); }
else token = store?.getItem("s2m-token") ?? "";

let visitor = "";
let model = null;
let samples = [];        // {proposal, posteriors, log_weight, item}
let drawn = null;        // what was asked for when the samples were drawn
let drawing = null;      // AbortController of the drawing that runs
let outlook = null;      // predictions for the query
let chosen = -1;         // sample that is explained
let checked = null;      // last answer to a check

async function call(path, body, options = {}) {
  const headers = { "s2m-token": token, "s2m-visitor": visitor };
  if (body !== undefined) headers["content-type"] = "application/json";
  const request = { method: body === undefined ? "GET" : "POST", headers, ...options };
  if (body !== undefined) request.body = JSON.stringify(body);
  let response;
  try { response = await fetch(path, request); } catch (error) {
    if (error.name === "AbortError") throw error;
    throw { why: "the server does not answer", hint: "is `s2m serve` still running?" };
  }
  if (!response.ok) {
    const told = await response.json().catch(() => ({ why: "the server said " + response.status }));
    throw { ...told, status: response.status };
  }
  return response;
}
const json = async (path, body) => (await call(path, body)).json();

function asked() {
  const purity = Number($("purity").value) > 0 ? model.purities[Number($("purity").value) - 1] : null;
  return { query: $("query").value.trim(), n: Number($("count").value), seed: Number($("seed").value), purity };
}
// What is wrong with the numbers of a wish, which only whole ones can be.
function wrongNumber(wish) {
  const whole = (id, value, least, most) => {
    const wrong = $(id).value.trim() === "" || !Number.isSafeInteger(value) || value < least || value > most;
    $(id).setAttribute("aria-invalid", String(wrong));
    return wrong;
  };
  const many = whole("count", wish.n, 1, model.most), seed = whole("seed", wish.seed, 0, Number.MAX_SAFE_INTEGER);
  if (many) return `Samples: a whole number from 1 to ${model.most.toLocaleString("en")}; the command line has no such limit.`;
  return seed ? "Seed: a whole number, 0 or more." : "";
}

// ---- labels as chips ----
const STATES = ["either", "with", "without"];
function makeChips() {
  const chips = $("chips");
  for (const { name, about } of model.labels) {
    const chip = document.createElement("button");
    chip.type = "button"; chip.className = "chip"; chip.dataset.label = name;
    const b = document.createElement("b"), state = document.createElement("span");
    b.textContent = name; chip.append(b, state);
    if (about) chip.title = about;
    chip.addEventListener("click", () => {
      setChip(chip, STATES[(STATES.indexOf(chip.dataset.state) + 1) % 3]);
      $("query").value = queryOfChips();
      changed();
    });
    chips.append(chip); setChip(chip, "either");
  }
}
function setChip(chip, state) {
  chip.dataset.state = state;
  chip.lastChild.textContent = state;
  const about = chip.title ? ", " + chip.title : "";
  chip.setAttribute("aria-label", `${chip.dataset.label}: ${state}${about}`);
}
const quote = (name) => /^[\p{L}\p{N}_.]+$/u.test(name) && !/^(and|or|not)$/i.test(name) ? name : '"' + name + '"';
function queryOfChips() {
  const all = [...$("chips").children], of = (state) => all.filter((c) => c.dataset.state === state).map((c) => quote(c.dataset.label));
  const wanted = of("with").join(" + "), not = of("without");
  return wanted + (not.length ? (wanted ? " - " : "!") + not.join(wanted ? " - " : " + !") : "");
}

// ---- the query, checked as it is typed ----
let checking = 0, wait = 0;
function changed() {
  clearTimeout(wait);
  wait = setTimeout(check, 120);
}
function say(node, told, wrong) {
  node.textContent = told ? told.why ?? told : "";
  node.classList.toggle("wrong", Boolean(wrong));
  if (told?.hint) {
    const hint = document.createElement("span");
    hint.className = "hint"; hint.textContent = told.hint; node.append(hint);
  }
}
async function check() {
  const turn = ++checking, wish = asked(), wrong = wrongNumber(wish);
  say($("number-said"), wrong, wrong);
  if (wrong) {
    checked = null; showLines(null); $("draw").disabled = $("download").disabled = true;
    return;
  }
  if (!wish.query) {
    checked = null; outlook = null; showOutlook();
    say($("query-said"), "Name at least one label that must hold."); $("query").removeAttribute("aria-invalid");
    showLines(null); $("draw").disabled = $("download").disabled = true;
    return;
  }
  try {
    const answer = await json("/api/check", wish);
    if (turn !== checking) return;
    checked = answer;
    $("query").setAttribute("aria-invalid", "false");
    const chips = [...$("chips").children];
    chips.forEach((chip, at) => setChip(chip, answer.forced[at] === true ? "with" : answer.forced[at] === false ? "without" : "either"));
    say($("query-said"), answer.conjunction ? "" : "More than the chips can show.");
    showLines(answer.lines);
    $("draw").disabled = $("download").disabled = false;
    predict(wish.query);
  } catch (told) {
    if (turn !== checking) return;
    checked = null;
    $("query").setAttribute("aria-invalid", "true");
    say($("query-said"), told, true);
    showLines(null); outlook = null; showOutlook();
    $("draw").disabled = $("download").disabled = true;
  }
}
function showLines(lines) {
  $("shell").textContent = lines?.shell ?? "–";
  $("python").textContent = lines?.python ?? "–";
  const now = JSON.stringify(asked()), same = drawn?.done && drawn.wish === now;
  $("lines-said").textContent = !lines ? "" : same ? "These lines give exactly the samples above." : "These lines give what Draw will show.";
}

// ---- predictions ----
let predicting = 0, predicted = "";
async function predict(query) {
  const key = query + "|" + model.proposals.scored;
  if (key === predicted && outlook) return showOutlook();
  const turn = ++predicting;
  try {
    const answer = await json("/api/predict", { query, n: 1, seed: 0, purity: null });
    if (turn !== predicting) return;
    outlook = answer; predicted = key;
  } catch { if (turn === predicting) outlook = null; }
  showOutlook();
}
function showOutlook() {
  const at = Number($("purity").value);
  $("purity-said").textContent = at > 0 ? percent(model.purities[at - 1], model.purities[at - 1] > 0.99 ? 1 : 0) : "as the model has it";
  $("purity").setAttribute("aria-valuetext", $("purity-said").textContent);
  const one = outlook && (at > 0 ? outlook.at[at - 1][1] : outlook.own);
  $("outlook-purity").textContent = one ? percent(one.predicted_purity) : "–";
  $("outlook-share").textContent = one ? percent(one.share) : "–";
  $("outlook-calls").textContent = one ? "≈ " + (one.calls_per_sample < 10 ? one.calls_per_sample.toFixed(1) : Math.round(one.calls_per_sample).toLocaleString("en")) : "–";
  const { scored, wanted, fault } = model.proposals;
  let text = outlook ? `From ${plural(outlook.proposals, "scored proposal")}.` : "";
  if (outlook && !one) text = "None of the proposals looked at gets there; a draw may say no.";
  if (scored < wanted && !fault) text += ` Scoring: ${percent(scored / wanted, 0)}.`;
  if (fault) text = fault;
  $("outlook-said").textContent = text;
}

// ---- joint classes ----
async function showClasses() {
  let found;
  try { found = await json("/api/classes"); } catch { return; }
  const body = $("classes").tBodies[0];
  body.replaceChildren();
  for (const one of found.classes) {
    const row = body.insertRow(), button = document.createElement("button");
    button.type = "button"; button.textContent = one.query;
    button.setAttribute("aria-label", "Draw " + one.query);
    button.addEventListener("click", () => { $("query").value = one.query; check().then(draw); });
    row.insertCell().append(button);
    row.insertCell().textContent = percent(one.share, 2);
    row.insertCell().textContent = one.predicted_purity === null ? "–" : percent(one.predicted_purity);
    row.insertCell().textContent = one.calls_per_sample === null ? "–" : one.calls_per_sample.toFixed(1);
    row.insertCell().textContent = one.reachable ? "yes" : "no";
  }
  $("classes").hidden = false;
  const most = found.classes.length < found.joint_classes ? `the ${found.classes.length} largest of ${found.joint_classes.toLocaleString("en")}, ` : "";
  $("joint-said").textContent = `${most}from ${plural(found.proposals, "scored proposal")}; click one to draw it`.replace(/^./, (c) => c.toUpperCase());
}

// ---- drawing: server-sent events, read with the token that EventSource cannot send ----
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const name = /^event: (.*)$/m.exec(part), data = /^data: (.*)$/m.exec(part);
      if (name && data) yield [name[1], JSON.parse(data[1])];
    }
  }
}
async function draw() {
  if (!checked) return;
  drawing?.abort();
  const own = drawing = new AbortController(), wish = asked();
  drawn = { ...wish, wish: JSON.stringify(wish) }; samples = []; chosen = pointed = -1; $("pointed").textContent = "";
  closeWhy(false); clear(); trouble(null);
  $("stop").disabled = false; $("bar").hidden = false; $("bar").max = wish.n; $("bar").value = 0;
  status(`Drawing ${wish.query} …`, true);
  let ended = false;
  try {
    const response = await call("/api/draw", wish, { signal: own.signal });
    for await (const [name, data] of events(response)) {
      if (drawing !== own) return;
      if (name === "accepted") { add(data); status(`${samples.length} of ${wish.n} accepted`); }
      else if (name === "withdrawn") { for (const place of data.reverse()) samples.splice(place, 1); redraw(); }
      else if (name === "progress") status(`${samples.length} of ${wish.n} accepted, ${plural(data.scored, "proposal")} scored`);
      else if (name === "waiting") status(`Waiting: ${plural(data.drawing, "drawing")} at once`);
      else if (name === "done") { ended = true; finish(data); }
      else if (name === "stopped") { ended = true; status(`Stopped; ${plural(samples.length, "sample")}`, true); }
      else if (name === "refused" || name === "failed") { ended = true; samples = []; clear(); trouble(data); status("No samples.", true); }
      $("bar").value = samples.length;
    }
    if (!ended && drawing === own) throw { why: "the drawing broke off" };
  } catch (told) {
    if (drawing !== own) return;
    if (told.name === "AbortError") status(`Stopped; ${plural(samples.length, "sample")}`, true);
    else { trouble(told.why ? told : { why: "the drawing broke off" }); status("No samples.", true); }
  } finally {
    if (drawing === own) { drawing = null; $("stop").disabled = true; $("bar").hidden = true; }
  }
}
function finish(report) {
  drawn.done = true;
  if (checked) showLines(checked.lines);
  const bound = report.tv_bound === null ? "" : `, within TV ${report.tv_bound.toFixed(4)} of the target`;
  status(`${plural(report.samples, "sample")} of ${report.query}: ${report.calls_per_sample.toFixed(1)} calls each, predicted purity ${percent(report.predicted_purity)}${bound}`, true);
  $("warnings").replaceChildren(...report.warnings.map((text) => {
    const item = document.createElement("li"); item.textContent = text; return item;
  }));
}
function stop() { drawing?.abort(); }
// What changes ten times a second is shown; a reader hears beginnings and ends, and between them how far it is now and then.
const HEARD = 5000;
let heard = 0;
function status(text, aloud = false) {
  $("status").textContent = text;
  if (aloud || Date.now() - heard > HEARD) { $("announced").textContent = text; heard = Date.now(); }
}
function trouble(told) {
  $("trouble").hidden = !told;
  if (told) say($("trouble"), told);
}
function clear() {
  $("gallery").replaceChildren(); $("warnings").replaceChildren();
  const points = model.kind === "point";
  $("plot").hidden = !points; $("gallery").hidden = points; $("empty").hidden = true;
  if (points) plot();
}
function add(list) {
  const first = samples.length;
  samples.push(...list);
  if (model.kind === "point") return plot();
  $("gallery").append(...list.map((sample, at) => tileOf(sample, first + at)));
}
function redraw() {
  if (model.kind === "point") return plot();
  const focused = $("gallery").contains(document.activeElement) ? document.activeElement.dataset.proposal : null;
  $("gallery").replaceChildren(...samples.map(tileOf));
  if (focused === null) return;
  // Whoever is here with the keyboard stays at the same sample, or at the first where it was taken back.
  const all = tiles(), here = all.find((tile) => tile.dataset.proposal === focused) ?? all[0];
  if (all.length) { all[0].tabIndex = -1; here.tabIndex = 0; here.focus(); }
}

// ---- images ----
const describe = (sample) => model.labels.map(({ name }, at) => `${name} ${percent(sample.posteriors[at] ?? 0, 0)}`).join(", ");
function image(item, alt) {
  const img = document.createElement("img");
  img.src = "data:image/png;base64," + item.picture; img.alt = alt;
  return img;
}
function tileOf(sample, at) {
  const item = document.createElement("li"), tile = document.createElement("button");
  tile.type = "button"; tile.className = "tile"; tile.tabIndex = at === 0 ? 0 : -1;
  tile.setAttribute("aria-pressed", "false"); tile.dataset.proposal = sample.proposal;
  tile.append(image(sample.item, `Sample ${at + 1}: ${describe(sample)}`));
  tile.addEventListener("click", () => explain(samples.indexOf(sample)));
  item.append(tile);
  return item;
}
const tiles = () => [...$("gallery").querySelectorAll(".tile")];
$("gallery").addEventListener("keydown", (event) => {
  const all = tiles(), at = all.indexOf(document.activeElement);
  if (at < 0) return;
  const columns = getComputedStyle($("gallery")).gridTemplateColumns.split(" ").length;
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, Home: -at, End: all.length - 1 - at }[event.key];
  if (step === undefined) return;
  event.preventDefault();
  const next = all[Math.min(all.length - 1, Math.max(0, at + step))];
  all[at].tabIndex = -1; next.tabIndex = 0; next.focus();
});

// ---- points ----
let view = null;
function plot() {
  const canvas = $("plot"), ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = Math.round(Math.min(width * 0.72, window.innerHeight * 0.72));
  if (!width) return;
  canvas.style.height = height + "px";
  canvas.width = width * ratio; canvas.height = height * ratio;
  const c = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
  c.scale(ratio, ratio);
  canvas.setAttribute("aria-label", `${plural(samples.length, "sample")} as points; arrow keys go from one to the next, Enter explains`);
  const at = (sample) => [sample.item.point[0], sample.item.point[1] ?? 0];
  let [left, right, low, high] = [-1, 1, -1, 1];
  for (const [x, y] of samples.map(at)) { left = Math.min(left, x); right = Math.max(right, x); low = Math.min(low, y); high = Math.max(high, y); }
  const pad = 26, scale = Math.min((width - 2 * pad) / (right - left), (height - 2 * pad) / (high - low));
  const x0 = width / 2 - scale * (left + right) / 2, y0 = height / 2 + scale * (low + high) / 2;
  view = { place: (sample) => { const [x, y] = at(sample); return [x0 + scale * x, y0 - scale * y]; } };
  c.strokeStyle = style.getPropertyValue("--line"); c.lineWidth = 1;
  c.fillStyle = style.getPropertyValue("--quiet"); c.font = "11px system-ui, sans-serif";
  const step = 10 ** Math.floor(Math.log10((right - left) / 2));
  for (let v = Math.ceil(left / step) * step; v <= right; v += step) {
    c.beginPath(); c.moveTo(x0 + scale * v, 0); c.lineTo(x0 + scale * v, height); c.stroke();
    c.fillText(String(Number(v.toFixed(6))), x0 + scale * v + 3, height - 5);
  }
  for (let v = Math.ceil(low / step) * step; v <= high; v += step) {
    c.beginPath(); c.moveTo(0, y0 - scale * v); c.lineTo(width, y0 - scale * v); c.stroke();
    c.fillText(String(Number(v.toFixed(6))), 4, y0 - scale * v - 3);
  }
  c.fillStyle = style.getPropertyValue("--accent"); c.globalAlpha = 0.7;
  for (const sample of samples) {
    const [x, y] = view.place(sample);
    c.beginPath(); c.arc(x, y, 2.6, 0, 7); c.fill();
  }
  c.globalAlpha = 1;
  if (samples[chosen]) {
    const [x, y] = view.place(samples[chosen]);
    c.strokeStyle = style.getPropertyValue("--ink"); c.lineWidth = 2;
    c.beginPath(); c.arc(x, y, 8, 0, 7); c.stroke();
  }
}
$("plot").addEventListener("click", (event) => {
  if (!view || !samples.length) return;
  const box = $("plot").getBoundingClientRect(), [x, y] = [event.clientX - box.left, event.clientY - box.top];
  const away = (sample) => { const [a, b] = view.place(sample); return (a - x) ** 2 + (b - y) ** 2; };
  const nearest = samples.reduce((best, sample, at) => away(sample) < away(samples[best]) ? at : best, 0);
  if (away(samples[nearest]) < 30 ** 2) explain(nearest);
});
let pointed = -1;
$("plot").addEventListener("keydown", (event) => {
  if (!samples.length) return;
  const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
  if (step) {
    event.preventDefault();
    pointed = pointed < 0 ? (step > 0 ? 0 : samples.length - 1) : (pointed + step + samples.length) % samples.length;
    chosen = pointed; plot();
    const sample = samples[pointed];
    $("pointed").textContent = `Sample ${pointed + 1} of ${samples.length} at ${sample.item.point.slice(0, 3).map((v) => v.toFixed(2)).join(", ")}: ${describe(sample)}`;
  }
  if (event.key === "Enter" && pointed >= 0) explain(pointed);
});
window.addEventListener("resize", () => { if (model?.kind === "point") plot(); });

// ---- why a sample was kept ----
function step(name, value, share, extra = {}) {
  const row = document.createElement("div"); row.className = "step";
  const label = document.createElement("span"), number = document.createElement("span"), bar = document.createElement("div");
  label.textContent = name; number.textContent = value; number.className = "value"; bar.className = "bar";
  if (extra.kind) label.className = extra.kind;
  row.append(label, number);
  if (share !== null) {
    const fill = document.createElement("i"); fill.style.width = 100 * Math.min(1, Math.max(0, share)) + "%";
    bar.append(fill);
    if (extra.mark !== undefined) {
      const mark = document.createElement("u"); mark.style.left = 100 * Math.min(1, extra.mark) + "%"; bar.append(mark);
    }
    bar.setAttribute("aria-hidden", "true");
    row.append(bar);
  }
  return row;
}
async function explain(at) {
  const sample = samples[at];
  if (!sample) return;
  const body = $("why-body");
  chosen = at;
  tiles().forEach((tile, other) => tile.setAttribute("aria-pressed", String(other === at)));
  if (model.kind === "point") plot();
  $("why").hidden = false; document.querySelector("main").dataset.why = "";
  $("why-title").textContent = `Why sample ${at + 1} was kept`;
  body.textContent = "Looking …";
  if (model.kind === "point") plot();
  let told;
  try { told = await json("/api/explain", { proposal: sample.proposal }); }
  catch (error) {
    if (chosen === at) say(body, drawn?.done ? error : { why: "It can be explained once all samples are drawn: the cap may still grow." });
    return;
  }
  if (chosen !== at) return;
  const e = told.explained, steps = document.createElement("div"), who = document.createElement("div"), text = document.createElement("p");
  who.className = "who"; steps.className = "steps"; text.className = "quiet small";
  if (sample.item.picture) { const box = document.createElement("div"); box.className = "tile"; box.append(image(sample.item, "The sample")); who.append(box); }
  text.textContent = `Proposal ${e.proposal.toLocaleString("en")} of seed ${e.seed}${e.class ? ", made for class " + e.class : ""}` +
    (sample.item.point ? ` at (${sample.item.point.slice(0, 3).map((v) => v.toFixed(3)).join(", ")})` : "") + ".";
  who.append(text);
  model.labels.forEach(({ name }, label) => steps.append(step(`class probability of ${name}`, percent(e.class_probabilities[label]), e.class_probabilities[label])));
  const most = Math.max(...e.sets.map((set) => set.density), 1e-300);
  for (const set of e.sets) steps.append(step(`{${set.labels.join(", ")}}: the query ${set.holds ? "holds" : "does not hold"}`,
    "density " + set.density.toPrecision(3), set.density / most, { kind: set.holds ? "holds" : "fails" }));
  steps.append(step(`posterior of ${e.query}, by ${e.posterior_by}`, percent(e.posterior), e.posterior, e.floor > 0 ? { mark: e.floor } : {}));
  if (e.floor > 0) steps.append(step("floor on it (the mark above)", percent(e.floor), null));
  const odds = Math.exp(e.log_odds);
  steps.append(step("real-versus-generated odds", odds.toPrecision(3), odds / (1 + odds)));
  if (e.log_weight !== null) steps.append(step("importance weight, log", e.log_weight.toFixed(3), null));
  if (e.acceptance !== null) {
    steps.append(step("acceptance: weight over the cap, at most 1", percent(e.acceptance), e.acceptance, { mark: e.uniform }));
    steps.append(step("its uniform number (the mark above)", percent(e.uniform), null));
  }
  const verdict = document.createElement("p");
  verdict.className = "verdict" + (e.accepted ? "" : " no"); verdict.textContent = e.verdict.replace(/`/g, "");
  const near = document.createElement("h3"); near.textContent = "Neighbours in the latent space";
  const button = document.createElement("button");
  button.type = "button"; button.id = "more"; button.textContent = "More like this";
  const place = document.createElement("div"); place.id = "more-place"; place.setAttribute("aria-live", "polite");
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      const more = await json("/api/more", { proposal: sample.proposal });
      const title = document.createElement("h3");
      title.textContent = `The nearest ${more.nearest.length} on which ${e.query} likely holds`;
      const note = document.createElement("p"); note.className = "quiet small"; note.textContent = "Close to this sample, and so no independent samples of the query.";
      place.replaceChildren(title, note, nearList(more));
    } catch (error) { say(place, error); }
    button.disabled = false;
  });
  body.replaceChildren(who, verdict, steps, near, nearNote(told.near), nearList(told.near), button, place);
  if (window.innerWidth < 1380) $("why").scrollIntoView({ block: "nearest" });
  $("why").focus({ preventScroll: true });
}
function nearNote(near) {
  const note = document.createElement("p"); note.className = "quiet small";
  note.textContent = `Nearest of ${plural(near.among, "scored proposal")}, whatever their labels; half of them are nearer than ${near.median.toFixed(2)}.`;
  return note;
}
function nearList(near) {
  const list = document.createElement("ul"); list.className = "near";
  for (const one of near.nearest) {
    const item = document.createElement("li"), tile = document.createElement("div");
    const text = `proposal ${one.proposal}, distance ${one.distance.toFixed(2)}, query ${percent(one.predicted, 0)}`;
    if (one.item.picture) { tile.className = "tile"; tile.append(image(one.item, text)); }
    else { tile.className = "dot"; tile.textContent = one.item.point.slice(0, 2).map((v) => v.toFixed(2)).join("\n"); }
    const said = document.createElement("span");
    said.textContent = `${one.distance.toFixed(2)} away, ${percent(one.predicted, 0)}`;
    if (!one.weighted) { item.className = "out"; item.title = "The query gives it no weight"; }
    item.append(tile, said); list.append(item);
  }
  return list;
}
function closeWhy(back = true) {
  if ($("why").hidden) return;
  $("why").hidden = true; delete document.querySelector("main").dataset.why;
  const tile = tiles()[chosen];
  tile?.setAttribute("aria-pressed", "false");
  chosen = -1;
  if (model.kind === "point") plot();
  if (back) (tile ?? $("plot")).focus();
}

// ---- download, copy ----
async function download() {
  if (!checked) return;
  const button = $("download");
  button.disabled = true; button.textContent = "Drawing …"; trouble(null);
  try {
    const blob = await (await call("/api/download", asked())).blob();
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob); link.download = "samples.zip"; link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    status("samples.zip holds the folder that the command line writes.", true);
  } catch (told) { trouble(told.why ? told : { why: "the download broke off" }); }
  button.disabled = !checked; button.textContent = "Download";
}
for (const button of document.querySelectorAll(".copy")) button.addEventListener("click", async () => {
  const text = $(button.dataset.of).textContent;
  try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; }
  catch { getSelection().selectAllChildren($(button.dataset.of)); button.textContent = "Selected"; }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
});

// ---- dark and light ----
const darkSystem = matchMedia("(prefers-color-scheme: dark)");
let theme = (() => { try { return localStorage.getItem("s2m-theme"); } catch { return null; } })();
function showTheme() {
  const now = theme ?? (darkSystem.matches ? "dark" : "light");
  document.documentElement.dataset.theme = now;
  $("theme").textContent = now === "dark" ? "Light" : "Dark";
  $("theme").setAttribute("aria-label", now === "dark" ? "Switch to light colours" : "Switch to dark colours");
  if (model?.kind === "point" && !$("plot").hidden) plot();
}
function switchTheme() {
  theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try { localStorage.setItem("s2m-theme", theme); } catch { /* not kept */ }
  showTheme();
}
darkSystem.addEventListener("change", showTheme);
showTheme();

// ---- keys ----
// Whoever speaks to the computer can do without letters that act at once.
try { $("letters").checked = localStorage.getItem("s2m-letters") !== "off"; } catch { /* not kept */ }
$("letters").addEventListener("change", () => {
  try { localStorage.setItem("s2m-letters", $("letters").checked ? "on" : "off"); } catch { /* not kept */ }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") return closeWhy();
  if (event.ctrlKey || event.metaKey || event.altKey || !model) return;
  if (event.target.matches?.("input[type=text], input[type=number]")) {
    if (event.key === "Enter") { event.preventDefault(); clearTimeout(wait); check().then(draw); }
    return;
  }
  if (event.repeat || !$("letters").checked) return;
  const act = { "/": () => $("query").focus(), d: draw, s: stop, z: download, t: switchTheme }[event.key.toLowerCase()];
  if (act) { event.preventDefault(); act(); }
});

// ---- begin ----
async function watch() {
  const before = model.proposals.ready;
  try { model.proposals = (await json("/api/state")).proposals; } catch { /* it says so when asked */ }
  showOutlook();
  if (model.proposals.ready && !before) { showClasses(); if (checked) predict($("query").value.trim()); return; }
  if (!model.proposals.fault) setTimeout(watch, 700);
}
async function begin() {
  if (!token) { lock({ why: "This page needs the whole address that s2m serve printed, with what follows #." }); return; }
  try {
    visitor = (await json("/api/enter", {})).visitor;
    model = await json("/api/state");
  } catch (told) { lock(told); return; }
  document.title = "s2m: " + model.model;
  $("model").textContent = model.model;
  const [h, w] = model.shape;
  $("about").textContent = (model.kind === "picture" ? `${w} × ${h} images` : `points in ${model.shape.reduce((a, b) => a * b, 1)} dimensions`) + (model.bank ? ", from a bank" : "");
  $("count").max = model.most; $("count").value = Math.min(model.kind === "point" ? 500 : 64, model.most);
  if (model.seed !== null) { $("seed").value = model.seed; $("seed").disabled = true; $("seed").title = "The seed of the bank"; }
  $("purity").max = model.purities.length;
  $("gallery").style.setProperty("--tile-size", Math.max(64, Math.min(160, w ?? 64)) + "px");
  makeChips();
  const first = $("chips").firstChild;
  if (first) { setChip(first, "with"); $("query").value = queryOfChips(); }
  for (const id of ["query", "count", "seed", "purity"]) $(id).addEventListener("input", changed);
  $("purity").addEventListener("input", showOutlook);
  $("draw").addEventListener("click", draw); $("stop").addEventListener("click", stop);
  $("download").addEventListener("click", download); $("theme").addEventListener("click", switchTheme);
  $("close").addEventListener("click", () => closeWhy());
  check();
  if (model.proposals.ready) showClasses(); else { $("joint-said").textContent = "Proposals are being scored …"; watch(); }
  document.body.dataset.ready = "";
}
function lock(told) {
  $("locked").hidden = false; say($("locked"), told);
  document.querySelector("main").hidden = true;
}
begin();
