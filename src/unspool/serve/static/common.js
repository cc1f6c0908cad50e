// What all views use: elements, questions to the API, the address, figures for people, changes.

const policy = window.trustedTypes?.createPolicy("unspool", { createHTML: (html) => html }) ?? { createHTML: (html) => html };

// HTML of the server's own making: text in it is escaped, Markdown is sanitised.
export function setHtml(element, html) { element.innerHTML = policy.createHTML(html); return element; }

// Text of conversations: terminal sequences go, and what turns the reading direction or hides is named,
// as `unspool show` and the exported page do it.
const TERMINAL = /(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)|\x1b(?:[ -/]+[0-~]|[0-OQ-WYZ\\`-~])/g;
const HARMFUL = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2060-\u2064\ufeff\u00ad\u202a-\u202e\u2066-\u206f\ufff9-\ufffb]/g;
export function visible(text) {
  if (text.search(HARMFUL) < 0) return text;
  return text.replace(/\r\n?/g, "\n").replace(TERMINAL, "").replace(HARMFUL, (one) => {
    const code = one.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return one === "\u00ad" || one === "\ufeff" ? "" : `⟦U+${code.toString(16).toUpperCase().padStart(4, "0")}⟧`;
  });
}

// h("a", {href, class, onclick}, "text", child …)
export function h(name, attributes = {}, ...children) {
  const svg = name.startsWith("svg:");
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", name.slice(4)) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : key === "title" || key === "aria-label" ? visible(String(value)) : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false).map((child) => typeof child === "string" ? visible(child) : child));
  return element;
}

// Words of ours, with `commands` set apart.
export const prose = (text) => text.split("`").map((part, number) => number % 2 ? h("code", {}, part) : part);

export class Refused extends Error {}

// What this view asks for first came with the page.
const given = JSON.parse(document.getElementById("given").textContent);
// One question; a newer one of the same name ends the older.
const running = new Map();
export async function ask(path, query = {}, name = null) {
  if (path in given) { const answer = given[path]; delete given[path]; return answer; }
  if (name) { running.get(name)?.abort(); running.set(name, new AbortController()); }
  const signal = name ? running.get(name).signal : undefined;
  const answer = await fetch("/api/" + path + search(query), { signal });
  const data = await answer.json();
  if (!answer.ok) throw new Refused(data.error || answer.statusText);
  return data;
}

export function drop(name) { running.get(name)?.abort(); running.delete(name); }

export function search(query) {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false);
  return pairs.length ? "?" + new URLSearchParams(pairs.map(([key, value]) => [key, String(value)])) : "";
}

// The address bar holds the state of a view, so that every view is a link.
export const state = () => Object.fromEntries(new URLSearchParams(location.search));
export function setState(changes, replace = false) {
  const next = location.pathname + search({ ...state(), ...changes });
  if (next !== location.pathname + location.search) history[replace ? "replaceState" : "pushState"](null, "", next);
}
export function goTo(address) {
  history.pushState(null, "", address);
  window.dispatchEvent(new Event("unspool:view"));
}

export const conversationLink = (id, message) => "/conversation" + search({ id }) + (message === undefined || message === null ? "" : `#m${message + 1}`);

/* figures for people, as the command line has them */
export function count(number) {
  if (number === undefined || number === null) return "";
  for (const [size, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (number >= size * 0.9995) return (number / size < 9.95 ? (number / size).toFixed(1) : Math.round(number / size)) + letter;
  }
  return String(Math.round(number));
}
export const plural = (number, one, many = one + "s") => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
export const dollars = (cost) => cost === undefined || cost === null ? "" : cost > 0 && cost < 0.001 ? "<$0.001" : "$" + (cost < 1 ? cost.toFixed(3) : cost.toFixed(2));
export function when(stamp) {
  if (!stamp) return "";
  const time = new Date(stamp), seconds = (Date.now() - time) / 1000;
  if (seconds < -60 || seconds > 7 * 86400) return time.toLocaleDateString("sv");
  if (seconds < 60) return "now";
  for (const [unit, name] of [[86400, "d"], [3600, "h"], [60, "min"]]) if (seconds >= unit) return `${Math.floor(seconds / unit)} ${name} ago`;
  return "";
}
export const fullTime = (stamp) => stamp ? new Date(stamp).toLocaleString("sv") : "";
export const lastPart = (path) => (path || "").replaceAll("\\", "/").replace(/\/+$/, "").split("/").pop();
export function time(stamp) { return stamp ? h("time", { datetime: stamp, title: fullTime(stamp) }, when(stamp)) : ""; }

export function debounce(act, milliseconds) {
  let timer = 0;
  return (...values) => { clearTimeout(timer); timer = setTimeout(() => act(...values), milliseconds); };
}

export function trouble(error) {
  if (error.name === "AbortError") return null;
  const offline = error instanceof TypeError;
  return h("p", { class: "warning", role: "alert" }, offline ? prose("The server does not answer. Is `unspool serve` running?") : error.message);
}

// Agent, project and model to choose from: filled when the server has told what there is.
const CHOICES = { source: ["Agent", "All agents"], project: ["Project", "All projects"], model: ["Model", "All models"] };
export function choosers() {
  const fill = (select, choices) => {
    const { name, all } = select.dataset, value = state()[name] || "";
    select.replaceChildren(h("option", { value: "" }, all), ...choices.map((choice) => h("option", { value: choice.value }, `${lastPart(choice.value)} (${choice.conversations})`)));
    if (value && !choices.some((choice) => choice.value === value)) select.append(h("option", { value }, value));
    select.value = value;
  };
  const selects = Object.entries(CHOICES).map(([name, [label, all]]) => h("select", { "aria-label": label, "data-name": name, "data-all": all }));
  for (const select of selects) fill(select, []);
  ask("choices").then((choices) => { for (const select of selects) fill(select, choices[select.dataset.name + "s"]); }).catch(() => {});
  return selects;
}

/* changes of the store: one connection for all tabs of this browser, held by one of them */
const listeners = new Set();
export function onChange(listener) { listeners.add(listener); return () => listeners.delete(listener); }
const channel = new BroadcastChannel("unspool-changes");
const tell = (message) => { for (const listener of [...listeners]) listener(message); };
let holds = null; // what the tab that holds the connection knows of it
channel.onmessage = (event) => {
  if (event.data.kind !== "asked") hear(event.data);
  else if (holds) channel.postMessage(holds);
};
channel.postMessage({ kind: "asked" });
function share(message) {
  if (message.kind === "connected" || message.kind === "lost") holds = message;
  channel.postMessage(message);
  hear(message);
}
// Something changed between the page's making and the first word of its changes.
function hear(message) {
  if (message.seq !== undefined && given.seq !== undefined) {
    if (message.seq > given.seq) tell({ kind: "reset" });
    delete given.seq;
  }
  tell(message);
}
const holdLock = navigator.locks ? (act) => navigator.locks.request("unspool-changes", act) : (act) => act();
const opened = performance.now();
holdLock(() => new Promise(() => {
  const source = new EventSource("/api/events");
  // The tab that held it before was closed: what changed in between nobody was told.
  let inherited = performance.now() - opened > 1000;
  source.addEventListener("hello", (event) => { share({ kind: "connected", ...JSON.parse(event.data) }); if (inherited) share({ kind: "reset" }); inherited = false; });
  source.addEventListener("change", (event) => { const { id, kind, seq } = JSON.parse(event.data); if (holds) holds.seq = seq; share({ kind: "change", id, what: kind }); });
  source.addEventListener("daemon", (event) => share({ ...holds, kind: "connected", live: JSON.parse(event.data).live }));
  source.addEventListener("reset", () => share({ kind: "reset" }));
  source.onerror = () => share({ kind: "lost" });
}));
