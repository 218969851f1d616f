// The section of predictions: asks a question, and shows the answer as the command prints it.

import { $, show } from "./elements.mjs";
import { ask } from "./server.mjs";

const form = $("whatif");
let newest = 0;

function showFields() {
  const question = $("whatif-question").value;
  for (const label of form.querySelectorAll("[data-for]")) {
    label.hidden = !label.dataset.for.split(" ").includes(question);
  }
}

function question() {
  const kind = $("whatif-question").value;
  if (kind === "drain") {
    return { question: kind, nodes: $("whatif-nodes").value.split(/[\s,]+/).filter(Boolean) };
  }
  const manifest = $("whatif-manifest").value;
  if (kind === "allocation") return { question: kind, manifest };
  return { question: kind, manifest, namespace: $("whatif-namespace").value.trim() };
}

async function predict() {
  const number = ++newest;
  form.setAttribute("aria-busy", "true");
  show("whatif-problem", "");
  show("whatif-answer", "Asking…");
  let answer;
  try {
    answer = await (await ask("api/whatif", { body: question() })).json();
  } catch (error) {
    answer = { text: "", errors: error.message };
  }
  // a newer question has been asked
  if (number !== newest) return;
  form.removeAttribute("aria-busy");
  show("whatif-problem", answer.errors);
  show("whatif-answer", answer.text.trimEnd());
}

$("whatif-question").addEventListener("change", showFields);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  predict();
});
showFields();
