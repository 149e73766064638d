// What cures something, as a person reads it and copies it.

// More names than this make no command line that anybody wants to read.
const NAMES_IN_A_COMMAND = 30;

function shellWord(text) {
  return /^[A-Za-z0-9._:,@+\/-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'";
}

function cureText(remedy) {
  return remedy[ACTION] + (remedy[DISRUPTIVE] === "none" ? "" : " (" + remedy[DISRUPTIVE] + ")");
}

// The sentence, how much it disturbs, and the line to copy where there is one. hosts: for whom.
function cure(place, hosts) {
  if (place < 0) return null;
  const remedy = report.remedies[place];
  const disturbs = remedy[DISRUPTIVE] !== "none" && make("span", { class: "disruptive" }, remedy[DISRUPTIVE]);
  const sentence = make("p", { class: "cure" }, make("b", null, "Cure "), remedy[ACTION], " ", disturbs);
  if (remedy[PLAYBOOK]) {
    const limit = hosts.length && hosts.length <= NAMES_IN_A_COMMAND ? " --limit " + shellWord(hosts.join(",")) : "";
    const sources = report.inventory.map((source) => " -i " + shellWord(source)).join("");
    const tags = remedy[TAG] ? " --tags " + remedy[TAG] : "";
    return [sentence, commandLine("run here", "ansible-playbook " + remedy[PLAYBOOK] + sources + limit + tags)];
  }
  return [sentence, remedy[COMMAND] && commandLine("as root on the node", remedy[COMMAND])];
}
