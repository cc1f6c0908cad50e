"""Trajectory JSONL: one conversation per line, absent fields left out. `docs/trajectory.md`."""

from collections.abc import Iterator

import msgspec

from unspool.sinks import Family, Options, Piece
from unspool.trajectory import Attachment, Trajectory, decode_trajectory, encode_trajectory

NAME = "jsonl"
MANY_FILES = False
FAMILIES = False


def write(family: Family, options: Options) -> Iterator[Piece]:
    trajectory = family.root
    _drop_bytes(trajectory)
    yield Piece("", encode_trajectory(trajectory) + b"\n")


def _drop_bytes(trajectory: Trajectory) -> None:
    """Binary contents stay out of the line: the reference has their size, type and hash."""
    lists = [trajectory.messages, *(branch.messages for branch in trajectory.branches or ())]
    for messages in lists:
        for message in messages:
            if message.attachments and any(a.data for a in message.attachments):
                message.attachments = [_bare(a) for a in message.attachments]


def _bare(attachment: Attachment) -> Attachment:
    return msgspec.structs.replace(attachment, data="") if attachment.data else attachment


def parse(line: bytes) -> Trajectory:
    """A line back into a trajectory; raises msgspec.DecodeError where it is none."""
    return decode_trajectory(line)
