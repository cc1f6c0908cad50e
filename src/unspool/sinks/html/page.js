"use strict";
(() => {
  const BUDGET_MS = 12; // no task may be long: what takes longer goes on in the next one
  const $ = (id) => document.getElementById(id);
  const main = $("main"), search = $("search"), found = $("found"), nav = $("turns"), menu = $("menu");
  const units = [...main.querySelectorAll(".unit")];
  const turns = [...main.querySelectorAll("main > .turn")];
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
  const visible = (unit) => unit.checkVisibility();
  const onScreen = (unit) => {
    const box = unit.getBoundingClientRect();
    return box.bottom > 0 && box.top < innerHeight;
  };
  // The message that the reader is at: the focused one, or after scrolling the one at the top.
  function place() {
    const focused = document.activeElement?.closest(".unit");
    if (focused && onScreen(focused)) return units.indexOf(focused);
    const box = main.getBoundingClientRect();
    const seen = document.elementFromPoint(box.left + box.width / 2, $("bar").offsetHeight + 24);
    return units.indexOf(seen?.closest(".unit"));
  }
  function go(unit) {
    unit.scrollIntoView({ block: "start" });
    unit.focus({ preventScroll: true });
  }
  function step(direction, wanted) {
    let at = place();
    for (at += direction; at >= 0 && at < units.length; at += direction) {
      if (wanted(units[at]) && visible(units[at])) return go(units[at]);
    }
  }
  function reveal(target) {
    for (let box = target.parentElement; box; box = box.parentElement) if (box.localName === "details") box.open = true;
    if (target.localName === "details") target.open = true;
    const unit = target.closest(".unit") || target;
    if (!unit.checkVisibility()) {
      if (search.value) { search.value = ""; seek(); }
      for (const chip of chips) if (unit.closest("." + chip.dataset.filter)) press(chip, true);
      if (!unit.checkVisibility()) for (const chip of chips) press(chip, true);
    }
  }
  function follow() {
    const target = location.hash.length > 1 && $(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
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
      if (search.value) seek();
    });
    const count = main.querySelectorAll({ reasoning: ".reasoning", user: ".message.user", assistant: ".message.assistant" }[chip.dataset.filter] || ".unit." + chip.dataset.filter).length;
    if (count) chip.append(" ", Object.assign(document.createElement("b"), { textContent: count }));
    chip.disabled = !count && chip.dataset.filter !== "injected";
  }

  /* search: words are looked for in every message, those without them are hidden */
  const texts = new Map();
  const text = (unit) => {
    let known = texts.get(unit);
    if (known === undefined) texts.set(unit, (known = unit.textContent.toLowerCase()));
    return known;
  };
  let matches = [], match = -1;
  const marks = window.CSS && CSS.highlights && window.Highlight ? new Highlight() : null;
  const mark = marks && new Highlight();
  if (marks) { CSS.highlights.set("found", marks); CSS.highlights.set("current", mark); mark.priority = 1; }
  function* ranges(unit, words) {
    const walker = document.createTreeWalker(unit, NodeFilter.SHOW_TEXT);
    for (let node; (node = walker.nextNode());) {
      const lower = node.data.toLowerCase();
      if (lower.length !== node.data.length) continue;
      for (let at = lower.indexOf(words); at >= 0; at = lower.indexOf(words, at + words.length)) {
        const range = document.createRange();
        range.setStart(node, at);
        range.setEnd(node, at + words.length);
        yield range;
      }
    }
  }
  function seek() {
    const words = search.value.trim().toLowerCase();
    matches = []; match = -1;
    if (marks) { marks.clear(); mark.clear(); }
    stop("marks");
    if (!words) {
      found.value = "";
      slices("seek", turns, (turn) => { turn.hidden = false; for (const unit of turn.querySelectorAll(".unit[hidden]")) unit.hidden = false; });
      return;
    }
    const inTurn = new Set();
    const off = chips.filter((chip) => !pressed(chip)).map((chip) => chip.dataset.filter);
    slices("seek", units, (unit) => {
      const hit = text(unit).includes(words) && !off.some((name) => unit.classList.contains(name));
      if (unit.hidden === hit) unit.hidden = !hit;
      if (!hit) return;
      matches.push(unit);
      inTurn.add(unit.closest("main > .turn"));
    }, () => {
      for (const turn of turns) if (turn.hidden === inTurn.has(turn)) turn.hidden = !inTurn.has(turn);
      // A match within a sub-agent is counted there, not once more in the call around it.
      matches = matches.filter((unit) => !unit.querySelector(".unit") || own(unit, words));
      found.value = matches.length ? `${matches.length} of ${units.length}` : "nothing found";
      window.scrollTo({ top: 0 });
      let count = 0;
      if (marks) slices("marks", matches, (unit) => {
        if (count > 2000) return;
        for (const range of ranges(unit, words)) { marks.add(range); if (++count > 2000) break; }
      });
    });
  }
  const own = (unit, words) => [...ranges(unit, words)].some((range) => range.startContainer.parentElement.closest(".unit") === unit);
  function next(direction) {
    if (!matches.length) return;
    const words = search.value.trim().toLowerCase();
    match = (match + direction + matches.length) % matches.length;
    const unit = matches[match];
    found.value = `${match + 1} of ${matches.length}`;
    if (mark) mark.clear();
    for (const range of ranges(unit, words)) {
      for (let box = range.startContainer.parentElement; box && box !== main; box = box.parentElement) if (box.localName === "details") box.open = true;
      if (mark) mark.add(range);
      break;
    }
    unit.scrollIntoView({ block: "start" });
  }
  let waiting = 0;
  search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(seek, 60); });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { event.preventDefault(); next(event.shiftKey ? -1 : 1); }
    if (event.key === "Escape") { search.value = ""; seek(); search.blur(); event.stopPropagation(); }
  });

  /* expand all */
  const expand = $("expand");
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
  const links = new Map([...nav.querySelectorAll("a")].map((link) => [link.getAttribute("href").slice(1), link]));
  let here = null;
  const seen = new Set();
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) entry.isIntersecting ? seen.add(entry.target) : seen.delete(entry.target);
    const first = turns.find((turn) => seen.has(turn));
    const link = first && links.get(first.id);
    if (!link || link === here) return;
    here?.removeAttribute("aria-current");
    (here = link).setAttribute("aria-current", "true");
    if (!nav.matches(":hover")) link.scrollIntoView({ block: "nearest" });
  }, { rootMargin: "-80px 0px -55% 0px" });
  for (const turn of turns) watch.observe(turn);

  /* keys */
  const help = $("help");
  $("keys").addEventListener("click", () => help.showModal());
  $("close-help").addEventListener("click", () => help.close());
  const keys = {
    j: () => step(1, () => true),
    k: () => step(-1, () => true),
    n: () => step(1, (unit) => unit.matches(".message.user")),
    p: () => step(-1, (unit) => unit.matches(".message.user")),
    e: () => step(1, (unit) => unit.classList.contains("error")),
    o: () => { const box = units[place()]?.querySelector("details"); if (box) box.open = !box.open; },
    x: unfold,
    "/": () => { search.focus(); search.select(); },
    "?": () => help.showModal(),
    Escape: () => drawer(false),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open || event.target.closest("input")) return;
    const act = keys[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  window.addEventListener("hashchange", follow);
  follow();
})();
