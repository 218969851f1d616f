// The section of jobs: a table that is filtered and sorted.

import { $, cell, element, loss, number, place, show, state } from "./elements.mjs";
import { explain } from "./explanation.mjs";
import { facts, isReading } from "./facts.mjs";
import { ago } from "./times.mjs";

const PAGE = 200;
const view = { jobs: PAGE, sort: "name", down: false };
const collator = new Intl.Collator("en", { numeric: true });

function compare(a, b) {
  const [left, right] = [a[view.sort], b[view.sort]];
  const names = collator.compare(a.namespace, b.namespace) || collator.compare(a.name, b.name);
  if (view.sort === "name") return names;
  if (typeof left === "string") return left.localeCompare(right) || names;
  return (left ?? -1) - (right ?? -1) || names;
}

export function renderJobs() {
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
  show("jobs-empty", rows.length || isReading() ? "" : empty);
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
  if (job.saved) saved.append(" ", element("small", { "data-ago": job.saved }, ago(job.saved)));
  const since = element("td", { className: "num minor quiet", title: job.silence });
  if (job.reported) since.append(element("span", { "data-ago": job.reported }, ago(job.reported)));
  if (job.silence) since.append(" ", element("strong", {}, "silent"));
  return element("tr", {}, heading, element("td", {}, state(job.state)), size,
    cell(number(job.desired), "num minor"), cell(job.allowed || "–", "num minor"),
    cell(number(job.step), "num minor"), cell(loss(job.loss), "num minor"), saved, since,
    element("td", { className: "minor" }, job.priority_class || "–", " ",
      element("small", {}, String(job.priority))),
    element("td", { className: "why minor" }, job.why));
}

$("filter").addEventListener("submit", (event) => event.preventDefault());
$("filter").addEventListener("input", () => { view.jobs = PAGE; renderJobs(); });
$("jobs-more").addEventListener("click", () => { view.jobs += PAGE; renderJobs(); });
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
