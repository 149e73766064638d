// Brings it together: the controls, the keyboard, and the address, which keeps what is shown so that it can be sent.
let writing = true;

// Called after every change of the filter.
function changed() {
  const nodes = matching();
  showFilter();
  showRacks(nodes);
  oneTabStop(opened && trayOf(opened));
  const all = nodes.length === report.nodes.length;
  byId("shown").textContent = all ? nodesWord(nodes.length) + "." : nodesWord(nodes.length) + " of " + report.nodes.length.toLocaleString("en") + ".";
  byId("names").hidden = !nodes.length;
  writeAddress();
}

// Shows the nodes that one thing is about, and nothing else.
function only(wanted) {
  resetFilter();
  Object.assign(filter, wanted);
  changed();
  byId("nodes").scrollIntoView();
}

function writeAddress() {
  if (!writing) return;
  const parts = new URLSearchParams();
  for (const name of ["q", "check", "cure"]) if (filter[name]) parts.set(name, filter[name]);
  if (filter.verdicts.size) parts.set("verdict", [...filter.verdicts].join(" "));
  if (filter.changed) parts.set("changed", "1");
  if (filter.group >= 0) parts.set("change", report.groups[filter.group].text);
  if (opened) parts.set("node", opened.host);
  history.replaceState(null, "", "#" + parts);
}

function readAddress() {
  const parts = new URLSearchParams(location.hash.slice(1));
  writing = false;
  resetFilter();
  for (const name of ["q", "check", "cure"]) filter[name] = parts.get(name) || "";
  for (const word of (parts.get("verdict") || "").split(" ")) if (VERDICTS.includes(word)) filter.verdicts.add(word);
  filter.changed = parts.get("changed") === "1";
  filter.group = report.groups.findIndex((group) => group.text === parts.get("change"));
  changed();
  openNode(byHost.get(parts.get("node")) || null, false);
  writing = true;
}

function showAge() {
  const hours = (Date.now() - Date.parse(report.generated)) / 3600000;
  const form = new Intl.RelativeTimeFormat("en", { numeric: "always" });
  const said = hours < 1 ? form.format(-Math.max(0, Math.round(hours * 60)), "minute")
    : hours < 48 ? form.format(-Math.round(hours), "hour") : form.format(-Math.round(hours / 24), "day");
  byId("age").textContent = "(" + said + ")";
  byId("when").title = new Date(report.generated).toLocaleString();
  if (hours >= 24) {
    byId("stale").textContent = "The nodes were asked " + said + ": ask again before you act on this.";
    byId("stale").hidden = false;
  }
}

function listen() {
  let waiting = 0;
  byId("q").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { filter.q = byId("q").value; changed(); }, 80);
  });
  for (const name of ["check", "cure"]) {
    byId(name).addEventListener("change", () => { filter[name] = byId(name).value; changed(); });
  }
  byId("changed").addEventListener("click", () => { filter.changed = !filter.changed; changed(); });
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("filters").addEventListener("reset", (event) => { event.preventDefault(); resetFilter(); changed(); });
  byId("names").replaceWith(Object.assign(copyButton("Copy their names", () => matching().map((node) => node.host).join(","), null),
    { id: "names", className: "plain small" }));
  byId("racks").addEventListener("click", (event) => {
    const button = event.target.closest(".tray");
    if (button) openNode(byHost.get(button.dataset.host), true);
  });
  byId("racks").addEventListener("keydown", (event) => {
    const button = event.target.closest(".tray");
    if (!button || !["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) return;
    event.preventDefault();
    moveFrom(button, event.key);
  });
  addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea");
    if (event.key === "Escape" && opened) openNode(null, true);
    else if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      byId("q").focus();
    }
  });
  addEventListener("hashchange", readAddress);
  addEventListener("beforeprint", showPrint);
}

showBar();
showAge();
fillChoices();
showCauses();
showFleet();
showChanges();
listen();
readAddress();
