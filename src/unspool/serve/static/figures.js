// Figures: charts to look at, with the table behind them: the numbers of `unspool stats`.
import { ask, choosers, count, debounce, dollars, h, lastPart, onChange, setState, state, trouble } from "./common.js";

const GROUPS = { day: "By day", project: "By project", model: "By model", source: "By agent", tool: "By tool", file: "By file" };
const MEASURES = {
  total: ["Tokens", count], cost_usd: ["Cost", dollars], conversations: ["Conversations", count], turns: ["Turns", count], tool_calls: ["Tool calls", count],
  tool_failures: ["Failures", count], lines_added: ["Lines added", count], lines_removed: ["Lines removed", count], touches: ["Files touched", count], acceptance: ["Acceptance", (rate) => rate === undefined || rate === null ? "" : Math.round(rate * 100) + " %"],
};
const OF = { tool: ["tool_calls", "tool_failures", "conversations"], file: ["touches", "conversations", "lines_added", "lines_removed"] };
const EVERY = ["total", "cost_usd", "conversations", "turns", "tool_calls", "tool_failures", "touches", "lines_added", "lines_removed", "acceptance"];
const measuresOf = (by) => OF[by] ?? EVERY;
const SHOWN = 20;

export async function open(place) {
  const by = h("div", { role: "group", "aria-label": "Group", class: "chips" }, Object.entries(GROUPS).map(([value, label]) => h("button", { type: "button", class: "chip", "data-by": value }, label)));
  const [source, project, model] = choosers();
  const since = h("select", { "aria-label": "Time" }, [["", "All time"], ["7d", "Last 7 days"], ["30d", "Last 30 days"], ["90d", "Last 90 days"], ["365d", "Last year"]].map(([value, label]) => h("option", { value }, label)));
  const sums = h("dl", { class: "facts sums" });
  const charts = h("div", { class: "charts" }), table = h("div", { class: "table" });
  place.append(h("div", { class: "controls" }, h("h1", {}, "Figures"), by, h("div", { class: "chips" }, source, project, model, since)), sums, charts, table);
  const query = () => { const { by = "day", source, project, model, since } = state(); return { by, source, project, model, since }; };

  // As wide as a chart is drawn, so that its words are as large as all others.
  const room = () => { const columns = Math.max(1, Math.floor((charts.clientWidth - 16) / 528)); return Math.max(240, Math.round((charts.clientWidth - 32 - 16 * (columns - 1)) / columns - 34)); };
  let latest = null, drawnFor = 0;
  const resized = new ResizeObserver(debounce(() => { if (latest && room() !== drawnFor) paint(...latest); }, 120));
  resized.observe(charts);
  async function draw() {
    const asked = query();
    for (const chip of by.children) chip.setAttribute("aria-pressed", String(chip.dataset.by === asked.by));
    since.value = asked.since || "";
    charts.setAttribute("aria-busy", "true");
    try {
      const { rows } = await ask("figures", asked, "figures");
      latest = [rows, asked.by];
      paint(rows, asked.by);
    } catch (error) { const told = trouble(error); if (told) charts.replaceChildren(told); }
    charts.removeAttribute("aria-busy");
  }
  function paint(rows, group) {
    drawnFor = room();
    const measures = measuresOf(group).filter((name) => rows.some((row) => row[name]));
    sums.replaceChildren(...["total", "cost_usd", "turns", "tool_calls", "tool_failures"].filter((name) => rows.some((row) => row[name])).map((name) => h("div", {}, h("dt", {}, MEASURES[name][0]), h("dd", {}, MEASURES[name][1](rows.reduce((sum, row) => sum + (row[name] || 0), 0))))));
    charts.replaceChildren(...measures.map((name) => group === "day" ? days(rows, name) : bars(rows, name)));
    if (!rows.length) charts.replaceChildren(h("p", { class: "empty" }, "Nothing in the store matches."));
    table.replaceChildren(rows.length ? makeTable(rows, group, measures) : "");
  }
  // One column a day, a week or a month, so that all of the time fits; empty ones are there, too.
  function days(rows, name) {
    const [label, show] = MEASURES[name];
    const dated = rows.filter((row) => /^\d{4}-\d\d-\d\d$/.test(row.name));
    const last = dated.at(-1)?.name, first = dated[0]?.name, length = first ? (Date.parse(last) - Date.parse(first)) / 864e5 : 0;
    const unit = length < 92 ? "day" : length < 731 ? "week" : "month";
    const begin = (day) => unit === "month" ? day.slice(0, 7) : unit === "day" ? day : new Date(Math.floor((Date.parse(day) / 864e5 + 3) / 7) * 6048e5 - 2592e5).toISOString().slice(0, 10); // weeks begin on Monday
    const parts = new Map();
    if (first) for (let day = Date.parse(first); day <= Date.parse(last); day += 864e5) parts.set(begin(new Date(day).toISOString().slice(0, 10)), []);
    for (const row of dated) parts.get(begin(row.name)).push(row);
    const add = (list, field) => list.reduce((sum, row) => sum + (row[field] || 0), 0);
    // A rate is not added up: it is made anew from what it is a rate of.
    const known = new Map([...parts].map(([part, list]) => [part, name === "acceptance" ? add(list, "changes_kept") / Math.max(1, add(list, "changes_decided")) : add(list, name)]));
    const shown = [...known.keys()];
    const most = Math.max(0, ...known.values()), top = roundUp(most);
    const W = room(), H = 170, base = H - 22, width = W / Math.max(shown.length, 14);
    const title = `${label} by ${unit}: ` + (name === "acceptance" ? "" : `${show(add(dated, name)) || 0} in all, `) + `at most ${show(most)}`;
    const svg = h("svg:svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": title });
    for (const value of [top / 2, top]) {
      if (show === count && !Number.isInteger(value)) continue; // there is no half of a conversation
      const y = base - value / top * (base - 14);
      svg.append(h("svg:line", { class: "grid", x1: 0, x2: W, y1: y, y2: y }), h("svg:text", { class: "axis", x: 2, y: y - 3 }, show(value).replace(/\.0+(?=\D|$)/, "")));
    }
    shown.forEach((day, number) => {
      const value = known.get(day), height = value / top * (base - 14);
      svg.append(h("svg:rect", { class: "column " + name, x: number * width + width * 0.12, width: Math.max(width * 0.76, 1), y: base - height, height: Math.max(height, value ? 1 : 0), rx: Math.min(2, width / 4) }, h("svg:title", {}, `${unit === "week" ? "week of " : ""}${day}: ${show(value)}`)));
    });
    const every = Math.ceil(shown.length / Math.floor(W / 64));
    shown.forEach((day, number) => { if (number % every === 0) svg.append(h("svg:text", { class: "axis", x: Math.min(number * width, W - (unit === "day" ? 34 : 52)), y: H - 6 }, unit === "day" ? day.slice(5) : day.slice(2))); });
    return h("figure", { class: "chart" }, h("figcaption", {}, label, unit === "day" ? null : h("span", { class: "faint" }, ` by ${unit}`)), svg);
  }
  function bars(rows, name) {
    const [label, show] = MEASURES[name];
    const shown = [...rows].filter((row) => row[name]).sort((a, b) => b[name] - a[name]).slice(0, 12);
    const most = Math.max(1e-9, ...shown.map((row) => row[name])), W = room(), line = 24, names = Math.min(212, W * 0.42);
    const svg = h("svg:svg", { viewBox: `0 0 ${W} ${shown.length * line + 4}`, role: "img", "aria-label": `${label}: ` + shown.slice(0, 5).map((row) => `${lastPart(row.name)} ${show(row[name])}`).join(", ") });
    shown.forEach((row, number) => {
      const y = number * line + 2, width = row[name] / most * (W - names - 78);
      svg.append(h("svg:text", { class: "name", x: names, y: y + 15, "text-anchor": "end" }, shorten(lastPart(row.name), Math.floor(names / 6.6))), h("svg:rect", { class: "column " + name, x: names + 8, y: y + 3, width: Math.max(width, 1), height: line - 8, rx: 3 }, h("svg:title", {}, `${row.name}: ${show(row[name])}`)), h("svg:text", { class: "value", x: names + 14 + width, y: y + 15 }, show(row[name])));
    });
    return h("figure", { class: "chart" }, h("figcaption", {}, label), svg);
  }
  // The end of an axis: 1, 2, 4, 5, 6, 8 or 10 of the largest unit, so that the middle is round, too.
  function roundUp(value) {
    const unit = 10 ** Math.floor(Math.log10(value || 1));
    return unit * [1, 2, 4, 5, 6, 8, 10].find((step) => step * unit >= value * 0.999999);
  }
  const shorten = (text, most) => text.length > most ? text.slice(0, most - 1) + "…" : text;
  function makeTable(rows, group, measures) {
    const ordered = group === "day" ? [...rows].reverse() : rows;
    const body = (list) => list.map((row) => h("tr", {}, h("th", { scope: "row", title: row.name }, row.name), measures.map((name) => h("td", {}, MEASURES[name][1](row[name])))));
    const rest = ordered.slice(SHOWN), bodyOfTable = h("tbody", {}, body(ordered.slice(0, SHOWN)));
    const more = rest.length ? h("button", { type: "button", class: "chip", onclick: () => { bodyOfTable.append(...body(rest)); more.remove(); } }, `${rest.length} more rows`) : "";
    return h("section", { "aria-label": "The same as a table" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, GROUPS[group].slice(3)), measures.map((name) => h("th", { scope: "col" }, MEASURES[name][0])))), bodyOfTable), more);
  }
  by.addEventListener("click", (event) => { const chip = event.target.closest("[data-by]"); if (chip) { setState({ by: chip.dataset.by === "day" ? "" : chip.dataset.by }); draw(); } });
  for (const [select, name] of [[source, "source"], [project, "project"], [model, "model"], [since, "since"]]) select.addEventListener("change", () => { setState({ [name]: select.value }); draw(); });
  const forget = onChange(debounce((message) => { if (message.kind !== "lost") draw(); }, 3000));
  await draw();
  return () => { forget(); resized.disconnect(); };
}
