// Bars of amounts. A bar of few is divided into fields, one for each.

import { element } from "./elements.mjs";

const MAX_UNITS = 32;

export const sum = (parts) => parts.reduce((total, [, value]) => total + value, 0);

// `parts`: [class, amount]; `scale`: what the whole width stands for
export function bar(parts, scale) {
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
