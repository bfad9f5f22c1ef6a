// The outputs of two runs side by side, and what differs in their texts. The work is bounded: texts that differ in too
// much are shown as they are.
const MOST_CELLS = 4000000;
const FEW_LINES = 8;
const CONTEXT = 3;

// Return the longest common subsequence of two lists as stretches {kept, old, fresh}; null if it takes too long.
const stretches = (old, fresh) => {
  let start = 0, end = 0;
  const least = Math.min(old.length, fresh.length);
  while (start < least && old[start] === fresh[start]) start += 1;
  while (end < least - start && old[old.length - 1 - end] === fresh[fresh.length - 1 - end]) end += 1;
  const ours = old.slice(start, old.length - end), theirs = fresh.slice(start, fresh.length - end);
  if ((ours.length + 1) * (theirs.length + 1) > MOST_CELLS) return null;
  const width = theirs.length + 1, common = new Uint16Array((ours.length + 1) * width);
  for (let i = ours.length - 1; i >= 0; i -= 1) {
    for (let j = theirs.length - 1; j >= 0; j -= 1) {
      common[i * width + j] = ours[i] === theirs[j] ? common[(i + 1) * width + j + 1] + 1
        : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
    }
  }
  const found = [];
  const add = (kept, mine, other) => {
    const last = found[found.length - 1];
    if (last && last.kept === kept) { last.old.push(...mine); last.fresh.push(...other); }
    else found.push({ kept, old: [...mine], fresh: [...other] });
  };
  for (const each of old.slice(0, start)) add(true, [each], [each]);
  let i = 0, j = 0;
  while (i < ours.length || j < theirs.length) {
    if (i < ours.length && j < theirs.length && ours[i] === theirs[j]) { add(true, [ours[i]], [theirs[j]]); i += 1; j += 1; }
    else if (j < theirs.length && (i === ours.length || common[i * width + j + 1] > common[(i + 1) * width + j])) {
      add(false, [], [theirs[j]]); j += 1;
    } else { add(false, [ours[i]], []); i += 1; }
  }
  for (const each of old.slice(old.length - end)) add(true, [each], [each]);
  return found;
};

// Mark the words that differ within changed lines; whole lines if there is little in common.
const marked = (before, after) => {
  const words = (text) => text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) || [];
  const found = stretches(words(before), words(after));
  const kept = found ? found.filter((each) => each.kept).reduce((sum, each) => sum + each.old.join("").length, 0) : 0;
  if (!found || kept * 3 < Math.max(before.length, after.length)) return [[make("del", null, before)], [make("ins", null, after)]];
  const side = (name, tag) => found.filter((each) => each[name].length)
    .map((each) => each.kept ? each[name].join("") : make(tag, null, each[name].join("")));
  return [side("old", "del"), side("fresh", "ins")];
};

const pair = (kind, left, right, names) => make("div", { class: `hunk ${kind}` },
  make("pre", { dir: "auto" }, kind === "changed" ? make("span", { class: "hidden" }, `${names[0]}: `) : null, left),
  make("pre", { dir: "auto", "aria-hidden": kind === "kept" ? "true" : null },
    kind === "changed" ? make("span", { class: "hidden" }, `${names[1]}: `) : null, right));

const keptLines = (lines, isFirst, isLast, names) => {
  const above = isFirst ? 0 : CONTEXT, below = isLast ? 0 : CONTEXT;
  const whole = () => pair("kept", lines.join("\n"), lines.join("\n"), names);
  if (lines.length <= Math.max(FEW_LINES, above + below + 1)) return [whole()];
  const near = (part) => part.length ? [pair("kept", part.join("\n"), part.join("\n"), names)] : [];
  const rest = lines.slice(above, lines.length - below);
  const more = make("button", { type: "button", class: "more" }, `Show ${plural(rest.length, "equal line")}`);
  more.addEventListener("click", () => {
    const shown = pair("kept", rest.join("\n"), rest.join("\n"), names);
    more.replaceWith(shown);
    shown.tabIndex = -1;
    shown.focus();
  });
  return [...near(lines.slice(0, above)), more, ...near(below ? lines.slice(-below) : [])];
};

const differing = (before, after, names, label) => {
  const found = stretches(before.split("\n"), after.split("\n"));
  if (!found) {
    return [note("Too different to be compared line by line."), make("div", { class: "hunk" }, scrolled(`${label} of ${names[0]}`, before), scrolled(`${label} of ${names[1]}`, after))];
  }
  const hunks = found.map((each, place) => {
    if (each.kept) return keptLines(each.old, place === 0, place === found.length - 1, names);
    const [left, right] = marked(each.old.join("\n"), each.fresh.join("\n"));
    return [pair("changed", left, right, names)];
  });
  return [make("div", { class: "compared", tabindex: "0", role: "region", "aria-label": `${label}, compared` }, hunks.flat())];
};

const imageOf = (file) => {
  const content = file.content.startsWith("data:image/") ? file.content : packed.get(file.content) || "";
  return content.startsWith("data:image/") ? content : "";
};

const fileShown = (file, owner) => {
  if (!file) return note("Not written.");
  const label = `${file.name} of ${owner}`;
  if (file.kind === "image" && file.content) {
    return make("img", { src: imageOf(file), alt: `Image ${label}`, decoding: "async" });
  }
  return make("div", null, file.kind === "text" && file.content ? scrolled(label, file.content) : null,
    file.kind !== "text" && file.digest ? foreign("p", file.digest, { class: "digest" }) : null, note(file.note));
};

const fileCompared = (left, right, names, marks, owner) => {
  const both = left && right && left.kind === "text" && right.kind === "text";
  if (both && left.content === right.content && !left.note && !right.note) {
    return [note("Equal in both."), scrolled(`${left.name} of ${owner}`, left.content)];
  }
  if (both && marks) {
    return [...differing(left.content, right.content, names, `${left.name} of ${owner}`),
      ...[...new Set([left.note, right.note])].map(note)];
  }
  if (left && right && left.digest && left.digest === right.digest) return [note("Equal in both."), fileShown(left, `${owner}, ${names[0]}`)];
  return [make("div", { class: "hunk" }, fileShown(left, `${owner}, ${names[0]}`), fileShown(right, `${owner}, ${names[1]}`))];
};

const runTitle = (value, run) => `${value.arms[run.arm]}, run ${run.number}`;

// The outputs of one run, or of two that a reader chooses, at first one of each arm.
const outputsOf = (value, id) => {
  const runs = value.runs.filter((run) => run.files.length || run.notes.length);
  if (!runs.length) return [];
  const first = (arm) => runs.findIndex((run) => run.arm === arm);
  let [left, right] = [first(value.baseline), runs.findIndex((run) => run.arm !== value.baseline)];
  if (left < 0 || right < 0) [left, right] = [0, Math.min(1, runs.length - 1)];
  const chooser = (words, place) => make("label", null, `${words} `, make("select", null, runs.map((run, number) =>
    make("option", { value: number, selected: number === place }, runTitle(value, run)))));
  const [from, to] = [chooser("Left", left), chooser("Right", right)];
  const marks = make("input", { type: "checkbox" });
  marks.checked = true;
  const area = make("div", { id: `${id}-outputs` });
  const show = () => {
    const chosen = [from, to].map((label) => runs[label.querySelector("select").value]);
    const titles = chosen.map((run) => runTitle(value, run));
    const names = [...new Set(chosen.flatMap((run) => run.files.map((file) => file.name)))];
    area.replaceChildren(
      make("div", { class: "hunk heads", "aria-hidden": "true" }, titles.map((title) => foreign("strong", title))),
      ...names.map((name, place) => {
        const [ours, theirs] = chosen.map((run) => run.files.find((file) => file.name === name));
        const sizes = [ours, theirs].map((file) => file ? file.size : "—").join(" / ");
        return folded([foreign("code", name), make("span", { class: "note" }, ` ${sizes}`)],
          () => fileCompared(ours, theirs, titles, marks.checked, value.name), place < 2);
      }),
      ...(names.length ? [] : [note("No files.")]),
      make("div", { class: "hunk" }, chosen.map((run) => make("ul", { class: "note" },
        run.notes.map((each) => foreign("li", each))))));
  };
  for (const each of [from, to, marks]) each.addEventListener("change", show);
  show();
  const controls = make("p", { class: "filter" }, from, " ", to, " ", make("label", { class: "check" }, marks, " Mark differences"));
  return [make("h4", null, "Outputs"), runs.length > 1 ? controls : null, area];
};
