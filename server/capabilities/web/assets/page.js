"use strict";
(() => {
  document.documentElement.classList.add("scripted");
  const byId = (id) => document.getElementById(id);
  let asked = 0;

  // What a reader has opened stays open, and what has the focus keeps it, when a part of the page is shown anew.
  const replace = (before, after) => {
    if (before.isEqualNode(after)) return;
    const opened = new Set([...before.querySelectorAll("details[open] > summary")].map((each) => each.textContent));
    const focused = before.contains(document.activeElement) ? document.activeElement : null;
    const named = focused && { href: focused.getAttribute("href"), id: focused.id };
    for (const fold of after.querySelectorAll("details")) {
      if (opened.has(fold.querySelector("summary")?.textContent)) fold.open = true;
    }
    before.replaceWith(after);
    if (!named) return;
    const again = (named.id && byId(named.id))
      || (named.href && [...after.querySelectorAll("a")].find((each) => each.getAttribute("href") === named.href));
    if (again) again.focus({ preventScroll: true });
  };

  const show = async (address) => {
    const number = ++asked;
    const answer = await fetch(address, { headers: { Accept: "text/html" }, cache: "no-store" });
    if (number !== asked) return;
    if (answer.status === 401) { location.reload(); return; }
    // What is shown stays until the server can show it anew.
    if (answer.status >= 500) throw new Error(`HTTP ${answer.status}`);
    const shown = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (number !== asked) return;
    for (const before of document.querySelectorAll("[data-live]")) {
      const after = shown.getElementById(before.id);
      // A skill that is gone has another page, which says so.
      if (after) replace(before, document.adoptNode(after));
      else { byId("main").replaceChildren(...shown.querySelectorAll("main > *")); return; }
    }
  };

  const search = byId("search");
  if (search) {
    const words = byId("q");
    let wait = 0;
    const look = () => {
      const values = new URLSearchParams([...new FormData(search)].filter(([name, value]) => value && !(name === "order" && value === "name")));
      const address = values.size ? `/?${values}` : "/";
      history.replaceState(null, "", address);
      show(address).catch(() => {});
    };
    words.addEventListener("input", () => { clearTimeout(wait); wait = setTimeout(look, 80); });
    search.addEventListener("change", (event) => { if (event.target !== words) look(); });
    search.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(wait); look(); });
    addEventListener("keydown", (event) => {
      const typing = event.target.closest("input, select, textarea");
      if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault();
        words.focus();
        words.select();
      }
      if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
      const links = [...document.querySelectorAll(".skill h2 a")];
      const at = links.indexOf(document.activeElement);
      if (at < 0 && event.target !== words) return;
      event.preventDefault();
      if (event.key === "ArrowUp" && at === 0) words.focus();
      else links[Math.max(0, Math.min(links.length - 1, at + (event.key === "ArrowDown" ? 1 : -1)))]?.focus();
    });
  }

  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(byId(button.dataset.copy).textContent);
      const words = button.textContent;
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = words; }, 1500);
    });
  }

  const live = byId("live");
  if (!live || !document.querySelector("[data-live]")) return;
  // The kinds of activity that a part of the page shows; others follow the skills alone.
  const kinds = document.querySelector("[data-live]").dataset.live;
  let events = null;
  const say = (words, kind) => { live.textContent = words; live.className = `live ${kind}`; };
  let again = 0;
  const renew = () => show(location.pathname + location.search).catch(() => {
    clearTimeout(again);
    again = setTimeout(() => { if (!document.hidden) renew(); }, 5000);
  });
  const listen = () => {
    let missed = events !== null;
    events?.close();
    events = new EventSource(kinds ? `/page/events?of=${encodeURIComponent(kinds)}` : "/page/events");
    events.addEventListener("open", () => {
      say("Live", "on");
      // Whatever has changed while nobody listened.
      if (missed) renew();
      missed = true;
    });
    events.addEventListener("change", renew);
    events.addEventListener("error", () => {
      say("Not connected", "off");
      // A browser gives up on an answer that is an error, as when the session has ended, which the page says then.
      if (events.readyState !== EventSource.CLOSED) return;
      renew();
      setTimeout(() => { if (!document.hidden) listen(); }, 3000);
    });
  };
  // Browsers allow few connections to a server, so a page that nobody sees has none.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) events?.close();
    else listen();
  });
  if (!document.hidden) listen();
})();
