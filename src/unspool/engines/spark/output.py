"""Output: the files that tasks write themselves, and how they come into place exactly once.

A finished conversation, however long, goes into its file message by message and is never a row in Java.
A task that fails, or runs twice, leaves files under a name of its own (`STAGING/finished/<attempt>/…`);
the driver learns the names of those that count with the tasks' results, and only they are moved.
"""

import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from unspool.io.memory import give_back
from unspool.io.packing import encode_json
from unspool.sinks.jsonl import drop_bytes
from unspool.sinks.parquet.arrow import combine
from unspool.sinks.parquet.rows import TABLES, rows_of
from unspool.trajectory import Trajectory, encode_trajectory

BUFFER_BYTES = 1 << 20
GIVE_BACK_BYTES = 8 << 20
"""So much of a long conversation, in another form now, is given back at once."""
MESSAGES_AT_ONCE = 16
CONVERSATIONS = "conversations"
_BARE = len(encode_trajectory(Trajectory(conversation_id="", messages=[]))) - len("]}")


def _local(url: str) -> Path | None:
    """Its path, where it names a local file. (Such a URL of Spark's need not be a well-formed one.)"""
    if url.startswith("file:"):
        return Path("/" + url.removeprefix("file:").lstrip("/"))
    return Path(url) if url.startswith("/") else None


def _remote(url: str) -> tuple[Any, str]:
    """Its file system and its path there."""
    from pyarrow import fs  # 5 MB: not for local files

    path = _local(url)
    return (fs.LocalFileSystem(), str(path)) if path else fs.FileSystem.from_uri(url)


def staged_files(sink: str, part: str) -> dict[str, str]:
    """Table → the file that a task wrote of it; of JSONL there is only `conversations`."""
    if sink == "jsonl":
        return {CONVERSATIONS: f"{part}.jsonl"}
    return {table: f"{part}.{table}.parquet" for table in TABLES}


def placed_files(sink: str, part: str) -> dict[str, str]:
    """The same, as they are called in the output."""
    name = part.rpartition("/")[2]
    if sink == "jsonl":
        return {CONVERSATIONS: f"{name}.jsonl"}
    return {table: f"{table}/{name}.parquet" for table in TABLES}


def write_part(
    trajectories: Iterable[Trajectory], sink: str, folder: str, number: int
) -> tuple[str, int, int]:
    """Writes the conversations of a task. Its name for what it wrote, how many there were, and their
    messages."""
    part = f"{uuid4().hex}/part-{number:05d}"
    written = messages = 0

    def counted() -> Iterator[Trajectory]:
        nonlocal written, messages
        for trajectory in trajectories:
            written += 1
            messages += len(trajectory.messages)
            yield trajectory

    with ExitStack() as opened:
        files = {
            table: opened.enter_context(_create(f"{folder}/{name}"))
            for table, name in staged_files(sink, part).items()
        }
        if sink == "jsonl":
            for trajectory in counted():
                write_line(trajectory, files[CONVERSATIONS])
        else:
            combine(
                (rows_of(trajectory) for trajectory in counted()),
                {f"{table}.parquet": file for table, file in files.items()},
            )
    return part, written, messages


def _create(url: str) -> Any:
    path = _local(url)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        return open(path, "wb", BUFFER_BYTES)
    system, inner = _remote(url)
    system.create_dir(inner.rpartition("/")[0], recursive=True)
    return system.open_output_stream(inner, buffer_size=BUFFER_BYTES)


def write_line(trajectory: Trajectory, file: Any) -> None:
    """As the sink writes it. Messages are let go some at a time, so that a long conversation is held
    once."""
    drop_bytes(trajectory)
    messages, trajectory.messages = trajectory.messages, []
    empty = encode_trajectory(trajectory)
    at = _BARE + len(encode_json(trajectory.conversation_id)) - len('""')
    file.write(empty[:at])
    messages.reverse()
    size = 0
    while messages:
        some = [messages.pop() for _ in range(min(MESSAGES_AT_ONCE, len(messages)))]
        line = encode_json(some)[1:-1]
        file.write(line)
        if messages:
            file.write(b",")
        size += len(line)
        if size > GIVE_BACK_BYTES:
            size = 0
            give_back()
    file.write(empty[at:])
    file.write(b"\n")


def place(batches: Iterable[Any]) -> Iterator[Any]:
    """Moves files, told as rows (source, target); one without a source is made, empty. A task that runs
    once more finds its work done."""
    for batch in batches:
        for source, target in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if source:
                _move(source, target)
            else:
                _create(target).close()
        yield batch


def _move(source: str, target: str) -> None:
    old_path, new_path = _local(source), _local(target)
    if old_path is not None and new_path is not None:
        new_path.parent.mkdir(parents=True, exist_ok=True)
        if old_path.exists() or not new_path.exists():
            shutil.move(old_path, new_path)
        return
    from pyarrow import fs

    (old_system, old), (new_system, new) = _remote(source), _remote(target)
    is_there = [
        system.get_file_info(path).type == fs.FileType.File
        for system, path in ((old_system, old), (new_system, new))
    ]
    if is_there == [False, True]:
        return
    new_system.create_dir(new.rpartition("/")[0], recursive=True)
    if old_system == new_system:
        new_system.move(old, new)
    else:
        fs.copy_files(old, new, source_filesystem=old_system, destination_filesystem=new_system)


def remove_folder(url: str) -> None:
    """What was staged. Where it cannot be removed from here it stays; readers of Spark pass over it."""
    path = _local(url)
    if path is not None:
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(Exception):  # each of pyarrow's file systems has errors of its own
        system, inner = _remote(url)
        system.delete_dir(inner)
