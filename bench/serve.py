"""What the server costs: the list, filters, search and pages over a million messages."""

import contextlib
import json
import os
import random
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode

from bench.measure import Measured, Row, made_data, pss_of_tree
from unspool.hooks.spool import Layout, hand_over

CONVERSATIONS = 20_000
MESSAGES = 50
WORDS = [
    "parse", "value", "result", "index", "token", "bucket", "retry", "limit", "error", "cache", "merge",
    "branch", "commit", "schema", "query", "writer", "reader", "buffer", "socket", "thread", "signal",
    "handler", "config", "deploy", "release", "test", "mock", "fixture", "import", "module",
]  # fmt: skip
SOURCES = ("claude-code", "cursor", "copilot-cli", "codex", "vscode-chat")


def generate(folder: Path) -> None:
    """A store of a million messages, as sync would have written them."""
    from unspool.reduce.totals import complete
    from unspool.store.conversations import catch_up, put_rows
    from unspool.store.opening import opened, transaction
    from unspool.store.rows import make_rows
    from unspool.trajectory import Message, ToolCall, ToolFunction, Trajectory, Usage, Workspace

    rng = random.Random(7)
    begin = datetime(2025, 11, 1, tzinfo=UTC)

    def conversation(number: int, count: int) -> Trajectory:
        start = begin + timedelta(minutes=number * 25)
        messages: list[Message] = []
        while len(messages) < count:
            at = start + timedelta(seconds=len(messages) * 9)
            stamp = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            words = " ".join(rng.choices(WORDS, k=18))
            if len(messages) % 10 == 0:
                messages.append(Message("user", f"Please {words}", timestamp=stamp, typed=words))
            elif len(messages) % 10 % 2:
                call = ToolCall(
                    f"c{len(messages)}",
                    function=ToolFunction("Bash", json.dumps({"command": f"make {words[:30]}"})),
                )
                usage = Usage(prompt_tokens=2000 + len(messages), completion_tokens=90)
                rare = f" needle{number}" if len(messages) == 11 else ""
                messages.append(
                    Message(
                        "assistant", words + rare, model="claude-opus-4-5", timestamp=stamp,
                        tool_calls=[call], usage=usage,
                    )
                )  # fmt: skip
            else:
                messages.append(
                    Message(
                        "tool", " ".join(rng.choices(WORDS, k=60)), timestamp=stamp, name="Bash",
                        tool_call_id=messages[-1].tool_calls[0].id,  # type: ignore[index]
                        is_error=rng.random() < 0.03 or None,
                    )
                )  # fmt: skip
        project = f"/home/ann/work/project-{number % 40}"
        made = Trajectory(
            f"{number:08x}-0000-4000-8000-{number:012x}",
            messages,
            source=SOURCES[number % len(SOURCES)],
            title=f"{rng.choice(WORDS)} the {rng.choice(WORDS)} of the {rng.choice(WORDS)}",
            workspace=Workspace(path=project, name=project.rpartition("/")[2]),
            started_at=messages[0].timestamp,
            ended_at=messages[-1].timestamp,
        )
        complete(made, [])
        return made

    with opened(folder / "store.db") as connection:
        for first in range(0, CONVERSATIONS, 200):
            with transaction(connection):
                for number in range(first, min(first + 200, CONVERSATIONS)):
                    put_rows(connection, make_rows(conversation(number, MESSAGES)), [])
        with transaction(connection):
            put_rows(connection, make_rows(conversation(CONVERSATIONS, 5000)), [])
        catch_up(connection)


def run() -> list[Row]:
    with made_data("serve", generate) as folder:
        return _measure(folder / "store.db")


def _measure(store: Path) -> list[Row]:
    command = [sys.executable, "-m", "unspool", "serve", "--port", "0", "--store", str(store)]
    begun = time.perf_counter()
    process = subprocess.Popen([*command, "--no-daemon"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        address = re.search(r"http://\S+", process.stdout.readline())
        assert address is not None
        base = address[0].rstrip("/")

        def ask(path: str, **query: object) -> bytes:
            asked = f"{base}{path}" + (f"?{urlencode(query)}" if query else "")
            with urllib.request.urlopen(asked, timeout=60) as answer:
                return bytes(answer.read())

        rows: list[Row] = [("serve: messages", f"{CONVERSATIONS * MESSAGES + 5000:,}")]
        ask("/api/conversations", limit=100)
        rows.append(("serve: start and first list", f"{time.perf_counter() - begun:.2f} s"))
        rng = random.Random(3)
        longest = f"{SOURCES[0]}/{CONVERSATIONS:08x}-0000-4000-8000-{CONVERSATIONS:012x}"
        jobs: dict[str, Callable[[], bytes]] = {
            "first view (list and its outline)": lambda: ask("/api/conversations", limit=100)
            + ask("/api/conversations/outline", limit=100),
            "filter": lambda: ask("/api/conversations", project=f"project-{rng.randrange(40)}",
                                  errors="true", text=rng.choice(WORDS)),
            "sorted by tokens": lambda: ask("/api/conversations", sort="tokens"),
            "a common word": lambda: ask("/api/search", q=rng.choice(WORDS)),
            "two words": lambda: ask("/api/search", q=" ".join(rng.choices(WORDS, k=2))),
            "a phrase": lambda: ask("/api/search", q=f'"{" ".join(rng.choices(WORDS, k=2))}"'),
            "as you type": lambda: ask("/api/search", q=rng.choice(WORDS)[: rng.randint(1, 5)],
                                       typing="true"),
            "a common word in one project": lambda: ask(
                "/api/search", q=rng.choice(WORDS), project=f"project-{rng.randrange(40)}"),
            "a common word, by agent, role and date": lambda: ask(
                "/api/search", q=rng.choice(WORDS), source=rng.choice(SOURCES), role="assistant",
                since="2026-01-01", until="2026-02-01"),
            "a rare word": lambda: ask("/api/search", q=f"needle{rng.randrange(CONVERSATIONS)}"),
            "part of a rare word": lambda: ask("/api/search", q="eedle1234", mode="substring"),
            "part of a common word": lambda: ask("/api/search", q=rng.choice(WORDS)[1:5],
                                                 mode="substring"),
            "figures by day": lambda: ask("/api/figures", by="day"),
            "5,000 messages: facts and first piece": lambda: ask("/api/conversation", id=longest)
            + ask("/api/conversation/items", id=longest),
            "5,000 messages: a piece in the middle": lambda: ask(
                "/api/conversation/items", id=longest, first=rng.randrange(2000)),
        }  # fmt: skip
        for name, job in jobs.items():
            rows.append((f"serve: {name}", _percentiles(job, 5 if "figures" in name else 30)))
        rows.append(("serve: first hit of a regular expression", _first_hit(base)))
        rows.append(("serve: 50 readers while a sync writes", _crowd(ask, store)))
        rows += _in_the_browser(base, longest)
        rows.append(("serve: memory", f"{pss_of_tree(process.pid) / 1e6:.0f} MB"))
        return rows
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


PEER_CONVERSATIONS = 2_000


def run_peer() -> list[Row]:
    """The same 100,000 messages in agentsview, a Go program, and here: both asked by turns."""
    found = shutil.which("agentsview")
    if found is None:
        return [("serve: agentsview beside it", "not measured: pip install agentsview")]
    with made_data("serve-peer", _write_transcripts) as home, _closing() as started:
        quiet = {
            **os.environ, "HOME": str(home), "AGENTSVIEW_TELEMETRY_ENABLED": "0", "DO_NOT_TRACK": "1",
            "CLAUDE_PROJECTS_DIR": str(home / ".claude" / "projects"),
        }  # fmt: skip
        store = home / "store.db"
        syncs = {
            "unspool": [sys.executable, "-m", "unspool", "sync", str(home / ".claude"), "-q", "--store",
                        str(store)],
            "agentsview": [found, "sync"],
        }  # fmt: skip
        rows: list[Row] = []
        for name, command in syncs.items():
            done = Measured(command, {**quiet, "AGENTSVIEW_NO_DAEMON": "1"})
            rows.append(
                (
                    f"serve: {name}: first sync",
                    f"{done.seconds:.1f} s, processor {done.cpu_seconds:.1f} s",
                )
            )
        ports = {"unspool": _free_port(), "agentsview": _free_port()}
        serves = {
            "unspool": [
                sys.executable,
                "-m",
                "unspool",
                "serve",
                "--no-daemon",
                "--store",
                str(store),
            ],
            "agentsview": [found, "serve", "--no-browser", "--no-update-check", "--no-sync"],
        }
        for name, command in serves.items():
            started[name] = subprocess.Popen(
                [*command, "--port", str(ports[name])], stdout=subprocess.DEVNULL, env=quiet
            )
        rng = random.Random(3)
        last = f"{PEER_CONVERSATIONS - 1:08x}-0000-4000-8000-{PEER_CONVERSATIONS - 1:012x}"
        questions: dict[str, Callable[[], dict[str, str]]] = {
            "the list": lambda: {
                "unspool": "/api/conversations?limit=100",
                "agentsview": "/api/v1/sessions?limit=100",
            },
            "a common word": lambda: _both(rng.choice(WORDS)),
            "two words": lambda: _both("+".join(rng.choices(WORDS, k=2))),
            "a rare word": lambda: _both(f"needle{rng.randrange(PEER_CONVERSATIONS)}"),
            "a conversation": lambda: {
                "unspool": f"/api/conversation/messages?id=claude-code/{last}",
                "agentsview": f"/api/v1/sessions/{last}/messages",
            },
        }
        for port in ports.values():
            _wait_for(f"http://127.0.0.1:{port}/")
        for question, addresses in questions.items():
            times: dict[str, list[float]] = {name: [] for name in ports}
            for _ in range(30):
                for name, path in addresses().items():
                    start = time.perf_counter()
                    with urllib.request.urlopen(f"http://127.0.0.1:{ports[name]}{path}") as answer:
                        answer.read()
                    times[name].append((time.perf_counter() - start) * 1000)
            for name, taken in times.items():
                taken.sort()
                rows.append((f"serve: {name}: {question}",
                             f"p50 {taken[15]:.0f} ms, p95 {taken[28]:.0f} ms"))  # fmt: skip
        for name, process in started.items():
            rows.append((f"serve: {name}: memory", f"{pss_of_tree(process.pid) / 1e6:.0f} MB"))
        return rows


def _both(words: str) -> dict[str, str]:
    return {
        "unspool": f"/api/search?q={words}&limit=100",
        "agentsview": f"/api/v1/search?q={words}&limit=100",
    }


@contextmanager
def _closing() -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    started: dict[str, subprocess.Popen[bytes]] = {}
    try:
        yield started
    finally:
        for process in started.values():
            process.terminate()
            process.wait(20)


def _free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


def _wait_for(address: str) -> None:
    for _ in range(300):
        with contextlib.suppress(OSError):
            urllib.request.urlopen(address, timeout=5).close()
            return
        time.sleep(0.1)


def _write_transcripts(home: Path) -> None:
    """Claude Code's files, which both read."""
    rng = random.Random(7)
    for number in range(PEER_CONVERSATIONS):
        session = f"{number:08x}-0000-4000-8000-{number:012x}"
        begin = datetime(2025, 11, 1, tzinfo=UTC) + timedelta(minutes=25 * number)
        lines: list[str] = []
        for index in range(MESSAGES):
            stamp = (begin + timedelta(seconds=9 * index)).isoformat(timespec="milliseconds")
            words = " ".join(rng.choices(WORDS, k=18))
            content: object = f"Please {words}"
            if index % 10 and index % 2:
                rare = f" needle{number}" if index == 11 else ""
                call = {"type": "tool_use", "id": f"c{number}-{index}", "name": "Bash"}
                content = [
                    {"type": "text", "text": words + rare},
                    {**call, "input": {"command": f"make {words[:30]}"}},
                ]
            elif index % 10:
                answer = " ".join(rng.choices(WORDS, k=60))
                call = {"type": "tool_result", "tool_use_id": f"c{number}-{index - 1}"}
                content = [{**call, "content": answer}]
            role = "assistant" if index % 10 and index % 2 else "user"
            message: dict[str, object] = {"role": role, "content": content}
            if role == "assistant":
                message |= {"id": f"m{number}-{index}", "model": "claude-opus-4-5", "type": "message",
                            "usage": {"input_tokens": 2000 + index, "output_tokens": 90}}  # fmt: skip
            record = {
                "type": role, "uuid": f"{session}-{index}", "sessionId": session, "version": "2.1.300",
                "parentUuid": f"{session}-{index - 1}" if index else None, "isSidechain": False,
                "timestamp": stamp.replace("+00:00", "Z"), "message": message,
                "cwd": f"/home/ann/work/project-{number % 40}",
            }  # fmt: skip
            lines.append(json.dumps(record) + "\n")
        folder = home / ".claude" / "projects" / f"-home-ann-work-project-{number % 40}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{session}.jsonl").write_text("".join(lines))


_WATCH = """
window.longTasks = [];
new PerformanceObserver((list) => window.longTasks.push(...list.getEntries().map((e) => e.duration)))
    .observe({ type: "longtask" });
const there = new MutationObserver(() => {
    if (!document.querySelector("ELEMENT")) return;
    there.disconnect();
    const painted = new MessageChannel();
    painted.port1.onmessage = () => { window.paintedAt = performance.now(); };
    requestAnimationFrame(() => painted.port2.postMessage(0));
});
there.observe(document, { subtree: true, childList: true });
"""
"""Notes in the page itself when the element was painted: a look from outside comes later."""


def _in_the_browser(base: str, longest: str) -> list[Row]:
    """What a person waits for, in a real Chromium, from the navigation until it is painted: the first
    rows, with the cache of a browser that was never here and of one that was, and 5,000 messages."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return [("serve: in the browser", "not measured: playwright is missing")]
    found = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if found is None:
        return [("serve: in the browser", "not measured: chromium is missing")]
    views = {
        "first view, the first time": ("/", ".row time", True),
        "first view, again": ("/", ".row time", False),
        "5,000 messages, usable": (f"/conversation?id={longest}", ".unit", True),
    }
    rows: list[Row] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for name, (path, element, empties_cache) in views.items():
            times: list[float] = []
            page = None
            for _ in range(8):
                if page is None or empties_cache:
                    if page is not None:
                        page.context.close()  # a page that stays open still listens, and paints
                    page = browser.new_context().new_page()
                    page.add_init_script(_WATCH.replace("ELEMENT", element))
                page.goto(base + path, wait_until="commit")
                while not (painted := page.evaluate("window.paintedAt || 0")):
                    page.wait_for_timeout(20)
                times.append(painted)
            del times[0]  # the browser itself had to start
            times.sort()
            rows.append(
                (
                    f"serve: {name}, in the browser",
                    f"p50 {times[3]:.0f} ms, worst {times[-1]:.0f} ms",
                )
            )
        assert page is not None
        page.evaluate("window.longTasks.length = 0")
        page.mouse.move(640, 400)
        for _ in range(150):
            page.mouse.wheel(0, 300)
            page.wait_for_timeout(16)
        tasks = page.evaluate("window.longTasks")
        rows.append(("serve: long tasks while scrolling over 45,000 pixels",
                     f"{len(tasks)}, longest {max(tasks, default=0):.0f} ms"))  # fmt: skip
        browser.close()
    return rows


def run_live(rounds: int = 30) -> list[Row]:
    """From the end of a hook, or of a line in a transcript, to the event that a page gets."""
    with tempfile.TemporaryDirectory(prefix="unspool-bench-") as temporary:
        home = Path(temporary)
        log = home / "files" / ".claude" / "projects" / "-w" / "s1.jsonl"
        log.parent.mkdir(parents=True)
        log.write_bytes(_line(0))
        store = home / "data" / "store.db"
        subprocess.run([sys.executable, "-m", "unspool", "sync", str(home / "files"), "--store",
                        str(store), "-q"], check=True)  # fmt: skip
        layout = Layout.beside(store)
        layout.make()
        watch = [sys.executable, "-m", "unspool", "watch", str(home / "files"), "-q", "--store"]
        command = [
            sys.executable,
            "-m",
            "unspool",
            "serve",
            "--port",
            "0",
            "--no-daemon",
            "--store",
        ]
        daemon = subprocess.Popen([*watch, str(store)])
        server = subprocess.Popen([*command, str(store)], stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        try:
            address = re.search(r"http://\S+", server.stdout.readline())
            assert address is not None
            events = urllib.request.urlopen(f"{address[0]}api/events", timeout=30)
            time.sleep(3)
            rows: list[Row] = []
            number = 0
            for name in ("hook to page", "line to page, without hooks"):
                times: list[float] = []
                for _ in range(rounds):
                    number += 1
                    with log.open("ab") as file:
                        file.write(_line(number))
                    start = time.perf_counter()
                    if name == "hook to page":
                        payload = json.dumps(
                            {"session_id": "s1", "hook_event_name": "Stop", "n": number,
                             "transcript_path": str(log)}
                        ).encode()  # fmt: skip
                        subprocess.run(["/bin/sh", "-c", hand_over(layout.spool)], input=payload,
                                       stdout=subprocess.DEVNULL, check=True)  # fmt: skip
                    while not events.readline().startswith(b"event: change"):
                        pass
                    times.append((time.perf_counter() - start) * 1000)
                    time.sleep(1.2)
                times.sort()
                last = times[int(len(times) * 0.95)]
                rows.append(
                    (f"serve: {name}", f"p50 {statistics.median(times):.0f} ms, p95 {last:.0f} ms")
                )
            return rows
        finally:
            for process in (server, daemon):
                process.terminate()
                process.wait(20)
            server.stdout.close()


def _line(number: int) -> bytes:
    role = "assistant" if number % 2 else "user"
    stamp = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    record = {
        "type": role, "uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number else None,
        "sessionId": "s1", "timestamp": stamp, "cwd": "/w", "version": "2.1.300",
        "message": {"id": f"m{number}", "role": role, "content": f"words {number}"},
    }  # fmt: skip
    return json.dumps(record).encode() + b"\n"


def _percentiles(job: Callable[[], bytes], runs: int) -> str:
    times: list[float] = []
    for _ in range(runs):
        start = time.perf_counter()
        job()
        times.append((time.perf_counter() - start) * 1000)
    times.sort()
    last = times[min(len(times) - 1, int(len(times) * 0.95))]
    return f"p50 {statistics.median(times):.0f} ms, p95 {last:.0f} ms"


def _first_hit(base: str) -> str:
    times: list[float] = []
    for number in range(5):
        start = time.perf_counter()
        asked = urlencode({"q": rf"needle1{number}\d\d\b", "limit": 5})
        with urllib.request.urlopen(f"{base}/api/search/stream?{asked}", timeout=60) as answer:
            answer.readline()
            times.append(time.perf_counter() - start)
    return f"p50 {statistics.median(times) * 1000:.0f} ms, worst {max(times) * 1000:.0f} ms"


def _crowd(ask: Callable[..., bytes], store: Path) -> str:
    """One conversation more grows in the store meanwhile, sync after sync; an error ends the bench."""
    times: list[float] = []
    lock = threading.Lock()
    done = threading.Event()

    def read(number: int) -> None:
        rng = random.Random(number)
        for _ in range(6):
            for path, query in (
                ("/api/conversations", {"project": f"project-{rng.randrange(40)}", "limit": 50}),
                ("/api/search", {"q": rng.choice(WORDS), "limit": 20}),
            ):
                start = time.perf_counter()
                ask(path, **query)
                with lock:
                    times.append((time.perf_counter() - start) * 1000)

    def write() -> int:
        syncs = 0
        with tempfile.TemporaryDirectory(prefix="unspool-bench-") as folder:
            log = Path(folder, ".claude", "projects", "-w", "s1.jsonl")
            log.parent.mkdir(parents=True)
            while not done.is_set():
                with log.open("ab") as file:
                    file.write(_line(syncs))
                command = [
                    sys.executable,
                    "-m",
                    "unspool",
                    "sync",
                    folder,
                    "-q",
                    "--store",
                    str(store),
                ]
                subprocess.run(command, check=True)
                syncs += 1
        return syncs

    with ThreadPoolExecutor(51) as pool:
        writer = pool.submit(write)
        try:
            list(pool.map(read, range(50)))
        finally:
            done.set()
    times.sort()
    last = times[int(len(times) * 0.95)]
    return (
        f"p50 {statistics.median(times):.0f} ms, p95 {last:.0f} ms a question,"
        f" no error in {len(times)}, {writer.result()} syncs"
    )
