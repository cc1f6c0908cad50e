// Now: what every agent is doing.
import { ask, conversationLink, count, debounce, dollars, h, lastPart, onChange, plural, prose, time, trouble } from "./common.js";
import { canNotify, setWanted, wanted } from "./notices.js";

const STATES = { working: "Working", waiting: "Waiting for you", idle: "Idle", failed: "Failed", ended: "Ended" };

export async function open(place) {
  const notify = h("button", { type: "button", class: "chip", "aria-pressed": String(wanted()), hidden: !canNotify() }, "Tell me when one waits");
  const cards = h("div", { class: "cards", role: "list", "aria-label": "Agents" });
  const note = h("p", { class: "faint", role: "status" });
  const empty = h("p", { class: "empty", hidden: true }, "No agent has done anything in the last day.");
  place.append(h("div", { class: "controls" }, h("h1", {}, "Now"), notify), note, empty, cards);
  notify.addEventListener("click", async () => notify.setAttribute("aria-pressed", String(await setWanted(!wanted()))));
  const drawn = new Map();
  function card(one) {
    const data = one.listed;
    const tokens = [data.prompt_tokens, data.completion_tokens].map(count).filter(Boolean).join(" in, ");
    return h("article", { class: "card " + one.state, role: "listitem", "data-id": data.id },
      h("header", {}, h("span", { class: "badge " + one.state }, STATES[one.state] ?? one.state), one.since ? h("span", { class: "faint" }, time(one.since)) : null, h("span", { class: "source" }, data.source)),
      h("h2", {}, h("a", { href: conversationLink(data.id) }, data.title || data.id)),
      h("p", { class: "facts-line" }, data.project ? h("span", { title: data.project }, lastPart(data.project)) : null, data.model ? h("span", {}, data.model) : null, h("span", {}, plural(data.turns, "turn")), tokens ? h("span", {}, tokens + " out") : null, data.cost_usd !== undefined ? h("span", {}, dollars(data.cost_usd)) : null, data.failures ? h("span", { class: "bad" }, `${data.failures} failed`) : null),
      one.tool ? h("p", { class: "tool-now" }, h("span", { class: "state open" }), h("code", {}, one.tool)) : null,
      one.words ? h("p", { class: "words", dir: "auto" }, one.words) : null,
      one.children?.length ? h("div", { class: "below", role: "list", "aria-label": "Sub-agents" }, one.children.map(card)) : null);
  }
  async function draw() {
    try {
      const now = await ask("now", {}, "now");
      note.replaceChildren(...prose(now.live ? "" : "Nothing keeps the store current: run `unspool watch`, or `unspool serve` without `--no-daemon`."));
      note.hidden = now.live;
      const keep = new Set();
      now.agents.forEach((one, number) => {
        const id = one.listed.id, text = JSON.stringify(one);
        keep.add(id);
        let known = drawn.get(id);
        if (!known || known.text !== text) {
          const made = card(one);
          if (known) known.element.replaceWith(made);
          known = { text, element: made };
          drawn.set(id, known);
        }
        if (cards.children[number] !== known.element) cards.insertBefore(known.element, cards.children[number] ?? null);
      });
      for (const [id, known] of drawn) if (!keep.has(id)) { known.element.remove(); drawn.delete(id); }
      empty.hidden = now.agents.length > 0;
    } catch (error) { const told = trouble(error); if (told) { note.hidden = false; note.replaceChildren(told); } }
  }
  const soon = debounce(draw, 100);
  const forget = onChange(soon);
  const timer = setInterval(draw, 5000); // states grow old without any change
  await draw();
  return () => { forget(); clearInterval(timer); };
}
