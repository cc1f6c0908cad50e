// One conversation: pieces of it are asked for when they come near the screen.
import { ask, conversationLink, debounce, h, onChange, plural, search as asQuery, setHtml, state, trouble, visible } from "./common.js";

const PIECE = 20, GUESS = 180; // items in a piece, and their height before it is known
const MOVES = ["wheel", "touchmove", "mousedown", "keydown"]; // what a reader moves on by
const FILTERS = [["user", "You", true], ["assistant", "Assistant", true], ["tools", "Tools", true], ["error", "Errors", true], ["reasoning", "Reasoning", true], ["injected", "Context", false]];
const KEYS = [["j  k", "next, previous message"], ["n  p", "next, previous turn"], ["e", "next error"], ["o", "open or close"], ["x", "expand or collapse what is loaded"], ["r", "raw record of this message"], ["f", "follow while it grows"], ["/", "search; Enter goes to the next place"], ["g c", "back to the list"], ["?", "this help"]];

export async function open(place) {
  const id = state().id;
  let info;
  try { info = await ask("conversation", { id }); } catch (error) { place.append(h("main", {}, trouble(error) ?? "", h("p", {}, h("a", { href: "/" + asQuery({ text: (id || "").split("/").pop(), agents: "true" }) }, "Look for it in the list")))); return null; }
  document.title = `${visible(info.title)} · unspool`;

  /* the frame */
  const chips = FILTERS.map(([name, label, shown]) => h("button", { type: "button", "data-filter": name, "aria-pressed": String(shown) }, label));
  const find = h("input", { id: "search", type: "search", placeholder: "Search  /", autocomplete: "off", spellcheck: "false", "aria-label": "Search this conversation" });
  const found = h("output", { id: "found", role: "status", "aria-live": "polite" });
  const follow = h("button", { type: "button", id: "follow", "aria-pressed": "false", title: "Stay at the end while it grows" }, "Follow");
  const downloads = h("details", { class: "menu" }, h("summary", {}, "Download"), h("ul", {}, info.formats.map((format) => h("li", {}, h("a", { href: "/api/conversation/export" + asQuery({ id: info.id, to: format }), download: "" }, format)))));
  const bar = h("div", { class: "bar", id: "bar" },
    h("button", { id: "menu", type: "button", "aria-expanded": "false", "aria-controls": "turns", "aria-label": "Turns" }, "☰"),
    h("div", { role: "search", class: "search" }, find, found),
    h("div", { role: "group", "aria-label": "Show", class: "filters" }, chips),
    follow, downloads, h("button", { id: "expand", type: "button", "aria-pressed": "false" }, "Expand all"), h("button", { id: "keys", type: "button", "aria-label": "Keyboard shortcuts" }, "?"));
  const turns = h("nav", { id: "turns", "aria-label": "Turns and sub-agents" });
  const body = h("div", { id: "pieces" });
  const head = h("div", { id: "head" });
  const main = h("main", { id: "main", "aria-label": "Conversation", class: FILTERS.filter(([, , shown]) => !shown).map(([name]) => "no-" + name).join(" ") }, head, body);
  const help = h("dialog", { id: "help", "aria-label": "Keyboard shortcuts" }, h("h2", {}, "Keys"), h("dl", {}, KEYS.map(([keys, words]) => [h("dt", {}, h("kbd", {}, keys)), h("dd", {}, words)])), h("button", { type: "button", id: "close-help" }, "Close"));
  const side = h("dialog", { id: "side", class: "large", "aria-label": "Details" });
  place.append(bar, turns, main, help, side);
  if (!window.makeReader) await new Promise((go) => addEventListener("DOMContentLoaded", go, { once: true }));
  // Turns and errors are known also where they are not loaded.
  const turnAfter = (at) => info.turns.find((turn) => turn.item > at), turnBefore = (at) => info.turns.findLast((turn) => turn.item < at);
  const reader = window.makeReader({
    "/": () => { find.focus(); find.select(); }, r: () => showRaw(current()), f: () => follow.click(),
    n: () => goToItem(turnAfter(currentItem())), p: () => goToItem(turnBefore(currentItem())),
    e: () => { const at = currentItem(), item = info.errors.find((one) => one > at); goToItem(item === undefined ? undefined : { item }); },
  }, () => {});

  function fillHead() {
    setHtml(head, info.masthead);
    const links = [];
    if (info.parent) links.push(h("a", { href: info.parent.here ? conversationLink(info.parent.id) : null }, `↑ ${info.parent.kind === "subagent" ? "started by" : info.parent.kind + " of"}: ${info.parent.title}`));
    links.push(h("a", { href: "/alignment" + asQuery({ left: info.id }) }, "Align with another"));
    if (info.branches.length) links.push(h("span", {}, plural(info.branches.length, "abandoned branch", "abandoned branches")));
    if (info.files.length) links.push(h("details", { class: "provenance" }, h("summary", {}, plural(info.files.length, "file") + " read"), h("ul", {}, info.files.map((path) => h("li", {}, h("code", {}, path))))));
    head.append(h("div", { class: "links" }, links));
  }
  function fillTurns() {
    const tree = (children) => children.length ? h("ul", {}, children.map((child) => h("li", {}, h("a", { href: child.here ? conversationLink(child.id) : null, title: child.here ? null : "not in the store" }, h("span", {}, child.title)), tree(child.children ?? [])))) : null;
    turns.replaceChildren(h("h2", { class: "hidden-label" }, "Turns"),
      h("ol", {}, info.turns.map((turn) => h("li", {}, h("a", { href: "#" + turn.anchor, "data-item": turn.item }, h("span", { class: "number" }, turn.number === undefined ? "" : String(turn.number + 1)), h("span", {}, turn.words))))));
    const children = (info.children ?? []).filter((child) => child.kind === "subagent"), others = (info.children ?? []).filter((child) => child.kind !== "subagent");
    if (children.length) turns.append(h("h2", { class: "side-title" }, "Sub-agents"), tree(children));
    if (others.length) turns.append(h("h2", { class: "side-title" }, "Continued in"), tree(others));
  }

  /* pieces */
  const pieces = [];
  const near = new IntersectionObserver((entries) => { for (const entry of entries) if (entry.isIntersecting) load(Number(entry.target.dataset.piece)); }, { rootMargin: "1200px 0px" });
  function prepare() {
    const wanted = Math.max(1, Math.ceil(info.items / PIECE));
    while (pieces.length < wanted) {
      const box = h("div", { class: "piece waiting", "data-piece": pieces.length });
      const items = Math.max(0, Math.min(PIECE, info.items - pieces.length * PIECE));
      box.style.minHeight = items * GUESS + "px";
      pieces.push({ box, version: "", loading: null });
      body.append(box);
      near.observe(box);
    }
    while (pieces.length > wanted) pieces.pop().box.remove();
    body.querySelector(".empty")?.remove();
    if (!info.items) body.prepend(h("p", { class: "empty" }, "This conversation holds no messages."));
  }
  function load(number) {
    const piece = pieces[number];
    if (!piece || piece.version === info.version) return Promise.resolve();
    return piece.loading ??= (async () => {
      try {
        const answer = await ask("conversation/items", { id: info.id, first: number * PIECE, count: PIECE });
        const settle = steady();
        fillPiece(piece.box, answer.items);
        settle();
        piece.version = answer.version;
      } catch (error) { const told = trouble(error); if (told) piece.box.replaceChildren(told); }
      finally { piece.loading = null; }
    })();
  }
  function fillPiece(box, items, agent = false) {
    const open = new Set([...box.querySelectorAll("[id] > details[open], details[open][id]")].map((one) => one.id || one.parentElement.id));
    const sections = [];
    let section = null, turn = null;
    for (const item of items) {
      if (item.turn !== turn) {
        turn = item.turn;
        section = h("section", { class: "turn", "data-turn": turn });
        const other = turn && document.getElementById(turn); // a long turn goes on over several pieces
        if (turn && (!other || box.contains(other))) section.id = turn;
        sections.push(section);
      }
      const holder = setHtml(document.createElement("template"), item.html).content;
      if (!agent) for (const one of holder.children) one.dataset.item = item.number;
      section.append(holder);
    }
    box.replaceChildren(...sections);
    box.classList.remove("waiting");
    box.style.minHeight = "";
    for (const one of box.querySelectorAll("[id]")) {
      if (open.has(one.id)) (one.localName === "details" ? one : one.querySelector("details"))?.setAttribute("open", "");
    }
    if (!agent) for (const one of sections) reader.watch.observe(one);
  }
  /* What is read stays where it is while pieces above it load: the browser's own anchoring gives up where
     the box around its anchor changes. */
  let held = null; // the message that was gone to, and how far down: until the reader moves on
  const line = () => bar.getBoundingClientRect().bottom + 8;
  function atLine() {
    const at = line(), below = (thing) => thing.getBoundingClientRect().bottom > at;
    const box = pieces.find((piece) => below(piece.box))?.box;
    return box && ([...box.querySelectorAll(".unit[id]")].find(below) ?? box);
  }
  function steady() {
    const thing = held ? held.thing : atLine();
    if (!thing) return () => {};
    const box = thing.getBoundingClientRect();
    // Of a piece that was not loaded and began above: as far down in it as before.
    const share = thing.matches(".waiting") && box.top < line() ? (line() - box.top) / box.height : null;
    return () => {
      const now = thing.isConnected ? thing : document.getElementById(thing.id);
      if (!now) return;
      const to = now.getBoundingClientRect(), top = held ? held.top : share === null ? box.top : line() - share * to.height;
      if (held) Object.assign(held, { thing: now, height: body.offsetHeight });
      if (Math.abs(to.top - top) >= 1) scrollBy({ top: to.top - top, behavior: "instant" });
    };
  }
  const hold = (thing) => { held = { thing, top: thing.getBoundingClientRect().top, height: body.offsetHeight }; };
  // Somebody drags the scroll bar: nothing has grown, and yet it stands elsewhere.
  const dragged = () => { if (held && body.offsetHeight === held.height && Math.abs(held.thing.getBoundingClientRect().top - held.top) > 2) held = null; };
  addEventListener("scroll", dragged, { passive: true });
  let keyed = false;
  const letGo = (event) => {
    held = null;
    keyed = event.type === "keydown";
    if (keyed) setTimeout(() => { keyed = false; });
  };
  for (const name of MOVES) addEventListener(name, letGo, { passive: true, capture: true });
  main.addEventListener("focusin", (event) => { if (keyed && event.target.matches(".unit[id]")) hold(event.target); });
  const sizes = new ResizeObserver(() => { if (held) steady()(); });
  sizes.observe(body);
  function goToThing(target) {
    reader.show(target);
    hold(target);
  }
  // An item, at the thing of that id in it, or at what failed in it.
  async function goToItem(to) {
    if (!to) return;
    await load(Math.floor(to.item / PIECE));
    const target = to.anchor ? document.getElementById(to.anchor) : body.querySelector(`.error[data-item="${to.item}"], [data-item="${to.item}"] .error`);
    if (target) goToThing(target);
  }
  async function toAnchor() {
    const anchor = decodeURIComponent(location.hash.slice(1));
    if (!anchor) return;
    if (document.getElementById(anchor)) return goToThing(document.getElementById(anchor));
    const turn = info.turns.find((one) => one.anchor === anchor);
    if (turn) return goToItem(turn);
    const message = /^m(\d+)(-\d+)?$/.exec(anchor);
    if (message) {
      try { const at = await ask("conversation/place", { id: info.id, message: Number(message[1]) - 1 }); await goToItem({ item: at.item, anchor }); } catch (error) { /* no such message */ }
    }
  }
  turns.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-item]");
    if (!link) return;
    event.preventDefault();
    history.pushState(null, "", link.getAttribute("href"));
    goToItem({ item: Number(link.dataset.item), anchor: link.getAttribute("href").slice(1) });
  });

  /* sub-agents open where they were started */
  main.addEventListener("toggle", async (event) => {
    const box = event.target;
    if (!box.open || !box.dataset?.agent || box.dataset.loaded) return;
    box.dataset.loaded = "1";
    const inner = box.querySelector(".inner"), prefix = "a" + Math.random().toString(36).slice(2, 8) + "-";
    inner.append(h("p", { class: "links" }, h("a", { href: conversationLink(box.dataset.agent) }, "Open by itself")));
    let first = 0;
    const more = h("button", { type: "button", class: "chip" }, "More");
    const next = async () => {
      try {
        const answer = await ask("conversation/items", { id: box.dataset.agent, first, count: PIECE, prefix });
        const part = h("div", {});
        fillPiece(part, answer.items, true);
        more.remove();
        inner.append(part);
        first += PIECE;
        if (first < answer.total) inner.append(more);
      } catch (error) { inner.append(trouble(error) ?? ""); }
    };
    more.addEventListener("click", next);
    await next();
  }, true);

  /* branches beside the main line; raw records */
  side.addEventListener("click", (event) => { if (event.target === side || event.target.closest(".close")) side.close(); });
  main.addEventListener("click", async (event) => {
    const button = event.target.closest(".compare");
    if (!button) return;
    try {
      const pair = await ask("conversation/branch", { id: conversationOf(button), branch: button.dataset.branch });
      side.replaceChildren(h("header", {}, h("h2", {}, `Branch: ${pair.reason}`), h("span", {}, `after ${plural(pair.before, "shared message")}`), h("button", { type: "button", class: "close" }, "Close")),
        h("div", { class: "columns" }, h("section", { "aria-label": "Abandoned branch" }, h("h3", {}, "Abandoned"), setHtml(h("div"), pair.branch)), h("section", { "aria-label": "Main line" }, h("h3", {}, "What came instead"), setHtml(h("div"), pair.main))));
      side.showModal();
    } catch (error) { button.after(trouble(error) ?? ""); }
  });
  // The conversation that a thing on the page is of: this one, or the sub-agent's in whose fold it stands.
  const conversationOf = (thing) => thing.closest("details.agent[data-agent]")?.dataset.agent ?? info.id;
  function here() {
    const focused = document.activeElement?.closest?.(".result[id], .unit"), box = focused?.getBoundingClientRect();
    if (box && box.bottom > 0 && box.top < innerHeight) return focused;
    const within = main.getBoundingClientRect();
    return document.elementFromPoint(within.left + within.width / 2, bar.getBoundingClientRect().bottom + 24)?.closest(".unit");
  }
  const currentItem = () => Number(here()?.closest("[data-item]")?.dataset.item ?? -1);
  const current = () => here() ? messageOf(here()) : null;
  // Of a conversation (m12; its second call: m12-2), or of its third abandoned branch (b3-m12).
  function messageOf(thing) {
    const at = /(?:^|-)(?:b(\d+)-)?m(\d+)(?:-\d+)?$/.exec(thing.id);
    return at ? { id: conversationOf(thing), message: Number(at[2]) - 1, branch: at[1] && Number(at[1]) - 1 } : null;
  }
  async function showRaw(place) {
    if (place === null) return;
    try {
      const raw = await ask("conversation/raw", place);
      const whose = place.branch === undefined ? "" : ` of branch ${place.branch + 1}`;
      side.replaceChildren(h("header", {}, h("h2", {}, `Message ${place.message + 1}${whose} as it was written`), h("button", { type: "button", class: "close" }, "Close")),
        raw.note ? h("p", {}, raw.note) : "",
        ...raw.records.map((record) => h("figure", { class: "diff" }, h("figcaption", {}, `${record.origin}${record.offset === undefined ? "" : ` at byte ${record.offset.toLocaleString("en")}`}${record.where ? `: ${record.where}` : ""}${record.truncated ? " (the beginning of it)" : ""}`), h("pre", { class: "output", tabindex: "0" }, pretty(record.text)))));
      side.showModal();
    } catch (error) { main.prepend(trouble(error) ?? ""); }
  }
  // JSON, also behind the date that a logging script put before it.
  function pretty(text) {
    const at = text.search(/[{[]\s*["{[\]}]/);
    try { return text.slice(0, at) + JSON.stringify(JSON.parse(text.slice(at)), null, 2); } catch { return text; }
  }
  main.addEventListener("mouseover", offerRaw);
  main.addEventListener("focusin", offerRaw);
  function offerRaw(event) {
    const unit = event.target.closest?.(".unit[id]"), result = event.target.closest?.(".result[id]");
    offer(unit, unit?.querySelector(":scope > header .margin, :scope > .run > summary .margin, :scope > .intent"));
    offer(result, result);
  }
  function offer(thing, margin) {
    if (!margin || margin.querySelector(":scope > .raw") || !messageOf(thing)) return;
    margin.prepend(h("button", { type: "button", class: "raw", title: "The record as the agent wrote it", onclick: (click) => { click.preventDefault(); click.stopPropagation(); showRaw(messageOf(thing)); } }, "raw"));
  }

  /* search: the server knows all of it, also what is not loaded */
  let hits = [], at = -1;
  const seek = debounce(async () => {
    const words = find.value.trim();
    hits = []; at = -1;
    CSS.highlights?.clear();
    if (!words) { found.value = ""; return; }
    try {
      const answer = await ask("search", { q: words, mode: "substring", id: info.id, limit: 500 }, "in-conversation");
      hits = (answer.groups[0]?.hits ?? []).map((hit) => hit.message).sort((a, b) => a - b);
      found.value = hits.length ? plural(hits.length, "message") : "nothing found";
    } catch (error) { if (error.name !== "AbortError") found.value = error.message; }
  }, 120);
  async function nextHit(direction) {
    if (!hits.length) return;
    at = (at + direction + hits.length) % hits.length;
    found.value = `${at + 1} of ${hits.length}`;
    const where = await ask("conversation/place", { id: info.id, message: hits[at] });
    await goToItem(where);
    find.focus({ preventScroll: true });
    highlight();
  }
  function highlight() {
    if (!CSS.highlights || !window.Highlight) return;
    const words = find.value.trim().toLowerCase(), marks = new Highlight();
    let left = 2000;
    const walker = document.createTreeWalker(body, NodeFilter.SHOW_TEXT);
    for (let node; left > 0 && (node = walker.nextNode());) {
      const lower = node.data.toLowerCase();
      if (lower.length !== node.data.length) continue;
      for (let from = lower.indexOf(words); from >= 0 && left-- > 0; from = lower.indexOf(words, from + words.length)) {
        const range = document.createRange();
        range.setStart(node, from); range.setEnd(node, from + words.length);
        marks.add(range);
      }
    }
    CSS.highlights.set("found", marks);
  }
  find.addEventListener("input", seek);
  find.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { event.preventDefault(); nextHit(event.shiftKey ? -1 : 1); }
    if (event.key === "Escape") { find.value = ""; seek(); find.blur(); event.stopPropagation(); }
  });

  /* while it grows */
  const following = () => follow.getAttribute("aria-pressed") === "true";
  const toEnd = async () => { held = null; await load(pieces.length - 1); scrollTo(0, document.documentElement.scrollHeight); };
  follow.addEventListener("click", () => { follow.setAttribute("aria-pressed", String(!following())); if (following()) toEnd(); });
  addEventListener("wheel", unfollow, { passive: true });
  function unfollow(event) { if (event.deltaY < 0 && following()) follow.setAttribute("aria-pressed", "false"); }
  const refresh = debounce(async () => {
    try {
      const before = info.version, items = info.items;
      info = await ask("conversation", { id: info.id });
      if (info.version === before) return;
      fillHead(); fillTurns(); prepare();
      const first = Math.max(0, Math.floor((items - 1) / PIECE));
      for (let number = 0; number < pieces.length; number++) {
        const box = pieces[number].box.getBoundingClientRect();
        if (number >= first || (box.bottom > -1200 && box.top < innerHeight + 1200)) await load(number);
      }
      if (following()) toEnd();
    } catch (error) { /* the next change asks again */ }
  }, 150);
  const forget = onChange((message) => { if (message.kind === "reset" || (message.kind === "change" && message.id === info.id)) refresh(); });

  fillHead(); fillTurns(); prepare();
  addEventListener("hashchange", toAnchor);
  await load(0);
  await toAnchor();
  return () => { reader.end(); near.disconnect(); sizes.disconnect(); removeEventListener("scroll", dragged); for (const name of MOVES) removeEventListener(name, letGo, { capture: true }); forget(); removeEventListener("hashchange", toAnchor); removeEventListener("wheel", unfollow); CSS.highlights?.clear(); };
}
