// What the report says, as html.py put it into the page. Text of nodes is data: it is only ever shown as text.
const report = JSON.parse(document.getElementById("data").textContent);

// A check is a list: what each place holds.
const ID = 0, STATUS = 1, REASON = 2, OBSERVED = 3, REQUIRED = 4, EVIDENCE = 5, REMEDY = 6, BLOCKING = 7;
// And so is a remedy.
const ACTION = 0, COMMAND = 1, DISRUPTIVE = 2, PLAYBOOK = 3, TAG = 4;

// From what needs a look first to what needs none.
const STATUSES = ["fail", "unknown", "warn", "skipped", "pass", "not_applicable"];
const QUIET = new Set(["pass", "not_applicable"]);
const VERDICTS = ["not_ready", "silent", "degraded", "ready"];
const WORDS = {
  ready: "ready", degraded: "degraded", not_ready: "not ready", silent: "no answer",
  pass: "pass", warn: "warning", fail: "fail", unknown: "unknown", skipped: "skipped", not_applicable: "does not apply",
};
const ICONS = {
  ready: "ready", degraded: "degraded", not_ready: "not_ready", silent: "silent",
  pass: "ready", warn: "degraded", fail: "not_ready", unknown: "unknown", skipped: "skipped", not_applicable: "skipped",
};

const natural = new Intl.Collator("en", { numeric: true }).compare;
const byHost = new Map();

for (const node of report.nodes) {
  // A node that did not answer is not ready for a reason of its own: it is shown as that.
  node.shown = node.state === "probed" ? node.verdict : "silent";
  node.changes = [];
  byHost.set(node.host, node);
}
report.groups.forEach((group, number) => {
  for (const host of group.hosts) {
    const node = byHost.get(host);
    if (node) node.changes.push(number);
  }
});

function checksOf(node) {
  return node.checks.map((place) => report.checks[place]);
}

// What needs a look of a node, the worst first, in the order of causes within each status.
function openChecks(node) {
  node.open ??= checksOf(node)
    .filter((check) => !QUIET.has(check[STATUS]))
    .sort((a, b) => STATUSES.indexOf(a[STATUS]) - STATUSES.indexOf(b[STATUS]));
  return node.open;
}

// counted(things, key): a Map from key to how many things have it, the most frequent first.
function counted(things, key) {
  const found = new Map();
  for (const thing of things) found.set(key(thing), (found.get(key(thing)) || 0) + 1);
  return new Map([...found].sort((a, b) => b[1] - a[1] || natural(String(a[0]), String(b[0]))));
}

function nodesWord(number) {
  return number === 1 ? "1 node" : number.toLocaleString("en") + " nodes";
}
