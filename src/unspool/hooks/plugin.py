"""OpenCode runs plugins in its own process instead of commands: the file that is written for it."""

import json
from pathlib import Path

from unspool.hooks.spool import PROGRAM

_TEXT = """\
// Written by `unspool hooks install opencode`; `unspool hooks remove opencode` removes it.
// Lays copies of a few events into a folder. It changes nothing, answers nothing and never fails.
import { randomUUID } from "node:crypto"
import { existsSync, renameSync, rmSync, writeFileSync } from "node:fs"

const spool = %(spool)s
const unspool = %(program)s
const wanted = new Set(%(events)s)

export const Unspool = async ({ directory }) => {
  const hand = (name, session, input, output) => {
    if (!wanted.has(name) || !existsSync(unspool)) return
    const file = `opencode.${randomUUID()}`
    try {
      const told = { hook_event_name: name, session_id: session, cwd: directory, at: Date.now() }
      const payload = JSON.stringify({ ...told, input, output })
      writeFileSync(`${spool}/tmp/${file}`, payload, { flag: "wx", mode: 0o600 })
      renameSync(`${spool}/tmp/${file}`, `${spool}/new/${file}`)
    } catch {
      try { rmSync(`${spool}/tmp/${file}`, { force: true }) } catch {}
    }
  }
  const at = (name) => async (input, output) => hand(name, input?.sessionID, input, output)
  return {
    event: async ({ event }) => hand(event?.type, event?.properties?.sessionID, event),
    "chat.message": at("chat.message"),
    "tool.execute.before": at("tool.execute.before"),
    "tool.execute.after": at("tool.execute.after"),
  }
}
"""


def text(spool: Path, events: list[str]) -> str:
    return _TEXT % {
        "spool": json.dumps(str(spool)),
        "program": json.dumps(str(PROGRAM)),
        "events": json.dumps(events),
    }
