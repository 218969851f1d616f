// The section of take-backs: a timeline by days that opens to its explanation.

import { bar, sum } from "./bars.mjs";
import { $, cell, element, number, place, show, state } from "./elements.mjs";
import { explain } from "./explanation.mjs";
import { facts, isReading } from "./facts.mjs";
import { clock, day, seconds } from "./times.mjs";

const PAGE = 30;
const STAGES = [
  ["asked", "Asked"], ["ceded", "Ceded"], ["released", "Released"],
  ["admitted", "Admitted"], ["ready", "Pods ready"], ["ended", "Ended"],
];
const CLASS_OF_STAGE = { asked: "asked", ceded: "ceded", released: "released", ready: "ready" };
let shown = PAGE;

export function renderTakes() {
  const all = Object.keys(facts.takes);
  all.sort((a, b) => (facts.takes[b].started + b).localeCompare(facts.takes[a].started + a));
  const keys = [];
  let last = "";
  for (const key of all.slice(0, shown)) {
    const date = day(facts.takes[key].started);
    if (date !== last) keys.push(`day ${date}`);
    last = date;
    keys.push(key);
  }
  place($("takes"), keys, (key) => facts.takes[key] ?? key, (key, take, old) =>
    typeof take === "string" ?
      element("li", { className: "day" }, element("h3", {}, take.slice(4))) :
      takeItem(take, old?.[0].firstChild.open ?? false));
  $("takes-more").hidden = all.length <= shown;
  const open = all.filter((key) => !facts.takes[key].ended).length;
  show("takes-count", all.length ? `${number(all.length)} recorded, ${open} under way` : "");
  show("takes-empty", all.length || isReading() ? "" :
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
    ...take.alternatives.map((text) => element("p", {}, text)),
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

// To those who do not see the page change.
export function announce(takes) {
  const begun = Object.values(takes).filter((take) => !facts.takes[take.name] && !take.ended);
  if (begun.length) {
    $("news").textContent = begun.map((take) =>
      `${take.preemptor} takes capacity from ${take.targets.join(", ")}`).join("; ");
  }
}

$("takes-more").addEventListener("click", () => { shown += PAGE; renderTakes(); });
