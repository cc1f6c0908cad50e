"""The server's API, asked over real loopback."""

import asyncio
import contextlib
import http.client
import json
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jsonschema
import pytest

from tests.conversations import sample
from tests.harness import CASES, put_trajectory
from tests.served import Server, fill, serving
from unspool.cli.sync import sync
from unspool.errors import TookTooLong
from unspool.hooks.spool import Layout
from unspool.live.daemon import is_running
from unspool.serve import events
from unspool.serve.conversation import open_conversation, raw
from unspool.serve.endpoints import ENDPOINTS
from unspool.serve.findings import figures
from unspool.serve.openapi import STREAMS, description
from unspool.serve.page import version
from unspool.serve.queries import FiguresQuery, RawQuery
from unspool.serve.readers import Readers
from unspool.store.ids import shown_id
from unspool.store.opening import transaction, writing
from unspool.trajectory import encode_trajectory

pytestmark = pytest.mark.serve


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("serve")
    with serving(fill(folder / "home", folder / "store.db")) as made:
        yield made


def every(server: Server, **query: object) -> list[dict[str, Any]]:
    """All rows of the list, page after page."""
    rows: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = server.get("/api/conversations", **query, **({"cursor": cursor} if cursor else {}))
        rows += page["conversations"]
        cursor = page.get("next")
        if cursor is None:
            return rows


def ident(server: Server, text: str) -> str:
    (row,) = server.get("/api/conversations", text=text)["conversations"]
    return str(row["id"])


SORTS = ("activity", "started", "title", "messages", "turns", "tools", "failures", "tokens", "cost")


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("sort", SORTS)
def test_cursors_lead_through_the_whole_list(server: Server, sort: str, order: str) -> None:
    whole = every(server, sort=sort, order=order, limit=500)
    pieces = every(server, sort=sort, order=order, limit=3)
    assert [row["id"] for row in pieces] == [row["id"] for row in whole]
    assert len({row["id"] for row in whole}) == len(whole) > 10


def test_outline_leads_to_every_page(server: Server) -> None:
    whole = every(server, limit=500)
    outline = server.get("/api/conversations/outline", limit=4)
    assert outline["total"] == len(whole)
    for number, cursor in enumerate(outline["cursors"], 1):
        page = server.get("/api/conversations", limit=4, cursor=cursor)["conversations"]
        assert [row["id"] for row in page] == [row["id"] for row in whole[number * 4 :][:4]]


def test_filters(server: Server) -> None:
    assert {row["source"] for row in every(server, source="codex")} == {"codex"}
    assert all(row["failures"] for row in every(server, errors="true"))
    assert all(row["children"] for row in every(server, subagents="true"))
    assert all(row.get("partial") for row in every(server, partial="true"))
    assert not any(row.get("parent") for row in every(server))
    assert any(row.get("parent") for row in every(server, agents="true"))
    models = server.get("/api/choices")["models"]
    assert every(server, model=models[0]["value"])
    assert every(server, since="2030-01-01") == []


def test_pieces_make_the_whole(server: Server) -> None:
    name = ident(server, "long")
    whole = server.get("/api/conversation", id=name)
    assert whole["messages"] == 5000
    numbers: list[int] = []
    for first in range(0, whole["items"], 200):
        items = server.get("/api/conversation/items", id=name, first=first, count=200)
        assert items["version"] == whole["version"]
        numbers += [number for item in items["items"] for number in item["messages"]]
    assert sorted(numbers) == list(range(5000))
    place = server.get("/api/conversation/place", id=name, message=4321)
    items = server.get("/api/conversation/items", id=name, first=place["item"], count=1)["items"]
    assert 4321 in items[0]["messages"]
    assert f'id="{place["anchor"]}"' in items[0]["html"]


def test_messages_are_those_of_the_trajectory(server: Server) -> None:
    name = ident(server, "long")
    with server.open("/api/conversation/export", {"id": name, "to": "jsonl"}) as answer:
        (line, *_) = answer.read().splitlines()
    cursor: int | None = 0
    messages: list[Any] = []
    while cursor is not None:
        page = server.get("/api/conversation/messages", id=name, cursor=cursor, limit=1000)
        messages += page["messages"]
        cursor = page.get("next")
    assert messages == json.loads(line)["messages"]


def test_sub_agents_load_when_asked(server: Server) -> None:
    row = every(server, subagents="true")[0]
    whole = server.get("/api/conversation", id=row["id"])
    child = next(child for child in whole["children"] if child["here"])
    html = "".join(
        item["html"]
        for item in server.get("/api/conversation/items", id=row["id"], count=200)["items"]
    )
    assert f'data-agent="{child["id"]}"' in html
    inner = server.get("/api/conversation/items", id=child["id"], prefix="a1-")
    assert 'id="a1-m1"' in "".join(item["html"] for item in inner["items"])
    assert server.get("/api/conversation", id=child["id"])["parent"]["id"] == row["id"]


def test_a_branch_stands_beside_what_came_instead(server: Server) -> None:
    rows = [row["id"] for row in every(server, source="claude-code")]
    branched = [one for one in rows if server.get("/api/conversation", id=one)["branches"]]
    pair = server.get("/api/conversation/branch", id=branched[0], branch=0)
    assert pair["branch"]
    assert pair["main"]
    assert pair["branch"] != pair["main"]
    assert server.refused("/api/conversation/branch", {"id": branched[0], "branch": 99}) == 404


def test_the_record_of_a_message(server: Server) -> None:
    name = ident(server, "1a8e5da4")
    page = server.get("/api/conversation/messages", id=name)
    seen = 0
    for number, message in enumerate(page["messages"]):
        for record in server.get("/api/conversation/raw", id=name, message=number)["records"]:
            line = Path(record["origin"]).read_bytes()[record["offset"] :].splitlines()[0]
            assert record["text"].encode() == line
            seen += message.get("id", "") in record["text"]
    assert seen


def test_every_message_has_a_record_whatever_it_stood_in(tmp_path: Path) -> None:
    """Lines, rows of a database, objects of a document, lists in a log, a file that is a trajectory,
    history that stands in another conversation's file: all cases, also their abandoned branches."""
    home, store = tmp_path / "home", tmp_path / "store.db"
    shutil.copytree(CASES, home, ignore=shutil.ignore_patterns("expected*"))
    (home / "made.jsonl").write_bytes(encode_trajectory(sample()[0]) + b"\n")
    sync([str(home)], store, quiet=True)
    said = messages = 0
    unclear: dict[str, str] = {}
    with contextlib.closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
        for (row,) in connection.execute("SELECT id FROM conversations").fetchall():
            trajectory = open_conversation(connection, shown_id(row)).reading.trajectory
            branches = sorted(trajectory.branches or (), key=lambda one: one.index)
            lines = [
                (None, trajectory.messages),
                *((n, b.messages) for n, b in enumerate(branches)),
            ]
            for branch, line in lines:
                for number, message in enumerate(line):
                    query = RawQuery(id=shown_id(row), message=number, branch=branch)
                    answer = raw(connection, query)
                    if answer.note:
                        unclear[shown_id(row)] = answer.note
                    if words := re.findall(r"[A-Za-z]{5,}", message.content):
                        messages += 1
                        said += any(words[0] in record.text for record in answer.records)
    # Words of three letters in a list within an array, and what has wrong types: their whole file.
    # Of protobuf nobody could read the bytes: what was read of them.
    unclear.pop("otel/conv-1")
    assert unclear.keys() == {"copilot-telemetry/arr", "vscode-chat/wrong"}
    assert all("where it stands" in note for note in unclear.values())
    assert said > 0.98 * messages > 500


def test_every_format_can_be_taken_away(server: Server) -> None:
    name = ident(server, "7d1e2f3a-0001")
    for to in server.get("/api/conversation", id=name)["formats"]:
        with server.open("/api/conversation/export", {"id": name, "to": to}) as answer:
            data = answer.read()
            assert "attachment" in answer.headers["content-disposition"]
        if answer.headers["content-type"] == "application/zip":
            with zipfile.ZipFile(BytesIO(data)) as archive:
                assert archive.testzip() is None
        assert data, to
    with server.open("/api/export", {"source": "codex"}) as answer:
        lines = answer.read().splitlines()
    chosen = {f"{line['source']}/{line['conversation_id']}" for line in map(json.loads, lines)}
    assert chosen == {row["id"] for row in every(server, source="codex")}


def test_search_in_all_its_ways(server: Server) -> None:
    words = server.get("/api/search", q="limiter")
    assert words["hits"] == sum(len(group["hits"]) for group in words["groups"]) > 0
    assert "\ue000" in words["groups"][0]["hits"][0]["snippet"]
    assert server.get("/api/search", q="imite", mode="substring")["hits"]
    name = words["groups"][0]["id"]
    inside = server.get("/api/search", q="limiter", id=name)
    assert [group["id"] for group in inside["groups"]] == [name]
    assert server.refused("/api/search", {"q": "(", "mode": "regex"}) == 400
    with server.open("/api/search/stream", {"q": r"lim\w+r", "limit": 3}) as answer:
        lines = [json.loads(line) for line in answer]
    assert lines[-1] == {"done": True, "late": False}
    assert len(lines) == 4


def test_figures_hold_until_something_changes(tmp_path: Path) -> None:
    root, children = sample()
    with writing(tmp_path / "store.db") as connection:
        with transaction(connection):
            put_trajectory(connection, root)
        before = figures(connection, FiguresQuery(by="source"))
        assert figures(connection, FiguresQuery(by="source")) is before
        with transaction(connection):
            put_trajectory(connection, children[0])
        after = figures(connection, FiguresQuery(by="source"))
    assert after.rows[0].subagents == before.rows[0].subagents + 1


def test_figures_are_those_of_stats(server: Server) -> None:
    for by in ("day", "project", "model", "tool", "source", "file"):
        command = [sys.executable, "-m", "unspool", "stats", "--by", by, "--json"]
        printed = subprocess.run(
            [*command, "--store", str(server.store)], capture_output=True, check=True
        )
        told = {row["name"]: row for row in json.loads(printed.stdout)}
        rows = server.get("/api/figures", by=by)["rows"]
        assert [row["name"] for row in rows] == list(told)
        for row in rows:
            for name in ("turns", "prompt_tokens", "tool_calls", "tool_failures", "cost_usd"):
                assert (row.get(name) or 0) == (told[row["name"]].get(name) or 0), (by, name)


def test_alignment(server: Server) -> None:
    rows = every(server, limit=500)
    left = next(row["id"] for row in rows if row["source"] == "claude-code")
    right = next(row["id"] for row in rows if row["source"] == "codex")
    made = server.get("/api/alignment", left=left, right=right)
    assert {made["left"]["listed"]["id"], made["right"]["listed"]["id"]} == {left, right}
    assert 0 <= made["confidence"] <= 1
    assert server.refused("/api/alignment", {"left": left, "right": left}) == 400


def test_whoever_has_it_already_is_told_so(server: Server) -> None:
    with server.open("/api/conversations") as answer:
        tag = answer.headers["etag"]
    parts = urlsplit(server.address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 0)
    connection.request("GET", "/api/conversations", headers={"If-None-Match": tag})
    answer = connection.getresponse()
    assert answer.status == 304
    assert answer.read() == b""
    connection.close()


# What the description says


def test_description_is_what_is_served(server: Server) -> None:
    told = server.get("/api/openapi.json")
    assert told == json.loads(json.dumps(description()))
    name = every(server, subagents="true")[0]["id"]
    branched = next(
        row["id"]
        for row in every(server, source="claude-code")
        if server.get("/api/conversation", id=row["id"])["branches"]
    )
    other = every(server, source="codex")[0]["id"]
    asked: dict[str, dict[str, object]] = {
        "/api/search": {"q": "limiter"},
        "/api/alignment": {"left": name, "right": other},
        "/api/conversation/branch": {"id": branched, "branch": 0},
    }
    for endpoint in ENDPOINTS:
        operation = told["paths"][endpoint.path]["get"]
        needed = {one["name"] for one in operation["parameters"] if one["required"]}
        query = asked.get(endpoint.path, {"id": name, "message": 0})
        query = {key: value for key, value in query.items() if key in needed}
        assert query.keys() == needed
        schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
        jsonschema.validate(
            server.get(endpoint.path, **query),
            {**schema, "components": told["components"]},
            jsonschema.Draft202012Validator,
        )
    paths = {endpoint.path for endpoint in ENDPOINTS} | {path for path, *_ in STREAMS}
    assert set(told["paths"]) == paths
    documented = (Path(__file__).parents[1] / "docs" / "serve.md").read_text(encoding="utf-8")
    assert [path for path in paths if path not in documented] == []


# Changes


class Listening:
    """Hears the server's events until it is left."""

    def __init__(self, server: Server, path: str = "/api/events", **headers: str) -> None:
        self.heard: list[str] = []
        self._stream = server.open(path, **headers)
        self._thread = threading.Thread(target=self._listen)

    def _listen(self) -> None:
        with contextlib.suppress(OSError, ValueError, AttributeError):  # it was closed
            for line in self._stream:
                if line.startswith(b"event: "):
                    self.heard.append(line[7:].decode().strip())

    def __enter__(self) -> "Listening":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._stream.fp.raw._sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._stream.close()

    def wait_for(self, *events: str) -> None:
        wait_for(lambda: set(events) <= set(self.heard))


def test_changes_are_told_and_can_be_caught_up_with(tmp_path: Path) -> None:
    store = fill(tmp_path / "home", tmp_path / "store.db")
    with serving(store) as server:
        before = server.get("/api/health")["seq"]
        with Listening(server) as listening:
            listening.wait_for("hello")
            log = next((tmp_path / "home" / "claude_code/plain").rglob("*.jsonl"))
            copy = tmp_path / "home" / "copy" / log.name
            copy.parent.mkdir()
            text = log.read_text(encoding="utf-8")
            copy.write_text(re.sub(r'"sessionId": ?"[^"]+"', '"sessionId":"new-one"', text))
            sync([str(tmp_path / "home")], store, quiet=True)
            listening.wait_for("change")
            assert listening.heard[0] == "hello"
        assert server.get("/api/health")["seq"] > before
        # Away for a while: what was missed comes first.
        header = {"Last-Event-ID": str(before)}
        for path, headers in (("/api/events", header), (f"/api/events?after={before}", {})):
            with Listening(server, path, **headers) as listening:
                listening.wait_for("change")
        # From a store that was made anew: begin again.
        with Listening(server, "/api/events?after=999999") as listening:
            listening.wait_for("reset")


def test_a_store_that_was_made_anew(tmp_path: Path) -> None:
    store = fill(tmp_path / "home", tmp_path / "store.db")
    with serving(store) as server:
        assert server.get("/api/conversations/outline")["total"] > 10
        with Listening(server) as listening:
            listening.wait_for("hello", "daemon")  # the old store was looked at
            for path in tmp_path.glob("store.db*"):
                path.unlink()
            sync([str(tmp_path / "home" / "codex")], store, quiet=True)
            assert {row["source"] for row in every(server)} == {"codex"}
            listening.wait_for("reset")


# Who may ask


def test_only_this_machine_under_its_own_name(server: Server) -> None:
    netloc = urlsplit(server.address).netloc
    assert server.refused("/api/health", Host="evil.example") == 421
    assert server.refused("/api/health", Host=f"127.0.0.1.evil.example:{netloc[-4:]}") == 421
    assert server.refused("/api/health", Origin="https://evil.example") == 403
    assert server.refused("/api/health", Origin="null") == 403
    assert server.refused("/api/health", **{"Sec-Fetch-Site": "cross-site"}) == 403
    assert server.refused("/api/health", Origin=f"http://{netloc}") == 200
    follows = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    with server.open("/", None, **follows, **{"Sec-Fetch-Dest": "document"}) as answer:
        assert answer.status == 200
    assert server.refused("/", **follows, **{"Sec-Fetch-Dest": "iframe"}) == 403


def status_of(server: Server, method: str, path: str, body: bytes | None = None) -> int:
    parts = urlsplit(server.address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 0, timeout=30)
    connection.request(method, path, body)
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_it_only_answers_questions(server: Server, method: str) -> None:
    assert status_of(server, method, "/api/conversations") == 405


def test_limits(server: Server) -> None:
    assert status_of(server, "GET", "/api/search?q=" + "x" * 9000) == 414
    assert status_of(server, "GET", "/api/search?q=" + "x" * 2000) == 400
    assert status_of(server, "GET", "/api/health", b"body") == 413
    for query in ("limit=0", "limit=501", "limit=x", "sort=id;drop", "cursor=%00", "nothing=1",
                  "source=a&source=b", "since=tomorrow-ish"):  # fmt: skip
        assert status_of(server, "GET", f"/api/conversations?{query}") == 400, query


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py", "/static/..%2fapp.py", "/static/%2e%2e/app.py", "/static/app.py",
        "/static/....//app.py", "/etc/passwd", "/static//etc/passwd", "/api/../../etc/passwd",
        "/api/conversation/raw?id=/etc/passwd&message=0", "/static/index.html%00.js",
    ],
)  # fmt: skip
def test_no_path_reaches_the_file_system(server: Server, path: str) -> None:
    assert status_of(server, "GET", path) in (400, 404)


def test_a_page_comes_with_what_its_view_asks_for_first(server: Server) -> None:
    def given(path: str, **query: object) -> dict[str, Any]:
        with server.open(path, query) as answer:
            text = answer.read().decode()
            assert answer.headers["cache-control"] == "no-store"
        _, _, rest = text.partition('<script type="application/json" id="given">')
        inside, _, after = rest.partition("</script>")
        assert after.split() == ["</body>", "</html>"]  # whatever is in a title
        return dict(json.loads(inside))

    hostile = given("/", text="<script>")
    asked = {"text": "<script>", "limit": 100}
    assert hostile["conversations"] == server.get("/api/conversations", **asked)
    assert hostile["conversations/outline"] == server.get("/api/conversations/outline", **asked)
    assert "</script" in hostile["conversations"]["conversations"][0]["title"]
    assert set(given("/", sort="none")) == {"seq"}  # the page asks, and shows what is refused
    ident = hostile["conversations"]["conversations"][0]["id"]
    assert given("/conversation", id=ident)["conversation"]["id"] == ident
    assert set(given("/now")) == {"seq", "now"}
    with server.open(f"/static/{version()}/app.js") as answer:
        assert "immutable" in answer.headers["cache-control"]
    with server.open("/static/older/app.js") as answer:
        assert answer.headers["cache-control"] == "no-cache"


def test_every_answer_is_safe_to_show(server: Server) -> None:
    for path in (
        "/",
        f"/static/{version()}/app.js",
        "/api/health",
        "/api/nothing",
        "/api/openapi.json",
    ):
        try:
            with server.open(path) as answer:
                headers = answer.headers
        except urllib.request.HTTPError as error:  # type: ignore[attr-defined]
            headers = error.headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_a_pattern_that_never_ends_holds_up_nobody(server: Server) -> None:
    name = ident(server, "long")
    hunter = threading.Thread(
        target=lambda: server.open("/api/search/stream", {"q": r"(\w+\s?)+$\d", "id": name}).read()
    )
    hunter.start()
    begun = time.monotonic()
    for _ in range(20):
        assert server.get("/api/health")["conversations"]
    assert time.monotonic() - begun < 15
    hunter.join(60)
    assert not hunter.is_alive()


def test_a_token_where_it_is_wanted(server: Server) -> None:
    with serving(server.store, "--token") as guarded:
        assert "?token=" in guarded.address
        bare = Server(guarded.address.partition("?")[0], guarded.process, guarded.store)
        token = guarded.address.partition("=")[2]
        assert bare.refused("/api/health") == 401
        assert bare.refused("/") == 401
        assert bare.refused(f"/static/{version()}/app.js") == 401
        assert bare.refused("/api/health", Authorization="Bearer wrong") == 401
        assert bare.refused("/api/health", Authorization=f"Bearer {token}") == 200
        assert bare.refused("/api/health", Cookie=f"unspool_token={token}") == 200
        parts = urlsplit(bare.address)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 0)
        connection.request("GET", f"/conversation?id=x&token={token}")
        answer = connection.getresponse()
        assert answer.status == 303
        assert answer.headers["location"] == "/conversation?id=x"
        assert "HttpOnly; SameSite=Strict" in (answer.headers["set-cookie"] or "")
        connection.close()


# While agents work


def test_it_keeps_the_store_current_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    log = home / ".claude" / "projects" / "-home-ann-shop" / "s1.jsonl"
    log.parent.mkdir(parents=True)
    below = log.with_suffix("") / "subagents" / "agent-a1.jsonl"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / ".claude"))
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def line(number: int, role: str, content: object) -> str:
        after = f"u{number - 1}" if number else None
        record = {
            "type": role, "uuid": f"u{number}", "parentUuid": after, "sessionId": "s1",
            "timestamp": now, "cwd": "/home/ann/shop", "version": "2.1.300",
            "message": {"id": f"m{number}", "role": role, "content": content},
        }  # fmt: skip
        return json.dumps(record) + "\n"

    log.write_text(line(0, "user", "Sort the cart"))
    sync([str(home / ".claude")], tmp_path / "store.db", quiet=True)
    with serving(tmp_path / "store.db", daemon=True) as server:
        wait_for(lambda: server.get("/api/now")["live"])
        call = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls"}}
        with log.open("a") as file:
            file.write(line(1, "assistant", [call]))
        wait_for(lambda: any(one.get("tool") for one in server.get("/api/now")["agents"]))
        (one,) = server.get("/api/now")["agents"]
        assert one["state"] == "working"
        assert one["tool"] == "Bash"
        assert one["listed"]["messages"] == 2
        below.parent.mkdir(parents=True)
        below.write_text(
            line(0, "user", "Find it").replace("{", '{"isSidechain":true,"agentId":"a1",', 1)
        )
        wait_for(lambda: server.get("/api/now")["agents"][0]["children"])
        (child,) = server.get("/api/now")["agents"][0]["children"]
        assert (child["state"], child["listed"]["title"]) == ("working", "Find it")
        with below.open("a") as file:  # it answers within the same moment
            answer = line(1, "assistant", "Here it is.")
            file.write(answer.replace("{", '{"isSidechain":true,"agentId":"a1",', 1))
        wait_for(lambda: server.get("/api/now")["agents"][0]["children"][0]["state"] == "ended")
        with serving(tmp_path / "store.db", daemon=True) as second:  # only one daemon runs
            assert second.get("/api/health")["live"]
    assert not is_running(Layout.beside(tmp_path / "store.db"))


def wait_for(is_so: Callable[[], object], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.1)


# In the terminal


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "unspool", "serve", *arguments]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def test_a_taken_port_is_one_line(server: Server) -> None:
    port = str(urlsplit(server.address).port)
    ended = run("--port", port, "--store", str(server.store))
    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1
    assert f"127.0.0.1:{port}" in ended.stderr


def test_without_a_store_it_says_how_to_make_one(tmp_path: Path) -> None:
    ended = run("--store", str(tmp_path / "none.db"))
    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1
    assert "unspool sync" in ended.stderr


def test_many_readers_while_somebody_writes(tmp_path: Path) -> None:
    store = fill(tmp_path / "home", tmp_path / "store.db")
    with serving(store) as server:
        wrong: list[Exception] = []
        done = threading.Event()

        def read() -> None:
            try:
                while not done.is_set():
                    server.get("/api/conversations", limit=20)
                    server.get("/api/search", q="limiter")
            except Exception as error:  # told below, whatever it is
                wrong.append(error)

        readers = [threading.Thread(target=read) for _ in range(50)]
        for reader in readers:
            reader.start()
        made = tmp_path / "home" / "made.jsonl"
        for number in range(3):
            text = made.read_text(encoding="utf-8")
            made.write_text(text.replace("limiter", f"limiter{number}"), encoding="utf-8")
            sync([str(tmp_path / "home")], store, quiet=True)
        done.set()
        for reader in readers:
            reader.join(60)
        assert wrong == []


def test_what_nobody_waits_for_is_not_looked_up(server: Server) -> None:
    """Who drags a list past a hundred pages has left all of them but the last."""
    asked: list[str] = []

    async def ask() -> None:
        readers = Readers(server.store)

        async def gone() -> bool:
            return True

        with pytest.raises(TookTooLong):
            await readers.ask(lambda _: asked.append("gone"), is_gone=gone)
        await readers.ask(lambda _: asked.append("there"))
        readers.close()

    asyncio.run(ask())
    assert asked == ["there"]


def test_a_slow_reader_is_told_and_sent_away_and_a_quiet_line_is_kept_open(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_SECONDS", 0.05)

    async def listen() -> list[bytes]:
        bell = events.Bell(server.store)
        reader = bell.listen(None)
        told = [await anext(reader), await anext(reader)]
        for number in range(events.MOST_WAITING + 1):
            bell._tell(b"event: change\nid: %d\n\n" % number)
        told += [text async for text in reader]
        return told

    hello, heartbeat, *rest = asyncio.run(listen())
    assert b"event: hello" in hello
    assert heartbeat.startswith(b":")
    assert len(rest) <= events.MOST_WAITING
    assert rest[-1].startswith(b"event: bye")
