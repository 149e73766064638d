// One check, closed to a line and open with everything it says.

// A value that is no text, as JSON: in a line where it is short.
function valueText(value) {
  const line = JSON.stringify(value);
  return line.length <= 90 ? line.replaceAll(",\"", ", \"").replaceAll("\":", "\": ") : JSON.stringify(value, null, 1);
}

function checkDetails(check, hosts, open, suffix) {
  const details = make("details", { class: "check", open },
    make("summary", null, icon(check[STATUS]), make("span", { class: "id" }, check[ID], suffix || ""),
      make("span", { class: "brief" }, check[REASON]),
      make("span", { class: "status v-" + check[STATUS] }, WORDS[check[STATUS]])));
  // Filled when it is opened: a node has some sixty of them.
  const fill = () => {
    if (details.childElementCount > 1) return;
    details.append(checkBody(check, hosts));
  };
  details.addEventListener("toggle", fill);
  if (open) fill();
  return details;
}

function checkBody(check, hosts) {
  const pair = (name, value) => value !== null && [make("dt", null, name),
    typeof value === "string" ? make("dd", null, value) : make("dd", { class: "data" }, valueText(value))];
  return make("div", { class: "body" },
    make("p", null, check[REASON]),
    check[STATUS] === "unknown" && !check[BLOCKING]
      && make("p", { class: "quiet" }, "Being unknown, it degrades the node; it does not keep it from serving."),
    make("dl", { class: "pairs" }, pair("seen", check[OBSERVED]), pair("required", check[REQUIRED])),
    check[EVIDENCE].length > 0 && make("ul", { class: "evidence", "aria-label": "Evidence" },
      check[EVIDENCE].map(([source, line]) => make("li", null, make("cite", null, source), line && make("code", null, line)))),
    cure(check[REMEDY], hosts));
}
