// The frame: which view the address means, links that stay on the page, keys that work everywhere.
import { onChange } from "./common.js";
import { watchForWaiting } from "./notices.js";

const VIEWS = {
  "/": () => import("./list.js"),
  "/conversation": () => import("./conversation.js"),
  "/now": () => import("./now.js"),
  "/search": () => import("./search.js"),
  "/figures": () => import("./figures.js"),
  "/alignment": () => import("./alignment.js"),
};
const place = document.getElementById("view");
let close = null, shown = null, turn = 0;

async function show(focus) {
  const path = VIEWS[location.pathname] ? location.pathname : "/";
  for (const link of document.querySelectorAll("[data-view]")) {
    if (link.dataset.view === path) { link.setAttribute("aria-current", "page"); link.scrollIntoView({ block: "nearest", inline: "nearest" }); }
    else link.removeAttribute("aria-current");
  }
  const mine = ++turn;
  const view = await VIEWS[path]();
  if (mine !== turn) return;
  close?.();
  close = null;
  shown = location.pathname + location.search;
  document.title = path === "/" ? "unspool" : `${path[1].toUpperCase()}${path.slice(2)} · unspool`;
  place.replaceChildren();
  place.className = "view-" + (path.slice(1) || "list");
  close = await view.open(place) ?? null;
  if (focus && !place.contains(document.activeElement)) place.focus({ preventScroll: true });
}

window.addEventListener("unspool:view", () => { scrollTo(0, 0); show(true); });
window.addEventListener("popstate", () => { if (location.pathname + location.search !== shown) show(true); });
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || link.target || link.hasAttribute("download")) return;
  const url = new URL(link.href);
  if (url.origin !== location.origin || !VIEWS[url.pathname]) return;
  if (url.pathname + url.search === location.pathname + location.search && url.hash) return; // within the page
  event.preventDefault();
  history.pushState(null, "", url);
  window.dispatchEvent(new Event("unspool:view"));
});
let waiting = "";
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
  if (waiting === "g") {
    const path = { c: "/", n: "/now", s: "/search", f: "/figures", a: "/alignment" }[event.key];
    if (path) { event.preventDefault(); history.pushState(null, "", path); window.dispatchEvent(new Event("unspool:view")); }
  }
  waiting = event.key;
});
const live = document.getElementById("live");
const CONNECTION = {
  lost: ["connection lost, trying again", "The server does not answer: is `unspool serve` running?"],
  on: ["live", "A daemon keeps the store current, and this page shows its changes as they come"],
  still: ["not kept current", "No daemon runs: `unspool watch`, or `unspool serve` without --no-daemon, keeps the store current"],
};
onChange((message) => {
  if (message.kind !== "lost" && message.kind !== "connected") return;
  const state = message.kind === "lost" ? "lost" : message.live ? "on" : "still";
  [live.textContent, live.title] = CONNECTION[state];
  live.className = state;
});
watchForWaiting();
show(false);
