// Alignment: two conversations side by side on one time axis, and why they may be the same work.
import { ask, conversationLink, fullTime, h, lastPart, plural, prose, search as asQuery, setState, state, trouble } from "./common.js";

const gap = (milliseconds) => milliseconds === undefined ? "" : milliseconds < 1000 ? Math.round(milliseconds) + " ms" : (milliseconds / 1000).toFixed(1) + " s";
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
  const latest = ask("conversations", { limit: 200 }).then((page) => page.conversations).catch(() => []);
  latest.then((list) => names.append(...list.map((one) => h("option", { value: one.id }, one.title || ""))));

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
    const parts = [];
    const list = (title, items) => items.length ? [h("h2", { class: "side-title" }, title), h("ul", { class: "pairs" }, items)] : [];
    parts.push(...list(prose("Pairs that `unspool align` has found"), shown.map((pair) => h("li", {}, h("a", { href: "/alignment" + asQuery({ left: pair.left, right: pair.right }) }, h("b", {}, Math.round(pair.confidence * 100) + " %"), ` ${pair.left_title || pair.left} ↔ ${pair.right_title || pair.right}`)))));
    const choice = (one, query) => h("li", {}, h("a", { href: "/alignment" + asQuery(query) }, h("span", { class: "source" }, one.source), ` ${one.title || one.id} `, h("span", { class: "faint" }, [lastPart(one.project), fullTime(one.started_at)].filter(Boolean).join(" · "))));
    if (only) parts.push(...list("Align it with what went on at the same time, or in the same project", (await beside(only)).map((other) => choice(other, { left: only, right: other.id }))));
    else parts.push(h("p", {}, prose("Two agents that worked on the same task, on one time axis. `unspool align` looks for such pairs; or begin with one of these.")), ...list("The latest conversations", (await latest).slice(0, 12).map((one) => choice(one, { left: one.id }))));
    if (!parts.length) parts.push(h("p", { class: "empty" }, "Nothing else went on at that time. Name the other conversation above."));
    body.replaceChildren(...parts);
  }
  // What went on within a day of it, of other agents first.
  async function beside(id) {
    const { listed: one } = await ask("conversation", { id });
    const day = 864e5, from = Date.parse(one.started_at), to = Date.parse(one.ended_at || one.started_at);
    const asked = [one.project ? { project: one.project } : null, Number.isNaN(from) ? null : { since: new Date(from - day).toISOString(), until: new Date(to + day).toISOString() }].filter(Boolean);
    const found = await Promise.all(asked.map((query) => ask("conversations", { ...query, limit: 50 })));
    const others = new Map(found.flatMap((page) => page.conversations).filter((other) => other.id !== one.id).map((other) => [other.id, other]));
    const apart = (other) => Math.abs(Date.parse(other.started_at) - from) || 0;
    return [...others.values()].sort((a, b) => (a.source === one.source) - (b.source === one.source) || apart(a) - apart(b)).slice(0, 20);
  }
  // From the one's moment to the other's: a tie that slants tells who was first, and by how much.
  function tie(one, sides) {
    if (one.type === "temporal") return [one.timestamp, one.right_timestamp];
    if (one.type !== "semantic") return [null, null];
    const of = (side, turn) => side.events.find((event) => event.name === "prompt" && event.turn === turn)?.time;
    return [of(sides[0], one.left_turn), of(sides[1], one.right_turn)];
  }
  function axis(made) {
    // Where nothing is timed but the conversation itself: from when to when it went.
    const ends = ({ started_at, ended_at }) => [["began", started_at], ["ended", ended_at]].filter(([, time]) => time).map(([name, time]) => ({ name, time }));
    const sides = [made.left, made.right].map((side) => side.events.length ? side : { ...side, events: ends(side.listed) });
    const times = sides.flatMap((side) => side.events.map((event) => Date.parse(event.time))).filter((time) => !Number.isNaN(time));
    const first = Math.min(...times), last = Math.max(...times), span = Math.max(last - first, 1);
    const narrow = body.clientWidth < 640, W = narrow ? 420 : 900, x = narrow ? [120, 300] : [290, 610];
    const H = Math.min(1400, Math.max(260, times.length * 11)), at = (stamp) => 20 + (Date.parse(stamp) - first) / span * (H - 44);
    const heads = h("div", { class: "pair-heads" }, sides.map((side) => h("div", {}, h("span", { class: "source" }, side.listed.source), h("h2", {}, h("a", { href: conversationLink(side.listed.id) }, side.listed.title || side.listed.id)), h("p", { class: "faint" }, `${fullTime(side.listed.started_at)} to ${fullTime(side.listed.ended_at)}`))));
    const parts = [h("p", { class: "confidence" }, h("b", {}, Math.round(made.confidence * 100) + " %"), " sure that they are the same work, by ", plural(made.correlations.length, "piece") + " of evidence"), heads];
    if (times.length) {
      const svg = h("svg:svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `Events of both from ${fullTime(new Date(first).toISOString())} to ${fullTime(new Date(last).toISOString())}`, class: "axis-chart" });
      const clock = (time) => { const text = new Date(time).toLocaleString("sv"); if (span < 2e4) return `${text.slice(11)}.${String(Math.floor(time) % 1000).padStart(3, "0")}`; return span > 72e6 ? text.slice(5, 16) : text.slice(11, span < 6e5 ? 19 : 16); };
      for (let number = 0; number <= 4; number++) { const time = first + span * number / 4, y = 20 + number / 4 * (H - 44); svg.append(h("svg:line", { class: "grid", x1: 0, x2: W, y1: y, y2: y }), h("svg:text", { class: "axis", x: W / 2, y: y - 4, "text-anchor": "middle" }, clock(time))); }
      for (const one of made.correlations) {
        const [from, to] = tie(one, sides);
        if (!from || !to) continue;
        const what = one.type === "semantic" ? `turn ${one.left_turn + 1} and turn ${one.right_turn + 1}: similar words` : `${one.left} and ${one.right}: ${gap(one.time_difference_ms)} apart`;
        svg.append(h("svg:line", { class: "tie " + one.type, x1: x[0], x2: x[1], y1: at(from), y2: at(to), "stroke-opacity": (0.25 + 0.75 * one.confidence).toFixed(2) }, h("svg:title", {}, `${what}, ${Math.round(one.confidence * 100)} % sure`)));
      }
      sides.forEach((side, number) => {
        svg.append(h("svg:line", { class: "rail", x1: x[number], x2: x[number], y1: 8, y2: H - 16 }));
        let above = -100;
        for (const event of side.events) {
          const y = at(event.time), prompt = event.name === "prompt";
          svg.append(h("svg:circle", { class: prompt ? "event prompt" : "event", cx: x[number], cy: y, r: prompt ? 5 : 3 }, h("svg:title", {}, `${event.name} · ${fullTime(event.time)}`)));
          if (y - above > (prompt ? 14 : 20)) { above = y; svg.append(h("svg:text", { class: prompt ? "name strong" : "name", x: x[number] + (number ? 12 : -12), y: y + 4, "text-anchor": number ? "start" : "end" }, prompt ? `turn ${(event.turn ?? 0) + 1}` : event.name.slice(0, narrow ? 14 : 40))); }
        }
      });
      parts.push(h("p", { class: "legend faint" }, h("span", { class: "key prompt" }), "a prompt ", h("span", { class: "key" }), "a tool call ", h("span", { class: "key temporal" }), "within five seconds ", h("span", { class: "key semantic" }), "similar words; the stronger, the surer"), svg);
    }
    if (made.correlations.length) parts.push(h("table", { class: "evidence" }, h("thead", {}, h("tr", {}, ["Evidence", "Sure", "One", "The other", "Apart"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, made.correlations.map((one) => h("tr", {}, h("th", { scope: "row" }, KINDS[one.type] ?? one.type), h("td", {}, Math.round(one.confidence * 100) + " %"), h("td", { dir: "auto" }, one.left), h("td", { dir: "auto" }, one.right), h("td", {}, gap(one.time_difference_ms)))))));
    return parts;
  }
  await draw();
  return null;
}
