// Times and durations as people read them.

export const seconds = (from, to) => (Date.parse(to) - Date.parse(from)) / 1000;
export function duration(value) {
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (value >= 2 * size) return `${Math.floor(value / size)} ${unit}`;
  }
  return `${Math.max(0, Math.floor(value))} s`;
}
export const ago = (time) => `${duration((Date.now() - Date.parse(time)) / 1000)} ago`;
export const clock = (time) => new Date(time).toLocaleTimeString("en-GB");
export function day(time) {
  const that = new Date(time).toDateString();
  if (that === new Date().toDateString()) return "Today";
  if (that === new Date(Date.now() - 86_400_000).toDateString()) return "Yesterday";
  return new Date(time).toLocaleDateString("en-GB",
    { weekday: "long", day: "numeric", month: "long", year: "numeric" });
}
