// Making elements. Children that are strings become text nodes: there is no way to markup from here.
function make(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "onclick") element.addEventListener("click", value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(2).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

function byId(id) {
  return document.getElementById(id);
}

// The picture of a verdict or status: a shape of its own each, beside the colour.
function icon(word) {
  const space = "http://www.w3.org/2000/svg";
  const picture = document.createElementNS(space, "svg");
  picture.setAttribute("class", "icon v-" + word);
  picture.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(space, "use");
  use.setAttribute("href", "#i-" + ICONS[word]);
  picture.append(use);
  return picture;
}

function badge(word) {
  return make("span", { class: "badge v-" + word }, icon(word), WORDS[word]);
}

// A button that puts text on the clipboard, and says so. Without a clipboard the text is selected, to be copied by hand.
function copyButton(label, text, from) {
  const button = make("button", { type: "button", class: "copy" }, label);
  button.addEventListener("click", async () => {
    const given = typeof text === "function" ? text() : text;
    let said = "Copied";
    try {
      await navigator.clipboard.writeText(given);
    } catch (refused) {
      said = from ? "Selected: copy it" : "Cannot copy here";
      if (from) getSelection().selectAllChildren(from);
    }
    button.textContent = said;
    setTimeout(() => { button.textContent = label; }, 2000);
  });
  return button;
}

function commandLine(where, command) {
  const code = make("code", null, command);
  return make("div", { class: "command" }, make("span", { class: "where" }, where), code, copyButton("Copy", command, code));
}
