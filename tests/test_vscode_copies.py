"""VS Code chats: which of two copies counts, and what a log took back."""

import json
from pathlib import Path
from typing import Any

import pytest

import unspool
from tests.vscode import chat, one, put, request, words


def log(folder: Path, name: str, *changes: dict[str, Any]) -> Path:
    return put(folder, name, "".join(json.dumps(change) + "\n" for change in changes))


@pytest.mark.parametrize("folders", ["same", "log first", "log last"])
def test_of_a_flat_chat_and_a_log_that_tell_equally_much_the_log_counts(
    tmp_path: Path, folders: str
) -> None:
    """Both lie there after an upgrade of VS Code, which then reads the log alone."""
    flat = chat(request(1, followups=[{"message": "old"}], vote=1), customTitle="Before")
    later = chat(request(1, followups=[{"message": "new"}], vote=0), customTitle="After")
    places = {"same": ("w", "w"), "log first": ("b", "a"), "log last": ("a", "b")}[folders]
    paths = [
        put(tmp_path, f"{places[0]}/chatSessions/s.json", flat),
        log(tmp_path, f"{places[1]}/chatSessions/s.jsonl", {"kind": 0, "v": later}),
    ]
    for order in (paths, paths[::-1]):
        (made,) = unspool.extract(order)
        extra = made.messages[-1].extra or {}
        assert made.title == "After"
        assert extra["followups"] == [{"message": "new"}]
        assert extra["vote"] == "down"


def test_a_flat_chat_that_tells_more_of_a_request_than_the_log_is_believed(tmp_path: Path) -> None:
    whole, cut = request(1), request(1, response=[{"value": "ans"}])
    put(tmp_path, "chatSessions/s.json", chat(whole))
    log(tmp_path, "chatSessions/s.jsonl", {"kind": 0, "v": chat(cut)})
    assert words(one(tmp_path)) == [("user", "question 1"), ("assistant", "answer 1")]


@pytest.mark.parametrize("flat", [False, True])
def test_requests_that_a_log_took_out_at_its_end_are_a_branch(tmp_path: Path, flat: bool) -> None:
    """Also where nothing was asked since, and where the file of before the upgrade holds them."""
    whole = chat(request(1), request(2), request(3))
    cut = {"kind": 2, "k": ["requests"], "i": 1}
    log(tmp_path, "chatSessions/s.jsonl", {"kind": 0, "v": whole}, cut)
    if flat:
        put(tmp_path, "chatSessions/s.json", whole)
    made = one(tmp_path)
    assert words(made) == [("user", "question 1"), ("assistant", "answer 1")]
    (branch,) = made.branches or ()
    assert (branch.index, branch.fork_id, branch.reason) == (2, "request_1", "rewind")
    assert [m.content for m in branch.messages[::2]] == ["question 2", "question 3"]


def test_a_chat_that_was_emptied_and_begun_anew(tmp_path: Path) -> None:
    cut = {"kind": 2, "k": ["requests"], "i": 0, "v": [request(3)]}
    log(tmp_path, "chatSessions/s.jsonl", {"kind": 0, "v": chat(request(1), request(2))}, cut)
    made = one(tmp_path)
    assert words(made) == [("user", "question 3"), ("assistant", "answer 3")]
    assert [b.index for b in made.branches or ()] == [0]


def test_a_copy_that_still_holds_what_another_took_out_goes_on_with_it(tmp_path: Path) -> None:
    """A workspace was copied: in the one the chat went on, in the other its end was taken back."""
    start = {"kind": 0, "v": chat(request(1), request(2))}
    log(tmp_path, "a/chatSessions/s.jsonl", start, {"kind": 2, "k": ["requests"], "i": 1})
    log(
        tmp_path, "b/chatSessions/s.jsonl", start, {"kind": 2, "k": ["requests"], "v": [request(3)]}
    )
    asked = [text for role, text in words(one(tmp_path)) if role == "user"]
    assert asked == ["question 1", "question 2", "question 3"]


def test_a_chat_that_was_emptied_is_still_told(tmp_path: Path) -> None:
    cut = {"kind": 2, "k": ["requests"], "i": 0}
    log(tmp_path, "chatSessions/s.jsonl", {"kind": 0, "v": chat(request(1), request(2))}, cut)
    made = one(tmp_path)
    assert [text for role, text in words(made) if role == "user"] == ["question 1", "question 2"]
