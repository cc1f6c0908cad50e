// Alignment: two conversations side by side on one time axis, and why they may be the same work.
import { ask, conversationLink, fullTime, h, plural, search as asQuery, setState, state, trouble } from "/static/common.js";

const KINDS = { workspace: "Same workspace", temporal: "At the same time", file: "Same file", semantic: "Similar words" };

export async function open(place) {
  const left = h("input", { type: "text", placeholder: "claude-code/…", "aria-label": "One conversation", value: state().left || "", list: "known" });
  const right = h("input", { type: "text", placeholder: "cursor/…", "aria-label": "The other", value: state().right || "", list: "known" });
  const names = h("datalist", { id: "known" });
  const button = h("button", { type: "submit", class: "chip" }, "Align");
  const form = h("form", { class: "controls" }, h("h1", {}, "Alignment"), left, right, names, button);
  const body = h("div", {});
  place.append(form, body);
  form.addEventListener("submit", (event) => { event.preventDefault(); setState({ left: left.value.trim(), right: right.value.trim() }); draw(); });
  ask("conversations", { limit: 200 }).then((page) => names.append(...page.conversations.map((one) => h("option", { value: one.id }, one.title || "")))).catch(() => {});

  async function draw() {
    const { left, right } = state();
    try {
      if (left && right) body.replaceChildren(...axis(await ask("alignment", { left, right }, "alignment")));
      else await suggest(left);
    } catch (error) { const told = trouble(error); if (told) body.replaceChildren(told); }
  }
  async function suggest(only) {
    const { pairs } = await ask("alignments");
    const shown = only ? pairs.filter((pair) => pair.left === only || pair.right === only) : pairs;
    body.replaceChildren(h("p", { class: "faint" }, shown.length ? "Pairs that `unspool align` has found:" : "Name two conversations, or let `unspool align` look for pairs that belong together."),
      h("ul", { class: "pairs" }, shown.map((pair) => h("li", {}, h("a", { href: "/alignment" + asQuery({ left: pair.left, right: pair.right }) }, h("b", {}, Math.round(pair.confidence * 100) + " %"), ` ${pair.left_title || pair.left} ↔ ${pair.right_title || pair.right}`)))));
  }
  function axis(made) {
    const sides = [made.left, made.right];
    const times = sides.flatMap((side) => side.events.map((event) => Date.parse(event.time))).filter((time) => !Number.isNaN(time));
    const first = Math.min(...times), last = Math.max(...times), span = Math.max(last - first, 1);
    const H = Math.min(1400, Math.max(240, times.length * 9)), W = 900, x = [330, 570], at = (stamp) => 16 + (Date.parse(stamp) - first) / span * (H - 40);
    const heads = h("div", { class: "pair-heads" }, sides.map((side) => h("div", {}, h("span", { class: "source" }, side.listed.source), h("h2", {}, h("a", { href: conversationLink(side.listed.id) }, side.listed.title || side.listed.id)), h("p", { class: "faint" }, `${fullTime(side.listed.started_at)} to ${fullTime(side.listed.ended_at)}`))));
    const parts = [h("p", { class: "confidence" }, h("b", {}, Math.round(made.confidence * 100) + " %"), " sure that they are the same work, by ", plural(made.correlations.length, "piece") + " of evidence"), heads];
    if (times.length) {
      const svg = h("svg:svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `Events of both from ${fullTime(new Date(first).toISOString())} to ${fullTime(new Date(last).toISOString())}`, class: "axis-chart" });
      for (let number = 0; number <= 4; number++) { const time = first + span * number / 4, y = 16 + number / 4 * (H - 40); svg.append(h("svg:line", { class: "grid", x1: 0, x2: W, y1: y, y2: y }), h("svg:text", { class: "axis", x: W / 2, y: y - 3, "text-anchor": "middle" }, new Date(time).toLocaleTimeString("sv"))); }
      for (const one of made.correlations) if (one.type === "temporal" && one.timestamp) { const y = at(one.timestamp); svg.append(h("svg:line", { class: "tie", x1: x[0], x2: x[1], y1: y, y2: y, "stroke-opacity": 0.2 + 0.8 * one.confidence }, h("svg:title", {}, `${one.left} and ${one.right}: ${Math.round(one.time_difference_ms)} ms apart`))); }
      sides.forEach((side, number) => {
        svg.append(h("svg:line", { class: "rail", x1: x[number], x2: x[number], y1: 8, y2: H - 16 }));
        let above = -100;
        for (const event of side.events) {
          const y = at(event.time), prompt = event.name === "prompt";
          svg.append(h("svg:circle", { class: prompt ? "event prompt" : "event", cx: x[number], cy: y, r: prompt ? 5 : 3 }, h("svg:title", {}, `${event.name} · ${fullTime(event.time)}`)));
          if (y - above > 12 && (prompt || y - above > 20)) { above = y; svg.append(h("svg:text", { class: prompt ? "name strong" : "name", x: x[number] + (number ? 12 : -12), y: y + 4, "text-anchor": number ? "start" : "end" }, prompt ? `turn ${(event.turn ?? 0) + 1}` : event.name.slice(0, 40))); }
        }
      });
      parts.push(svg);
    }
    parts.push(h("table", { class: "evidence" }, h("thead", {}, h("tr", {}, ["Evidence", "Sure", "One", "The other", "Apart"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, made.correlations.map((one) => h("tr", {}, h("th", { scope: "row" }, KINDS[one.type] ?? one.type), h("td", {}, Math.round(one.confidence * 100) + " %"), h("td", { dir: "auto" }, one.left), h("td", { dir: "auto" }, one.right), h("td", {}, one.time_difference_ms === undefined ? "" : Math.round(one.time_difference_ms) + " ms"))))));
    return parts;
  }
  await draw();
  return null;
}
