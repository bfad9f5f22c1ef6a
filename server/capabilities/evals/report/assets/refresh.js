// A page of running work shows new results by itself; what a reader has opened or closed stays so.
const { body } = document;
const running = "running" in body.dataset;
const wait = Number(body.dataset.refresh) * 1000;
if (running || served) {
  const opened = JSON.parse(recall("opened") || "{}");
  [...document.querySelectorAll("details")].forEach((fold, place) => {
    const key = fold.dataset.key || `${place}:${fold.querySelector("summary").textContent}`;
    if (key in opened) fold.open = opened[key];
    fold.addEventListener("toggle", () => { opened[key] = fold.open; remember("opened", JSON.stringify(opened)); });
  });
}

let paused = recall("paused") === "yes";
const button = document.getElementById("pause");
if (button) {
  const show = () => { button.setAttribute("aria-pressed", String(paused)); };
  button.hidden = false;
  show();
  button.addEventListener("click", () => { paused = !paused; remember("paused", paused ? "yes" : "no"); show(); });
}
const busy = () => paused || edited.size || document.hidden || ["TEXTAREA", "INPUT", "SELECT"].includes(document.activeElement?.tagName)
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
if (running || served) { if (served || stale()) look(); else setTimeout(look, wait); }
