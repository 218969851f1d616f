// The dialog that explains a job.

import { $, element, loss, number } from "./elements.mjs";
import { facts } from "./facts.mjs";
import { ask } from "./server.mjs";
import { ago } from "./times.mjs";

export async function explain(namespace, name, job) {
  $("job-title").textContent = `${namespace}/${name}`;
  const known = job ?? Object.values(facts.jobs).find(
    (row) => row.namespace === namespace && row.name === name);
  const rows = known ? [
    ["State", known.state], ["Size", number(known.size)], ["Desired", number(known.desired)],
    ["Allowed", known.allowed || "–"], ["Step", number(known.step)],
    ["Loss", loss(known.loss)],
    ["Last save", `${number(known.saved_step)}${known.saved ? `, ${ago(known.saved)}` : ""}`],
    ["Reported", [known.reported && ago(known.reported), known.silence && "silent"]
      .filter(Boolean).join(", ") || "–"],
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
