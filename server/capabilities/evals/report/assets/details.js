// The parts of the page: compressed in it, or of cases at the server that serves it. They are read when they are opened.
const served = "served" in document.body.dataset;
const packed = new Map(document.getElementById("parts").textContent.split("\n").map((line) => {
  const end = line.indexOf(" ");
  return [line.slice(0, end), line.slice(end + 1)];
}));
const known = new Map();

const unpacked = async (text) => {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
};

const asked = async (key) => {
  const answer = await fetch(`case?key=${encodeURIComponent(key)}`, { cache: "no-store" });
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.error);
  return value;
};

const read = (fold) => {
  const name = fold.dataset.part;
  if (!known.has(name)) {
    const isAsked = served && fold.dataset.key !== undefined;
    if (!isAsked && !packed.has(name)) throw new Error("There was no room for it in this file.");
    const found = isAsked ? asked(fold.dataset.key) : unpacked(packed.get(name));
    known.set(name, found);
    found.catch(() => known.delete(name));
  }
  return known.get(name);
};

const grade = (passed, total) => {
  const counts = total > 1 ? ` ${passed} of ${total}` : "";
  if (!total) return badge("none", "not graded");
  if (passed === total) return badge("good", `✓ pass${counts}`);
  return passed ? badge("mixed", `± flaky${counts}`) : badge("bad", `✗ fail${counts}`);
};

const gradeCell = (value, arm, place) => {
  const found = value.runs.filter((run) => run.arm === arm)
    .flatMap((run) => run.checks.filter((check) => check[0] === place).map((check) => ({ run, check })));
  const counted = found.filter(({ run }) => !run.failed);
  const said = found.filter(({ check }) => check[2]);
  return make("td", null, grade(counted.filter(({ check }) => check[1]).length, counted.length),
    said.length ? folded("Evidence", () => said.map(({ run, check }) => make("p", { class: "evidence" },
      make("strong", null, `Run ${run.number}, ${check[1] ? "pass" : "fail"}: `), foreign("span", check[2])))) : null);
};

const runCell = (run) => {
  if (!run) return make("td", null);
  if (run.failed) return make("td", null, badge("bad", run.state), foreign("span", ` ${run.error}`));
  return make("td", null, run.state === "pending" ? badge("none", "not finished") : run.said);
};

const gradesOf = (value) => {
  const arms = value.arms.map((_, arm) => arm);
  const numbers = [...new Set(value.runs.map((run) => run.number))];
  const grades = value.assertions.length ? [table(`Assertions of ${value.name}`, ["Assertion", ...value.arms],
    value.assertions.map((text, place) => row(text, arms.map((arm) => gradeCell(value, arm, place)))))]
    : [note(value.runs.length ? "No assertions are graded." : "Not started.")];
  const runs = value.runs.length ? [table(`Runs of ${value.name}`, ["Run", ...value.arms],
    numbers.map((number) => row(`Run ${number}`, arms.map((arm) =>
      runCell(value.runs.find((run) => run.arm === arm && run.number === number))))))] : [];
  return [...grades, ...runs];
};

const transcriptOf = (title, label, found) => folded(foreign("span", title), () => {
  const entries = (list) => list.map(([kind, words]) => make("li", null, foreign("span", kind, { class: "label" }), foreign("pre", words)));
  const left = found.left_out ? [make("li", { class: "left-out" },
    `${plural(found.left_out, "line")} ${found.left_out === 1 ? "is" : "are"} left out here; read `, foreign("code", found.path), ".")] : [];
  const list = make("ol", null, entries(found.head), left, entries(found.tail));
  return [make("div", { class: "scrolled transcript", tabindex: "0", role: "region", "aria-label": label }, list), note(found.note)];
});

const transcriptsOf = (value) => {
  const runs = value.runs.filter((run) => run.transcript);
  return runs.length ? [make("h4", null, "Transcripts"), ...runs.map((run) =>
    transcriptOf(runTitle(value, run), `Transcript of ${value.name}, ${runTitle(value, run)}`, run.transcript))] : [];
};

const comparisonOf = (value) => {
  const found = value.comparison;
  if (!found) return [];
  return [make("h4", null, "Blind comparison"), make("p", null, "Winner: ", foreign("strong", found.winner || "not said")),
    found.reasoning ? foreign("blockquote", found.reasoning) : null,
    found.rubric.length ? table(`Scores of ${value.name}`, ["Criterion", "A", "B"],
      found.rubric.map(([criterion, ...scores]) => row(criterion, scores.map((score) => foreign("td", score))))) : null,
    ...found.details.map(([name, words]) => note(`${name}: ${words}`))];
};

const shownOf = (value, fold) => {
  const cut = note(value.cut ? "Shortened to fit into one file; `skillserve report WORKSPACE --open` shows all of it." : "");
  if (value.kind === "query") {
    return [...value.runs.map((run) => transcriptOf(run.title, `Transcript of ${fold.querySelector("summary").textContent}, ${run.title}`, run.transcript)), cut];
  }
  return [...quoted("Prompt", value.prompt), ...quoted("Expected", value.expected), ...gradesOf(value),
    ...outputsOf(value, fold.id), ...transcriptsOf(value), ...comparisonOf(value),
    ...quoted("Feedback on the iteration before", value.earlier),
    ...quoted("Feedback on outputs that were replaced", value.replaced), ...feedbackOf(value, fold), cut];
};

const fill = async (fold) => {
  const area = fold.querySelector(":scope > .details");
  if (area.childElementCount || area.ariaBusy === "true") return;
  area.ariaBusy = "true";
  try {
    const value = await read(fold);
    area.replaceChildren(...some(shownOf(value, fold)));
  } catch (error) {
    area.replaceChildren(note(`This cannot be shown: ${error.message}`));
    fold.addEventListener("toggle", () => area.replaceChildren(), { once: true });
  }
  area.ariaBusy = "false";
};

for (const fold of document.querySelectorAll("details[data-part]")) {
  fold.addEventListener("toggle", () => { if (fold.open) fill(fold); });
}
