// The statement of a month: what `python -m ledger statement` prints, as a table and a file.

import { $, cell, element, hours, show } from "./elements.mjs";

const AMOUNTS = ["owned", "used", "borrowed", "lent", "idle", "taken_back", "claimed", "gained"];
let statements = [];

// What nobody knows is no 0. The ledger of an earlier version knows no losses.
function lost({ lost, unknown_losses: unknown }) {
  if (!(Number(unknown) > 0)) return cell(lost === undefined ? "–" : hours(Number(lost)));
  const known = Number(lost);
  const made = cell(known > 0 ? `≥ ${hours(known)}` : "unknown");
  made.title = `In ${unknown} take-backs nobody knows what was lost`;
  return made;
}

// Names of teams, types and resources have neither commas nor quotes.
function rowsOf(csv) {
  const [names, ...lines] = csv.trimEnd().split("\n").map((line) => line.split(","));
  return lines.map((line) => Object.fromEntries(names.map((name, index) => [name, line[index]])));
}

function render() {
  const { month, csv } = statements.find((one) => one.month === $("statement-month").value);
  const rows = rowsOf(csv);
  document.querySelector("#statement tbody").replaceChildren(...rows.map((row) =>
    element("tr", {},
      element("th", { scope: "row" }, row.team),
      element("td", { title: row.resource }, row.instance_type),
      ...AMOUNTS.map((name) => cell(hours(Number(row[name])))),
      lost(row))));
  const missing = Number(rows[0]?.not_recorded_hours);
  const gaps = missing > 0.05 ? `, without ${hours(missing)} h that were not recorded` : "";
  show("statement-note", rows.length ? `Accelerator-hours of the month (UTC)${gaps}` :
    "Nothing was recorded in this month.");
  $("statement-csv").download = `cede-${month}.csv`;
  $("statement-csv").href = `data:text/csv;charset=utf-8,${encodeURIComponent(csv)}`;
}

export function showStatements(newest) {
  statements = newest;
  $("statement-part").hidden = !statements.length;
  if (!statements.length) return;
  const before = $("statement-month").value;
  const months = statements.map((one) => one.month);
  $("statement-month").replaceChildren(
    ...months.map((month) => element("option", { value: month }, month)));
  if (months.includes(before)) $("statement-month").value = before;
  render();
}

$("statement-month").addEventListener("change", render);
