"""Trajectory JSONL: one conversation per line, absent fields left out. `docs/trajectory.md`."""

import re
from collections.abc import Iterator
from itertools import chain

import msgspec

from unspool.facts import Problem
from unspool.io.door import Flaw, read_json, recover_json, sample
from unspool.io.origins import Head, Origin, Tally, iter_lines
from unspool.io.packing import append_json
from unspool.sinks import Family, Options, Piece
from unspool.trajectory import Trajectory, decode_trajectory

NAME = "jsonl"
MANY_FILES = False
FAMILIES = False

_OPENING = re.compile(rb'\s*\{\s*"conversation_id"\s*:\s*"[^"]*"\s*,\s*"messages"\s*:\s*\[\s*[{\]]')


def write(family: Family, options: Options) -> Iterator[Piece]:
    drop_bytes(family.root)
    line = bytearray()
    append_json(family.root, line)
    line += b"\n"  # in place: a conversation is in memory once as a line
    yield Piece("", line)


def drop_bytes(trajectory: Trajectory) -> None:
    """Binary contents stay out of the line: the reference has their size, type and hash."""
    branches = (branch.messages for branch in trajectory.branches or ())
    for message in chain(trajectory.messages, *branches):
        if message.attachments and any(a.data for a in message.attachments):
            message.attachments = [
                msgspec.structs.replace(a, data="") if a.data else a for a in message.attachments
            ]


def parse(line: bytes, flaws: list[Flaw] | None = None) -> Trajectory:
    """A line back into a trajectory; raises msgspec.DecodeError where it is none. What had to be
    mended is added to the flaws."""
    try:
        return decode_trajectory(line)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        mended = read_json(line)  # another program may have cut a character in two
        if mended.lost or len(mended.values) != 1:
            raise
    if flaws is not None:
        flaws += mended.flaws
    return msgspec.convert(mended.values[0], Trajectory)


def claims(head: Head) -> bool:
    """A line with a conversation's id and its messages; the first may be longer than the head."""
    data = head.data.removeprefix(b"\xef\xbb\xbf")
    if _OPENING.match(data):
        return True
    if b'"conversation_id"' not in data or b'"messages"' not in data:
        return False
    if head.objects:
        return _is_trajectory(head.objects[0])
    # The keys may stand in any order once another program has rewritten the file.
    return _is_trajectory(recover_json(data.lstrip().split(b"\n", 1)[0]))


def _is_trajectory(value: object) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("conversation_id"), str):
        return False
    messages = value.get("messages")
    return isinstance(messages, list) and all(
        isinstance(message, dict) and ("role" in message or "content" in message)
        for message in messages[:1]
    )


def read(origin: Origin, tally: Tally) -> Iterator[Trajectory | Problem]:
    """The file's trajectories as they were written; a line that is none is a problem."""
    for offset, line in iter_lines(origin):
        yield from read_line(origin, offset, line, tally)


def read_line(
    origin: Origin, offset: int, line: bytes, tally: Tally
) -> Iterator[Trajectory | Problem]:
    tally.records += 1
    flaws: list[Flaw] = []
    try:
        trajectory = parse(line, flaws)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if isinstance(error, msgspec.ValidationError):  # JSON, but of another shape
            code, shown = "not-a-trajectory", f"{error}: {sample(line)}"
        else:
            code, shown = read_json(line).code or "invalid-json", line.decode("utf-8", "replace")
        tally.lose(code, origin.path, offset, sample(shown))
        yield from tally.take_flaws()
        return
    if not trajectory.messages and not trajectory.checkpoints:
        flaws.append(Flaw("empty-conversation", 0, sample(line)))
    yield trajectory
    key = (trajectory.source, trajectory.conversation_id)
    for flaw in flaws:
        yield Problem(
            key=key, origin=origin.path, offset=offset, code=flaw.code, sample=flaw.sample
        )
