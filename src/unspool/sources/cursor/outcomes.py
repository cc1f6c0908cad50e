"""What became of a tool call: no single field of Cursor's tells it.

Seen in real databases: `completed` calls whose result says `rejected` or a non-zero exit code, or
whose `additionalData` says `error`. The command line tells the kind of outcome by the name of the
result (`success`, `error`, `failure`, `rejected`); its `isError` is false for a non-zero exit.
"""

import re
from typing import Any

from unspool.sources.cursor.tools import decoded, kind_of

Outcome = tuple[bool | None, str]
"""(whether it failed, None where nothing tells; the status of a call that did not simply end)."""

_STATUS = {
    "cancelled": "cancelled", "canceled": "cancelled", "loading": "pending", "pending": "pending",
    "running": "pending", "rejected": "denied", "skipped": "denied",
}  # fmt: skip
_DENIED = ("rejected", "permissionDenied")
_EXIT = re.compile(r"Exit code: (-?\d+)")


def is_call(tool: Any) -> bool:
    """Whether something was called: most bubbles carry an empty object, some a stub of other data."""
    return isinstance(tool, dict) and any(
        tool.get(name) for name in ("name", "toolCallId", "tool", "rawArgs", "params", "result")
    )


def of_editor(tool: dict[str, Any]) -> Outcome:
    """The outcome of a bubble's tool."""
    status, result = tool.get("status"), decoded(tool.get("result"))
    beside = tool.get("additionalData")
    told = beside.get("status") if isinstance(beside, dict) else None
    body = result if isinstance(result, dict) else {}
    failed = "error" in (status, told) or bool(_exit_code(body)) or _has_error(body)
    ended = _STATUS.get(status, "") if isinstance(status, str) else ""
    refused = tool.get("userDecision") == "rejected" and not tool.get("result")
    if body.get("rejected") is True or told == "rejected" or refused or ended == "denied":
        return True, "denied"
    if str(body.get("endedReason")).endswith("_ABORTED"):
        return failed, "cancelled"
    return failed, ended


def _exit_code(body: dict[str, Any]) -> int:
    """The newer field wins: the older one is left out where it is 0."""
    codes = (body.get("exitCodeV2"), body.get("exitCode"))
    return next((code for code in codes if isinstance(code, int)), 0)


def _has_error(body: dict[str, Any]) -> bool:
    return bool(body.get("error")) and "success" not in body


def of_message(told: Any, name: str, text: str) -> Outcome:
    """The outcome of a result that was sent to the model: by `highLevelToolCallResult`, else by the
    first line of a shell's text."""
    high = told if isinstance(told, dict) else {}
    kind, _ = result_body(high)
    if kind in _DENIED or text.startswith("Rejected:"):
        return True, "denied"
    output = high.get("output")
    flags = (high.get("isError"), output.get("isError") if isinstance(output, dict) else None)
    if kind and kind != "success":
        return True, ""
    if True in flags:
        return True, ""
    code = _EXIT.match(text) if kind_of(name) == "shell" else None
    if code is not None and int(code[1]):
        return True, ""
    return (False, "") if kind else (None, "")


def result_body(high: Any) -> tuple[str, dict[str, Any]]:
    """(kind of outcome, what stands under it) of `{output: {success: {…}}}`."""
    output = high.get("output") if isinstance(high, dict) else None
    for kind, body in output.items() if isinstance(output, dict) else ():
        if kind != "isError":
            return str(kind), body if isinstance(body, dict) else {}
    return "", {}
