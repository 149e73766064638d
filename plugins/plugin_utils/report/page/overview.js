// What stands above the nodes: the causes, the fleet's checks, and what changed.

const FIRST_CAUSES = 6;
const FIRST_FLEET_CHECKS = 8;
const FIRST_CHANGES = 9;
const NAMES_SHOWN = 8;
const SIGNS = { worse: "\u25bc worse", better: "\u25b2 better", neutral: "\u25c6 other" };

function showBar() {
  const counts = counted(report.nodes, (node) => node.shown);
  byId("bar").replaceChildren(...VERDICTS.filter((word) => counts.get(word)).map((word) => {
    const part = make("span", { class: "v-" + word });
    part.style.flexGrow = String(counts.get(word));
    return part;
  }));
}

// Names that lead to their nodes, the first few of them.
function names(hosts) {
  const shown = hosts.slice(0, NAMES_SHOWN).map((host) => byHost.has(host)
    ? make("button", { type: "button", class: "name", onclick: () => openNode(byHost.get(host), true) }, host)
    : make("span", { class: "name" }, host));
  return make("span", { class: "names" }, shown,
    hosts.length > NAMES_SHOWN && make("span", { class: "quiet" }, "and " + (hosts.length - NAMES_SHOWN) + " more"));
}

// The first few as list items, and a button for the others.
function moreOf(things, first, item) {
  const shown = things.slice(0, first).map((thing) => item(thing));
  const rest = things.slice(first);
  if (rest.length) {
    const line = make("li", { class: "more" }, make("button", {
      type: "button", class: "plain", onclick: () => line.replaceWith(...rest.map((thing) => item(thing))),
    }, rest.length + " more"));
    shown.push(line);
  }
  return shown;
}

// Nodes that one thing keeps from being ready, or degrades: what it is, why, and one cure for all of them.
function causeItem({ word, id, nodes, reasons, remedy }) {
  const hosts = nodes.map((node) => node.host).sort(natural);
  return make("li", { class: "cause-item v-" + word },
    make("div", { class: "cause-head" }, icon(word), make("b", null, id || "no root cause"),
      make("span", { class: "number" }, nodesWord(nodes.length)),
      make("button", { type: "button", class: "plain small", onclick: () => only({ check: id || "", verdicts: new Set([nodes[0].shown]) }) }, "Show")),
    make("p", null, reasons[0], reasons.length > 1 && make("span", { class: "quiet" }, " (and " + (reasons.length - 1) + " similar)")),
    cure(remedy, hosts),
    names(hosts));
}

// grouped(entries): those with the same id and remedy as one, what concerns most nodes first.
function grouped(entries) {
  const found = new Map();
  for (const { word, id, node, reason, remedy } of entries) {
    const key = id + "\n" + remedy + "\n" + word;
    if (!found.has(key)) found.set(key, { word, id, remedy, nodes: [], reasons: new Set() });
    found.get(key).nodes.push(node);
    found.get(key).reasons.add(reason);
  }
  return [...found.values()].map((group) => ({ ...group, reasons: [...group.reasons] }))
    .sort((a, b) => b.nodes.length - a.nodes.length || natural(a.id || "", b.id || ""));
}

function showCauses() {
  const causes = grouped(report.nodes.filter((node) => node.verdict === "not_ready")
    .map((node) => ({ word: node.shown, id: node.cause, node, reason: node.reason, remedy: node.remedy })));
  const degraded = report.nodes.filter((node) => node.verdict === "degraded");
  const warnings = grouped(degraded.flatMap((node) => openChecks(node)
    .map((check) => ({ word: check[STATUS], id: check[ID], node, reason: check[REASON], remedy: check[REMEDY] }))));
  byId("causes").hidden = !causes.length && !warnings.length;
  byId("cause-list").replaceChildren(...moreOf(causes, FIRST_CAUSES, causeItem));
  byId("warnings").hidden = !warnings.length;
  byId("warnings").open = !causes.length;
  byId("warning-count").textContent = "Why " + nodesWord(degraded.length) + (degraded.length === 1 ? " is" : " are") + " degraded";
  byId("warning-list").replaceChildren(...moreOf(warnings, FIRST_CAUSES, causeItem));
}

function showFleet() {
  byId("fleet").hidden = !report.fleet.length;
  const scope = ([kind, name]) => kind === "run" ? "all nodes of this run" : (kind === "domain" ? "NVLink domain " : kind + " ") + name;
  const item = ({ scope: of, hosts, outliers, check }, open) => {
    const details = checkDetails(check, outliers.length ? outliers : hosts, open, ": " + scope(of));
    if (outliers.length) details.append(make("div", { class: "blamed" }, make("b", null, "Nodes "), names(outliers)));
    return details;
  };
  const loud = report.fleet.filter(({ check }) => !QUIET.has(check[STATUS]))
    .sort((a, b) => STATUSES.indexOf(a.check[STATUS]) - STATUSES.indexOf(b.check[STATUS]));
  const quiet = report.fleet.filter(({ check }) => QUIET.has(check[STATUS]));
  const passed = quiet.filter(({ check }) => check[STATUS] === "pass").length;
  const few = loud.length <= 3;
  byId("fleet-list").replaceChildren(...moreOf(loud, FIRST_FLEET_CHECKS,
    (entry) => make("li", null, item(entry, few && entry.check[STATUS] === "fail" && entry.check[ID] !== "fleet.nodes"))));
  byId("fleet-rest").hidden = !quiet.length;
  byId("fleet-count").textContent = passed + " passed, " + (quiet.length - passed) + " do not apply";
  // Made when somebody looks: there is one of each a rack.
  byId("fleet-rest").addEventListener("toggle", () => byId("fleet-rest").append(...quiet.map((entry) => item(entry, false))), { once: true });
}

function showChanges() {
  const here = (row) => row.hosts && row.hosts.some((host) => byHost.has(host));
  const item = (row) => make("li", { class: "change k-" + row.kind },
    make("span", { class: "sign" }, SIGNS[row.kind]),
    row.hosts && make("span", { class: "what" }, nodesWord(row.hosts.length) + ": "),
    make("span", { class: "what" }, row.text), row.hosts && names(row.hosts),
    here(row) && make("button", { type: "button", class: "plain small", onclick: () => only({ group: report.groups.indexOf(row) }) }, "Show"));
  const rows = [...report.fleetChanges.map((change) => ({ ...change, text: "the fleet: " + change.text })), ...report.groups];
  const ofChecks = rows.filter((row) => row.what === "check");
  byId("change-list").replaceChildren(...moreOf(rows.filter((row) => row.what !== "check"), FIRST_CHANGES, item));
  byId("check-changes").hidden = !ofChecks.length;
  byId("check-change-count").textContent = ofChecks.length === 1 ? "1 change of a check" : ofChecks.length + " changes of checks";
  byId("check-change-list").replaceChildren(...moreOf(ofChecks, FIRST_CHANGES, item));
  if (!rows.length && !byId("changes").querySelector("p")) byId("change-list").append(make("li", { class: "quiet" }, "Nothing changed."));
}

// For paper: what cannot be clicked open there.
function showPrint() {
  const nodes = matching().filter((node) => node.verdict !== "ready");
  const rows = nodes.map((node) => {
    const open = openChecks(node);
    const place = node.remedy;
    return make("tr", null, make("td", { class: "host-cell" }, icon(node.shown), " ", node.host), make("td", { class: "word-cell" }, WORDS[node.shown]),
      make("td", null, node.reason || open.map((check) => check[ID] + ": " + check[REASON]).join(" ")),
      make("td", null, place < 0 ? "" : cureText(report.remedies[place])));
  });
  byId("print").replaceChildren(...(rows.length ? [make("h2", null, "Nodes that need a look"),
    make("table", null, make("thead", null, make("tr", null, ["Node", "Verdict", "Why", "Cure"].map((word) => make("th", null, word)))), make("tbody", null, rows))] : []));
}
