// The section of teams and kinds of accelerators.

import { bar, sum } from "./bars.mjs";
import { $, amount, cell, element, place, show } from "./elements.mjs";
import { facts, isReading } from "./facts.mjs";

function partsOf(share) {
  const own = share.uses - share.borrows;
  const idle = Math.max(0, share.owns - own - share.lends);
  return [["own", own], ["lent", share.lends], ["idle", idle], ["borrowed", share.borrows]];
}

export function renderTypes() {
  const types = facts.cluster.cluster?.types ?? [];
  const keys = types.map((_, index) => index);
  place($("types"), keys, (key) => types[key], (_, type) => {
    const idle = Math.max(0, type.healthy - type.uses);
    const nodes = `${type.healthy_nodes} of ${type.nodes} nodes healthy`;
    return element("li", {},
      element("h3", {}, type.type, element("span", {}, type.resource)),
      element("p", {}, element("strong", {}, String(type.uses)),
        ` of ${type.healthy} in use · ${type.borrows} borrowed · ${idle} idle`),
      bar([["own", type.uses - type.borrows], ["borrowed", type.borrows], ["idle", idle]],
        type.healthy),
      element("p", {}, nodes));
  });
}

export function renderTeams() {
  const widths = Object.values(facts.teams).flatMap((team) => team.shares).map((share) =>
    sum(partsOf(share)));
  const scale = Math.max(1, ...widths);
  const body = document.querySelector("#teams tbody");
  if (body.scale_ !== scale) {
    body.replaceChildren();
    body.rows_ = new Map();
    body.scale_ = scale;
  }
  place(body, Object.keys(facts.teams), (key) => facts.teams[key], (_, team) => {
    const shares = team.shares.length ? team.shares : [null];
    return shares.map((share, index) => {
      const row = element("tr", { className: index ? "more" : "" });
      if (!index) row.append(teamHeading(team, shares.length));
      if (share === null) row.append(element("td", { className: "quiet", colSpan: 5 }, "none"));
      else {
        row.append(
          element("td", { className: "wide" }, element("div", { className: "with-bar" },
            element("span", { title: share.resource }, share.type), bar(partsOf(share), scale))),
          amount(share.owns), amount(share.uses), amount(share.lends), amount(share.borrows));
      }
      row.append(index ? element("td", { className: "minor" }) :
        cell(String(team.waiting), team.waiting ? "num minor" : "num minor zero"));
      return row;
    });
  });
  show("teams-empty", Object.keys(facts.teams).length || isReading() ? "" :
    "No team has an allocation that you may see.");
}

function teamHeading(team, rows) {
  const heading = element("th", { scope: "row", rowSpan: rows }, team.name);
  if (!team.ready) {
    heading.append(element("span", { className: "problem", title: team.problem }, "not ready"));
  }
  return heading;
}
