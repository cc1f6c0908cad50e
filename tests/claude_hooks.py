"""A made-up session told twice: as the lines of its transcript and as the payloads of its hooks.

One description gives both, so that a test can say what must come of them without reading either.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.claude_lines import SESSION, Row, answer, at, call, line, result, said

Payload = dict[str, Any]


class Call(NamedTuple):
    ident: str
    name: str
    given: dict[str, Any]
    came: str
    """What the model got."""
    end: str = "PostToolUse"
    """The event that ends it: PostToolUse, PostToolUseFailure or PermissionDenied."""
    asked: bool = False
    """Whether the person was asked for permission."""


class Turn(NamedTuple):
    prompt: str
    calls: list[Call]
    last: str


TURNS = [
    Turn("List the files.", [Call("t1", "Bash", {"command": "ls"}, "a.txt"),
                             Call("t2", "Bash", {"command": "ls"}, "a.txt b.txt")], "Two files."),
    Turn("go on", [Call("t3", "Read", {"file_path": "/w/no"}, "File does not exist.",
                        "PostToolUseFailure"),
                   Call("t4", "Edit", {"file_path": "/w/a", "old_string": "x", "new_string": "y"},
                        "The user doesn't want to proceed with this tool use.", "PermissionDenied",
                        True)], "I could not."),
    Turn("go on", [Call("t5", "Bash", {"command": "rm b.txt"}, "gone", asked=True)], "Done."),
]  # fmt: skip


class Told(NamedTuple):
    """One payload, and when it was handed over."""

    second: float
    payload: Payload


def transcript() -> list[Row]:
    rows: list[Row] = []
    above: str | None = None
    for number, turn in enumerate(TURNS):
        start = number * 100
        rows.append(said(f"p{number}", above, turn.prompt, start, promptId=f"q{number}"))
        above = f"p{number}"
        for at_call, made in enumerate(turn.calls):
            second = start + 10 * at_call + 5
            rows.append(
                answer(f"a-{made.ident}", above, f"m-{made.ident}",
                       call(made.ident, made.name, **made.given), second=second)
            )  # fmt: skip
            failed = {"is_error": True} if made.end != "PostToolUse" else {}
            back = result(f"r-{made.ident}", f"a-{made.ident}", made.ident, made.came, second + 4)
            back["message"]["content"][0] |= failed
            rows.append(back)
            above = f"r-{made.ident}"
        rows.append(answer(f"l{number}", above, f"ml{number}", turn.last, second=start + 50))
        above = f"l{number}"
    rows.append(line("system", "d", above, 260, subtype="turn_duration", durationMs=4000))
    return rows


def payloads(prompt_ids: bool = True, call_ids: bool = True) -> list[Told]:
    """In the order in which they were handed over."""
    told: list[Told] = [Told(-1, {"hook_event_name": "SessionStart", "source": "startup"})]
    for number, turn in enumerate(TURNS):
        start = number * 100
        mine = {"prompt_id": f"q{number}"} if prompt_ids else {}
        told.append(
            Told(
                start - 0.1, {"hook_event_name": "UserPromptSubmit", "prompt": turn.prompt, **mine}
            )
        )
        for at_call, made in enumerate(turn.calls):
            second = start + 10 * at_call + 5
            what: Payload = {"tool_name": made.name, "tool_input": made.given, **mine}
            named = {**what, "tool_use_id": made.ident} if call_ids else what
            told.append(Told(second + 0.5, {"hook_event_name": "PreToolUse", **named}))
            if made.asked:
                told.append(Told(second + 1, {"hook_event_name": "PermissionRequest", **what}))
            told.append(
                Told(second + 3.9, {"hook_event_name": made.end, **named, **_came_of(made)})
            )
        last = {"last_assistant_message": turn.last, "stop_hook_active": False, **mine}
        told.append(Told(start + 51, {"hook_event_name": "Stop", **last}))
    told.append(Told(300, {"hook_event_name": "SessionEnd", "reason": "logout"}))
    common = {"session_id": SESSION, "transcript_path": f"/h/{SESSION}.jsonl", "cwd": "/w/shop"}
    return [Told(second, {**common, **payload}) for second, payload in told]


def with_displays(told: list[Told], words: str = "I look around.") -> list[Told]:
    """The same with what appeared on the screen: `words` before every call, and each last answer,
    in pieces, as they were streamed."""
    made: list[Told] = []
    for number, (second, payload) in enumerate(told):
        event = payload["hook_event_name"]
        text = {"PreToolUse": words, "Stop": payload.get("last_assistant_message")}.get(event)
        for index, piece in enumerate((text[:3], text[3:]) if text else ()):
            shown = {key: payload[key] for key in ("session_id", "transcript_path", "cwd")}
            shown |= {key: payload[key] for key in ("prompt_id",) if key in payload}
            shown |= {"hook_event_name": "MessageDisplay", "turn_id": "t", "delta": piece,
                      "message_id": f"d{number}", "index": index, "final": index == 1}  # fmt: skip
            made.append(Told(second - 0.2 + 0.1 * index, shown))
        made.append(Told(second, payload))
    return made


def _came_of(made: Call) -> Payload:
    if made.end == "PostToolUse":
        return {"tool_response": {"stdout": made.came, "stderr": ""}, "duration_ms": 3400}
    if made.end == "PostToolUseFailure":
        return {"error": made.came, "duration_ms": 3400}
    return {"reason": "not now"}


# How loggers write payloads down.

Stamp = Callable[[float], str]
Logger = Callable[[Path, list[Told], Stamp | None], None]


def as_lines(folder: Path, told: list[Told], stamp: Stamp | None) -> None:
    rows = [{**p, **({"logged_at": stamp(s)} if stamp else {})} for s, p in told]
    (folder / "hooks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def as_array(folder: Path, told: list[Told], stamp: Stamp | None) -> None:
    rows = [{**p, **({"timestamp": stamp(s)} if stamp else {})} for s, p in told]
    (folder / "hooks.json").write_text(json.dumps(rows, indent=2))


def with_prefix(folder: Path, told: list[Told], stamp: Stamp | None) -> None:
    """A date and some text before every object."""
    (folder / "hooks.log").write_text("".join(
        f"{f'[{stamp(s)}] ' if stamp else ''}{p['hook_event_name']} fired: {json.dumps(p)}\n"
        for s, p in told
    ))  # fmt: skip


def over_many_lines(folder: Path, told: list[Told], stamp: Stamp | None) -> None:
    (folder / "hooks.log").write_text("\n".join(
        f"{f'--- {stamp(s)} ---' if stamp else '---'}\n{json.dumps(p, indent=4)}" for s, p in told
    ))  # fmt: skip


def below_dates(folder: Path, told: list[Told], stamp: Stamp | None) -> None:
    """A line with the date, then the payload on one line."""
    (folder / "hooks.log").write_text("".join(
        f"=== {stamp(s) if stamp else p['hook_event_name']} ===\n{json.dumps(p)}\n" for s, p in told
    ))  # fmt: skip


def in_envelopes(folder: Path, told: list[Told], stamp: Stamp | None) -> None:
    rows = [{"hook": "x", "payload": p, **({"ts": stamp(s)} if stamp else {})} for s, p in told]
    (folder / "hooks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def as_text_inside(folder: Path, told: list[Told], stamp: Stamp | None) -> None:
    """What came in on standard input, kept as a text under a name of the script's own."""
    rows = [
        {"event_arg": p["hook_event_name"], "raw_stdin": json.dumps(p),
         **({"captured_at": stamp(s)} if stamp else {})}
        for s, p in told
    ]  # fmt: skip
    (folder / "hooks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def a_file_per_event(folder: Path, told: list[Told], stamp: Stamp | None) -> None:
    by_name: dict[str, list[Payload]] = {}
    for second, payload in told:
        row = {**payload, **({"logged_at": stamp(second)} if stamp else {})}
        by_name.setdefault(payload["hook_event_name"], []).append(row)
    for name, rows in by_name.items():
        (folder / f"{name}.json").write_text(json.dumps(rows))


def in_two_halves(folder: Path, told: list[Told], stamp: Stamp | None) -> None:
    """A log that was begun anew in the middle; a few payloads are in both."""
    half = len(told) // 2
    for name, part in (("1.jsonl", told[: half + 2]), ("2.jsonl", told[half:])):
        rows = [{**p, **({"logged_at": stamp(s)} if stamp else {})} for s, p in part]
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


LOGGERS: list[Logger] = [
    as_lines, as_array, with_prefix, over_many_lines, below_dates, in_envelopes, as_text_inside,
    a_file_per_event,
]  # fmt: skip


def local(hours: float) -> Stamp:
    """Times of a machine so many hours east of UTC, written without the zone."""

    def stamp(second: float) -> str:
        moved = second + hours * 3600 + 9 * 3600  # the session began at nine
        return (
            f"2026-03-02T{int(moved // 3600):02d}:{int(moved % 3600 // 60):02d}:{moved % 60:06.3f}"
        )

    return stamp


STAMPS: dict[str, Stamp | None] = {"none": None, "utc": lambda s: at(s) if s >= 0 else at(0),
                                   "east": local(5.75), "west": local(-7)}  # fmt: skip


def spellings(name: str) -> Iterator[str]:
    """An event's name as loggers and other agents write it."""
    snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")
    yield from (name, name[0].lower() + name[1:], name.lower(), name.upper(), snake)
    yield from (snake.upper(), snake.replace("_", "-"))
