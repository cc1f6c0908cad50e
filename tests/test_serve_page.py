"""The server's page, driven in a real headless Chromium."""

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from tests.browser import launch
from tests.conversations import long
from tests.served import Server, fill, serving
from unspool.cli.sync import sync
from unspool.hooks.spool import Layout
from unspool.io.temporary import take_lock
from unspool.live.states import put_state
from unspool.store.opening import opened, transaction
from unspool.trajectory import Trajectory

pytestmark = pytest.mark.browser

Open = Callable[..., Any]
MANY = 1200


def many() -> list[Trajectory]:
    """Short conversations by the thousand, so that the list is longer than any screen."""
    made: list[Trajectory] = []
    for number in range(MANY):
        one = long(3)
        one.conversation_id = f"many-{number:05}"
        one.title = f"Conversation number {number:05}"
        one.started_at = one.ended_at = f"2026-01-{1 + number // 60:02}T10:{number % 60:02}:00.000Z"
        made.append(one)
    return made


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launch() as made:
        yield made


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("serve")
    with serving(fill(folder / "home", folder / "store.db", many())) as made:
        yield made


@pytest.fixture
def open_page(browser: Any, server: Server) -> Iterator[Open]:
    """Opens a view and fails the test if it logs an error, asks anybody else or shows a dialog."""
    contexts: list[Any] = []
    complaints: list[str] = []

    def opened(path: str = "/", width: int = 1280, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 800}, **options)
        contexts.append(context)
        page = context.new_page()
        watch(page, server.address, complaints)
        page.goto(server.address.rstrip("/") + path)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def watch(page: Any, address: str, complaints: list[str]) -> None:
    def asked(request: Any) -> None:
        if not request.url.startswith((address, "data:")):
            complaints.append(f"request: {request.url}")

    def shown(dialog: Any) -> None:
        complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def logged(line: Any) -> None:
        if line.type in ("error", "warning"):
            complaints.append(f"console: {line.text}")

    page.on("request", asked)
    page.on("dialog", shown)
    page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    page.on("console", logged)


def wait_until(page: Any, expression: str, seconds: float = 10) -> None:
    """Polls from outside: the page's policy lets nobody evaluate strings inside."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, expression
        page.wait_for_timeout(20)


def rows(page: Any) -> list[str]:
    return list(page.evaluate("[...document.querySelectorAll('.row')].map((r) => r.dataset.id)"))


def ident(server: Server, text: str) -> str:
    return str(server.get("/api/conversations", text=text)["conversations"][0]["id"])


ROWS_THERE = "document.querySelectorAll('.row[data-id]:not([data-id=\"\"])').length > 5"


def test_the_list_scrolls_to_any_place(open_page: Open) -> None:
    page = open_page("/?sort=title&order=asc&text=number")
    wait_until(page, ROWS_THERE)
    assert page.locator("output").first.inner_text() == f"{MANY:,} conversations"
    assert len(rows(page)) < 60  # only what is on screen is there
    page.evaluate("document.querySelector('.scroller').scrollTop = 900 * 52")
    wait_until(page, "document.querySelector('[data-id=\"claude-code/many-00905\"]')")
    assert len(rows(page)) < 60
    page.keyboard.press("End")
    wait_until(page, f"document.activeElement.dataset.id === 'claude-code/many-{MANY - 1:05}'")


def test_filters_are_in_the_address_and_the_back_button_takes_them_back(open_page: Open) -> None:
    page = open_page("/")
    wait_until(page, ROWS_THERE)
    page.get_by_label("Agent").select_option("codex")
    wait_until(
        page,
        "[...document.querySelectorAll('.row .source')].every((s) => s.textContent === 'codex')",
    )
    assert "source=codex" in page.url
    page.get_by_role("button", name="With errors").click()
    assert "errors=true" in page.url
    page.go_back()
    page.go_back()
    assert "source" not in page.url
    wait_until(page, "document.querySelector('select').value === ''")
    page.get_by_label("Filter by text").fill("number 00042")
    wait_until(page, "document.querySelectorAll('.row').length === 1")
    again = open_page("/" + page.url.partition("/?")[2].join(("?", "")))
    wait_until(again, "document.querySelectorAll('.row').length === 1")


def test_by_keyboard_alone(open_page: Open) -> None:
    page = open_page("/?sort=title&order=asc&text=number")
    wait_until(page, ROWS_THERE)
    page.keyboard.press("j")
    page.keyboard.press("j")
    wait_until(page, "document.activeElement.dataset.number === '2'")
    page.keyboard.press("Enter")
    wait_until(page, "location.pathname === '/conversation' && document.querySelector('.unit')")
    page.keyboard.press("j")
    wait_until(page, "document.activeElement.id === 'm1'")
    page.keyboard.press("?")
    assert page.get_by_role("dialog").is_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("part")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("s")
    wait_until(page, "document.activeElement.type === 'search'")
    page.keyboard.type("profile")
    wait_until(page, "document.querySelectorAll('.hit').length > 3")
    page.keyboard.press("ArrowDown")
    wait_until(page, "document.activeElement.classList.contains('hit')")
    page.keyboard.press("Enter")
    wait_until(page, "location.pathname === '/conversation' && location.hash.startsWith('#m')")
    wait_until(page, "document.activeElement.closest('.unit')")
    page.go_back()
    wait_until(page, "document.querySelectorAll('.hit').length > 3")


def test_a_long_conversation_opens_at_any_message(open_page: Open, server: Server) -> None:
    name = ident(server, "A long one")
    (item,) = server.get("/api/conversation/items", id=name, first=2000, count=1)["items"]
    first = f"m{item['messages'][0] + 1}"  # of its piece, so that the one above comes near, too
    page = open_page(f"/conversation?id={quote(name)}#{first}")
    wait_until(page, f"document.activeElement.id === '{first}'")
    top = f"document.getElementById('{first}').getBoundingClientRect().top"
    before = page.evaluate(top)
    wait_until(page, "!document.querySelector('.waiting[data-piece=\"99\"]')")
    assert abs(page.evaluate(top) - before) < 3  # what loads above does not move it
    loaded = page.evaluate("document.querySelectorAll('.piece:not(.waiting)').length")
    assert loaded < 12  # the rest of 5,000 messages was not asked for
    turn = "document.activeElement.closest('.turn')?.dataset.turn"
    for key in ("n", "n", "n", "p"):  # also where nothing is loaded yet
        number = int(page.evaluate(turn)[1:]) + (1 if key == "n" else -1)
        page.keyboard.press(key)
        wait_until(page, f"{turn} === 't{number}'")
    page.locator("nav a").nth(3).click()
    wait_until(page, f"{turn} === 't4'")
    page.evaluate("document.querySelectorAll('.piece')[30].scrollIntoView()")
    wait_until(page, "!document.querySelectorAll('.piece')[30].classList.contains('waiting')")
    assert (
        0
        <= page.evaluate("document.querySelectorAll('.piece')[30].getBoundingClientRect().top")
        < 200
    )
    page.get_by_label("Search this conversation").fill("make part 1009")
    wait_until(page, "document.getElementById('found').value.includes('1 message')")
    page.keyboard.press("Enter")
    wait_until(page, "document.body.innerText.includes('make part 1009 faster')")
    failing = server.get("/api/conversations", errors="true")["conversations"][0]["id"]
    page = open_page(f"/conversation?id={quote(failing)}")
    wait_until(page, "document.querySelector('.unit')")
    page.keyboard.press("e")
    wait_until(page, "document.activeElement.matches('.unit.error')")


def test_sub_agents_branches_and_raw_records(open_page: Open, server: Server) -> None:
    page = open_page(f"/conversation?id={quote(ident(server, '74a12a7f'))}")
    wait_until(page, "document.querySelector('details.agent[data-agent]')")
    page.locator("details.agent > summary").first.click()
    wait_until(page, "document.querySelector('details.agent .unit')")
    page.locator("details.agent .unit").first.hover()
    page.locator("details.agent .raw").first.click()
    wait_until(page, "document.querySelector('dialog pre')?.textContent.includes('isSidechain')")
    page.keyboard.press("Escape")
    page.locator("details.run:has(.result) > summary").first.click()
    page.locator(".result").first.hover()
    page.locator(".result > .raw").first.click()
    wait_until(page, "document.querySelector('dialog pre')?.textContent.includes('tool_result')")
    page.keyboard.press("Escape")
    wait_until(page, "!document.querySelector('dialog[open]')")
    page.locator("nav ul a").first.click()
    wait_until(page, "location.search.includes('%2F') || location.search.includes('/')")
    wait_until(page, "document.querySelector('.links a')")
    page = open_page(f"/conversation?id={quote(ident(server, 'e20d7fe7'))}")
    wait_until(page, "document.querySelector('.compare')")
    page.locator(".compare").first.click()
    wait_until(page, "document.querySelectorAll('dialog .columns .unit').length > 1")
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    page.locator("main .unit").first.hover()
    page.locator("main .raw").first.click()
    wait_until(page, "document.querySelector('dialog pre')?.textContent.includes('parentUuid')")
    page.keyboard.press("Escape")
    page.locator("details.branch > summary").first.click()
    page.locator("details.branch .unit").first.hover()
    page.locator("details.branch .raw").first.click()
    wait_until(
        page, "document.querySelector('dialog[open] h2')?.textContent.includes('of branch 1')"
    )
    left = server.get("/api/conversation/raw", id=ident(server, "e20d7fe7"), message=0, branch=0)[
        "records"
    ][0]
    shown = page.locator("dialog[open] pre").first.text_content()
    assert json.loads(shown) == json.loads(left["text"])


def test_a_conversation_grows_while_it_is_read(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync beside the daemon."""
    store = fill(tmp_path / "home", tmp_path / "store.db")
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))  # the daemon follows nothing
    log = next((tmp_path / "home" / "claude_code/plain").rglob("*.jsonl"))
    with serving(store, daemon=True) as server:
        context = browser.new_context(viewport={"width": 1280, "height": 500})
        page = context.new_page()
        page.goto(f"{server.address}conversation?id={quote(ident(server, '1a8e5da4'))}")
        wait_until(page, "document.querySelector('.unit')")
        wait_until(page, "document.getElementById('live').className === 'on'", 20)
        page.get_by_role("button", name="Follow").click()
        line = next(one for one in log.read_text().splitlines() if '"uuid": "u1"' in one)
        with log.open("a") as file:
            grown = line.replace('"uuid": "u1"', '"uuid": "u99"').replace(
                '"parentUuid": null', f'"parentUuid": "{last_uuid(log)}"'
            )
            file.write(re.sub(r'"content": "[^"]*"', '"content": "And one thing more."', grown))
            file.write("\n")
        sync([str(tmp_path / "home")], store, quiet=True)
        wait_until(page, "document.body.innerText.includes('And one thing more.')")
        wait_until(page, "scrollY + innerHeight > document.documentElement.scrollHeight - 80")
        context.close()


def last_uuid(log: Path) -> str:
    return re.findall(r'"uuid": "(\w+)"', log.read_text())[-1]


def test_now_search_figures_and_alignment(open_page: Open, server: Server) -> None:
    page = open_page("/now")
    wait_until(page, "document.querySelector('h1')?.textContent === 'Now'")
    page = open_page("/search?q=lim%5Cw%2Br&mode=regex")
    wait_until(page, "document.querySelector('.hit mark')")
    page = open_page("/figures?by=model")
    wait_until(
        page,
        "document.querySelector('svg[role=img][aria-label]') && document.querySelector('tbody tr')",
    )
    page.get_by_role("button", name="By day").click()
    wait_until(page, "document.querySelector('figure svg rect')")
    left = server.get("/api/conversations", source="claude-code")["conversations"][0]["id"]
    right = server.get("/api/conversations", source="codex")["conversations"][0]["id"]
    page = open_page(f"/alignment?left={quote(left)}&right={quote(right)}")
    wait_until(page, "document.querySelector('.confidence')")


def test_a_tie_goes_from_the_time_of_the_one_to_that_of_the_other(
    browser: Any, tmp_path: Path
) -> None:
    pair: list[Trajectory] = []
    for source, seconds in (("claude-code", 0), ("cursor", 4)):
        one = long(4)
        one.source, one.conversation_id = source, f"tied-{source}"
        for number, message in enumerate(one.messages):
            at = datetime(2026, 3, 1, 10, number, seconds, tzinfo=UTC)
            message.timestamp = at.isoformat().replace("+00:00", "Z")
        one.started_at, one.ended_at = one.messages[0].timestamp, one.messages[-1].timestamp
        pair.append(one)
    with serving(fill(tmp_path / "home", tmp_path / "store.db", pair)) as server:
        page = browser.new_page()
        page.goto(f"{server.address}alignment?left=claude-code/tied-claude-code")
        page.get_by_role("link", name="cursor").first.click()
        wait_until(page, "document.querySelector('.tie.temporal')")
        tie = page.evaluate(
            "(() => { const tie = document.querySelector('.tie.temporal'), at = (x) => Math.min("
            "...[...document.querySelectorAll('.event.prompt')]"
            ".filter((e) => e.getAttribute('cx') === x)"
            ".map((e) => Number(e.getAttribute('cy')))), of = (n) => tie.getAttribute(n);"
            " return [Number(of('y1')), at(of('x1')), Number(of('y2')), at(of('x2'))]; })()"
        )
        assert tie[0] == tie[1] < tie[2] == tie[3]
        page.close()


def test_the_header_says_whether_anybody_keeps_the_store_current(
    browser: Any, tmp_path: Path
) -> None:
    store = fill(tmp_path / "home", tmp_path / "store.db")
    layout = Layout.beside(store)
    layout.make()
    with serving(store) as server:
        page = browser.new_page()
        page.goto(server.address)
        wait_until(page, "document.getElementById('live').textContent === 'not kept current'")
        handle = os.open(layout.live / "daemon.lock", os.O_RDWR | os.O_CREAT)
        try:
            assert take_lock(handle)  # as a daemon does as long as it runs
            wait_until(page, "document.getElementById('live').textContent === 'live'")
            other = browser.new_page()
            other.goto(f"{server.address}now")
            wait_until(other, "document.getElementById('live').textContent === 'live'")
            wait_until(other, "document.querySelector('.view-now > [role=status]')?.hidden")
        finally:
            os.close(handle)
        wait_until(page, "document.getElementById('live').textContent === 'not kept current'")
        server.process.kill()
        wait_until(page, "document.getElementById('live').className === 'lost'")
        page.close()
        other.close()


def test_who_waits_is_told_by_the_browser_and_is_idle_after_a_while(
    browser: Any, tmp_path: Path
) -> None:
    store = fill(tmp_path / "home", tmp_path / "store.db")

    def tell(state: str, ago: timedelta = timedelta(0)) -> None:
        at = (datetime.now(UTC) - ago).isoformat(timespec="microseconds").replace("+00:00", "Z")
        with opened(store) as connection, transaction(connection):
            connection.execute("DELETE FROM activity")
            put_state(connection, key, state, None, at)
            connection.execute("UPDATE conversations SET messages = messages WHERE id = ?", (row,))

    with opened(store) as connection:
        (row, ident) = connection.execute(
            "SELECT id, external_id FROM conversations WHERE external_id LIKE '1a8e5da4%'"
        ).fetchone()
        key = ("claude-code", ident)
    tell("working")
    with serving(store) as server:
        context = browser.new_context(permissions=["notifications"])
        page = context.new_page()
        page.add_init_script(
            "window.told = []; window.Notification = class { static permission = 'granted';"
            " static async requestPermission() { return 'granted'; }"
            " constructor(title, options) { window.told.push(title + ': ' + options.body); } };"
        )
        page.goto(f"{server.address}now")
        wait_until(page, "document.querySelector('.card.working')")
        page.get_by_role("button", name="Tell me when one waits").click()
        wait_until(page, "document.querySelector('[aria-pressed=true]')")
        page.wait_for_timeout(300)
        page.keyboard.press("g")
        page.keyboard.press("f")  # told in whichever view
        wait_until(page, "location.pathname === '/figures'")
        tell("waiting")
        wait_until(
            page, "window.told.length === 1 && window.told[0].startsWith('Waiting for you: ')"
        )
        page.goto(f"{server.address}now")
        wait_until(page, "document.querySelector('.card.waiting')")
        assert page.get_by_role("button", name="Tell me").get_attribute("aria-pressed") == "true"
        tell("waiting", timedelta(minutes=9, seconds=58))  # nothing is heard of it any more
        wait_until(page, "document.querySelector('.card.idle')", 20)
        assert page.locator(".card.waiting").count() == 0
        context.close()


def test_hostile_content_does_nothing(open_page: Open, server: Server) -> None:
    name = ident(server, "<script>")
    page = open_page(f"/conversation?id={quote(name, safe='')}")
    wait_until(page, "document.querySelector('.unit')")
    page.keyboard.press("x")
    page.wait_for_timeout(300)
    assert (
        page.evaluate(
            "document.querySelectorAll('main script, main iframe, main [onclick]').length"
        )
        == 0
    )
    assert page.evaluate("window.hacked") is None
    page = open_page("/search?q=script")
    wait_until(page, "document.querySelector('.results > *')")
    page = open_page("/?text=%3Cscript%3E")
    wait_until(page, "document.querySelector('.row .title')?.textContent.includes('⟦U+202E⟧')")
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x1b]", page.inner_text("body"))


@pytest.mark.parametrize("path", ["/", "/now", "/figures", "/search?q=profile", "conversation"])
def test_phone_width_and_names_for_everything(open_page: Open, server: Server, path: str) -> None:
    if path == "conversation":
        path = f"/conversation?id={quote(ident(server, 'limiter'))}"
    page = open_page(path, width=390, color_scheme="dark", reduced_motion="reduce")
    wait_until(page, "document.getElementById('view').children.length > 0")
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1")
    nameless = page.evaluate(
        "[...document.querySelectorAll('button, input, select, a[href], [role=img]')].filter((e) =>"
        " e.checkVisibility() && !(e.textContent.trim() || e.getAttribute('aria-label')"
        " || e.title)).map((e) => e.outerHTML)"
    )
    assert nameless == []


def test_twenty_tabs_and_a_server_that_was_killed(browser: Any, tmp_path: Path) -> None:
    store = fill(tmp_path / "home", tmp_path / "store.db")
    context = browser.new_context()
    with serving(store) as server:
        port = urlsplit(server.address).port or 0
        tabs = [context.new_page() for _ in range(20)]
        for tab in tabs:
            tab.goto(f"{server.address}?text=8e5da4-7e42")
        for tab in tabs:
            wait_until(tab, "document.querySelector('.row time')", 20)
            wait_until(tab, "document.getElementById('live').className === 'still'", 20)
        server.process.kill()
        server.process.wait()
        wait_until(tabs[0], "document.getElementById('live').className === 'lost'", 20)
    with serving(store, port=port) as server:
        wait_until(tabs[0], "document.getElementById('live').className === 'still'", 20)
        source = next((tmp_path / "home" / "claude_code/plain").rglob("*.jsonl"))
        copy = tmp_path / "home" / "more" / "copy.jsonl"
        copy.parent.mkdir()
        shutil.copy(source, copy)
        copy.write_text(copy.read_text().replace("1a8e5da4", "2b8e5da4"))
        sync([str(tmp_path / "home")], store, quiet=True)
        for tab in (tabs[0], tabs[7], tabs[19]):
            wait_until(tab, "document.querySelectorAll('.row').length === 2", 20)
    context.close()
