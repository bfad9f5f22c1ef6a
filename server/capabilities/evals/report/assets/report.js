"use strict";
(() => {
  const body = document.body;
  const served = "served" in body.dataset;
  const running = "running" in body.dataset;
  const wait = Number(body.dataset.refresh) * 1000;
  const edited = new Set();
  const opened = `opened:${location.pathname}`;
  const remember = (key, value) => { try { sessionStorage.setItem(key, value); } catch { /* a page from disk may not */ } };
  const recall = (key) => { try { return sessionStorage.getItem(key); } catch { return null; } };

  // What a reader has opened or closed stays so when the page refreshes itself.
  const folds = [...document.querySelectorAll("details")];
  if (running || served) {
    const known = JSON.parse(recall(opened) || "{}");
    folds.forEach((fold, place) => {
      const key = `${place}:${fold.querySelector("summary").textContent}`;
      if (key in known) fold.open = known[key];
      fold.addEventListener("toggle", () => {
        known[key] = fold.open;
        remember(opened, JSON.stringify(known));
      });
    });
  }

  for (const form of document.querySelectorAll("form.feedback")) {
    const area = form.querySelector("textarea");
    const status = form.querySelector(".saved");
    const replace = form.querySelector(".replace");
    let other = "";
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
          body: JSON.stringify({ case: form.dataset.case, feedback: words, version: form.dataset.version, outputs: form.dataset.outputs }),
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
        form.dataset.version = said.version;
        if (area.value === words) { edited.delete(form); say("Saved.", false); }
      } catch (error) {
        say(`Not saved: ${error.message}. Is skillserve report --open still running?`, true);
      }
    });
    replace.addEventListener("click", () => { form.dataset.version = other; form.requestSubmit(); });
  }
  addEventListener("beforeunload", (event) => { if (edited.size) event.preventDefault(); });

  if (!running && !served) return;
  let paused = recall("paused") === "yes";
  const button = document.getElementById("pause");
  if (button) {
    const show = () => { button.setAttribute("aria-pressed", String(paused)); };
    button.hidden = false;
    show();
    button.addEventListener("click", () => { paused = !paused; remember("paused", paused ? "yes" : "no"); show(); });
  }
  const busy = () => paused || edited.size || document.hidden || document.activeElement?.tagName === "TEXTAREA"
    || String(getSelection()) !== "";
  let before = null;
  // A killed process leaves a page that says it runs.
  const stale = () => Math.abs(Date.now() / 1000 - body.dataset.made) > body.dataset.stale;
  const look = async () => {
    if (!served && stale()) {
      document.getElementById("state").textContent = "Not updated any more: the work was interrupted.";
      if (button) button.hidden = true;
      return;
    }
    if (!busy()) {
      if (!served) { location.reload(); return; }
      try {
        const now = (await (await fetch("state", { cache: "no-store" })).json()).state;
        if (before !== null && now !== before) { location.reload(); return; }
        before = now;
      } catch { /* The server has ended; what is shown stays. */ }
    }
    setTimeout(look, wait);
  };
  if (served || stale()) look(); else setTimeout(look, wait);
})();
