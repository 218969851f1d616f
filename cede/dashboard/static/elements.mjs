// Makes elements, and keeps those whose rows did not change. Text never becomes markup.

export const $ = (id) => document.getElementById(id);

export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== ""));
  return made;
}
export const cell = (text, className = "num") => element("td", { className }, text);
export const amount = (value) => cell(String(value), value ? "num" : "num zero");
export const state = (word) => element("span", { className: `state ${word}` }, word);
export const number = (value) => (value === null ? "–" : value.toLocaleString("en"));
export const loss = (value) => (value === null ? "–" : String(Number(value.toPrecision(4))));
// To a tenth, and never -0.
export const hours = (value) => (Math.round(value * 10) / 10 || 0).toLocaleString("en");

export function show(id, text) {
  const target = $(id);
  if (target.textContent !== text) target.textContent = text;
  target.hidden = !text;
}

// Puts the elements of `keys` into `parent`, in order. An element is made again only if its row is
// another one, and moved only if it must be: focus and open details stay.
export function place(parent, keys, rowOf, make) {
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
