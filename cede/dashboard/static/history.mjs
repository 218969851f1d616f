// The section of history: teams and days, as the ledger counted them. What it did not see is a gap.

import { $, cell, element, hours, show } from "./elements.mjs";
import { ask } from "./server.mjs";
import { showStatements } from "./statement.mjs";

const REFRESH_MS = 600_000;
const PARTS = ["own", "borrowed", "lent", "idle"];
const WEEK = 7;
const NOTHING = { days: [], teams: [], statements: [] };
let history = NOTHING;

const total = (rows, name) => rows.reduce((sum, row) => sum + row[name], 0);

function partsOf(row) {
  return { own: row.used - row.borrowed, borrowed: row.borrowed, lent: row.lent, idle: row.idle };
}

// A column: its height is the mean of the hours that were recorded.
function dayItem(day, row, scale) {
  const item = element("li", { className: "day-bar" });
  let text = `${day.day}: not recorded`;
  if (day.recorded_hours > 0) {
    const parts = row ? partsOf(row) : { own: 0, borrowed: 0, lent: 0, idle: 0 };
    for (const name of PARTS) {
      const part = element("i", { className: name });
      part.style.height = `${(100 * parts[name]) / day.recorded_hours / scale}%`;
      item.append(part);
    }
    text = row ? `${day.day}: owned ${hours(row.owned)} h, used ${hours(row.used)}, ` +
      `borrowed ${hours(row.borrowed)}, lent ${hours(row.lent)}, idle ${hours(row.idle)}` :
      `${day.day}: nothing owned or used`;
  }
  const missing = day.passed_hours - day.recorded_hours;
  if (missing > 0.05) {
    item.classList.add(day.recorded_hours > 0 ? "partial" : "gap");
    text += ` (${hours(missing)} h not recorded: ${day.reasons.join("; ")})`;
  }
  item.title = text;
  item.append(element("span", { className: "hidden" }, text));
  return item;
}

function rowOf(rows, chosen) {
  const byDay = new Map(rows.map((row) => [row.day, row]));
  const means = history.days.map((day) => {
    const row = byDay.get(day.day);
    if (!row || !day.recorded_hours) return 0;
    return Object.values(partsOf(row)).reduce((sum, part) => sum + part, 0) / day.recorded_hours;
  });
  const scale = Math.max(...means, 1e-9);
  const counted = rows.filter((row) => chosen.has(row.day));
  return element("tr", {},
    element("th", { scope: "row" }, rows[0].team), element("td", {}, rows[0].type),
    element("td", { className: "wide" }, element("ol", { className: "days" },
      ...history.days.map((day) => dayItem(day, byDay.get(day.day), scale)))),
    ...["owned", "used", "borrowed", "lent", "idle"].map((name) =>
      cell(hours(total(counted, name)))));
}

function chosenDays() {
  const span = $("history-span").value;
  const days = history.days.map((day) => day.day);
  const isCount = /^\d{1,2}$/.test(span);
  return new Set(isCount ? days.slice(-Number(span)) : days.filter((day) => day === span));
}

function render() {
  const groups = new Map();
  for (const row of history.teams) {
    const key = `${row.team} ${row.type} ${row.resource}`;
    groups.set(key, [...(groups.get(key) ?? []), row]);
  }
  const chosen = chosenDays();
  document.querySelector("#history tbody").replaceChildren(
    ...[...groups.keys()].sort().map((key) => rowOf(groups.get(key), chosen)));
}

function renderSpans() {
  const before = $("history-span").value;
  const days = history.days.map((day) => day.day);
  const option = (value, text) => element("option", { value }, text);
  $("history-span").replaceChildren(
    option(String(days.length), `All ${days.length} days`),
    ...(days.length > WEEK ? [option(String(WEEK), `Last ${WEEK} days`)] : []),
    ...days.toReversed().map((day) => option(day, day)));
  if (days.includes(before) || before === String(WEEK)) $("history-span").value = before;
}

async function read() {
  let answer;
  try {
    answer = await (await ask("api/history")).json();
  } catch (error) {
    answer = { problem: `The history cannot be read: ${error.message}` };
  }
  history = answer.problem ? NOTHING : answer.history;
  const isEmpty = !history.teams.length;
  const lost = history.days.reduce((sum, day) => sum + day.passed_hours - day.recorded_hours, 0);
  const gaps = lost > 0.05 ? `, ${hours(lost)} h of them not recorded` : "";
  const note = isEmpty ? "The ledger has counted nothing yet." :
    `Accelerator-hours of ${history.days.length} days (UTC)${gaps}`;
  show("history-note", answer.problem || note);
  $("history-scroll").hidden = $("history-form").hidden = isEmpty;
  renderSpans();
  render();
  showStatements(history.statements);
}

let timer;
export function showHistory() {
  clearInterval(timer);
  timer = setInterval(read, REFRESH_MS);
  read();
}

$("history-span").addEventListener("change", render);
