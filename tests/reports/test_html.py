"""The HTML report: what stands in the file, and what a real browser makes of it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from replaydiff.diff.result import Cause, CauseExample, CauseState, DiffResult, Verdict
from replaydiff.replay.media import MediaFolder
from replaydiff.replay.model import JsonObject, Lane, Media, Message
from replaydiff.reports import registry
from replaydiff.reports.html import pictures, plots, render, transcripts
from replaydiff.reports.html.transcripts import case, text_limit
from replaydiff.reports.notebook import notebook_html
from tests.reports import results
from tests.reports.browser import Browser, browser, in_browser
from tests.stand_ins.full import FULL, full
from tests.stand_ins.media import PDF, PNG

VOID = {"meta", "link", "img", "input", "br", "hr", "rect", "line", "path", "circle"}


class Page(HTMLParser):
    """The elements, texts and embedded data of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert tag in VOID or self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(data)

    @property
    def data(self) -> dict[str, Any]:
        """What the page's script reads."""
        found: dict[str, Any] = json.loads(self.texts["script"][0])
        return found


@pytest.mark.parametrize("name", [name for name in results.ALL if name != "many"])
def test_a_page_is_whole_and_asks_for_nothing(name: str) -> None:
    page = Page(registry.render(results.ALL[name](), "html"))
    assert page.open == []
    for tag, attributes in page.elements:
        assert tag not in {"img", "link", "iframe", "object", "embed", "base", "image", "use", "a"} or (
            attributes["href"] == "#items"
        )
        assert not [key for key in attributes if key.startswith("on") or key in {"src", "style", "srcset"}]
    assert [tag for tag, _ in page.elements].count("script") == 2


def test_the_policy_allows_its_own_style_and_script_alone() -> None:
    page = Page(registry.render(results.hostile(), "html"))
    policy = next(a["content"] for tag, a in page.elements if tag == "meta" and a.get("http-equiv"))
    assert policy is not None
    hashes = {
        kind: "sha256-" + base64.b64encode(hashlib.sha256("".join(texts).encode()).digest()).decode()
        for kind, texts in (("style", page.texts["style"]), ("script", page.texts["script"][1:]))
    }
    assert policy == (
        f"default-src 'none'; style-src '{hashes['style']}'; script-src '{hashes['script']}'; "
        "img-src data:; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )


def _part(folder: MediaFolder, content: bytes, media_type: str, name: str = "") -> JsonObject:
    """A part of a message with a medium that is kept."""
    media = Media(media_type=media_type, sha256=folder.add(content), size=len(content), name=name)
    source: JsonObject = {"type": "base64", "media_type": media_type, "data": media.reference}
    return {"type": "image", "source": source}


def _with_pictures(
    folder: MediaFolder, *parts: JsonObject, verdict: Verdict = Verdict.REGRESSED
) -> DiffResult:
    """A result of one item whose first turn has these parts, and whose recorded call has a PNG."""
    result = results.hold()
    item = result.items[0]
    messages = (
        Message(role="user", text="what is it?", parts=[*parts]),
        Message(role="assistant", text="A bill."),
        Message(
            role="user",
            text="and that?",
            parts=[{"type": "image_url", "image_url": {"url": "https://x/y.png"}}],
        ),
    )
    call = replace(item.item.tape[0], result=[_part(folder, PNG, "image/png")])
    changed = replace(item.item, input="and that?", messages=messages, tape=(call,), expectation=None)
    return replace(result, items=(replace(item, item=changed, verdict=verdict),), media=folder)


def test_changed_items_show_their_pictures_and_name_what_is_no_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = MediaFolder(tmp_path / "media")
    monkeypatch.setattr(pictures, "LARGEST", 1000)
    hostile = _part(folder, PNG + b"2", "image/png", name=results.HOSTILE.replace("\ud800", ""))
    parts = (
        hostile,
        _part(folder, b"<svg onload='alert(1)'/>", "image/png", name="a.png"),
        _part(folder, PDF, "application/pdf", name="bill.pdf"),
        _part(folder, PNG + bytes(1000), "image/png"),
    )
    result = _with_pictures(folder, *parts)
    data = Page(registry.render(result, "html")).data
    [item] = data["cases"]
    (evil, alternative), *others = item["talk"][0][2]
    assert data["pictures"] == {
        hashlib.sha256(content).hexdigest(): "data:image/png;base64," + base64.b64encode(content).decode()
        for content in (PNG, PNG + b"2")
    }
    assert evil == hashlib.sha256(PNG + b"2").hexdigest()
    assert alternative.startswith("image/png, 71 bytes, <script>")
    assert not {*alternative} & {"\x1b", "\x07", "\r", "\u202e", "\x00"}
    assert others == [
        ["", "image/png, 24 bytes, a.png"],
        ["", f"application/pdf, {len(PDF)} bytes, bill.pdf"],
        ["", "image/png, 1,070 bytes: not shown, it is larger than 1 kB"],
    ]
    assert item["media"] == item["talk"][2][2] == [["", "a picture or file that is missing: url"]]
    assert item["ref"]["calls"][0]["p"] == [[hashlib.sha256(PNG).hexdigest(), "image/png, 70 bytes"]]

    monkeypatch.setattr(pictures, "BUDGET", 100)
    data = Page(registry.render(result, "html")).data
    assert len(data["pictures"]) == 1
    unchanged = _with_pictures(folder, hostile, verdict=Verdict.UNCHANGED)
    assert Page(registry.render(unchanged, "html")).data["pictures"] == {}
    shutil.rmtree(folder.path)
    data = Page(registry.render(result, "html")).data
    gone = [["", "image/png, 70 bytes: not shown, its bytes are no longer beside the store"]]
    assert (data["pictures"], data["cases"][0]["ref"]["calls"][0]["p"]) == ({}, gone)


def test_the_first_words_are_the_answer() -> None:
    page = Page(registry.render(results.cannot_tell(), "html"))
    assert page.texts["title"][0].startswith("CAN'T TELL: ")
    headings = " ".join("".join(page.texts["span"]).split())
    assert headings.startswith("CAN'T TELL: the replay cannot be trusted")


def test_only_web_addresses_become_links() -> None:
    item = results.hostile().items[0]
    document = case(results.hostile(), item, 500)
    assert document["links"] == []
    tries = {
        "ok": "https://langfuse.example/trace/1?a=b",
        "upper": "HTTP://host/x",
        "script": "javascript:alert(1)",
        "data": "data:text/html,<script>",
        "none": "https://",
        "space": "https://a b",
        "broken": "https://[",
        "control": "https://a\x00b",
        "file": "file:///etc/passwd",
    }
    linked = replace(item, item=replace(item.item, metadata=dict(tries)))
    labels = [label for label, _ in case(results.hostile(), linked, 500)["links"]]
    assert labels == ["ok", "upper"]


def test_a_transcript_shows_the_trial_that_tells() -> None:
    result = results.hold()
    first = result.items[0]
    bad = results.trial("t", results.Lane.NEW, 0, passed=False).grades
    good = results.trial("t", results.Lane.NEW, 0, passed=True)
    new = (good, replace(good, grades=bad), replace(good, grades=bad))
    mixed = replace(first, lanes={**first.lanes, results.Lane.NEW: new})
    lanes = case(result, mixed, 500)["lanes"]
    assert [(lane["name"], lane["show"]) for lane in lanes] == [("old", 0), ("new", 1)]


def test_a_call_is_set_beside_its_recording() -> None:
    document = case(results.hold(), results.hold().items[0], 500)
    assert [call["n"] for call in document["ref"]["calls"]] == ["get_order_status", "cancel_order"]
    old, new = (lane["trials"][0]["calls"] for lane in document["lanes"])
    assert [(call["m"], call.get("s")) for call in old] == [(0, 1), (1, 1)]
    assert [(call["n"], call["m"], call["u"]) for call in new] == [("cancel_order", 1, "miss")]
    assert new[0]["a"] == [
        ["order_id", '"A-1004"', 1],
        ["reason", '"customer request"', 0],
        ["notify", "true", 0],
    ]
    assert "r" not in new[0]


def test_a_case_is_held_beside_its_expectation() -> None:
    document = case(results.one_lane(), results.one_lane().items[0], 500)
    assert document["ref"]["title"] == "expectation"
    assert ["answer", "42.50"] in document["ref"]["expects"]
    # Only the expected argument counts, and the expected call that was not made has no place.
    calls = document["lanes"][0]["trials"][0]["calls"]
    assert [(call["m"], [arg[2] for arg in call["a"]]) for call in calls] == [(1, [1, 0, 0])]


def test_long_texts_are_cut_and_it_is_said() -> None:
    result = results.hold()
    item = replace(result.items[0], item=replace(result.items[0].item, input="x" * 50_000))
    assert case(result, item, 200)["input"] == "x" * 200 + "… (49,800 more characters)"


def test_plots_stay_on_their_axis() -> None:
    drawn, axes = plots.delta_plots(
        {
            "a": results.metric(),
            "b": results.metric(delta=0.0, ci=(0.0, 0.0), mde=None),
            "latency": results.metric(old=1200.0, new=900.0, delta=-300.0, ci=(-480.0, -100.0), mde=5000.0),
            "none": results.metric(delta=None, ci=None),
        }
    )
    assert set(drawn) == {"a", "b", "latency"}
    assert [axes[name].reach for name in drawn] == [0.2, 0.2, 500.0]
    assert (drawn["a"].tone, drawn["b"].tone) == ("worse", "open")
    assert drawn["b"].point == drawn["b"].low == plots.WIDTH / 2
    for plot in drawn.values():
        assert 0 <= (plot.low or 0) <= plot.point <= (plot.high or 0) <= plots.WIDTH
        assert plot.band is None or 0 <= plot.band[0] <= plot.band[0] + plot.band[1] <= plots.WIDTH
    assert plots.delta_axis([]).reach == 0.1


def test_every_item_stands_in_the_plot_of_a_metric() -> None:
    result = results.hold()
    plot = plots.scatters(result)[0]
    assert plot.metric == "tool_calls"
    told = [re.fullmatch(r"(\d+)\sitems?, (\w+)", dot.title) for dot in plot.dots]
    tones = {
        name: sum(int(one[1]) for one in told if one and one[2] == name)
        for name in ("regressed", "improved", "neither")
    }
    scored = [item.metrics["tool_calls"] for item in result.items if "tool_calls" in item.metrics]
    assert sum(tones.values()) == sum(one.old is not None and one.new is not None for one in scored)
    assert tones["regressed"] == sum(one.verdict is results.Verdict.REGRESSED for one in scored)
    assert f"{tones['regressed']} regressed" in plot.label
    for dot in plot.dots:
        assert dot.r <= min(dot.x, dot.y)
        assert max(dot.x, dot.y) + dot.r <= plots.SIDE
        # Below the line is worse.
        if dot.title.endswith("regressed"):
            assert dot.y > plots.SIDE - dot.x
    # A run of one lane has nothing to set against it, and one without prices shows none.
    assert "Old against new" not in registry.render(results.one_lane(), "html")
    free = {lane: replace(one, cost_usd=None) for lane, one in result.lanes.items()}
    assert [one.name for one in plots.bars(replace(result, lanes=free))] == ["latency"]
    longest = max(row.wide for row in plots.bars(result)[0].rows)
    assert longest == 100.0


@pytest.fixture(scope="module")
def shared() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture
def tab(shared: Browser) -> Iterator[Browser]:
    yield shared
    shared.leave()


@pytest.fixture
def load(tab: Browser, tmp_path: Path) -> Callable[..., str]:
    """Open a page in a real browser and give back what became of it."""

    def opened(text: str, fragment: str = "") -> str:
        file = tmp_path / "report.html"
        file.write_text(text, encoding="utf-8", errors="surrogatepass")
        tab.open(file.as_uri() + fragment)
        return str(tab.page.content())

    return opened


PAYLOADS = [
    "<script>document.title='pwned'</script>",
    "<img src=x onerror=\"document.title='pwned'\">",
    "<svg/onload=document.title='pwned'>",
    "</script><script>document.title='pwned'</script>",
    "</title></style><script>document.title='pwned'</script>",
    "\"><body onload=document.title='pwned'>",
    "' autofocus onfocus=document.title='pwned' x='",
    "<!--<script>document.title='pwned'</script>-->",
    "<iframe srcdoc=\"<script>parent.document.title='pwned'</script>\">",
    "<a href=\"javascript:document.title='pwned'\">click</a>",
    "<math><mtext></mtext><style><img src=x onerror=document.title='pwned'></style></math>",
    "<details open ontoggle=document.title='pwned'>",
    "{{constructor.constructor('document.title=1')()}}",
    "\u2028\u2029document.title='pwned'",
]


@in_browser
@pytest.mark.slow
def test_no_payload_runs_in_any_field(load: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "HOSTILE", " ".join(PAYLOADS))
    text = registry.render(results.hostile(), "html")
    # Without the policy, so that the escaping is tried and not its safety net.
    assert load(text).count('class="row') == 1
    bare = re.sub(r"<meta http-equiv=[^>]*>", "", text)
    item = transcripts.visible(results.HOSTILE)
    from urllib.parse import quote

    for page in (text, bare):
        dom = load(page, "#item=" + quote(item, safe=""))
        assert "<title>HOLD: " in dom
        assert '<tr class="case">' in dom
        assert not re.search(r"<(img|iframe|svg/|body \w|math|a href=\"javascript)", dom)
        opened = Page(dom.replace("<!DOCTYPE html>", ""))
        tags = [tag for tag, _ in opened.elements]
        assert tags.count("script") == 2
        assert not {"iframe", "img", "math", "style>"} & set(tags)
        handlers = {key for _, attributes in opened.elements for key in attributes if key.startswith("on")}
        assert handlers == set()


@in_browser
def test_a_picture_is_shown_with_its_alternative_text_and_runs_nothing(
    load: Callable[..., str], tab: Browser, tmp_path: Path
) -> None:
    folder = MediaFolder(tmp_path / "media")
    name = '"><img src=x onerror="document.title=\'pwned\'">'
    svg = _part(folder, b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", "image/svg+xml")
    result = _with_pictures(folder, _part(folder, PNG + b"2", "image/png", name=name), svg)
    load(registry.render(result, "html"), f"#item={result.items[0].item.id}")
    tab.page.click(".talk summary")
    tab.until(
        "[...document.images].length === 2 && [...document.images].every((image) => image.naturalWidth === 1)"
    )
    assert tab.eval("document.images[0].alt") == f"image/png, 71 bytes, {name}"
    assert tab.eval("document.title").startswith("HOLD: ")
    assert (tab.console, tab.barriers()) == ([], [])


@in_browser
def test_an_item_opens_by_its_address(load: Callable[..., str]) -> None:
    dom = load(registry.render(results.hold(), "html"), "#item=trace-0001")
    panel = dom[dom.index('<tr class="case">') :]
    assert 'aria-expanded="true"' in dom
    for text in (
        "first difference between old and new",
        "not on tape",
        "→ as recorded",
        "3 votes",
        "nearest:",
    ):
        assert text in panel
    assert '<mark title="differs from the first column">"A-1004"</mark>' in panel
    assert 'href="https://langfuse.example/trace/1"' in panel


@in_browser
def test_the_address_of_an_item_is_a_link_and_works_while_the_page_is_open(
    load: Callable[..., str], tab: Browser
) -> None:
    cause = Cause(
        id="c9ccf3d4a",
        text="calls cancel_order without calling get_order first",
        items=1,
        trials={Lane.OLD: (0, 150), Lane.NEW: (3, 150)},
        p=0.01,
        state=CauseState.OPEN,
        examples=(CauseExample(item="trace-0002", old=0, new=0),),
    )
    load(registry.render(replace(results.hold(), causes=(cause,)), "html"), "#item=no%20such%20item")
    tab.until("document.querySelector('.shown').textContent === 'no item no such item on this page'")
    tab.page.click(".cause a")
    tab.until("document.querySelector('.case .facts-line')")
    opened = str(tab.eval("document.querySelector('.is-open').id"))
    assert opened == "item=trace-0002"
    link = "[...document.querySelectorAll('.case a')].find((one) => one.textContent === 'Link to this item')"
    assert str(tab.eval(f"{link}.href")).endswith(f"report.html#{opened}")
    tab.eval("location.hash = 'item=trace-0003'")
    tab.until("document.querySelectorAll('.is-open').length === 2")


@in_browser
def test_on_a_phone_old_and_new_are_in_sight(load: Callable[..., str], tab: Browser) -> None:
    tab.look(390, 844)
    load(registry.render(results.hold(), "html"), "#item=trace-0002")
    tab.until("document.querySelector('.case .sides').scrollLeft > 100")
    sides = tab.eval(
        "[...document.querySelectorAll('.case .sides th')].map((one) => one.getBoundingClientRect())"
        ".map((box) => [box.left, box.right])"
    )
    names = tab.eval("[...document.querySelectorAll('.case .sides th')].map((one) => one.firstChild.data)")
    shown = [name for name, (left, right) in zip(names, sides, strict=True) if left >= 0 and right <= 390]
    assert shown[:2] == ["old", "new"]


@in_browser
def test_filters_and_keys(load: Callable[..., str], tab: Browser) -> None:
    load(registry.render(results.hold(), "html"))

    def shown() -> int:
        return int(tab.eval("[...document.querySelectorAll('.row')].filter((row) => !row.hidden).length"))

    def name() -> str:
        return str(tab.eval("document.activeElement.textContent"))

    def search(text: str, found: int) -> None:
        tab.page.fill("[name=text]", text)
        tab.until(f"document.querySelector('.shown').textContent === '{found} of 50 items'")
        assert shown() == found

    assert shown() == 50
    # Words in any case, all of them.
    search("TRACE-0003 wrong", 1)
    search("names the refund, and nothing else", 0)
    search("", 50)
    # The metric that one item changed on.
    tab.page.select_option("[name=metric]", "1")
    assert shown() == 1
    tab.page.select_option("[name=metric]", "")
    tab.page.select_option("[name=tag]", "2")
    assert shown() == sum(number % 3 == 0 for number in range(1, 51))
    tab.page.select_option("[name=tag]", "")
    tab.eval("document.activeElement.blur()")
    for verdict in ("regressed", "mixed", "inconclusive", "unchanged"):
        if tab.page.locator(f"[name=verdict][value={verdict}]").count():
            tab.page.uncheck(f"[name=verdict][value={verdict}]")
    assert shown() == 3
    tab.eval("document.activeElement.blur()")
    tab.press("j", "j")
    assert name() == "trace-0009"
    tab.press("Enter")
    assert tab.page.locator(".case").count() == 1
    tab.press("Escape")
    assert tab.page.locator(".case").count() == 0
    tab.press("k")
    assert name() == "trace-0008"
    tab.press("/")
    assert tab.eval("document.activeElement.name") == "text"
    assert tab.console == []


@in_browser
@pytest.mark.parametrize("name", ["hold", "one_lane", "hostile"])
@pytest.mark.slow
def test_a_report_has_no_barrier(name: str, load: Callable[..., str], tab: Browser) -> None:
    load(registry.render(results.ALL[name](), "html"))
    tab.page.click(".row .open")
    examined = FULL or name == "hold"
    assert not examined or tab.barriers() == []
    tab.look(390, 844, dark=True)
    rules = ("color-contrast", "target-size", "scrollable-region-focusable")
    assert not examined or tab.barriers(*rules) == []
    assert tab.eval("document.documentElement.scrollWidth") == 390
    tab.look(paper=True, dark=True)
    # Paper is white also for who likes it dark; the filters are gone, and nothing scrolls within itself.
    assert tab.eval("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert tab.eval("getComputedStyle(document.querySelector('.answer')).color") == "rgb(27, 35, 48)"
    assert not tab.eval("document.querySelector('.filters').checkVisibility()")
    assert tab.eval("getComputedStyle(document.querySelector('.scroll')).overflowX") == "visible"
    tab.look()


@in_browser
def test_a_script_that_is_not_the_page_s_own_does_not_run_and_the_items_are_listed_all_the_same(
    load: Callable[..., str],
) -> None:
    dom = load(registry.render(results.hold(), "html").replace('"use strict";', '"use strict"; '))
    assert dom.count('<tr class="row"') == 50
    assert 'class="filters" hidden' in dom


@full
@in_browser
def test_a_run_of_five_thousand_items_is_small_and_is_filtered(tab: Browser, tmp_path: Path) -> None:
    result = results.many(5000)
    response = "It was a long answer. " * 400

    def longer(graded: Any) -> Any:
        return replace(graded, trial=replace(graded.trial, final_response=response))

    items = tuple(
        replace(item, lanes={lane: tuple(map(longer, trials)) for lane, trials in item.lanes.items()})
        for item in result.items
    )
    large = replace(result, items=items)
    assert transcripts.LEAST <= text_limit(large) < transcripts.MOST
    assert text_limit(results.hold()) == transcripts.MOST
    text = registry.render(large, "html")
    assert len(text.encode()) < 15_000_000
    assert "items where nothing changed show one trial of each lane" in text
    file = tmp_path / "large.html"
    file.write_text(text, encoding="utf-8")
    tab.open(file.as_uri(), "document.querySelector('.shown').textContent")
    tab.eval("document.querySelector('[name=verdict][value=unchanged]').click()")
    left = 4 * (5000 // 40)
    assert tab.eval("document.querySelector('.shown').textContent") == f"{left} of 5,000 items"
    assert tab.eval("[...document.querySelectorAll('.row')].filter((row) => !row.hidden).length") == 200


def test_a_page_lists_so_many_items_and_counts_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    result = results.many(200)
    changed = [item for item in result.items if item.verdict is not Verdict.UNCHANGED]
    monkeypatch.setattr(render, "MOST_ITEMS", len(changed) + 10)
    text = registry.render(result, "html")
    assert isinstance(text, str)
    left = 200 - len(changed) - 10
    assert f"This run is large: {left} of 200 items are left out: {left} unchanged" in text
    assert text.count('<tr class="row"') == len(changed) + 10
    assert all(f">{item.item.id}</button>" in text for item in changed)
    monkeypatch.undo()
    assert "left out" not in registry.render(result, "html")


@pytest.mark.parametrize("name", results.ALL)
def test_a_notebook_shows_the_answer_and_what_changed(name: str) -> None:
    result = results.ALL[name]()
    page = Page(notebook_html(result))
    assert not page.open
    assert {tag for tag, _ in page.elements} <= {
        "div", "p", "strong", "br", "span", "code", "table", "thead", "tbody", "tr", "th", "td",
    }  # fmt: skip
    assert all(set(attributes) <= {"style", "class"} for _, attributes in page.elements)
    assert result.answer.value in page.texts["strong"]
    changed = [item.item.id for item in result.items if item.verdict.value != "unchanged"]
    assert len(page.texts.get("code", [])) == 1 + min(len(changed), 20) + (len(changed) > 20)
