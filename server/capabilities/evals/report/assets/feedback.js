// The words of a person on a case; only a served page saves them.
const edited = new Set();

const feedbackOf = (value, fold) => {
  if (!served) {
    if (value.feedback === null) return [];
    return [make("h4", null, "Feedback"), value.feedback.trim() ? foreign("blockquote", value.feedback) : make("p", null, "Reviewed; it is fine.")];
  }
  const id = `${fold.id}-feedback`;
  const area = make("textarea", { dir: "auto", id, rows: "3", maxlength: "20000", "aria-describedby": `${id}-hint` });
  area.value = value.feedback || "";
  const status = make("p", { role: "status", class: "saved" }, value.feedback === null ? "" : "Reviewed.");
  const replace = make("button", { type: "button", class: "replace", hidden: true }, "Replace the other text");
  const form = make("form", { class: "feedback no-print", autocomplete: "off" },
    make("label", { for: id }, "Feedback on ", foreign("span", value.name)),
    make("p", { id: `${id}-hint` }, "What is wrong, and what you expected. Leave it empty if the case is fine."),
    area, make("button", { type: "submit" }, "Save feedback"), " ", replace, status);
  let version = value.version, other = "";
  const say = (words, bad) => { status.textContent = words; status.classList.toggle("bad", bad); };
  area.addEventListener("input", () => { edited.add(form); say("Not saved yet.", false); });
  area.addEventListener("change", () => { if (edited.has(form)) form.requestSubmit(); });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const words = area.value;
    say("Saving…", false);
    try {
      const answer = await fetch("feedback", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ case: value.key, feedback: words, version, outputs: value.outputs }),
      });
      const said = await answer.json();
      replace.hidden = answer.ok || said.version === undefined;
      if (!replace.hidden) {
        // Only this button may overwrite what another tab has saved.
        other = said.version;
        say(`Not saved: ${said.error}. It says: “${said.feedback}”`, true);
        return;
      }
      if (!answer.ok) throw new Error(said.error);
      version = said.version;
      if (area.value === words) { edited.delete(form); say("Saved.", false); }
    } catch (error) {
      say(`Not saved: ${error.message}. Is skillserve report --open still running?`, true);
    }
  });
  replace.addEventListener("click", () => { version = other; form.requestSubmit(); });
  return [form];
};
addEventListener("beforeunload", (event) => { if (edited.size) event.preventDefault(); });
