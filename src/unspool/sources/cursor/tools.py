"""Tools: what tells that a call in one of Cursor's channels is a call in another.

The channels give the same tool other names (`Shell`, `run_terminal_cmd`, `shellToolCall`) and other
arguments, and often no id. The likeness is what they all tell: the kind of tool, and the command,
file name or pattern.
"""

import re
from typing import Any

import msgspec

from unspool.io.structs import Shape
from unspool.io.values import dict_of, dicts_of, field_of, str_of
from unspool.prompts.shapes import arguments_text
from unspool.sources.cursor.paths import clean_path, file_name, uri_path
from unspool.sources.diffs import count_edits, files_of_patch

_NAMES = {
    "shell": "shell bash terminal runterminalcmd runterminalcommand executecommand",
    "read": "read readfile",
    "edit": "edit write strreplace editfile searchreplace multiedit applypatch createfile writefile"
    " editnotebook reapply",
    "delete": "delete deletefile",
    "list": "ls listdir list",
    "grep": "grep grepsearch ripgrep ripgrepsearch ripgreprawsearch rg",
    "glob": "glob filesearch globfilesearch",
    "semantic": "codebasesearch semanticsearch semsearch",
    "web": "websearch",
    "fetch": "webfetch fetch",
    "todo": "todowrite updatetodos",
    "task": "task subagent",
    "lints": "readlints",
    "mcp": "callmcptool mcp",
}
"""Kind → its names, without case, underscores and versions."""
_KINDS = {name: kind for kind, names in _NAMES.items() for name in names.split()}
_PATHS = (
    "path", "file_path", "filePath", "target_file", "targetFile", "relativeWorkspacePath",
    "relative_workspace_path", "target_notebook", "notebook_path", "effectiveUri", "uri",
)  # fmt: skip
_DETAILS = {
    "shell": ("command",),
    "grep": ("pattern", "query", "regex"),
    "glob": ("glob_pattern", "globPattern", "query", "pattern"),
    "web": ("search_term", "searchTerm", "query"),
    "fetch": ("url",),
}
_WHOLE = ("contents", "content", "code_edit", "codeEdit", "fileText", "streamContent")
_SAID = (
    "output", "contents", "content", "stdout", "result", "text", "message", "resultForModel",
    "markdown", "outputRaw", "modelVisibleErrorMessage", "clientVisibleErrorMessage",
)  # fmt: skip
"""The field of an output that the model was told, the first that there is: 1.7 has commands with
`outputRaw` alone, and edits whose `resultForModel` stands beside the diff."""
_VERSION = re.compile(r"_v\d+$")


class Called(msgspec.Struct):
    toolCallId: str | None = None


class Tool(Called):
    """A call and its result. Most bubbles carry one without a name, which is a placeholder:
    `{"additionalData": {}}` (320 of 873 real ones)."""

    name: str | None = None
    modelCallId: str | None = None
    status: str | None = None
    userDecision: str | None = None
    rawArgs: Any = None
    params: Any = None
    result: Any = None
    error: Any = None
    additionalData: Any = None


TOOL = Shape(Tool)


def decoded(value: Any) -> Any:
    """The value inside JSON text; anything else as it is."""
    if isinstance(value, str) and value[:1] in '{["':
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            return value
    return value


def kind_of(name: str) -> str:
    """The kind of tool: one word for all its names; an unknown tool is its own kind."""
    plain = _VERSION.sub("", name).lower()
    if plain.startswith(("mcp:", "mcp_", "mcp-")):
        return "mcp"
    plain = plain.replace("_", "").replace("-", "")  # `create_plan` is `CreatePlan`
    return _KINDS.get(plain, plain)


def called(name: str, given: Any) -> dict[str, Any]:
    """A call of any channel, as fields of ToolCalled."""
    return {
        "name": name, "arguments": arguments_text(given), "like": likeness(name, given),
        "files": touches(name, given),
    }  # fmt: skip


def likeness(name: str, arguments: Any) -> str:
    """What a call is recognised by in every channel."""
    kind, given = kind_of(name), decoded(arguments)
    if kind == "mcp":
        return f"mcp {_mcp_tool(name, given)}"
    if kind in ("edit", "read", "delete"):
        return f"{kind} {file_name(path_of(given))}"
    if isinstance(given, dict):
        for field in _DETAILS.get(kind, ()):
            if isinstance(given.get(field), str):
                return f"{kind} {given[field].strip()}"
    return kind


def _mcp_tool(name: str, given: Any) -> str:
    """`MCP:<tool>`, `mcp_<server>_<tool>`, or named among the arguments."""
    if isinstance(given, dict):
        tools = given.get("tools")
        if isinstance(tools, list) and tools and isinstance(tools[0], dict):
            return str(tools[0].get("name", ""))
        for field in ("toolName", "tool_name", "name"):
            if kind_of(name) == "mcp" and isinstance(given.get(field), str):
                return str(given[field])
    return name.partition(":")[2] if name.lower().startswith("mcp:") else name


def path_of(given: Any) -> str:
    """The file that a call is about; empty where its arguments name none."""
    if isinstance(given, str):
        return next((file["path"] for file in files_of_patch(given)), "")
    if isinstance(given, dict):
        for field in _PATHS:
            if path := uri_path(given.get(field)):
                return path
        for field in ("patch", "input"):
            if isinstance(given.get(field), str):
                return path_of(given[field])
    return ""


def edits_of(given: Any) -> list[tuple[str, str]] | None:
    """(old, new) of each replacement that the arguments spell out; None where they do not."""
    if not isinstance(given, dict):
        return None
    listed = given.get("edits")
    return [
        (str_of(edit.get(old)), edit[new])
        for edit in dicts_of(listed if isinstance(listed, list) else [given])
        for old, new in (("old_string", "new_string"), ("oldString", "newString"))
        if isinstance(edit.get(new), str)
    ] or None


def touch(
    path: str, edits: list[tuple[str, str]] | None, outcome: str = "", tool: str = ""
) -> dict[str, Any]:
    """What an edit did to a file, as far as its replacements tell."""
    change: dict[str, Any] = {"path": path}
    if edits is not None:
        change["lines_added"], change["lines_removed"] = count_edits(edits)
        if len(edits) == 1 and not edits[0][0]:
            change["operation"] = "create"
    told = {"outcome": outcome, "tool": tool}
    return change | {name: value for name, value in told.items() if value}


def touches(name: str, arguments: Any, outcome: str = "") -> tuple[dict[str, Any], ...]:
    """The files that a call changes, read out of its arguments."""
    given = decoded(arguments)
    kind = kind_of(name)
    if kind not in ("edit", "delete"):
        return ()
    patch = given.get("patch", given.get("input")) if isinstance(given, dict) else given
    if isinstance(patch, str) and (patched := files_of_patch(patch)):
        told = {"tool": name, **({"outcome": outcome} if outcome else {})}
        return tuple({**file, "path": clean_path(file["path"]), **told} for file in patched)
    path = path_of(given)
    if not path:
        return ()
    if kind == "delete":
        return ({**touch(path, None, outcome, name), "operation": "delete"},)
    change = touch(path, edits_of(given), outcome, name)
    whole = next((given[f] for f in _WHOLE if isinstance(given.get(f), str)), None)
    if "lines_added" not in change and whole is not None and "edit" not in name.lower():
        # Written whole: what was there before, nobody tells.
        change["lines_added"] = count_edits([("", whole)])[0]
    return (change,)


_COUNTED = {"lines_added": ("linesAdded", "linesCreated"), "lines_removed": ("linesRemoved",)}


def counted(name: str, body: Any, path: str = "") -> tuple[dict[str, Any], ...]:
    """How many lines the result of an edit says that it changed."""
    if not isinstance(body, dict) or kind_of(name) not in ("edit", "delete"):
        return ()
    change: dict[str, Any] = {"path": path or path_of(body)}
    for field, names in _COUNTED.items():
        for spelling in names:
            if isinstance(body.get(spelling), int):
                change[field] = body[spelling]
    return (change,) if len(change) > 1 and change["path"] else ()


def told_of(value: Any) -> tuple[str | None, Any]:
    """(what the model got, None where no field of it is that; what the tool returned beside it) of an
    output, which may be JSON text."""
    output = decoded(value)
    if isinstance(output, str):
        return output, None
    for field in _SAID if isinstance(output, dict) else ():
        said = output.get(field)
        text = said if said is None or isinstance(said, str) else _blocks_text(said)
        if text is not None:
            beside = {name: value for name, value in output.items() if name != field}
            # `{"selectedTool": "find", "result": "{\"content\": […]}"}`: what a server answered.
            inner = _blocks_text(field_of(decoded(said), "content")) if field == "result" else None
            return inner or text, beside or None
    return None, output


def _blocks_text(content: Any) -> str | None:
    """The text of `[{"type": "text", "text": …}]`, as servers of tools answer, which the command line
    writes as `[{"text": {"text": …}}]`; None without any."""
    spoken = (block.get("text") for block in dicts_of(content))
    texts = [str_of(text) or str_of(field_of(text, "text")) for text in spoken]
    return "\n\n".join(filter(None, texts)) or None


def output_of(value: Any) -> tuple[str | None, Any]:
    """The same; where no field is what the model got, that is all of it."""
    text, details = told_of(value)
    if text is None and details is not None:
        text = value if isinstance(value, str) else msgspec.json.encode(details).decode()
    return text, details


Outcome = tuple[bool | None, str]
"""(whether it failed, None where nothing tells; the status of a call that did not simply end)."""

_STATUS = {
    "cancelled": "cancelled", "canceled": "cancelled", "loading": "pending", "pending": "pending",
    "running": "pending", "rejected": "denied", "skipped": "denied",
}  # fmt: skip
DENIED = ("rejected", "permissionDenied")
_EXIT = re.compile(r"Exit code: (-?\d+)")


def of_editor(tool: Tool) -> Outcome:
    """What became of a bubble's call. No single field tells it: an edit that the person rejected and
    a command that ended with 1 are both `completed`."""
    result, beside = decoded(tool.result), tool.additionalData
    body = dict_of(result)
    aside = field_of(beside, "status")
    # The newer field wins: the older one is left out where it is 0.
    codes = (body.get("exitCodeV2"), body.get("exitCode"))
    code = next((code for code in codes if isinstance(code, int)), 0)
    has_error = bool(body.get("error")) and "success" not in body
    failed = "error" in (tool.status, aside) or code != 0 or has_error
    status = _STATUS.get(tool.status or "", "")
    rejected = "rejected" in (tool.userDecision, aside) or body.get("rejected") is True
    if rejected or status == "denied":
        return True, "denied"
    if str(body.get("endedReason")).endswith("_ABORTED"):
        return failed, "cancelled"
    return failed, status


def of_message(outcome: Any, name: str, text: str) -> Outcome:
    """The outcome of a result that was sent to the model: by `highLevelToolCallResult`, else by the
    first line of a shell's text."""
    kind, body = result_body(outcome)
    if kind in DENIED or text.startswith("Rejected:"):
        return True, "denied"
    holders = (outcome, field_of(outcome, "output"), body)  # the last: what a server answered
    flags = [field_of(holder, "isError") for holder in holders]
    code = _EXIT.match(text) if kind_of(name) == "shell" else None
    if kind not in ("", "success") or True in flags or (code is not None and int(code[1])):
        return True, ""
    return (False if kind else None), ""


def result_body(high: Any) -> tuple[str, dict[str, Any]]:
    """(kind of outcome, what stands under it) of `{output: {success: {…}}}`."""
    for kind, body in dict_of(field_of(high, "output")).items():
        if kind != "isError":
            return str(kind), dict_of(body)
    return "", {}
