// The list of cases: filtered, ordered and searched; the choice stays while the page refreshes itself.
const remember = (key, value) => { try { sessionStorage.setItem(`${key}:${location.pathname}`, value); } catch { /* a page from disk may not */ } };
const recall = (key) => { try { return sessionStorage.getItem(`${key}:${location.pathname}`); } catch { return null; } };
const filter = document.getElementById("filter");
const cases = [...document.querySelectorAll("#case-list > details")];

const openAt = (hash) => {
  const fold = hash.startsWith("#case-") ? document.getElementById(hash.slice(1)) : null;
  if (!fold) return;
  if (fold.hidden) filter.reset();
  fold.open = true;
  fold.scrollIntoView();
  fold.querySelector("summary").focus();
};
addEventListener("hashchange", () => openAt(location.hash));
// A second click on a link to the same case goes there too.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href^='#case-']");
  if (link && link.hash === location.hash) openAt(link.hash);
});

const startFilter = () => {
  const list = document.getElementById("case-list"), found = document.getElementById("found");
  const field = filter.elements;
  const plain = (text) => text.toLowerCase().replace(/\s+/g, " ");
  const texts = new Map(cases.map((fold) => [fold, plain(`${fold.querySelector("h3").textContent}\n${fold.dataset.text}`)]));
  const deep = new Map();
  let turn = 0;

  const inArms = (fold, state, arm) => {
    const states = fold.dataset.states.split("|");
    return (arm === "" ? states : [states[arm] || ""]).some((each) => each.split(" ").includes(state));
  };
  const fits = (fold) => {
    const wanted = field.verdict.value;
    if (!wanted) return field.arm.value === "" || (fold.dataset.states.split("|")[field.arm.value] || "ungraded") !== "ungraded";
    return fold.dataset.outcome === wanted || inArms(fold, wanted, field.arm.value);
  };
  const words = () => plain(field.words.value.trim());
  const holds = (fold) => texts.get(fold).includes(words()) || (deep.get(fold) || "").includes(words());

  const say = (more) => {
    const shown = cases.filter((fold) => !fold.hidden).length;
    found.textContent = (shown === cases.length ? `All ${plural(cases.length, "case")}.` : `${shown} of ${plural(cases.length, "case")}.`) + more;
  };
  const show = async () => {
    const mine = turn += 1;
    remember("filter", JSON.stringify(Object.fromEntries(["words", "verdict", "arm", "order"].map((name) => [name, field[name].value]))));
    for (const fold of cases) fold.hidden = !(fits(fold) && holds(fold));
    say("");
    if (!field.deep.checked || !words()) return;
    let place = 0;
    for (const fold of cases) {
      place += 1;
      if (!deep.has(fold)) {
        try { deep.set(fold, plain((await flat(fold)).join("\n"))); } catch { continue; }
      }
      if (mine !== turn) return;
      fold.hidden = !(fits(fold) && holds(fold));
      if (place % 20 === 0) say(` Searched ${place}…`);
    }
    say("");
  };
  const flat = async (fold) => {
    const lines = [];
    const walk = (value) => {
      if (typeof value === "string") { if (!value.startsWith("data:image/")) lines.push(value); }
      else if (value && typeof value === "object") Object.values(value).forEach(walk);
    };
    walk(await read(fold));
    return lines;
  };

  const order = () => {
    const key = field.order.value;
    const number = (fold) => fold.dataset[key] === undefined ? -Infinity : Number(fold.dataset[key]);
    const name = (fold) => fold.querySelector("h3").textContent;
    const rising = key === "rank" || key === "place";
    const sorted = [...cases].sort((one, two) => key === "name" ? name(one).localeCompare(name(two), "en", { numeric: true })
      : (rising ? 1 : -1) * (number(one) - number(two)) || one.dataset.rank - two.dataset.rank);
    const focused = document.activeElement;
    list.append(...sorted);
    if (list.contains(focused)) focused.focus();
  };

  const before = JSON.parse(recall("filter") || "{}");
  for (const [name, value] of Object.entries(before)) if (field[name]) field[name].value = value;
  if (Object.keys(before).length) { order(); show(); }
  filter.hidden = false;
  say("");
  filter.addEventListener("input", show);
  field.order.addEventListener("change", order);
  filter.addEventListener("reset", () => setTimeout(() => { order(); show(); }));
  filter.addEventListener("submit", (event) => {
    event.preventDefault();
    cases.filter((fold) => !fold.hidden).sort((one, two) => one.compareDocumentPosition(two) & 2 ? 1 : -1)[0]?.querySelector("summary").focus();
  });

  list.addEventListener("keydown", (event) => {
    const fold = event.target.closest("summary")?.parentElement;
    if (!fold || !cases.includes(fold) || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "/") { event.preventDefault(); field.words.focus(); return; }
    const shown = [...list.children].filter((each) => !each.hidden), place = shown.indexOf(fold);
    const next = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: shown.length - 1 }[event.key];
    if (next === undefined || !shown[next]) return;
    event.preventDefault();
    shown[next].querySelector("summary").focus();
  });
};
if (filter && cases.length) startFilter();
openAt(location.hash);
