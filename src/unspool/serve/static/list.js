// The list: every row one request away, however many there are. Only what is on screen is there.
import { ask, choosers, conversationLink, count, debounce, dollars, drop, goTo, h, lastPart, onChange, plural, prose, search as asQuery, setState, state, time, trouble } from "./common.js";

const PAGE = 100, ROW = 52;
const SORTS = { activity: "Latest activity", started: "Started", title: "Title", messages: "Messages", turns: "Turns", tools: "Tool calls", failures: "Failures", tokens: "Tokens", cost: "Cost" };

export async function open(place) {
  const known = state();
  const text = h("input", { type: "search", id: "filter-text", placeholder: "Title, project, branch, id  /", "aria-label": "Filter by text", value: known.text || "", autocomplete: "off", spellcheck: "false" });
  const [source, project, model] = choosers();
  const since = h("input", { type: "date", "aria-label": "Since", value: known.since || "" }), until = h("input", { type: "date", "aria-label": "Until", value: known.until || "" });
  const flags = [["errors", "With errors"], ["subagents", "With sub-agents"], ["partial", "Incomplete"], ["agents", "Show sub-agents"]]
    .map(([name, label]) => h("button", { type: "button", class: "chip", "data-flag": name, "aria-pressed": String(known[name] === "true") }, label));
  const sort = h("select", { "aria-label": "Sort by" }, Object.entries(SORTS).map(([value, label]) => h("option", { value }, label)));
  const order = h("button", { type: "button", class: "chip", "aria-label": "Turn the order round" }, "↓");
  const total = h("output", { role: "status", "aria-live": "polite" });
  const rows = h("div", { class: "rows", role: "list", "aria-label": "Conversations" });
  const box = h("div", { class: "scroller" }, rows);
  const download = h("a", { class: "chip", download: "conversations.jsonl" }, "Download as JSONL");
  const more = h("button", { type: "button", class: "chip more", "aria-expanded": "false" }, "Filters");
  let controls;
  place.append(
    h("h1", { class: "hidden-label" }, "Conversations"),
    controls = h("div", { class: "controls", role: "search" }, text, more, source, project, model, h("label", {}, "from ", since), h("label", {}, "to ", until), flags, sort, order, total, download),
    box);

  more.addEventListener("click", () => { const open = controls.classList.toggle("unfolded"); more.setAttribute("aria-expanded", String(open)); });

  const query = () => {
    const { text, source, project, model, since, until, errors, subagents, partial, agents, sort, order } = state();
    return { text, source, project, model, since, until: until && until.length === 10 ? until + "T23:59:59" : until, errors, subagents, partial, agents, sort, order };
  };
  let pages = new Map(), outline = { total: 0, cursors: [] }, chosen = 0, version = 0;

  async function begin(keep) {
    const mine = ++version;
    try {
      const [first, lines] = await Promise.all([ask("conversations", { ...query(), limit: PAGE }), ask("conversations/outline", { ...query(), limit: PAGE })]);
      if (mine !== version) return;
      // What changed while somebody reads: the pages on screen are there before the old ones go, and
      // the chosen row stays the same conversation.
      const fresh = new Map([[0, first.conversations]]), seen = keep ? pagesOnScreen(lines.total) : [];
      await Promise.all(seen.map(async (page) => fresh.set(page, (await ask("conversations", { ...query(), limit: PAGE, cursor: lines.cursors[page - 1] })).conversations)));
      if (mine !== version) return;
      const was = keep ? drawn.get(chosen)?.dataset.id : "", focused = rows.contains(document.activeElement);
      outline = lines;
      pages = fresh;
      total.value = plural(lines.total, "conversation");
      download.href = "/api/export" + asQuery(query());
      rows.style.setProperty("--rows", lines.total);
      rows.setAttribute("aria-label", `${plural(lines.total, "conversation")}`);
      if (!keep) { box.scrollTop = 0; chosen = 0; }
      if (was) for (const [page, list] of pages) { const at = list.findIndex((one) => one.id === was); if (at >= 0) chosen = page * PAGE + at; }
      chosen = Math.max(0, Math.min(chosen, lines.total - 1));
      rows.replaceChildren();
      if (!lines.total) rows.append(location.search ? h("p", { class: "empty" }, "No conversation matches. ", h("button", { type: "button", class: "chip", onclick: clear }, "Show all")) : h("p", { class: "empty" }, prose("The store holds no conversation yet: `unspool sync` looks for those on this machine.")));
      draw();
      if (focused) drawn.get(chosen)?.focus({ preventScroll: true });
    } catch (error) { const told = trouble(error); if (told && mine === version) rows.replaceChildren(told); }
  }
  function pagesOnScreen(total) {
    const first = Math.floor(box.scrollTop / ROW / PAGE), last = Math.floor(Math.min(total - 1, (box.scrollTop + box.clientHeight) / ROW + 8) / PAGE);
    return [first, last].filter((page, number, both) => page > 0 && page <= last && both.indexOf(page) === number);
  }
  const wanted = new Set();
  async function load(page) {
    if (pages.has(page) || wanted.has(page)) return;
    wanted.add(page);
    const mine = version;
    try {
      const answer = await ask("conversations", { ...query(), limit: PAGE, cursor: page ? outline.cursors[page - 1] : undefined }, "page-" + page);
      if (mine === version) pages.set(page, answer.conversations);
    } catch (error) { if (error.name !== "AbortError") return; /* asked again when it is scrolled to */ } finally { wanted.delete(page); }
    if (mine === version) draw();
  }
  const drawn = new Map();
  function draw() {
    const first = Math.max(0, Math.floor(box.scrollTop / ROW) - 8);
    const last = Math.min(outline.total - 1, Math.ceil((box.scrollTop + box.clientHeight) / ROW) + 8);
    for (const page of wanted) if (page * PAGE > last || (page + 1) * PAGE <= first) drop("page-" + page); // scrolled past
    for (const [number, row] of drawn) if (number < first || number > last || !row.isConnected) { row.remove(); drawn.delete(number); }
    for (let number = first; number <= last; number++) {
      const page = Math.floor(number / PAGE), data = pages.get(page)?.[number % PAGE];
      if (!data) load(page);
      const old = drawn.get(number);
      if (old && old.dataset.id === (data?.id ?? "")) continue;
      const row = makeRow(number, data);
      if (old) { const focused = document.activeElement === old; old.replaceWith(row); if (focused) row.focus({ preventScroll: true }); }
      else {
        const after = [...drawn.keys()].filter((other) => other > number).sort((a, b) => a - b)[0];
        rows.insertBefore(row, after === undefined ? null : drawn.get(after));
      }
      drawn.set(number, row);
    }
    mark();
  }
  function makeRow(number, data) {
    const row = h("a", { class: "row", role: "listitem", "data-id": data?.id ?? "", "data-number": number, tabindex: "-1", href: data ? conversationLink(data.id) : null, "aria-posinset": number + 1, "aria-setsize": outline.total });
    row.style.setProperty("--at", number);
    if (!data) { row.append(h("span", { class: "title faint" }, "…")); return row; }
    const tokens = [[data.prompt_tokens, "in"], [data.completion_tokens, "out"]].filter(([number]) => number).map(([number, way]) => `${count(number)} ${way}`).join(", ");
    row.append(
      h("span", { class: "title", dir: "auto" }, data.title || h("span", { class: "faint" }, data.id)),
      h("span", { class: "when" }, time(data.ended_at || data.started_at)),
      h("span", { class: "facts-line" },
        h("span", { class: "source" }, data.source), data.project ? h("span", { title: data.project }, lastPart(data.project)) : null, data.model ? h("span", {}, data.model) : null,
        h("span", {}, plural(data.turns, "turn")), data.tools ? h("span", {}, plural(data.tools, "call")) : null,
        data.failures ? h("span", { class: "bad" }, `${data.failures} failed`) : null, data.children ? h("span", { class: "agents" }, plural(data.children, "sub-agent")) : null,
        tokens ? h("span", { title: "tokens" }, tokens) : null, data.cost_usd !== undefined ? h("span", {}, dollars(data.cost_usd)) : null,
        data.partial ? h("span", { class: "bad", title: data.partial }, "incomplete") : null, data.parent ? h("span", { class: "agents" }, "sub-agent") : null));
    return row;
  }
  function mark() {
    for (const [number, row] of drawn) {
      row.tabIndex = number === chosen ? 0 : -1;
      row.classList.toggle("chosen", number === chosen);
    }
  }
  function move(to, focus = true) {
    chosen = Math.max(0, Math.min(outline.total - 1, to));
    const top = chosen * ROW;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + ROW > box.scrollTop + box.clientHeight) box.scrollTop = top + ROW - box.clientHeight;
    draw();
    if (focus) drawn.get(chosen)?.focus({ preventScroll: true });
  }

  /* the controls and the address */
  sort.value = known.sort || "activity";
  order.textContent = known.order === "asc" ? "↑" : "↓";
  function change(changes, replace) { setState(changes, replace); begin(false); }
  text.addEventListener("input", debounce(() => change({ text: text.value.trim() }, true), 120));
  for (const [select, name] of [[source, "source"], [project, "project"], [model, "model"], [since, "since"], [until, "until"]]) select.addEventListener("change", () => change({ [name]: select.value }));
  sort.addEventListener("change", () => change({ sort: sort.value === "activity" ? "" : sort.value }));
  order.addEventListener("click", () => { const asc = state().order !== "asc"; order.textContent = asc ? "↑" : "↓"; change({ order: asc ? "asc" : "" }); });
  for (const flag of flags) flag.addEventListener("click", () => { const on = flag.getAttribute("aria-pressed") !== "true"; flag.setAttribute("aria-pressed", String(on)); change({ [flag.dataset.flag]: on ? "true" : "" }); });
  function clear() { goTo("/"); }
  let frame = 0;
  box.addEventListener("scroll", () => { if (!frame) frame = requestAnimationFrame(() => { frame = 0; draw(); }); }, { passive: true });
  rows.addEventListener("focusin", (event) => { const row = event.target.closest(".row"); if (row) { chosen = Number(row.dataset.number); mark(); } });
  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target === text && (event.key === "Escape" || event.key === "ArrowDown")) { event.preventDefault(); move(chosen); return; }
    if (event.target.closest("input, select, textarea")) return;
    const inButton = event.target.closest("button");
    const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
    if (step) { event.preventDefault(); move(chosen + step); }
    else if (event.key === "Home") { event.preventDefault(); move(0); }
    else if (event.key === "End") { event.preventDefault(); move(outline.total - 1); }
    else if (event.key === "/") { event.preventDefault(); text.focus(); text.select(); }
    else if (event.key === "Enter" && !inButton && !event.target.closest("a")) { const row = drawn.get(chosen); if (row?.href) { event.preventDefault(); goTo(row.href); } }
  }
  document.addEventListener("keydown", onKey);
  const resized = new ResizeObserver(() => draw());
  resized.observe(box);
  const again = debounce(() => begin(true), 400);
  const forget = onChange((message) => { if (message.kind === "change" || message.kind === "reset") again(); });
  await begin(false);
  return () => { document.removeEventListener("keydown", onKey); resized.disconnect(); forget(); version++; };
}
