// The picture: a rack for each NVLink domain, else for each deployment, with a tray for each node.

// Above this many nodes trays are small: the picture of the whole has to fit.
const SMALL_TRAYS = 150;

function rackOf(node) {
  const [deployment, domain] = node.place;
  if (domain) return "domain\n" + domain;
  return deployment ? "deployment\n" + deployment : "none\n";
}

function racks(nodes) {
  const found = new Map();
  for (const node of nodes) {
    const key = rackOf(node);
    if (!found.has(key)) found.set(key, []);
    found.get(key).push(node);
  }
  const order = ["domain", "deployment", "none"];
  return [...found].sort(([a], [b]) => {
    const [kindA, kindB] = [a.split("\n", 1)[0], b.split("\n", 1)[0]];
    return order.indexOf(kindA) - order.indexOf(kindB) || natural(a, b);
  });
}

// What all names begin with, up to where a word ends: it need not be read on every tray.
function commonStart(names) {
  let start = names.length > 1 ? names[0] : "";
  for (const name of names) {
    while (!name.startsWith(start)) start = start.slice(0, -1);
  }
  return start.replace(/[A-Za-z0-9]*$/, "");
}

function showRacks(nodes) {
  const small = report.nodes.length > SMALL_TRAYS;
  const area = byId("racks");
  area.classList.toggle("dense", small);
  area.replaceChildren(...racks(nodes).map(([key, members], number) => rack(key, members, number, small)));
  if (!nodes.length) area.replaceChildren(make("p", { class: "quiet" }, "No node fits what is set above."));
}

function rack(key, members, number, small) {
  const kind = key.split("\n", 1)[0];
  // All after the kind: a name may hold line ends of its own.
  const name = key.slice(kind.length + 1);
  // A node whose partition is not known stays among its neighbours unless there really are several.
  const partitions = new Set(members.map((node) => node.place[2]).filter((item) => item !== null));
  const several = partitions.size > 1;
  const partitionOf = (node) => several ? node.place[2] ?? "\uffff" : "";
  members.sort((a, b) => natural(partitionOf(a), partitionOf(b)) || natural(a.host, b.host));
  const title = kind === "none" ? "No NVLink domain or deployment" : name;
  const deployments = [...new Set(members.map((node) => node.place[0]).filter((item) => item))];
  const ready = members.filter((node) => node.verdict === "ready").length;
  const start = small && members.length > 1 ? commonStart(members.map((node) => node.host)) : "";
  const list = make("ul", { role: "list" });
  let partition;
  for (const node of members) {
    if (several && node.place[2] !== partition) {
      partition = node.place[2];
      list.append(make("li", { class: "partition" }, partition === null ? "partition not known" : "partition " + partition));
    }
    list.append(make("li", null, tray(node, start)));
  }
  const kinds = { domain: "NVLink domain", deployment: "Deployment", none: "" };
  return make("section", { class: "rack" + (members.length > 36 ? " wide" : ""), "aria-labelledby": "rack-" + number },
    make("h3", { id: "rack-" + number, title: kinds[kind] + " " + title }, title),
    make("p", { class: "facts" },
      make("span", null, ready + "/" + members.length + " ready"),
      kind === "domain" && deployments.length > 0 && make("span", null, deployments.join(", ")),
      start && make("span", null, start + "\u2026")),
    list);
}

function tray(node, start) {
  const what = WORDS[node.shown] + (node.cause ? ", " + node.cause : "");
  return make("button", {
    type: "button", class: "tray v-" + node.shown, "data-host": node.host, tabindex: "-1",
    "aria-label": node.host + ": " + what, title: node.host + ": " + what,
    "aria-pressed": String(opened === node),
  }, icon(node.shown), make("span", { class: "host" }, node.host.slice(start.length)),
  make("span", { class: "cause" }, node.shown === "not_ready" ? node.cause || "" : ""),
  node.changes.length > 0 && make("span", { class: "dot", title: "changed since the earlier report" }));
}

function trays() {
  return [...byId("racks").querySelectorAll(".tray")];
}

// One tray is reached by Tab, the others by the arrow keys.
function oneTabStop(wanted) {
  const all = trays();
  const chosen = all.includes(wanted) ? wanted : all[0];
  for (const other of all) other.tabIndex = other === chosen ? 0 : -1;
}

// Up and down go from tray to tray, left and right to the nearest tray beside.
function moveFrom(from, key) {
  const all = trays();
  let next = null;
  if (key === "Home") next = all[0];
  else if (key === "End") next = all[all.length - 1];
  else if (key === "ArrowDown") next = all[all.indexOf(from) + 1];
  else if (key === "ArrowUp") next = all[all.indexOf(from) - 1];
  else next = beside(from, all, key === "ArrowRight" ? 1 : -1);
  if (!next) return;
  from.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

function beside(from, all, direction) {
  const here = from.getBoundingClientRect();
  let best = null, least = Infinity;
  for (const other of all) {
    const there = other.getBoundingClientRect();
    const across = (there.left - here.left) * direction;
    if (across < here.width / 2) continue;
    const distance = across + 10 * Math.abs(there.top - here.top);
    if (distance < least) [best, least] = [other, distance];
  }
  return best;
}
