// Elements are made of texts by methods of the DOM: nothing that a run wrote is ever parsed as markup.
const some = (content) => [content].flat(Infinity).filter((each) => each !== null && each !== undefined && each !== "");
const make = (name, attributes, ...content) => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...some(content));
  return element;
};
const foreign = (name, words, attributes) => make(name, { dir: "auto", ...attributes }, words);
const note = (words) => words ? make("p", { class: "note", dir: "auto" }, words) : null;
const badge = (kind, words) => make("span", { class: `badge ${kind}` }, words);
const quoted = (title, words) => words ? [make("h4", null, title), foreign("blockquote", words)] : [];
const scrolled = (label, content, kind = "pre") =>
  make(kind, { dir: "auto", tabindex: "0", role: "region", "aria-label": label }, content);
const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

// What is folded is made when a reader opens it, so that a page has few elements.
const folded = (summary, content, open = false) => {
  const fold = make("details", null, make("summary", null, summary));
  const fill = () => {
    if (!fold.open || fold.childElementCount > 1) return;
    fold.append(...some(content()));
  };
  fold.addEventListener("toggle", fill);
  fold.open = open;
  fill();
  return fold;
};

const table = (caption, heads, rows) => make(
  "div", { class: "scrolled table", tabindex: "0", role: "region", "aria-label": `Table: ${caption}` },
  make("table", null, make("caption", { dir: "auto" }, caption),
    make("thead", null, make("tr", null, heads.map((head) => make("th", { scope: "col", dir: "auto" }, head)))),
    make("tbody", null, rows)));
const row = (head, ...cells) => make("tr", null, make("th", { scope: "row", dir: "auto" }, head), cells);
