// What the page knows of the cluster: rows by key, in sections as the server sends them.

export const facts = { cluster: {}, teams: {}, jobs: {}, takes: {} };
export const sections = Object.keys(facts);
export const isReading = () => facts.cluster.cluster?.reading ?? false;

export function replaceAll(whole) {
  for (const section of sections) facts[section] = whole[section];
}

export function applyChange(change) {
  for (const [section, { set, gone }] of Object.entries(change)) {
    Object.assign(facts[section], set);
    for (const key of gone) delete facts[section][key];
  }
}
