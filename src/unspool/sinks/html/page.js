"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const search = $("search"), found = $("found");
  const reader = makeReader({ "/": () => { search.focus(); search.select(); } }, () => { if (search.value) seek(); });
  const { main, slices, stop, chips, pressed } = reader;
  const units = reader.units();
  const turns = [...main.querySelectorAll("main > .turn")];
  for (const turn of turns) reader.watch.observe(turn);
  for (const chip of chips) {
    const count = main.querySelectorAll({ reasoning: ".reasoning", user: ".message.user", assistant: ".message.assistant" }[chip.dataset.filter] || ".unit." + chip.dataset.filter).length;
    if (count) chip.append(" ", Object.assign(document.createElement("b"), { textContent: count }));
    chip.disabled = !count && chip.dataset.filter !== "injected";
  }
  function follow() {
    const target = location.hash.length > 1 && $(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    if (search.value && !(target.closest(".unit") || target).checkVisibility()) { search.value = ""; seek(); }
    reader.show(target);
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

  window.addEventListener("hashchange", follow);
  follow();
})();
