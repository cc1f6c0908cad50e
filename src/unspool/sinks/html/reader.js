"use strict";
// What a page of one conversation and the page of the server share: moving about, filters, folds, the
// sidebar, keys. `units` may be asked again and again: messages may come later.
function makeReader(keysOfPage, onFilter) {
  const BUDGET_MS = 12; // no task may be long: what takes longer goes on in the next one
  const $ = (id) => document.getElementById(id);
  const main = $("main"), nav = $("turns"), menu = $("menu"), help = $("help"), expand = $("expand");
  const units = () => [...main.querySelectorAll(".unit")];
  const runs = new Map();

  // Does `step` for every item, a slice at a time; a new run of the same name ends the old one.
  function slices(name, items, step, done) {
    const run = Symbol(name);
    runs.set(name, run);
    let at = 0;
    const go = () => {
      if (runs.get(name) !== run) return;
      const end = performance.now() + BUDGET_MS;
      while (at < items.length && performance.now() < end) step(items[at++]);
      if (at < items.length) setTimeout(go);
      else if (done) done();
    };
    go();
  }
  const stop = (name) => runs.delete(name);

  /* moving about */
  const onScreen = (unit) => {
    const box = unit.getBoundingClientRect();
    return box.bottom > 0 && box.top < innerHeight;
  };
  // The message that the reader is at: the focused one, or after scrolling the one at the top.
  function place() {
    const focused = document.activeElement?.closest(".unit");
    if (focused && onScreen(focused)) return focused;
    const box = main.getBoundingClientRect();
    return document.elementFromPoint(box.left + box.width / 2, $("bar").getBoundingClientRect().bottom + 24)?.closest(".unit");
  }
  function go(unit) {
    unit.scrollIntoView({ block: "start" });
    unit.focus({ preventScroll: true });
  }
  // Whether there was somewhere to go.
  function step(direction, wanted) {
    const all = units();
    for (let at = all.indexOf(place()) + direction; at >= 0 && at < all.length; at += direction) {
      if (wanted(all[at]) && all[at].checkVisibility()) { go(all[at]); return true; }
    }
    return false;
  }
  function reveal(target) {
    for (let box = target.parentElement; box; box = box.parentElement) if (box.localName === "details") box.open = true;
    if (target.localName === "details") target.open = true;
    const unit = target.closest(".unit") || target;
    if (!unit.checkVisibility()) {
      for (const chip of chips) if (unit.closest("." + chip.dataset.filter)) press(chip, true);
      if (!unit.checkVisibility()) for (const chip of chips) press(chip, true);
    }
  }
  function show(target) {
    reveal(target);
    target.scrollIntoView({ block: "start" });
    const unit = target.closest(".unit") || target.querySelector(".unit");
    (unit || target).focus({ preventScroll: true });
  }

  /* filters */
  const chips = [...document.querySelectorAll("[data-filter]")];
  function press(chip, on) {
    chip.setAttribute("aria-pressed", String(on));
    main.classList.toggle("no-" + chip.dataset.filter, !on);
  }
  const pressed = (chip) => chip.getAttribute("aria-pressed") === "true";
  for (const chip of chips) {
    chip.addEventListener("click", (event) => {
      const alone = chips.every((other) => pressed(other) === (other === chip));
      if (!event.shiftKey) press(chip, !pressed(chip));
      else for (const other of chips) press(other, alone || other === chip);
      onFilter();
    });
  }

  /* expand all */
  function unfold() {
    const open = expand.getAttribute("aria-pressed") !== "true";
    expand.setAttribute("aria-pressed", String(open));
    expand.textContent = open ? "Collapse all" : "Expand all";
    slices("unfold", [...main.querySelectorAll("details")], (box) => { if (box.open !== open) box.open = open; });
  }
  expand.addEventListener("click", unfold);

  /* the sidebar */
  const narrow = matchMedia("(max-width: 62rem)");
  function drawer(open) {
    nav.classList.toggle("open", open);
    menu.setAttribute("aria-expanded", String(open));
    nav.inert = narrow.matches && !open;
  }
  menu.addEventListener("click", () => {
    drawer(!nav.classList.contains("open"));
    const link = nav.inert ? null : nav.querySelector("a[aria-current]") || nav.querySelector("a");
    link?.scrollIntoView({ block: "center" });
    link?.focus({ preventScroll: true });
  });
  nav.addEventListener("click", (event) => { if (event.target.closest("a")) drawer(false); });
  main.addEventListener("click", () => { if (nav.classList.contains("open")) drawer(false); });
  narrow.addEventListener("change", () => drawer(false));
  drawer(false);
  let here = null;
  const seen = new Set();
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) entry.isIntersecting ? seen.add(entry.target) : seen.delete(entry.target);
    const first = [...seen].sort((a, b) => a.compareDocumentPosition(b) & 4 ? -1 : 1)[0];
    const link = first && nav.querySelector(`a[href="#${CSS.escape(first.dataset.turn || first.id)}"]`);
    if (!link || link === here) return;
    here?.removeAttribute("aria-current");
    (here = link).setAttribute("aria-current", "true");
    if (!nav.matches(":hover")) link.scrollIntoView({ block: "nearest" });
  }, { rootMargin: "-80px 0px -55% 0px" });

  /* keys */
  $("keys").addEventListener("click", () => help.showModal());
  $("close-help").addEventListener("click", () => help.close());
  const keys = {
    j: () => step(1, () => true),
    k: () => step(-1, () => true),
    n: () => step(1, (unit) => unit.matches(".message.user")),
    p: () => step(-1, (unit) => unit.matches(".message.user")),
    e: () => step(1, (unit) => unit.classList.contains("error")),
    o: () => { const box = place()?.querySelector("details"); if (box) box.open = !box.open; },
    x: unfold,
    "?": () => help.showModal(),
    Escape: () => drawer(false),
    ...keysOfPage,
  };
  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") || event.target.closest("input, select, textarea")) return;
    const act = keys[event.key];
    if (act) { event.preventDefault(); act(); }
  }
  document.addEventListener("keydown", onKey);
  return { main, nav, units, slices, stop, step, show, reveal, chips, pressed, press, drawer, watch,
    end: () => { document.removeEventListener("keydown", onKey); watch.disconnect(); } };
}
