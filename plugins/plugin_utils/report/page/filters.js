// Which nodes are shown. A node has to fit all that is set; nothing set shows all.
const filter = { q: "", verdicts: new Set(), check: "", cure: "", changed: false, group: -1 };

// The small letters of each answer, made when somebody first searches.
let textOfCheck = null;

function prepareSearch() {
  textOfCheck = report.checks.map((check) =>
    (JSON.stringify(check) + (check[REMEDY] < 0 ? "" : cureText(report.remedies[check[REMEDY]]))).toLowerCase());
  for (const node of report.nodes) {
    const words = [node.host, ...node.place, node.driver, node.reason, node.cause, WORDS[node.shown]];
    node.text = words.filter((word) => word).join("\n").toLowerCase();
  }
}

// A function of a node: whether every word, or "several words", is somewhere in what is known of it.
function textFilter(query) {
  const words = (query.toLowerCase().match(/"[^"]+"|\S+/g) || []).map((word) => word.replace(/^"(.+)"$/, "$1"));
  if (!words.length) return () => true;
  if (!textOfCheck) prepareSearch();
  const hits = words.map((word) => {
    // As JSON writes it, for the answers are kept as JSON.
    const written = JSON.stringify(word).slice(1, -1);
    return textOfCheck.map((text) => text.includes(written));
  });
  return (node) => words.every((word, number) =>
    node.text.includes(word) || node.checks.some((place) => hits[number][place]));
}

function fits(fitsText) {
  return (node) => {
    if (filter.verdicts.size && !filter.verdicts.has(node.shown)) return false;
    if (filter.changed && !node.changes.length) return false;
    if (filter.group >= 0 && !node.changes.includes(filter.group)) return false;
    if (filter.check && node.cause !== filter.check && !openChecks(node).some((check) => check[ID] === filter.check)) return false;
    if (filter.cure && !curesOf(node).has(filter.cure)) return false;
    return fitsText(node);
  };
}

function curesOf(node) {
  const places = openChecks(node).map((check) => check[REMEDY]);
  return new Set([...places, node.remedy].filter((place) => place >= 0).map((place) => cureText(report.remedies[place])));
}

function matching() {
  return report.nodes.filter(fits(textFilter(filter.q)));
}

// The choices with how many nodes each would show.
function fillChoices() {
  const counts = counted(report.nodes, (node) => node.shown);
  byId("verdicts").replaceChildren(...VERDICTS.filter((word) => counts.get(word)).map((word) => {
    const button = make("button", { type: "button", class: "verdict v-" + word, "data-verdict": word, "aria-pressed": "false" },
      icon(word), WORDS[word] + " ", make("b", null, counts.get(word).toLocaleString("en")));
    button.addEventListener("click", () => {
      if (!filter.verdicts.delete(word)) filter.verdicts.add(word);
      changed();
    });
    return button;
  }));
  const ids = report.nodes.flatMap((node) =>
    [...new Set([...openChecks(node).map((check) => check[ID]), ...(node.state === "probed" ? [] : [node.cause])])]);
  fillSelect("check", "any check", counted(ids, (id) => id));
  fillSelect("cure", "any cure", counted(report.nodes.flatMap((node) => [...curesOf(node)]), (text) => text));
  byId("changed").hidden = !report.groups.length;
}

function fillSelect(id, nothing, counts) {
  const options = [...counts].map(([text, count]) => {
    const short = text.length > 90 ? text.slice(0, 89) + "\u2026" : text;
    return make("option", { value: text }, short + " (" + count.toLocaleString("en") + ")");
  });
  byId(id).replaceChildren(make("option", { value: "" }, nothing), ...options);
  byId(id).parentElement.hidden = !options.length;
}

// The controls as the filter says: it may have come from the address or from a button elsewhere.
function showFilter() {
  byId("q").value = filter.q;
  byId("check").value = filter.check;
  byId("cure").value = filter.cure;
  byId("changed").setAttribute("aria-pressed", String(filter.changed));
  for (const button of byId("verdicts").children) {
    button.setAttribute("aria-pressed", String(filter.verdicts.has(button.dataset.verdict)));
  }
}

function resetFilter() {
  Object.assign(filter, { q: "", verdicts: new Set(), check: "", cure: "", changed: false, group: -1 });
}
