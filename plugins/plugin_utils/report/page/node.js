// The panel with everything about one node.
let opened = null;

function openNode(node, focus) {
  const before = opened;
  opened = node;
  for (const other of [before, node]) {
    const button = other && trayOf(other);
    if (button) button.setAttribute("aria-pressed", String(other === node));
  }
  const panel = byId("panel");
  panel.hidden = !node;
  document.body.classList.toggle("with-panel", Boolean(node));
  if (node) {
    panel.replaceChildren(...panelOf(node));
    panel.scrollTop = 0;
    if (focus) byId("panel-title").focus();
  } else if (before && focus) {
    const button = trayOf(before);
    if (button) {
      oneTabStop(button);
      button.focus();
    }
  }
  writeAddress();
}

function trayOf(node) {
  return trays().find((button) => button.dataset.host === node.host);
}

// The node before or after this one, among those that are shown.
function neighbour(node, by) {
  const shown = trays().map((button) => byHost.get(button.dataset.host));
  const place = shown.indexOf(node);
  return place < 0 ? shown[0] : shown[place + by];
}

function stepButton(node, by, label) {
  // Asked again when it is pressed: a filter may have changed what is shown.
  return make("button", {
    type: "button", class: "plain", disabled: !neighbour(node, by),
    onclick: () => openNode(neighbour(node, by) || node, true),
  }, label);
}

function panelOf(node) {
  const [deployment, domain, partition] = node.place;
  const open = openChecks(node);
  const rest = checksOf(node).filter((check) => QUIET.has(check[STATUS]));
  const passed = rest.filter((check) => check[STATUS] === "pass").length;
  const cause = open.find((check) => check[ID] === node.cause);
  const fact = (name, value) => value && [make("dt", null, name), make("dd", null, value)];
  return [
    make("div", { class: "panel-bar" },
      stepButton(node, -1, "Previous"),
      stepButton(node, 1, "Next"),
      make("button", { type: "button", class: "plain", id: "close", onclick: () => openNode(null, true) }, "Close")),
    make("h2", { id: "panel-title", tabindex: "-1" }, node.host),
    make("p", null, badge(node.shown), " ", node.cause && make("code", null, node.cause)),
    make("dl", { class: "pairs" }, fact("deployment", deployment), fact("NVLink domain", domain),
      fact("partition", partition), fact("driver", node.driver)),
    // Where a check is the cause, it stands open below and says the same.
    !cause && node.reason && make("p", { class: "reason" }, node.reason),
    !cause && cure(node.remedy, [node.host]),
    node.changes.length > 0 && [make("h3", null, "Since the earlier report"),
      make("ul", { class: "plain-list" }, node.changes.map((place) => changeItem(report.groups[place])))],
    open.length > 0 && make("h3", null, "Needs a look (" + open.length + ")"),
    // The root cause first: it explains the others.
    [...open].sort((a, b) => (b === cause) - (a === cause)).map((check) => checkDetails(check, [node.host], check === cause || open.length === 1)),
    rest.length > 0 && make("details", { class: "rest" },
      make("summary", null, passed + " passed, " + (rest.length - passed) + " do not apply"),
      rest.map((check) => checkDetails(check, [node.host], false))),
  ].flat(2).filter((part) => part);
}

function changeItem(group) {
  return make("li", { class: "change k-" + group.kind }, make("span", { class: "sign" }, SIGNS[group.kind]), group.text);
}
