// The page of `cede dashboard`: reads the facts once, then applies what changed.
// Everything from the cluster becomes text, never markup.

const PAGE_OF_JOBS = 200;
const PAGE_OF_TAKES = 30;
const MAX_UNITS = 32;
const SILENCE_MS = 40_000;
const RETRY_MS = 2_000;
const STAGES = [
  ["asked", "Asked"], ["ceded", "Ceded"], ["released", "Released"],
  ["admitted", "Admitted"], ["ready", "Pods ready"], ["ended", "Ended"],
];
const CLASS_OF_STAGE = { asked: "asked", ceded: "ceded", released: "released", ready: "ready" };
const facts = { cluster: {}, teams: {}, jobs: {}, takes: {} };
const view = { jobs: PAGE_OF_JOBS, takes: PAGE_OF_TAKES, sort: "name", down: false };
const collator = new Intl.Collator("en", { numeric: true });
const $ = (id) => document.getElementById(id);

// --- elements ------------------------------------------------------------------------------------
function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== ""));
  return made;
}
const cell = (text, className = "num") => element("td", { className }, text);
const amount = (value) => cell(String(value), value ? "num" : "num zero");
const state = (word) => element("span", { className: `state ${word}` }, word);
const number = (value) => (value === null ? "–" : value.toLocaleString("en"));

function show(id, text) {
  const target = $(id);
  if (target.textContent !== text) target.textContent = text;
  target.hidden = !text;
}

// Puts the elements of `keys` into `parent`, in order. An element is made again only if its row is
// another one, and moved only if it must be: focus and open details stay.
function place(parent, keys, rowOf, make) {
  const shown = (parent.rows_ ??= new Map());
  const wanted = new Set(keys);
  for (const [key, entry] of shown) {
    if (!wanted.has(key)) {
      entry.nodes.forEach((node) => node.remove());
      shown.delete(key);
    }
  }
  let next = parent.firstElementChild;
  for (const key of keys) {
    const row = rowOf(key);
    let entry = shown.get(key);
    if (entry?.row !== row) {
      const nodes = [make(key, row, entry?.nodes)].flat();
      if (entry && nodes !== entry.nodes) {
        if (entry.nodes.includes(next)) next = entry.nodes.at(-1).nextElementSibling;
        entry.nodes.forEach((node) => node.remove());
      }
      entry = { row, nodes };
      shown.set(key, entry);
    }
    for (const node of entry.nodes) {
      if (node === next) next = next.nextElementSibling;
      else parent.insertBefore(node, next);
    }
  }
}

// --- times ---------------------------------------------------------------------------------------
const seconds = (from, to) => (Date.parse(to) - Date.parse(from)) / 1000;
function duration(value) {
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (value >= 2 * size) return `${Math.floor(value / size)} ${unit}`;
  }
  return `${Math.max(0, Math.floor(value))} s`;
}
const ago = (time) => `${duration((Date.now() - Date.parse(time)) / 1000)} ago`;
const clock = (time) => new Date(time).toLocaleTimeString("en-GB");
function day(time) {
  const that = new Date(time).toDateString();
  if (that === new Date().toDateString()) return "Today";
  if (that === new Date(Date.now() - 86_400_000).toDateString()) return "Yesterday";
  return new Date(time).toLocaleDateString("en-GB",
    { weekday: "long", day: "numeric", month: "long", year: "numeric" });
}

// --- teams ---------------------------------------------------------------------------------------
const sum = (parts) => parts.reduce((total, [, value]) => total + value, 0);

// `parts`: [class, amount]; `scale`: what the whole width stands for
function bar(parts, scale) {
  const made = element("div", { className: "bar", "aria-hidden": "true" });
  const whole = Math.max(scale, sum(parts), 1);
  for (const [className, value] of parts) {
    if (value <= 0) continue;
    const part = element("i", { className });
    part.style.width = `${(100 * value) / whole}%`;
    made.append(part);
  }
  if (whole <= MAX_UNITS) {
    made.classList.add("units");
    made.style.setProperty("--units", whole);
  }
  return made;
}

function partsOf(share) {
  const own = share.uses - share.borrows;
  const idle = Math.max(0, share.owns - own - share.lends);
  return [["own", own], ["lent", share.lends], ["idle", idle], ["borrowed", share.borrows]];
}

function renderTypes() {
  const types = facts.cluster.cluster?.types ?? [];
  const keys = types.map((_, index) => index);
  place($("types"), keys, (key) => types[key], (_, type) => {
    const idle = Math.max(0, type.healthy - type.uses);
    const nodes = `${type.healthy_nodes} of ${type.nodes} nodes healthy`;
    return element("li", {},
      element("h3", {}, type.type, element("span", {}, type.resource)),
      element("p", {}, element("strong", {}, String(type.uses)),
        ` of ${type.healthy} in use · ${type.borrows} borrowed · ${idle} idle`),
      bar([["own", type.uses - type.borrows], ["borrowed", type.borrows], ["idle", idle]],
        type.healthy),
      element("p", {}, nodes));
  });
}

function renderTeams() {
  const widths = Object.values(facts.teams).flatMap((team) => team.shares).map((share) =>
    sum(partsOf(share)));
  const scale = Math.max(1, ...widths);
  const body = document.querySelector("#teams tbody");
  if (body.scale_ !== scale) {
    body.replaceChildren();
    body.rows_ = new Map();
    body.scale_ = scale;
  }
  place(body, Object.keys(facts.teams), (key) => facts.teams[key], (_, team) => {
    const shares = team.shares.length ? team.shares : [null];
    return shares.map((share, index) => {
      const row = element("tr", { className: index ? "more" : "" });
      if (!index) row.append(teamHeading(team, shares.length));
      if (share === null) row.append(element("td", { className: "quiet", colSpan: 5 }, "none"));
      else {
        row.append(
          element("td", { className: "wide" }, element("div", { className: "with-bar" },
            element("span", { title: share.resource }, share.type), bar(partsOf(share), scale))),
          amount(share.owns), amount(share.uses), amount(share.lends), amount(share.borrows));
      }
      row.append(index ? element("td", { className: "minor" }) :
        cell(String(team.waiting), team.waiting ? "num minor" : "num minor zero"));
      return row;
    });
  });
  show("teams-empty", Object.keys(facts.teams).length || facts.cluster.cluster?.reading ? "" :
    "No team has an allocation that you may see.");
}

function teamHeading(team, rows) {
  const heading = element("th", { scope: "row", rowSpan: rows }, team.name);
  if (!team.ready) {
    heading.append(element("span", { className: "problem", title: team.problem }, "not ready"));
  }
  return heading;
}

// --- take-backs ----------------------------------------------------------------------------------
function renderTakes() {
  const all = Object.keys(facts.takes);
  all.sort((a, b) => (facts.takes[b].started + b).localeCompare(facts.takes[a].started + a));
  const keys = [];
  let last = "";
  for (const key of all.slice(0, view.takes)) {
    const date = day(facts.takes[key].started);
    if (date !== last) keys.push(`day ${date}`);
    last = date;
    keys.push(key);
  }
  place($("takes"), keys, (key) => facts.takes[key] ?? key, (key, take, old) =>
    typeof take === "string" ?
      element("li", { className: "day" }, element("h3", {}, take.slice(4))) :
      takeItem(take, old?.[0].firstChild.open ?? false));
  $("takes-more").hidden = all.length <= view.takes;
  const open = all.filter((key) => !facts.takes[key].ended).length;
  show("takes-count", all.length ? `${number(all.length)} recorded, ${open} under way` : "");
  show("takes-empty", all.length || facts.cluster.cluster?.reading ? "" :
    "No team has taken anything back.");
}

function takeItem(take, isOpen) {
  const [first = "no job", ...others] = take.targets;
  const more = others.length ? ` and ${others.length} more` : "";
  const end = take.ready || take.ended;
  const took = end ? `${seconds(take.started, end).toFixed(0)} s` : "…";
  const summary = element("summary", {},
    element("time", { dateTime: take.started }, clock(take.started)),
    element("span", { className: "what" }, element("b", {}, take.preemptor),
      element("span", { className: "quiet" }, take.ended ? " took from " : " takes from "),
      `${first}${more}`),
    stageBar(take),
    state(take.phase),
    element("span", { className: "num" }, took));
  const details = element("details", { open: isOpen }, summary);
  const fill = () => {
    if (details.open && details.childElementCount === 1) details.append(takeBody(take));
  };
  details.addEventListener("toggle", fill);
  fill();
  return element("li", {}, details);
}

function stageBar(take) {
  const parts = [];
  let from = take.started;
  for (const [stage, className] of Object.entries(CLASS_OF_STAGE)) {
    if (!take[stage]) continue;
    parts.push([className, Math.max(0, seconds(from, take[stage]))]);
    from = take[stage];
  }
  const made = bar(parts, sum(parts));
  made.classList.remove("units");
  return made;
}

function takeBody(take) {
  const rows = STAGES.filter(([stage]) => take[stage]).map(([stage, label]) =>
    element("tr", {},
      element("th", { scope: "row" }, element("i", { className: CLASS_OF_STAGE[stage] ?? "" }),
        label),
      cell(`${seconds(take.started, take[stage]).toFixed(0)} s`), cell(clock(take[stage]))));
  const heading = element("tr", {}, ...["Stage", "After", "At"].map((text) =>
    element("th", { scope: "col", className: text === "Stage" ? "" : "num" }, text)));
  const list = take.targets.map((target) => element("li", {}, target +
    (take.forced.includes(target) ? " (had not ceded within its grace period)" : "")));
  return element("div", { className: "body" },
    element("p", {}, take.why),
    take.message && take.message !== take.why ? element("p", {}, take.message) : "",
    list.length > 1 || take.forced.length ? element("ul", {}, ...list) : "",
    element("table", { "aria-label": "Stages" },
      element("thead", {}, heading), element("tbody", {}, ...rows)),
    element("p", { className: "quiet" }, `Cession ${take.name} · ${take.reason}`),
    explainButton(take.preemptor));
}

function explainButton(name) {
  const made = element("button", { type: "button" }, `Explain ${name}`);
  made.addEventListener("click", () => explain(...name.split("/")));
  return made;
}

// --- jobs ----------------------------------------------------------------------------------------
function compare(a, b) {
  const [left, right] = [a[view.sort], b[view.sort]];
  const names = collator.compare(a.namespace, b.namespace) || collator.compare(a.name, b.name);
  if (view.sort === "name") return names;
  if (typeof left === "string") return left.localeCompare(right) || names;
  return (left ?? -1) - (right ?? -1) || names;
}

function renderJobs() {
  const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const chosen = $("state").value;
  const rows = Object.entries(facts.jobs).filter(([, job]) => {
    if (chosen && job.state !== chosen) return false;
    const text = `${job.namespace}/${job.name} ${job.priority_class} ${job.why}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  rows.sort((a, b) => (view.down ? compare(b[1], a[1]) : compare(a[1], b[1])));
  const keys = rows.slice(0, view.jobs).map(([key]) => key);
  place(document.querySelector("#jobs tbody"), keys, (key) => facts.jobs[key], jobRow);
  const total = Object.keys(facts.jobs).length;
  $("jobs-more").hidden = rows.length <= view.jobs;
  show("jobs-count", total === rows.length ? `${number(total)}` :
    `${number(rows.length)} of ${number(total)}`);
  const empty = total ? "No job matches." : "No job that you may see has not finished.";
  show("jobs-empty", rows.length || facts.cluster.cluster?.reading ? "" : empty);
}

function jobRow(_, job) {
  const name = element("button", { type: "button" }, job.name);
  name.addEventListener("click", () => explain(job.namespace, job.name, job));
  const heading = element("th", { scope: "row" },
    element("small", {}, `${job.namespace} / `), name,
    job.kind === "Job" ? "" : element("small", {}, ` ${job.kind}`));
  const isSmall = job.state === "Running" && job.desired !== null && job.size < job.desired;
  const size = cell(number(job.size), isSmall ? "num small-now" : "num");
  if (isSmall) {
    size.prepend(element("span", { "aria-hidden": "true" }, "↓ "),
      element("span", { className: "hidden" }, "smaller than desired: "));
  }
  const saved = cell(number(job.saved_step), "num minor");
  const since = element("td", { className: "num minor quiet" });
  if (job.reported) since.append(element("span", { "data-ago": job.reported }, ago(job.reported)));
  return element("tr", {}, heading, element("td", {}, state(job.state)), size,
    cell(number(job.desired), "num minor"), cell(job.allowed || "–", "num minor"),
    cell(number(job.step), "num minor"), saved, since,
    element("td", { className: "minor" }, job.priority_class || "–", " ",
      element("small", {}, String(job.priority))),
    element("td", { className: "why minor" }, job.why));
}

async function explain(namespace, name, job) {
  $("job-title").textContent = `${namespace}/${name}`;
  const known = job ?? Object.values(facts.jobs).find(
    (row) => row.namespace === namespace && row.name === name);
  const rows = known ? [
    ["State", known.state], ["Size", number(known.size)], ["Desired", number(known.desired)],
    ["Allowed", known.allowed || "–"], ["Step", number(known.step)],
    ["Last save", number(known.saved_step)],
    ["Reported", known.reported ? ago(known.reported) : "–"],
    ["Priority", `${known.priority_class} ${known.priority}`], ["Level", known.level],
  ] : [];
  $("job-facts").replaceChildren(...rows.map(([term, text]) =>
    element("div", {}, element("dt", {}, term), element("dd", {}, text))));
  $("job-sentences").replaceChildren(element("li", { className: "quiet" }, "Reading…"));
  $("job-command").replaceChildren("The same in a terminal: ",
    element("code", {}, `cede explain ${name} -n ${namespace}`));
  if (!$("job").open) $("job").showModal();
  $("job-title").focus();
  let sentences;
  try {
    const path = `api/explain/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
    sentences = (await (await ask(path)).json()).sentences;
  } catch (error) {
    sentences = [`The explanation cannot be read: ${error.message}`];
  }
  if ($("job-title").textContent !== `${namespace}/${name}`) return;
  $("job-sentences").replaceChildren(...sentences.map((text) => element("li", {}, text)));
}

// --- the whole page ------------------------------------------------------------------------------
function renderCluster() {
  const cluster = facts.cluster.cluster;
  show("context", cluster.context);
  document.title = cluster.context ? `Cede · ${cluster.context}` : "Cede";
  const by = cluster.preemption ? `, ${cluster.preemption} preempts` : "";
  show("policy", cluster.mode ? `Mode ${cluster.mode}${by}` : "");
  show("trouble", cluster.trouble ? `Not up to date: ${cluster.trouble}.` : "");
  show("rights", cluster.rights);
  $("attention").hidden = !cluster.attention.length;
  const count = cluster.attention.length;
  show("attention-title", count === 1 ? "1 thing needs attention" :
    `${count} things need attention`);
  $("attention-list").replaceChildren(...cluster.attention.map((text) =>
    element("li", {}, text)));
  show("connection-text", cluster.reading ? "Reading the cluster" : "Live");
}

function render(sections) {
  if (sections.includes("cluster")) { renderCluster(); renderTypes(); }
  const reading = sections.includes("cluster");
  if (reading || sections.includes("teams")) renderTeams();
  if (reading || sections.includes("takes")) renderTakes();
  if (reading || sections.includes("jobs")) renderJobs();
}

function apply(change) {
  performance.clearMarks();
  performance.clearMeasures();
  performance.mark("begin");
  for (const [section, { set, gone }] of Object.entries(change)) {
    if (section === "takes") tellNews(set);
    Object.assign(facts[section], set);
    for (const key of gone) delete facts[section][key];
  }
  render(Object.keys(change));
  performance.measure("update", "begin");
}

function tellNews(takes) {
  const begun = Object.values(takes).filter((take) => !facts.takes[take.name] && !take.ended);
  if (begun.length) {
    $("news").textContent = begun.map((take) =>
      `${take.preemptor} takes capacity from ${take.targets.join(", ")}`).join("; ");
  }
}

function connection(word, text) {
  $("connection").dataset.state = word;
  show("connection-text", text);
}

// --- the server ----------------------------------------------------------------------------------
// The token comes in the fragment, which no server and no log sees, and is kept for this tab.
function token() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem("token", given);
    history.replaceState(null, "", location.pathname);
  }
  return sessionStorage.getItem("token") ?? "";
}

async function ask(path, signal) {
  const response = await fetch(path, { headers: { Authorization: `Bearer ${token()}` }, signal });
  if (!response.ok) {
    throw Object.assign(new Error((await response.text()).trim()), { status: response.status });
  }
  return response;
}

async function readWhole() {
  const whole = await (await ask("api/page")).json();
  for (const section of Object.keys(facts)) facts[section] = whole[section];
  render(Object.keys(facts));
  return whole.version;
}

// Follows the stream from `version` until it ends; returns the version to go on from, or null to
// read all again.
async function follow(version) {
  const silence = new AbortController();
  let timer = setTimeout(() => silence.abort(), SILENCE_MS);
  const response = await ask(`api/changes?after=${version}`, silence.signal);
  connection("live", facts.cluster.cluster.reading ? "Reading the cluster" : "Live");
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return version;
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), SILENCE_MS);
      const events = (text + value).split("\n\n");
      text = events.pop();
      for (const event of events) {
        const fields = Object.fromEntries(event.split("\n").map((line) => {
          const colon = line.indexOf(":");
          return [line.slice(0, colon), line.slice(colon + 2)];
        }));
        if (fields.event === "reload") return null;
        if (fields.event === "change") {
          version = Number(fields.id);
          apply(JSON.parse(fields.data));
        }
      }
    }
  } catch {
    return version;
  } finally {
    clearTimeout(timer);
    reader.cancel().catch(() => {});
  }
}

async function run() {
  let version = null;
  for (;;) {
    try {
      version ??= await readWhole();
      version = await follow(version);
    } catch (error) {
      if (error.status === 401) version = null;
      connection("lost", error.status ? `Refused: ${error.message}` : "cede dashboard has ended");
    }
    if (version !== null || $("connection").dataset.state === "lost") {
      if ($("connection").dataset.state === "live") connection("wait", "Connecting again");
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}

// --- what the reader does ------------------------------------------------------------------------
$("filter").addEventListener("submit", (event) => event.preventDefault());
$("filter").addEventListener("input", () => { view.jobs = PAGE_OF_JOBS; renderJobs(); });
$("jobs-more").addEventListener("click", () => { view.jobs += PAGE_OF_JOBS; renderJobs(); });
$("takes-more").addEventListener("click", () => { view.takes += PAGE_OF_TAKES; renderTakes(); });
document.querySelector("#jobs thead").addEventListener("click", (event) => {
  const { sort } = event.target.dataset;
  if (!sort) return;
  view.down = view.sort === sort && !view.down;
  view.sort = sort;
  document.querySelector("#jobs [aria-sort]")?.removeAttribute("aria-sort");
  event.target.closest("th").setAttribute("aria-sort", view.down ? "descending" : "ascending");
  renderJobs();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.matches("input, select, dialog *")) return;
  event.preventDefault();
  $("search").focus();
});
addEventListener("hashchange", token);
setInterval(() => {
  for (const entry of document.querySelectorAll("[data-ago]")) {
    entry.textContent = ago(entry.dataset.ago);
  }
}, 10_000);
run();
