"""What a machine holds: made-up homes, laid out as each system has them."""

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.conversations import sample
from tests.harness import CASES
from unspool import extract, sources
from unspool.cli import group
from unspool.inspect.scan import Place, found_paths, scan, usual_places
from unspool.sinks import Family
from unspool.sinks.jsonl import write

PLATFORMS = ("linux", "darwin", "win32")


def environment(home: Path, platform: str) -> dict[str, str]:
    if platform != "win32":
        return {}
    roaming, local = home / "AppData" / "Roaming", home / "AppData" / "Local"
    return {"APPDATA": str(roaming), "LOCALAPPDATA": str(local), "USERPROFILE": str(home)}


def fill(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    root, children = sample()
    lines = [piece.data for t in (root, *children) for piece in write(Family(t), {})]
    (folder / "some.jsonl").write_bytes(b"".join(lines))


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("source", list(sources.SOURCES))
def test_places_lie_in_the_home(source: str, platform: str, tmp_path: Path) -> None:
    places = usual_places(tmp_path, environment(tmp_path, platform), platform)
    for place in places:
        if place.source == source:
            assert Path(place.path).is_relative_to(tmp_path)
            assert not place.exists


@pytest.mark.parametrize("platform", PLATFORMS)
def test_what_lies_in_a_usual_place_is_found(platform: str, tmp_path: Path) -> None:
    env = environment(tmp_path, platform)
    folder = next(
        Path(p.path) for p in usual_places(tmp_path, env, platform) if not Path(p.path).suffix
    )
    fill(folder)
    found = scan(usual_places(tmp_path, env, platform))
    (held,) = [held for held in found.holdings if held.conversations]
    assert (held.source, held.conversations, held.subagents) == ("claude-code", 1, 1)
    assert (held.messages, held.versions) == (17 + 4, ["2.1.97"])
    assert (held.first, held.last) == ("2026-03-04T09:00:00.000Z", "2026-03-04T09:06:30.000Z")
    assert found.newest is not None
    assert found.newest.title == "Rate limiter lets bursts through"


@pytest.mark.parametrize(
    ("source", "variable", "inside"),
    [
        ("claude-code", "CLAUDE_CONFIG_DIR", "projects"),
        ("copilot-cli", "COPILOT_HOME", "session-state"),
    ],
)
def test_variables_move_the_places(source: str, variable: str, inside: str, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    found = usual_places(tmp_path, {variable: str(elsewhere)}, "linux")
    assert str(elsewhere / inside) in [place.path for place in found if place.source == source]


def test_xdg_moves_the_editors(tmp_path: Path) -> None:
    config = tmp_path / "cfg"
    found = usual_places(tmp_path, {"XDG_CONFIG_HOME": str(config)}, "linux")
    editors = [p for p in found if p.source in ("cursor", "vscode-chat") and "/User" in p.path]
    assert editors
    servers = (".vscode-server", ".vscodium-server", "code-server")
    desktop = [p for p in editors if not any(server in p.path for server in servers)]
    assert all(Path(place.path).is_relative_to(config) for place in desktop)


def real_cases() -> list[tuple[str, Path]]:
    """One case of every source that has usual places, to be put there."""
    found = []
    for source in sources.SOURCES:
        cases = sorted((CASES / source.replace("-", "_")).glob("*/input"))
        if cases and sources.load(source).places(Path("/home/x"), {}, "linux"):
            found.append((source, cases[0]))
    return found


def test_troubles_are_told(tmp_path: Path) -> None:
    folder = tmp_path / "place"
    fill(folder)
    with open(folder / "some.jsonl", "ab") as file:
        file.write(b'{"conversation_id": "broken", "messages": [{"role": \n')
    found = scan([Place("claude-code", str(folder), True)])
    assert [t.path for t in found.troubles] == [str(folder / "some.jsonl")]
    assert found.troubles[0].count == 1
    assert found.holdings[0].conversations == 1 or found.holdings[1].conversations == 1


def test_nothing_readable_is_told(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no traces in here")
    found = scan([Place("cursor", str(tmp_path), True)])
    assert found.holdings == []
    assert "nothing readable" in found.troubles[0].reason


def test_places_within_places_are_read_once(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "ab").mkdir()
    places = [Place("x", str(tmp_path / p), True) for p in ("a/b", "a", "ab")]
    places.append(Place("x", str(tmp_path / "gone"), False))
    assert found_paths(places) == [str(tmp_path / "a"), str(tmp_path / "ab")]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CLAUDE_CONFIG_DIR", "COPILOT_HOME", "XDG_CONFIG_HOME", "UNSPOOL_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


def run(*arguments: str) -> str:
    result = CliRunner().invoke(group, list(arguments))
    assert result.exception is None, result.exception
    return result.stdout


def test_unspool_alone(home: Path) -> None:
    fill(home / ".cursor" / "chats")
    text = run()
    assert "claude-code  1 conversation, 1 sub-agent, 21 messages" in text
    assert "2026-03-04" in text
    assert "version 2.1.97" in text
    assert "Nothing of" in text
    assert "unspool show 7d1e2f3 " in text
    assert run("scan") == text
    found: dict[str, Any] = json.loads(run("scan", "--json"))
    assert found["holdings"][0]["messages"] == 21
    assert found["newest"]["id"].startswith("7d1e2f3a")


def test_the_report_for_an_issue_tells_shapes_and_no_content(home: Path) -> None:
    """`unspool scan -v --json`: whatever words, names or paths the files hold, none comes out."""
    folder = home / "quokka-project" / "quokka.files"
    folder.mkdir(parents=True)
    record = {
        "type": "quokka said", "kind": "turn", "version": "1.2.3", "quokka/notes.txt": 1,
        "message": {"role": "user", "content": "quokka", "my quokka": 2},
        "files": {"quokka": 1}, "appVersion": "quokka",
    }  # fmt: skip
    (folder / "quokka.jsonl").write_text((json.dumps(record) + "\n") * 3)
    (folder / "quokka.json").write_text(json.dumps({"sessions": [{"quokka": "quokka"}]}, indent=1))
    (folder / "plain.quokka").write_text("quokka quokka")
    (folder / "broken.jsonl").write_text('{"type": "user", "sessionId": "quokka", "mess')
    with closing(sqlite3.connect(folder / "quokka.db")) as database:
        database.execute("CREATE TABLE sessions (id TEXT, body TEXT)")
        database.execute("INSERT INTO sessions VALUES ('quokka', 'quokka')")
        database.commit()
    text = run("scan", "-v", "--json", str(home / "quokka-project"))
    assert "quokka" not in text
    shapes = {(s["suffix"], s["content"]): s for s in json.loads(text)["shapes"]}
    lines = shapes[".jsonl", "json-lines"]
    assert (lines["files"], lines["records"], lines["source"]) == (1, 3, None)
    assert (lines["types"], lines["versions"]) == ({"kind=turn": 3}, {"version=1.2.3": 3})
    assert lines["fields"]["message.role"] == 3
    assert shapes[".db", "sqlite"]["fields"] == {"sessions.body": 1, "sessions.id": 1}


@pytest.mark.parametrize(("source", "case"), real_cases(), ids=[name for name, _ in real_cases()])
def test_the_report_tells_nothing_that_was_said(source: str, case: Path, home: Path) -> None:
    shutil.copytree(case, home / "traces")
    text = run("scan", "-v", "--json", str(home / "traces"))
    said = {
        words
        for trajectory in extract([str(home / "traces")])
        for message in trajectory.messages
        for words in (message.content[:60], message.typed or "", trajectory.title or "")
        if len(words) > 8
    }
    assert [words for words in said if words in text] == []
    assert json.loads(text)["shapes"]


def test_scan_suggests_only_what_is_installed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(home / ".cursor" / "chats")
    assert "--to html" in run("scan")
    monkeypatch.setattr("unspool.sinks.find_spec", lambda name: None)
    assert "--to markdown" in run("scan")
    assert "--to html" not in run("scan")


def test_list_and_show_need_no_path(home: Path) -> None:
    fill(home / ".cursor" / "chats")
    assert "7d1e2f3  " in run("list")
    assert "> The rate limiter lets bursts through. Why?" in run("show", "7d1e2f3")


@pytest.mark.parametrize(("source", "case"), real_cases(), ids=[name for name, _ in real_cases()])
def test_every_source_is_found_where_it_lies(source: str, case: Path, home: Path) -> None:
    places = sources.load(source).places(home, os.environ, "linux")
    folder = next(place for place in places if not place.suffix)
    shutil.copytree(case, folder)
    found = json.loads(run("scan", "--json"))
    assert source in [held["source"] for held in found["holdings"]]
