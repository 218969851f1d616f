// The page of `cede dashboard`: reads the facts once, then applies what changed.

import { $, element, show } from "./elements.mjs";
import { applyChange, facts, replaceAll, sections } from "./facts.mjs";
import { showHistory } from "./history.mjs";
import { renderJobs } from "./jobs.mjs";
import { ask, follow, isOwn } from "./server.mjs";
import { announce, renderTakes } from "./takes.mjs";
import { renderTeams, renderTypes } from "./teams.mjs";
import { ago } from "./times.mjs";
import "./whatif.mjs";

const RETRY_MS = 2_000;
const REFRESH_MS = 10_000;

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

function render(changed) {
  const all = changed.includes("cluster");
  if (all) { renderCluster(); renderTypes(); }
  if (all || changed.includes("teams")) renderTeams();
  if (all || changed.includes("takes")) renderTakes();
  if (all || changed.includes("jobs")) renderJobs();
}

function apply(change) {
  performance.clearMarks();
  performance.clearMeasures();
  performance.mark("begin");
  announce(change.takes?.set ?? {});
  applyChange(change);
  render(Object.keys(change));
  performance.measure("update", "begin");
}

function connection(word, text) {
  $("connection").dataset.state = word;
  show("connection-text", text);
}

async function readWhole() {
  const whole = await (await ask("api/page")).json();
  replaceAll(whole);
  render(sections);
  return whole.version;
}

const live = () =>
  connection("live", facts.cluster.cluster.reading ? "Reading the cluster" : "Live");

async function showPerson() {
  const { user, signedIn } = await (await ask("api/me")).json();
  show("person", user);
  $("sign-out").hidden = !signedIn;
}

async function run() {
  let version = null;
  for (;;) {
    try {
      if (version === null) {
        version = await readWhole();
        await showPerson();
        showHistory();
      }
      version = await follow(version, live, apply);
    } catch (error) {
      if (error.status === 401) version = null;
      const ended = isOwn() ? "cede dashboard has ended" : "The server does not answer";
      connection("lost", error.status ? `Refused: ${error.message}` : ended);
    }
    if (version !== null || $("connection").dataset.state === "lost") {
      if ($("connection").dataset.state === "live") connection("wait", "Connecting again");
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}

$("sign-out").addEventListener("click", async () => {
  await fetch("sign-out", { method: "POST" });
  location.assign("sign-in");
});
setInterval(() => {
  for (const entry of document.querySelectorAll("[data-ago]")) {
    entry.textContent = ago(entry.dataset.ago);
  }
}, REFRESH_MS);
run();
