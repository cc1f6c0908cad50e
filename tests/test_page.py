"""The HTML page, driven in a real headless Chromium."""

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import launch
from tests.conversations import hostile, long, sample
from unspool.sinks import Family
from unspool.sinks.html import write

pytestmark = pytest.mark.browser

Open = Callable[..., Any]
OURS = re.compile(r"^(#|https?:|mailto:)")

FAINT_TEXTS = """() => {
  const part = (v) => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = (colour) => {
    const [r, g, b] = colour.match(/\\d+/g).map((v) => part(v / 255));
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const ground = (e) => {
    const own = getComputedStyle(e).backgroundColor;
    return own === "rgba(0, 0, 0, 0)" && e.parentElement ? ground(e.parentElement) : own;
  };
  const ratio = (e) => {
    const [a, b] = [light(getComputedStyle(e).color), light(ground(e))];
    return (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  };
  const speaks = (e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  return [...document.querySelectorAll("main *, nav a, .bar button")]
    .filter((e) => speaks(e) && e.checkVisibility() && ratio(e) < 4.5)
    .map((e) => [e.className || e.localName, ratio(e)]);
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launch() as made:
        yield made


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    root, children = sample()
    families = {"sample": Family(root, tuple(children)), "hostile": Family(hostile())}
    families["long"] = Family(long())
    for name, family in families.items():
        (piece,) = write(family, {})
        (folder / f"{name}.html").write_bytes(piece.data)
    return folder


@pytest.fixture
def open_page(browser: Any, pages: Path) -> Iterator[Open]:
    """Opens a page and fails the test if it logs an error, asks a server or shows a dialog."""
    contexts: list[Any] = []
    complaints: list[str] = []

    def opened(name: str = "sample", fragment: str = "", width: int = 1280, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 800}, **options)
        contexts.append(context)
        page = context.new_page()
        address = f"file://{pages / name}.html{fragment}"

        def asked(request: Any) -> None:
            if not request.url.startswith(("data:", address.partition("#")[0])):
                complaints.append(f"request: {request.url}")

        def shown(dialog: Any) -> None:
            complaints.append(f"dialog: {dialog.message}")
            dialog.dismiss()

        page.on("request", asked)
        page.on("dialog", shown)
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("console", lambda line: complaints.append(f"console: {line.text}"))
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def shown_messages(page: Any) -> list[str]:
    return page.evaluate(  # type: ignore[no-any-return]  # a browser's answer has no type
        "[...document.querySelectorAll('.unit')].filter(u => u.checkVisibility()).map(u => u.id)"
    )


def focused(page: Any) -> str:
    return str(page.evaluate("document.activeElement.id"))


def wait_until(page: Any, expression: str) -> None:
    """Polls from outside: the page's policy lets nobody evaluate strings inside."""
    end = time.monotonic() + 5
    while not page.evaluate(expression):
        assert time.monotonic() < end, expression
        page.wait_for_timeout(20)


def test_the_page_stands_by_itself(open_page: Open) -> None:
    page = open_page(offline=True)
    assert page.title() == "Rate limiter lets bursts through"
    assert "refilled per call" in page.inner_text("main")
    assert page.locator(".picture img").evaluate("image => image.naturalWidth") == 64
    policy = page.locator("meta[http-equiv]").get_attribute("content")
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_markdown_code_and_diffs(open_page: Open) -> None:
    page = open_page()
    assert page.locator(".prose strong").first.inner_text() == "per call"
    assert page.locator(".prose pre .hk").first.inner_text() == "def"
    assert page.locator(".prose td").nth(1).inner_text() == "0.02 s"
    page.click("text=Edit")
    diff = page.locator(".diff")
    assert diff.locator("figcaption").inner_text().endswith("limiter.py")
    assert "self.tokens += self.rate" in diff.locator(".removed").all_inner_texts()[1]
    assert len(diff.locator(".added").all()) == 3


def test_intents_are_folded_to_a_line(open_page: Open) -> None:
    page = open_page()
    assert page.locator(".intent").inner_text() == "Reading the limiter"
    assert "report_intent" not in page.inner_text("main")
    assert "Intent logged" not in page.inner_text("main")


def test_search_as_you_type(open_page: Open) -> None:
    page = open_page()
    page.keyboard.press("/")
    assert focused(page) == "search"
    page.keyboard.type("callers: limiter", delay=5)
    wait_until(page, "document.getElementById('found').value.startsWith('2 of')")
    assert shown_messages(page) == ["m3-3"]  # the other one lies in its sub-agent, still closed
    page.keyboard.press("Enter")
    assert page.locator(".result >> text=Two callers: limiter.py").is_visible()
    page.keyboard.press("Escape")
    wait_until(page, "!document.querySelector('.unit[hidden], .turn[hidden]')")
    page.fill("#search", "no such words anywhere")
    wait_until(page, "document.getElementById('found').value === 'nothing found'")
    assert shown_messages(page) == []


@pytest.mark.parametrize(
    ("name", "gone"),
    [
        ("user", ["m2", "m13", "m15"]),
        ("assistant", ["m3", "m10", "m17"]),
        ("tools", ["m3-1", "m3-2", "m3-3", "m7", "m14"]),
        ("error", ["m7-2", "m16"]),
    ],
)
def test_filters(open_page: Open, name: str, gone: list[str]) -> None:
    page = open_page()
    before = shown_messages(page)
    chip = page.locator(f"[data-filter={name}]")
    assert chip.get_attribute("aria-pressed") == "true"
    chip.click()
    assert chip.get_attribute("aria-pressed") == "false"
    assert [ident for ident in before if ident not in shown_messages(page)] == gone
    chip.click()
    assert shown_messages(page) == before


def test_reasoning_and_injected_context(open_page: Open) -> None:
    page = open_page()
    assert page.locator(".reasoning summary").is_visible()
    page.click("[data-filter=reasoning]")
    assert not page.locator(".reasoning summary").is_visible()
    assert "m1" not in shown_messages(page)
    page.click("[data-filter=injected]")
    assert {"m1", "m11", "m12"} <= set(shown_messages(page))
    assert page.locator("text=As sent to the model").is_visible()


def test_only_errors(open_page: Open) -> None:
    page = open_page()
    page.click("[data-filter=error]", modifiers=["Shift"])
    assert shown_messages(page) == ["m7-2", "m16"]


def test_keyboard(open_page: Open) -> None:
    page = open_page()
    seen = []
    for _ in range(4):
        page.keyboard.press("j")
        seen.append(focused(page))
    assert seen == ["m2", "m3", "m3-1", "m3-2"]
    page.keyboard.press("k")
    assert focused(page) == "m3-1"
    page.keyboard.press("e")
    assert focused(page) == "m7-2"
    page.keyboard.press("o")
    assert page.locator("#m9").is_visible()
    page.keyboard.press("n")
    assert focused(page) == "m13"
    page.keyboard.press("p")
    assert focused(page) == "m2"
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()


def test_keys_go_on_from_where_the_reader_is(open_page: Open) -> None:
    page = open_page("long")
    page.keyboard.press("j")
    page.evaluate("document.getElementById('t50').scrollIntoView()")
    page.wait_for_timeout(100)
    page.keyboard.press("j")
    turn = page.evaluate("document.activeElement.closest('.turn').id")
    assert turn in ("t49", "t50")


def test_search_keeps_to_what_is_shown(open_page: Open) -> None:
    page = open_page()
    page.fill("#search", "refill")
    wait_until(page, "document.getElementById('found').value !== ''")
    everywhere = page.locator("#found").inner_text()
    page.click("[data-filter=tools]")
    wait_until(page, f"document.getElementById('found').value !== '{everywhere}'")
    for _ in range(5):
        page.press("#search", "Enter")
        assert page.evaluate("CSS.highlights.get('current').size") == 1
    assert not any(ident in shown_messages(page) for ident in ("m3-2", "m7"))


def test_expand_all(open_page: Open) -> None:
    page = open_page()
    page.click("#expand")
    wait_until(page, "!document.querySelector('main details:not([open])')")
    assert page.locator("text=src/pool.py:88").is_visible()
    page.keyboard.press("x")
    wait_until(page, "!document.querySelector('main details[open]')")


@pytest.mark.parametrize(
    "ident", ["m2", "m3-2", "m5", "m1", "a1-m3", "b1-m1", "m17", "t2", "a1-agent"]
)
def test_permalinks(open_page: Open, ident: str) -> None:
    """Also to a result inside a closed call, to hidden context, and into a sub-agent."""
    page = open_page(fragment=f"#{ident}")
    target = page.locator(f"[id='{ident}']")
    assert target.is_visible()
    box = target.bounding_box()
    assert -5 <= box["y"] < 800


def test_every_message_has_a_link(open_page: Open) -> None:
    root, _ = sample()
    page = open_page()
    for number in range(1, len(root.messages) + 1):
        assert page.locator(f"#m{number}").count() == 1, number
    links = page.locator("main a[href^='#']").evaluate_all(
        "links => links.map(link => !!document.getElementById(link.hash.slice(1)))"
    )
    assert links
    assert all(links)


def test_sidebar_leads_to_turns_and_sub_agents(open_page: Open) -> None:
    page = open_page()
    nav = page.locator("nav")
    assert [text.split("\n")[-1] for text in nav.locator("ol > li > a").all_inner_texts()] == [
        "The rate limiter lets bursts through. Why?",
        "/test --all",
        "Good. Now the docs: ```md # Limiter ```",
    ]
    nav.locator("text=Find callers").click()
    assert page.locator("text=Find every caller of refill().").is_visible()


def test_accessibility_tree(open_page: Open) -> None:
    tree = open_page().locator("body").aria_snapshot()
    for part in (
        'navigation "Turns"',
        'main "Conversation"',
        "search:",
        'searchbox "Search this conversation"',
        'group "Show"',
        'button "Tools 6" [pressed]',
        'heading "Rate limiter lets bursts through" [level=1]',
        'heading "You Turn 1" [level=2]',
        'article "Message 2: You"',
        'article "Tool call: Bash"',
        'separator "History compacted (auto, 155,000 tokens)"',
        'img "burst.png"',
    ):
        assert part in tree, part


def test_phone_width(open_page: Open) -> None:
    page = open_page(width=360)
    wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    assert page.evaluate(wide)
    page.click("#expand")
    wait_until(page, "!document.querySelector('main details:not([open])')")
    assert page.evaluate(wide)
    nav = page.locator("nav")
    assert not nav.is_visible()
    page.click("#menu")
    assert page.locator("#menu").get_attribute("aria-expanded") == "true"
    assert page.evaluate("document.activeElement.closest('nav') !== null")
    box, bar = nav.bounding_box(), page.locator("#bar").bounding_box()
    assert bar["height"] - 2 <= box["y"] <= bar["height"] + 8
    assert box["y"] + box["height"] <= 800
    nav.locator("text=/test --all").click()
    assert not nav.is_visible()
    assert page.evaluate("location.hash") == "#t2"


def test_light_and_dark(open_page: Open) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    light = open_page(color_scheme="light").evaluate(colour)
    dark = open_page(color_scheme="dark").evaluate(colour)
    assert light != dark


def test_contrast_is_readable(open_page: Open) -> None:
    """Every text on its ground has at least 4.5 to 1."""
    for scheme in ("light", "dark"):
        page = open_page(color_scheme=scheme)
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert page.evaluate(FAINT_TEXTS) == []


def test_print(open_page: Open) -> None:
    page = open_page()
    assert page.pdf()[:5] == b"%PDF-"
    page.emulate_media(media="print")
    assert not page.locator("#bar").is_visible()
    assert not page.locator("nav").is_visible()
    assert page.locator("text=Done: the README says it now.").is_visible()


def test_hostile_content_does_nothing(open_page: Open) -> None:
    page = open_page("hostile")
    page.click("[data-filter=injected]")
    page.click("#expand")
    wait_until(page, "!document.querySelector('main details:not([open])')")
    page.wait_for_timeout(200)
    assert page.title().startswith("<script>")
    assert page.evaluate("document.querySelectorAll('script').length") == 1
    assert page.evaluate("document.querySelectorAll('style').length") == 1
    bad = "iframe, object, embed, form, base, svg, main meta, main input, main img"
    bad += ", [onerror], [onclick], [style]"
    assert page.evaluate(f"document.querySelectorAll('{bad}').length") == 0
    links = page.locator("a[href]").evaluate_all("links => links.map(l => l.getAttribute('href'))")
    assert [link for link in links if not OURS.match(link)] == []
    body = page.inner_text("main")
    assert "⟦U+202E⟧" in body
    assert (
        re.search("[\u202a-\u202e\u2066-\u2069\x00-\x08\x1b\U000e0000-\U000e007f]", page.content())
        is None
    )
    assert "<script>document.title='owned'</script>" in body


def test_hostile_links_and_buttons_pressed(open_page: Open) -> None:
    page = open_page("hostile")
    for text in ("click", "data"):
        link = page.locator(f".prose >> text=[{text}]").first
        assert link.evaluate("e => !e.closest('a')")
    page.keyboard.press("j")
    page.fill("#search", "<script>")
    wait_until(page, "document.getElementById('found').value !== ''")
    assert page.title().startswith("<script>")


def patience() -> float:
    """How much longer everything takes while the processors are wanted by others as well."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def test_long_conversation_is_usable_at_once(open_page: Open) -> None:
    """5,000 messages: keys work within 2 s on a quiet machine."""
    times = []
    for _ in range(3):
        start = time.monotonic()
        page = open_page("long")
        page.keyboard.press("j")
        assert focused(page) == "m1"
        times.append(time.monotonic() - start)
        if times[-1] < 2:
            break
    assert min(times) < 2 * patience(), times


def test_long_conversation_scrolls_smoothly(open_page: Open) -> None:
    """No task over 100 ms while scrolling, searching, filtering or opening everything."""
    page = open_page("long")
    page.wait_for_timeout(300)
    page.evaluate(
        "() => { window.slow = []; new PerformanceObserver((list) => { for (const task of"
        " list.getEntries()) slow.push(Math.round(task.duration)); }).observe({ type: 'longtask' }); }"
    )

    def scroll() -> None:
        for _ in range(25):
            page.mouse.wheel(0, 1600)
            page.wait_for_timeout(16)

    page.mouse.move(700, 400)
    scroll()
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight * .7)")
    scroll()
    assert [ms for ms in page.evaluate("slow") if ms > 100 * patience()] == []
    page.fill("#search", "part_500")
    wait_until(page, "document.getElementById('found').value === '1 of 5000'")
    page.fill("#search", "")
    page.click("[data-filter=tools]")
    scroll()
    page.click("#expand")
    wait_until(page, "!document.querySelector('main details:not([open])')")
    scroll()
    assert [ms for ms in page.evaluate("slow") if ms > 200 * patience()] == []
