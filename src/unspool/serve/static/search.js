// Search: as you type; a regular expression gives its hits as they are found.
import { ask, choosers, conversationLink, debounce, h, plural, Refused, search as asQuery, setState, state, trouble, when } from "./common.js";

const MODES = { words: "Words", substring: "Part of a word", regex: "Regular expression" };

export async function open(place) {
  const known = state();
  const input = h("input", { type: "search", placeholder: 'words, "a phrase", begin*, a OR b', "aria-label": "Search all conversations", value: known.q || "", autocomplete: "off", spellcheck: "false" });
  const mode = h("select", { "aria-label": "What to look for" }, Object.entries(MODES).map(([value, label]) => h("option", { value }, label)));
  mode.value = known.mode || "words";
  const [source, project, model] = choosers();
  const role = h("select", { "aria-label": "Who said it" }, [["", "Anybody"], ["user", "You"], ["assistant", "Assistant"], ["tool", "Tool"]].map(([value, label]) => h("option", { value }, label)));
  role.value = known.role || "";
  const since = h("input", { type: "date", "aria-label": "Since", value: known.since || "" });
  const until = h("input", { type: "date", "aria-label": "Until", value: known.until || "" });
  const told = h("output", { role: "status", "aria-live": "polite" });
  const results = h("div", { class: "results" });
  const more = h("button", { type: "button", class: "chip more", "aria-expanded": "false" }, "Filters");
  const controls = h("div", { class: "controls", role: "search" }, input, more, mode, source, project, model, role, h("label", {}, "from ", since), h("label", {}, "to ", until), told);
  more.addEventListener("click", () => more.setAttribute("aria-expanded", String(controls.classList.toggle("unfolded"))));
  place.append(h("h1", { class: "hidden-label" }, "Search"), controls, results);
  const query = () => { const { q, mode, source, project, model, role, since, until } = state(); return { q, mode, source, project, model, role, since, until: until ? until + "T23:59:59" : "" }; };

  function snippet(text) {
    const parts = text.split(/[\ue000\ue001]/);
    return h("span", { class: "snippet", dir: "auto" }, parts.map((part, number) => number % 2 ? h("mark", {}, part) : part));
  }
  function hitRow(id, hit) {
    return h("a", { class: "hit", href: conversationLink(id, hit.message) }, h("span", { class: "faint" }, [hit.turn === undefined ? "" : `turn ${hit.turn + 1}`, hit.tool || hit.field, hit.timestamp ? when(hit.timestamp) : ""].filter(Boolean).join(" · ")), snippet(hit.snippet));
  }
  const groups = new Map();
  function groupOf(id, title) {
    let group = groups.get(id);
    if (!group) {
      group = h("section", { class: "group" }, h("h2", {}, h("a", { href: conversationLink(id) }, title || id)));
      groups.set(id, group);
      results.append(group);
    }
    return group;
  }
  let run = 0, reading = null;
  async function look() {
    const mine = ++run, asked = query();
    reading?.cancel().catch(() => {});
    reading = null;
    if (!asked.q) { results.replaceChildren(); groups.clear(); told.value = ""; return; }
    const begun = performance.now();
    try {
      if (asked.mode === "regex") return await stream(asked, mine);
      const answer = await ask("search", { ...asked, typing: true, limit: 200 }, "search");
      if (mine !== run) return;
      // Whoever went down into the hits of fewer letters stays where they are.
      const focused = [...results.querySelectorAll("a.hit")].indexOf(document.activeElement);
      results.replaceChildren(); groups.clear();
      for (const group of answer.groups) groupOf(group.id, group.title).append(...group.hits.map((hit) => hitRow(group.id, hit)));
      if (focused >= 0) (results.querySelectorAll("a.hit")[focused] ?? input).focus({ preventScroll: true });
      told.value = `${plural(answer.hits, "hit")} in ${plural(answer.groups.length, "conversation")}${answer.capped ? ", of the latest" : ""} · ${Math.round(performance.now() - begun)} ms`;
      if (!answer.hits) results.append(h("p", { class: "empty" }, "Nothing found."));
    } catch (error) { if (mine === run) { const line = trouble(error); if (line) { results.replaceChildren(line); told.value = ""; } } }
  }
  async function stream(asked, mine) {
    const { mode, ...rest } = asked;
    const answer = await fetch("/api/search/stream" + asQuery({ ...rest, limit: 200 }));
    if (mine !== run) { answer.body.cancel().catch(() => {}); return; } // something else was typed meanwhile
    if (!answer.ok) throw new Refused((await answer.json()).error);
    results.replaceChildren(); groups.clear();
    told.value = "looking …";
    reading = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest_ = "", number = 0;
    for (;;) {
      const { done, value } = await reading.read();
      if (done || mine !== run) return;
      const lines = (rest_ + value).split("\n");
      rest_ = lines.pop();
      for (const line of lines) {
        const one = JSON.parse(line);
        if (one.done) { told.value = plural(number, "hit") + (one.late ? ", then time was up" : ""); if (!number) results.append(h("p", { class: "empty" }, "Nothing found.")); return; }
        number++;
        groupOf(one.id, one.title).append(hitRow(one.id, one.hit));
        told.value = `${plural(number, "hit")} …`;
      }
    }
  }
  const typed = debounce(() => { setState({ q: input.value }, true); look(); }, 90);
  input.addEventListener("input", typed);
  mode.addEventListener("change", () => { setState({ mode: mode.value === "words" ? "" : mode.value }); look(); });
  for (const [control, name] of [[source, "source"], [project, "project"], [model, "model"], [role, "role"], [since, "since"], [until, "until"]]) control.addEventListener("change", () => { setState({ [name]: control.value }); look(); });
  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const links = [...results.querySelectorAll("a.hit")], at = links.indexOf(document.activeElement);
    if (event.target === input && event.key === "ArrowDown") { event.preventDefault(); links[0]?.focus(); return; }
    if (event.target.closest("input, select")) return;
    if (event.key === "j" || event.key === "ArrowDown") { event.preventDefault(); links[Math.min(at + 1, links.length - 1)]?.focus(); }
    if (event.key === "k" || event.key === "ArrowUp") { event.preventDefault(); at > 0 ? links[at - 1].focus() : input.focus(); }
    if (event.key === "/") { event.preventDefault(); input.focus(); input.select(); }
  }
  document.addEventListener("keydown", onKey);
  input.focus();
  look();
  return () => { run++; reading?.cancel().catch(() => {}); document.removeEventListener("keydown", onKey); };
}
