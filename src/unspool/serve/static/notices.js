// Notices: the browser tells when an agent begins to wait, in whichever view its person is.
import { ask, debounce, onChange } from "./common.js";

const WISH = "unspool-notices";
export const canNotify = () => "Notification" in window;
export const wanted = () => canNotify() && Notification.permission === "granted" && localStorage.getItem(WISH) === "yes";
export async function setWanted(on) {
  if (on && await Notification.requestPermission() !== "granted") on = false;
  localStorage.setItem(WISH, on ? "yes" : "no");
  await look();
  return on;
}
const everybody = (agents) => agents.flatMap((one) => [one, ...everybody(one.children ?? [])]);
let known = null; // who waited when it was looked last: they were seen already
async function look() {
  if (!wanted()) { known = null; return; }
  try {
    const { agents } = await ask("now", {}, "notices");
    const waiting = everybody(agents).filter((one) => one.state === "waiting");
    if (known) for (const one of waiting) if (!known.has(one.listed.id)) new Notification("Waiting for you", { body: one.listed.title || one.listed.id, tag: one.listed.id });
    known = new Set(waiting.map((one) => one.listed.id));
  } catch (error) { /* asked again at the next change */ }
}
export function watchForWaiting() {
  onChange(debounce(look, 100));
  setInterval(look, 5000);
  look();
}
