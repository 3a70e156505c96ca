"""`replay view`: over real HTTP, and in a real browser with a real keyboard."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import httpx
import pytest

import replaydiff as rd
from replaydiff.cases.triage.decisions import Decisions
from replaydiff.replay.engine.journal import path_of
from replaydiff.replay.engine.progress import ProgressFile, RunProgress
from replaydiff.replay.errors import InputError
from replaydiff.replay.model import (
    Action,
    Item,
    Lane,
    Message,
    Rule,
    Score,
    ServedCall,
    Status,
    Trace,
    Trial,
)
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.grades import decisions
from replaydiff.replay.store.sql import encode
from replaydiff.replay.store.traces import write_traces
from replaydiff.replay.view.cache import StoreCache
from replaydiff.replay.view.pages.traces import parts
from tests.diff import build
from tests.diff.build import CALLS, RUN_ID, WHEN, item, judged, store, trial
from tests.engine.project import two_revisions
from tests.reports.browser import Browser, browser, in_browser
from tests.reports.test_html import PAYLOADS
from tests.stand_ins.full import FULL
from tests.stand_ins.processes import PATIENCE_S, Process, replay, start

HOSTILE = " ".join(PAYLOADS)


@dataclass(frozen=True)
class Server:
    """A running `replay view`."""

    address: str
    """With its token."""
    folder: Path
    process: Process | subprocess.Popen[str]

    @property
    def base(self) -> str:
        return self.address.partition("/?")[0]

    @property
    def port(self) -> int:
        return int(self.base.rpartition(":")[2])

    @property
    def host(self) -> str:
        return self.base.removeprefix("http://")

    @cached_property
    def entered(self) -> httpx.Response:
        """The answer to the first browser that opens the address."""
        answer = httpx.get(self.address + "&from=25", trust_env=False, timeout=PATIENCE_S)
        assert answer.status_code == 200
        return answer

    @contextmanager
    def client(self) -> Iterator[httpx.Client]:
        """A window of the browser that has opened the address."""
        with httpx.Client(
            base_url=self.base,
            trust_env=False,
            headers={"Origin": self.base},
            timeout=PATIENCE_S,
            cookies=dict(self.entered.cookies),
        ) as client:
            yield client

    def open(self, tab: Browser, until: str = "document.querySelector('main')") -> None:
        """Open the list in a tab of that browser."""
        tab.page.context.add_cookies(
            [{"name": name, "value": value, "url": self.base} for name, value in self.entered.cookies.items()]
        )
        tab.open(self.base, until)


@contextmanager
def serving(folder: Path, *args: str) -> Iterator[Server]:
    """The command in a folder, until the context ends as a person ends it."""
    process = start(folder, "view", "--no-browser", *args)
    try:
        assert process.stdout is not None
        yield Server(process.stdout.readline().strip(), folder, process)
    finally:
        process.send_signal(2)
        _, said = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, said) == (0, "")


def fill(
    folder: Path, items: list[Item], traces: list[Trace], *, graded: bool = True, version: str | None = None
) -> Path:
    """A store in a folder: a run whose new version forgets the look-up in the first three items."""
    (folder / "replay.toml").write_text("[match]\ntrust = true\n")
    (folder / ".replay").mkdir(exist_ok=True)
    done, grades = [], []
    for place, one in enumerate(items):
        for lane in (Lane.OLD, Lane.NEW):
            worse = lane == Lane.NEW and place < 3
            for index in range(3):
                reason = HOSTILE if one.input == HOSTILE else "it says so"
                answer = HOSTILE if one.input == HOSTILE else f"answer {place} of {lane}"
                done.append(trial(one, lane, index, not worse, final_response=answer))
                grades.append(judged(one, lane, index, 1 / 3 if worse else 1.0, reason=reason))
    lanes = version and {
        lane: build.version(version, args={"model": version}) for lane in (Lane.OLD, Lane.NEW)
    }
    path = store(folder / ".replay", items, done, grades=grades if graded else (), lanes=lanes or None)
    with open_store(path) as con:
        write_traces(con, traces)
    return path


def production(trace_id: str, minutes: int = 0, **fields: Any) -> Trace:
    """A trace that looked up an order and cancelled it."""
    given: dict[str, Any] = {
        "input": f"cancel {trace_id}",
        "messages": (
            Message(role="user", text=f"cancel {trace_id}"),
            Message(role="assistant", tool_calls=CALLS),
            Message(role="tool", text="shipped"),
            Message(role="assistant", text="It is cancelled."),
        ),
        "tool_calls": CALLS,
        "final_response": "It is cancelled.",
        **fields,
    }
    return Trace(trace_id=trace_id, source="jsonl", started_at=WHEN - timedelta(minutes=minutes), **given)


QUESTIONS = ("cancel the order of my aunt", "send the parcel back", "the invoice is wrong", "where is it")


@pytest.fixture(autouse=True)
def names_below_localhost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resolve them as browsers do; the resolver of this system may not."""
    resolve = socket.getaddrinfo

    def getaddrinfo(host: Any, *args: Any, **options: Any) -> Any:
        below = str(host).endswith(".localhost")
        return resolve("127.0.0.1" if below else host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Eight items, of which three regressed; sixty traces."""
    texts = [*QUESTIONS, *(f"{text} again, please, number {n}" for n, text in enumerate(QUESTIONS))]
    items = [item(f"item-{place}", input=text) for place, text in enumerate(texts)]
    fill(tmp_path, items, [production(f"trace-{n:02}", n, session_id=f"visit {n // 2}") for n in range(60)])
    return tmp_path


@pytest.fixture
def server(shop: Path) -> Iterator[Server]:
    with serving(shop) as found:
        yield found


@pytest.fixture(scope="module")
def shared() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture
def tab(shared: Browser) -> Iterator[Browser]:
    yield shared
    shared.leave()


def golden(folder: Path) -> list[dict[str, Any]]:
    path = folder / "cases" / "golden.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


# ---- who may ask --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_only_who_has_the_address_gets_in(server: Server) -> None:
    own = server.host
    tries = {
        "no token": ("GET", "/", {}),
        "a wrong token": ("GET", "/?token=x", {}),
        "a wrong cookie": ("GET", "/", {"Cookie": f"replay_view_{server.port}=x"}),
        "assets too": ("GET", "/assets/view.js", {}),
    }
    for method, path, headers in tries.values():
        answer = httpx.request(method, server.base + path, headers=headers, trust_env=False)
        assert answer.status_code == 403
        assert "replay view" in answer.text
    with server.client() as client:
        cookie = client.cookies[f"replay_view_{server.port}"]
        assert cookie not in server.address
        assert client.get("/").status_code == 200
        # A name that somebody else lets point to 127.0.0.1, another site, another port of this host.
        for host in (
            f"evil.example:{server.port}",
            f"127.0.0.1:{server.port}",
            f"localhost:{server.port}",
            f"other.localhost:{server.port}",
            own.partition(":")[0],
            f"{own}1",
            f"{own}.evil.example",
        ):
            assert client.get("/", headers={"Host": host}).status_code == 403
            assert client.get(server.address, headers={"Host": host}).status_code == 403
        for origin in (
            "http://evil.example",
            "null",
            f"https://{own}",
            f"http://127.0.0.1:{server.port}",
            f"http://{own}1",
        ):
            assert client.get("/", headers={"Origin": origin}).status_code == 403
            assert client.post(f"/runs/{RUN_ID}/triage/undo", headers={"Origin": origin}).status_code == 403
        del client.headers["Origin"]
        assert client.get("/").status_code == 200
        assert client.post(f"/runs/{RUN_ID}/triage/undo").status_code == 403
        for site in ("cross-site", "same-site"):
            assert client.get("/", headers={"Sec-Fetch-Site": site}).status_code == 403


def test_it_listens_on_loopback_alone_on_a_port_of_its_own_and_answers_no_preflight(
    shop: Path, server: Server
) -> None:
    other = {"Host": server.host, "Origin": "http://evil.example"}
    preflight = httpx.options(
        f"{server.base}/runs/{RUN_ID}/triage/undo",
        headers={**other, "Access-Control-Request-Method": "POST"},
        trust_env=False,
    )
    assert preflight.status_code == 403
    assert not [name for name in preflight.headers if name.startswith("access-control")]
    # A form that another site posts, with the cookie that a browser might send along.
    with server.client() as client:
        sent = {**other, "Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "cross-site"}
        for path in ("promote", "edit", "label", "dismiss", "skip", "undo"):
            answer = client.post(
                f"/runs/{RUN_ID}/triage/{path}", data={"item": "item-0", "reason": "x"}, headers=sent
            )
            assert answer.status_code == 403
        for path in ("draw", "set"):
            assert client.post(f"/runs/{RUN_ID}/labels/{path}", headers=sent).status_code == 403
    assert golden(shop) == []
    assert not (shop / ".replay" / "labels").exists()
    # Another address of this machine is not listened on.
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.2", server.port)) != 0
    with serving(shop) as second:
        assert second.port != server.port
        assert second.address.partition("token=")[2] != server.address.partition("token=")[2]


def test_the_address_works_once_and_only_its_browser_may_open_it_again(server: Server) -> None:
    # What looks ahead, as a preview of a link does, uses nothing up.
    assert httpx.head(server.address, trust_env=False).status_code == 403
    assert httpx.get(server.address, headers={"Host": "evil.example"}, trust_env=False).status_code == 403
    assert server.entered.status_code == 200
    late = httpx.get(server.address, trust_env=False)
    assert late.status_code == 403
    assert "works once" in late.text
    assert not late.cookies
    with server.client() as client:
        assert "url=/" in client.get(server.address).text


def test_the_host_is_new_each_time_and_plain_where_that_is_asked_for(shop: Path) -> None:
    with serving(shop) as first, serving(shop) as second, serving(shop, "--plain-host") as plain:
        assert re.fullmatch(r"[0-9a-f]{16}\.localhost:\d+", first.host)
        assert first.host.partition(".")[0] != second.host.partition(".")[0]
        assert plain.host == f"127.0.0.1:{plain.port}"
        with plain.client() as client:
            assert client.get("/").status_code == 200


@in_browser
def test_a_command_opens_one_item(shop: Path, tab: Browser) -> None:
    with serving(shop, "item-1", "--run", RUN_ID) as server:
        assert f"/runs/{RUN_ID}?item=item-1&token=" in server.address
        tab.open(server.address, "document.querySelector('.case .sides table')")
        assert tab.eval("document.querySelector('.is-open .open').textContent") == "item-1"
        assert not str(tab.eval("location.href")).endswith("?item=item-1")
    with serving(shop, "--run", RUN_ID) as server:
        assert f"/runs/{RUN_ID}?token=" in server.address
    refused = replay(shop, "view", "no-such-item", "--no-browser")
    assert refused.returncode == 2
    assert "there is no item 'no-such-item'" in refused.stderr


@in_browser
@pytest.mark.slow
def test_no_other_port_gets_the_cookie(server: Server, tab: Browser) -> None:
    tab.open(server.address)
    assert tab.page.context.cookies(server.base)
    for other in (f"http://127.0.0.1:{server.port}", "http://localhost:9", "http://other.localhost:9"):
        names = [cookie["name"] for cookie in tab.page.context.cookies(other)]
        assert f"replay_view_{server.port}" not in names


def test_every_answer_is_sealed(server: Server) -> None:
    with server.client() as client:
        answers = [client.get(path) for path in ("/", "/nothing", "/live.json", "/assets/report.css")]
        refused = httpx.get(server.base, trust_env=False)
        entered = server.entered
    for answer in (*answers, refused, entered):
        policy = answer.headers["content-security-policy"]
        assert policy.startswith(
            "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'"
        )
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cache-control"] == "no-store"
        assert not [name for name in answer.headers if name.startswith("access-control")]
    cookie = entered.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    # On to the same page, without the token.
    assert 'content="0;url=/?from=25"' in entered.text
    assert "token" not in entered.text


def test_the_way_in_never_leads_elsewhere(server: Server) -> None:
    token = server.address.partition("?")[2]
    answer = httpx.get(f'{server.base}//evil.example/"><script>?{token}&a="><script>', trust_env=False)
    assert "url=/evil.example/" in answer.text
    assert "<script>" not in answer.text


def test_a_port_that_is_taken_and_a_store_that_is_not_there_are_said_in_a_sentence(shop: Path) -> None:
    def view(*args: str) -> subprocess.CompletedProcess[str]:
        return replay(shop, "view", "--no-browser", *args)

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = view("--port", str(taken.getsockname()[1]))
    assert done.returncode == 2
    assert re.fullmatch(r"error: port \d+ cannot be used: Address already in use; .*\n", done.stderr)
    done = view("--db", "nowhere.duckdb")
    assert done.returncode == 2
    assert done.stderr.startswith("error: there is no store at ")


# ---- the store ----------------------------------------------------------------------------------------------


WRITER = """
import sys
from pathlib import Path
from replaydiff.replay.store.connection import open_store
with open_store(Path(sys.argv[1])) as con:
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_a_page_of_a_store_that_lacks_a_column_says_so(shop: Path) -> None:
    with duckdb.connect(str(shop / ".replay" / "replay.duckdb")) as con:
        con.execute("ALTER TABLE traces DROP COLUMN latency_ms")
    with serving(shop) as server, server.client() as client:
        page = client.get("/trace", params={"id": "trace-01"})
    assert page.status_code == 500
    assert "the store is damaged: " in page.text
    assert "import again" in page.text


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Another process has the store open to write."""
    with start(path.parent, "-c", WRITER, str(path), program="python") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield
        process.communicate("\n")


@pytest.mark.slow
def test_pages_read_and_decide_while_another_process_writes(server: Server) -> None:
    path = server.folder / ".replay" / "replay.duckdb"
    with server.client() as client:
        for page in ("/", f"/runs/{RUN_ID}", f"/runs/{RUN_ID}/triage?items=1", "/traces", "/trends"):
            assert client.get(page).status_code == 200
        with open_store(path) as con:
            write_traces(con, [production("the-new-one")])
        with held(path):
            assert "the-new-one" in client.get("/traces").text
            assert client.get("/traces?text=nothing").status_code == 200
            name = re.search(r'name="item" value="(.*?)"', client.get(f"/runs/{RUN_ID}/triage?items=1").text)
            assert name is not None
            done = client.post(f"/runs/{RUN_ID}/triage/promote", data={"item": name[1]})
            assert done.status_code in (200, 303)
            assert len(golden(server.folder)) == 1
    with open_store(path, read_only=True) as con:
        assert [decision.action for decision in decisions(con)] == [Action.PROMOTE]


def test_what_is_decided_and_labelled_at_the_same_time_is_all_kept_once(server: Server) -> None:
    with server.client() as client, ThreadPoolExecutor(12) as together:
        page = client.get(f"/runs/{RUN_ID}/triage?items=1").text
        names = dict.fromkeys(re.findall(r'triage\?item=([^"&]+)', page))
        forms = [{"item": name, "reason": f"of tab {tab}"} for name in names for tab in range(3)]
        done = [*together.map(lambda form: client.post(f"/runs/{RUN_ID}/triage/dismiss", data=form), forms)]
        assert sorted(one.status_code for one in done) == [303] * len(names) + [400] * 2 * len(names)
        with open_store(server.folder / ".replay" / "replay.duckdb", read_only=True) as con:
            assert Counter(one.item_id for one in decisions(con)) == dict.fromkeys(names, 1)
        address = f"/runs/{RUN_ID}/labels"
        assert client.post(f"{address}/draw", data={"by": "Ada", "size": "20"}).status_code == 303

        def rows() -> list[dict[str, str]]:
            return [json.loads(line) for line in client.get(f"{address}/sheet?by=Ada").text.splitlines()]

        given = [{"by": "Ada", "row": row["key"], "label": "3"} for row in rows()]
        for answer in together.map(lambda form: client.post(f"{address}/set", data=form), given):
            assert answer.status_code == 303
        assert [str(row["label"]) for row in rows()] == ["3"] * len(given)


def test_an_answer_has_content_until_another_process_writes(shop: Path) -> None:
    project = rd.open(shop)
    path, cases = project.store.path, project.settings.golden_path
    cache, decisions, calls = StoreCache(project), Decisions(path, cases, "Ada"), []

    def found() -> int:
        def find() -> int:
            calls.append(len(project.runs()))
            return len(calls)

        return cache.read("queue", "x", find).value

    assert (found(), found()) == (1, 1)
    with cache.writing():
        decisions.skip(item("item-0"), RUN_ID)
    assert found() == 1
    with pytest.raises(InputError), cache.writing():
        raise InputError("nothing was written")
    assert found() == 1
    with open_store(path) as con:
        write_traces(con, [production("another")])
    assert found() == 2
    with open_store(path) as con:
        write_traces(con, [production("and one more")])
    with cache.writing():
        decisions.skip(item("item-1"), RUN_ID)
    assert found() == 3
    cases.parent.mkdir(exist_ok=True)
    cases.write_text("")
    assert found() == 4


@in_browser
@pytest.mark.slow
def test_a_running_run_is_followed_while_it_holds_the_store(tmp_path: Path, tab: Browser) -> None:
    project = two_revisions(tmp_path / "project")
    project.sample(8)
    with serving(project.folder) as server, server.client() as client:
        assert "No runs yet" in client.get("/").text
        before = client.get("/live.json").json()
        assert before["running"] == []
        server.open(tab, "document.querySelector('[data-live]')")
        run = ("run", "--sample", "october", "--old", "git:v1", "--new", "git:v2", "--trials", "1")
        # A trial ends for each ticket, so the run is in progress for as long as the test needs it.
        tickets = tmp_path / "tickets"
        tickets.mkdir()

        def hand_out(number: int) -> None:
            for _ in range(number):
                (tickets / uuid4().hex).touch()

        def done(number: int) -> dict[str, Any]:
            deadline = time.monotonic() + PATIENCE_S
            while True:
                now: dict[str, Any] = client.get("/live.json").json()
                if now["running"] and now["running"][0]["done"] >= number:
                    return now
                assert time.monotonic() < deadline
                time.sleep(0.05)

        process = project.start(*run, TICKETS=str(tickets))
        assert done(0)["mark"] != before["mark"]
        assert "of 16 trials" in client.get("/").text
        # The list sees by itself that a run has begun; its trials come as they end, without the store, which
        # the run holds.
        tab.until("document.querySelector('.going a')")
        tab.page.click(".going a")
        hand_out(4)
        tab.until("document.querySelectorAll('.latest tbody tr').length >= 4")
        tab.until("Number(document.querySelector('.done').textContent) >= 1")
        assert tab.text().count(", trial 1") >= 4
        hand_out(12)
        _, err = process.communicate()
        assert process.returncode == 0, err
        assert client.get("/live.json").json() == before
        found = project.run().id
        # What was followed becomes the report by itself.
        tab.until("document.querySelector('.filters')")
        assert tab.eval("location.pathname") == f"/runs/{found}"
        assert f"/runs/{found}" in client.get("/").text
        assert client.get(f"/runs/{found}/answer.json").json()["answer"] in ("SHIP", "HOLD", "CAN'T TELL")
        assert not list(project.store.parent.glob("running/*"))
        tab.console.clear()


def test_a_killed_run_is_not_shown_as_running(tmp_path: Path) -> None:
    project = two_revisions(tmp_path / "project")
    project.sample(8)
    process = project.start(
        "run", "--sample", "october", "--old", "git:v1", "--new", "git:v2", SECONDS_A_TRIAL="1"
    )
    project.wait_for_calls(1)
    process.kill()
    process.communicate()
    assert list(project.store.parent.glob("running/*.json"))
    with serving(project.folder) as server, server.client() as client:
        assert client.get("/live.json").json()["running"] == []
        assert "not finished" in client.get("/").text


# ---- pages --------------------------------------------------------------------------------------------------


def test_traces_are_searched_by_text_condition_and_month(server: Server) -> None:
    with server.client() as client:

        def ids(query: str) -> list[str]:
            return re.findall(r'href="/trace\?id=([^"]+)"', client.get(f"/traces?{query}").text)

        assert ids("") == [f"trace-{n:02}" for n in range(50)]
        assert ids("page=2") == [f"trace-{n}" for n in range(50, 60)]
        assert ids("text=CANCEL+TRACE-07") == ["trace-07"]
        assert ids("text=it+is+cancelled&page=2") == [f"trace-{n}" for n in range(50, 60)]
        assert ids("where=trace_id+IN+('trace-01','trace-58')") == ["trace-01", "trace-58"]
        assert ids("month=2026-10") == []
        assert ids("text=100%25_'--") == []
        for wrong in ("where=nothing+%3D+1", "where=1%3B+DROP+TABLE+traces", "month=soon"):
            answer = client.get(f"/traces?{wrong}")
            assert answer.status_code == 400
            assert 'role="alert"' in answer.text
        assert "All traces" in client.get("/trace?id=trace-07").text
        session = re.search(
            r'"/traces\?([^"]+)">Traces of its session', client.get("/trace?id=trace-07").text
        )
        assert session
        assert ids(session[1]) == ["trace-06", "trace-07"]
        assert client.get("/trace?id=unknown-trace").status_code == 404
        assert client.get("/trace").status_code == 404


def test_a_transcript_sets_each_call_beside_its_answer() -> None:
    told = [(part.role, part.text or part.call, part.result) for part in parts(production("t"))]
    assert told == [
        ("user", "cancel t", None),
        ("tool call", "get_order_status", "shipped"),
        ("tool call", "cancel_order", "done"),
        ("assistant", "It is cancelled.", None),
    ]
    # Calls that no message asks for, and a response that is no message, are there all the same.
    bare = [part.role for part in parts(production("t", messages=()))]
    assert bare == ["user", "tool call", "tool call", "assistant"]


def test_what_is_not_there_is_said_kindly(server: Server) -> None:
    with server.client() as client:
        for path in ("/runs/20200101-000000", "/runs/20200101-000000/triage", "/nothing", "/assets/x"):
            answer = client.get(path)
            assert answer.status_code == 404
            assert "Traceback" not in answer.text
            assert "This request is not possible" in answer.text
        post = f"/runs/{RUN_ID}/triage"
        assert client.post(f"{post}/promote", data={"item": "x"}).status_code == 400
        assert client.post(f"{post}/dismiss", data={"item": "item-0", "reason": " "}).status_code == 400
        assert client.post(f"{post}/skip", content=b"x" * 2_000_000).status_code == 413
        assert client.get(f"{post}/skip").status_code == 405
        assert client.post(f"/runs/{RUN_ID}/labels/draw", data={"size": "many"}).status_code == 400


def test_a_run_can_be_saved_as_one_file(server: Server) -> None:
    with server.client() as client:
        answer = client.get(f"/runs/{RUN_ID}/report.html")
        shown = client.get(f"/runs/{RUN_ID}").text
    assert answer.headers["content-disposition"] == f'attachment; filename="replay-report-{RUN_ID}.html"'
    assert "<style>" in answer.text
    # The page is the report: the same result, without what makes it one file.
    for text in (answer.text, shown):
        assert text.count('<tr class="row"') == 8
        assert '<section class="answer' in text
    assert "<style>" not in shown


def test_trends_are_plotted(server: Server) -> None:
    with server.client() as client:
        page = client.get("/trends").text
        assert page.count('<circle class="dot') == 1
        assert f'href="/runs/{RUN_ID}"' in page
        assert "<option selected>judge</option>" in client.get("/trends?metric=judge&lane=old").text
        assert "No run of" in client.get("/trends?metric=nothing").text


@pytest.mark.slow
def test_a_cause_is_decided_on_the_page_and_the_answer_follows(tmp_path: Path) -> None:
    fill(tmp_path, [item(f"item-{n}", input=f"cancel order {n}") for n in range(8)], [])
    with serving(tmp_path) as server, server.client() as client:
        page = f"/runs/{RUN_ID}/triage"
        first = client.get(page, follow_redirects=True)
        assert first.url.path == f"{page}/causes"
        assert "calls cancel_order without calling get_order_status first" in first.text
        (name,) = set(re.findall(r'name="cause" value="(.*?)"', first.text))

        def decide(**fields: str) -> str:
            done = client.post(f"{page}/cause", data={"cause": name, **fields}, follow_redirects=True)
            assert done.status_code == 200, done.text
            return done.text

        assert 'worse">HOLD' in first.text
        rejected = decide(decision="reject", promote="1")
        # The other two examples ask almost the same.
        assert "Rejected. Cases added: 1. Examples without such calls, or cases already: 2." in rejected
        assert "a cause was rejected" in rejected
        assert "1 cause decided" in rejected
        assert [len(case["expected_tool_calls"]) for case in golden(tmp_path)] == [2]
        # What another process decides is seen, too.
        assert replay(tmp_path, "accept", name, "--undo").returncode == 0
        assert f'name="cause" value="{name}"' in client.get(page, follow_redirects=True).text
        assert "Accepted." in decide(decision="accept")
        assert "Open again." in decide(decision="open")
        refused = client.post(f"{page}/cause", data={"cause": name, "decision": "maybe"})
        assert refused.status_code == 400
        assert "accept, reject or open" in refused.text
        assert client.post(f"{page}/cause", data={"cause": "none", "decision": "accept"}).status_code == 404


# ---- in a browser -------------------------------------------------------------------------------------------


@in_browser
def test_the_list_tells_answers_and_a_run_is_filtered_and_stepped_through(
    server: Server, tab: Browser
) -> None:
    tab.open(server.address, "document.querySelector('h1')")
    assert "token" not in tab.eval("location.href")
    tab.until("document.querySelector('.runs .chip').textContent === 'HOLD'")
    tab.press("j", "Enter")
    tab.until("document.querySelector('.answer')")
    assert tab.eval("location.pathname") == f"/runs/{RUN_ID}"
    assert tab.text().count("regressed") > 3
    tab.press("/")
    tab.type("aunt")
    tab.until("document.querySelector('.shown').textContent === '2 of 8 items'")
    tab.press("Escape", "j", "Enter")
    tab.until("document.querySelector('.case')")
    assert "answer 0 of new" in tab.text()
    tab.press("Escape", "?")
    assert tab.eval("document.querySelector('.help').open")
    tab.press("Escape")
    assert tab.console == []


@in_browser
def test_traces_are_searched_and_read_with_the_keyboard(server: Server, tab: Browser) -> None:
    server.open(tab)
    tab.open(server.base + "/traces", "document.querySelector('.traces')")
    tab.press("/")
    tab.type("trace-07")
    tab.press("Enter")
    tab.until("location.search.includes('trace-07')")
    tab.press("j", "Enter")
    tab.until("document.querySelector('.transcript')")
    assert "get_order_status" in tab.text()
    assert tab.console == []


@in_browser
@pytest.mark.slow
def test_triage_with_the_keyboard_does_what_the_terminal_does(server: Server, tab: Browser) -> None:
    server.open(tab)
    tab.open(f"{server.base}/runs/{RUN_ID}/triage?items=1", "document.querySelector('.alone table')")
    total = int(tab.eval("document.querySelector('.where').textContent.split(' of ')[1].match(/\\d+/)[0]"))
    assert total >= 3
    first = tab.eval("document.querySelector('[name=item]').value")
    assert first in ("item-0", "item-1", "item-2")

    def shows(place: int, of: int, decided: int) -> None:
        tab.until(
            "document.querySelector('.alone table') && "
            f"/^{place} of {of} · {decided} decided/.test(document.querySelector('.where').textContent.trim())"
        )

    def name() -> str:
        return str(tab.eval("document.querySelector('[name=item]').value"))

    tab.press("j")
    shows(2, total, 0)
    second = name()
    tab.press("k")
    shows(1, total, 0)
    assert name() == first

    # Promote what the old version did, with a trait; the fields of another deed are not in the way.
    tab.press("p")
    tab.until("document.activeElement.type === 'radio'")
    tab.press("o")
    tab.eval("document.querySelector('[name=trait]').focus()")
    tab.type("says that <b>the order</b> is cancelled, and skips nothing")
    tab.press("Enter")
    shows(1, total - 1, 1)
    assert name() == second
    [case] = golden(server.folder)
    assert case["input"] == QUESTIONS[int(first[-1])]
    assert case["metadata"]["run"] == RUN_ID
    assert [call["name"] for call in case["expected_tool_calls"]] == [call.name for call in CALLS]
    assert case["expected_response_traits"] == ["says that <b>the order</b> is cancelled, and skips nothing"]

    tab.press("u")
    shows(1, total, 0)
    assert name() == first
    assert golden(server.folder) == []
    # Where a judge graded, labels are given blind, and not here.
    tab.press("l")
    tab.until("location.pathname.endsWith('/labels')")
    tab.open(f"{server.base}/runs/{RUN_ID}/triage?items=1", "document.querySelector('.alone table')")
    # Edited first: what is wrong is told by line, and the text stays.
    tab.press("e")
    tab.until("document.activeElement.name === 'text'")
    text = str(tab.eval("document.activeElement.value"))
    lines = text.split("\n")
    assert tab.page.locator(".numbers li").count() == len(lines)
    for wrong, line, said in (
        (text.replace('"id":', '"id"', 1), 2, "not valid JSON: Expecting ':' delimiter"),
        (
            text.replace('"expected_tool_calls": [', '"threshold": 3,\n  "expected_tool_calls": ['),
            4,
            "threshold must be",
        ),
        (text.replace('"name": "cancel_order"', '"name": 7', 1), None, "must be an object with a"),
    ):
        tab.page.fill("[name=text]", wrong)
        tab.press("Control+Enter")
        tab.until(f"document.querySelector('[role=alert]')?.textContent.includes({said!r})")
        place = int(
            tab.eval("[...document.querySelectorAll('.numbers li')].findIndex((li) => li.className) + 1")
        )
        assert f"line {place}: " in tab.eval("document.querySelector('[role=alert]').textContent")
        assert line is None or place == line
        assert tab.eval("document.querySelector('[name=text]').value") == wrong
        assert golden(server.folder) == []
    tab.page.fill("[name=text]", text.replace(f'"id": "{first}"', '"id": "by hand"'))
    tab.press("Control+Enter")
    shows(1, total - 1, 1)
    assert [case["id"] for case in golden(server.folder)] == ["by hand"]
    # The policy had nothing to refuse; a browser notes each answer that says no.
    assert all("status of 400" in line for line in tab.console)
    tab.console.clear()

    tab.press("d")
    tab.until("document.activeElement.name === 'reason'")
    tab.type("spam")
    tab.press("Enter")
    shows(1, total - 2, 2)
    tab.press("s")
    tab.until("/3 (decided|items of this run were decided)/.test(document.body.innerText)")

    tab.eval("window.before = true")
    tab.reload()
    tab.until("!window.before && /3 (decided|items of this run were decided)/.test(document.body.innerText)")
    with open_store(server.folder / ".replay" / "replay.duckdb", read_only=True) as con:
        told = [(one.action.value, one.item_id, one.reason) for one in decisions(con)]
    third = told[-1][1]
    assert told == [
        ("promote", first, None),
        ("undo", first, None),
        ("promote", first, None),
        ("dismiss", second, "spam"),
        ("skip", third, None),
    ]
    # The terminal knows of it.
    done = replay(server.folder, "triage", RUN_ID, "--json")
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)
    assert listed["decided"] == 3
    assert not {first, second, third} & {one["id"] for one in listed["entries"]}
    assert tab.console == []


@in_browser
def test_where_no_judge_graded_an_entry_is_labelled_in_place_and_a_twin_is_added_only_on_demand(
    tmp_path: Path, tab: Browser
) -> None:
    fill(tmp_path, [item("item-0", input=QUESTIONS[0]), item("item-1", input=QUESTIONS[1])], [], graded=False)
    with serving(tmp_path) as server:
        server.open(tab)
        tab.open(f"{server.base}/runs/{RUN_ID}/triage?items=1", "document.querySelector('.alone table')")
        first = str(tab.eval("document.querySelector('[name=item]').value"))
        tab.press("l")
        tab.until("document.activeElement.textContent.includes('poor')")
        tab.press("3")
        tab.until("document.querySelector('.done')?.textContent === 'Labelled.'")
        assert tab.eval("document.querySelector('[name=item]').value") == first
        assert "Label (good)" in tab.text()
        # Nothing of it counts as decided, and there is nothing to take back.
        assert "0 decided" in tab.text()
        assert "Undo" not in tab.text()
        with open_store(server.folder / ".replay" / "replay.duckdb", read_only=True) as con:
            assert [(one.action.value, one.item_id, one.label) for one in decisions(con)] == [
                ("label", first, 3)
            ]
        for name in ("twin", "the same"):
            tab.press("e")
            tab.until("document.activeElement.name === 'text'")
            text = json.loads(str(tab.eval("document.activeElement.value")))
            tab.page.fill("[name=text]", json.dumps({**text, "id": name, "input": "the same question"}))
            tab.press("Control+Enter")
            if name == "twin":
                tab.until("document.querySelector('.done')?.textContent === 'Promoted.'")
        tab.until("document.querySelector('[name=force]')")
        assert len(golden(server.folder)) == 1
        tab.page.click("[name=force]")
        tab.until("document.body.innerText.includes('2 items of this run were decided')")
    assert [case["id"] for case in golden(tmp_path)] == ["the same", "twin"]
    tab.console.clear()


@in_browser
def test_labels_are_given_blind_with_the_keyboard_and_calibrate_reads_them(
    server: Server, tab: Browser
) -> None:
    server.open(tab)
    tab.open(f"{server.base}/runs/{RUN_ID}/labels", "document.querySelector('[name=size]')")
    tab.eval(
        "document.querySelector('[name=size]').value = '4'; document.querySelector('main button').click()"
    )

    def shows(place: int, labelled: int) -> None:
        tab.until(
            f"/^{place} of 4 · {labelled} labelled/.test(document.querySelector('.where')?.textContent.trim())"
        )

    shows(1, 0)
    text = tab.eval("document.querySelector('main').innerText").lower()
    # Blind: what the judge said, and how, is nowhere.
    assert "it says so" not in text
    assert "0.33" not in text
    tab.press("3")
    shows(2, 1)
    tab.press("1")
    shows(3, 2)
    tab.press("2")
    shows(4, 3)
    tab.reload()
    shows(4, 3)
    tab.press("k")
    shows(3, 3)
    assert tab.eval("document.querySelector('[aria-pressed=true]').value") == "2"
    tab.press("0")
    shows(4, 2)
    tab.press("3")
    shows(3, 3)
    tab.press("n")
    tab.type("not 1 of the best")
    tab.eval("document.activeElement.blur()")
    tab.press("2")
    tab.until("document.body.innerText.includes('Every response has a label')")

    # Another person labels the same rows, without seeing what the first one said.
    tab.page.fill(".another [name=by]", "Bo <b>")
    tab.press("Enter")
    tab.until("document.querySelector('[name=size]')?.value === '4'")
    tab.page.click("main button.main")
    shows(1, 0)
    assert tab.eval("document.querySelector('[aria-pressed=true]')") is None
    tab.press("2")
    shows(2, 1)
    assert re.search(r"Bo\s+1 of 4", tab.text())

    paths = sorted((server.folder / ".replay" / "labels").iterdir())
    assert [one.name.startswith(f"{RUN_ID}.") for one in paths] == [True, True]
    other = next(one for one in paths if one.name.endswith(".Bo.jsonl"))
    path = next(one for one in paths if one != other)
    with tab.page.expect_download() as saved:
        tab.page.click("a[download]")
    assert Path(saved.value.path()).read_bytes() == other.read_bytes()
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [json.loads(line)["key"] for line in other.read_text().splitlines()] == [
        row["key"] for row in rows
    ]
    assert [row["label"] for row in rows] == ["3", "1", "2", "3"]
    assert rows[2]["note"] == "not 1 of the best"
    done = replay(server.folder, "calibrate", RUN_ID, "--labels", str(path), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["labels"] == 4
    assert tab.console == []


GOING = "20261121-090000-aaaa"


@contextmanager
def going(folder: Path, text: str) -> Iterator[None]:
    """A run that goes on in a folder's store, with two trials in its journal that are full of a text."""
    path = path_of(folder / ".replay" / "replay.duckdb", GOING)
    path.parent.mkdir(parents=True, exist_ok=True)
    call = CALLS[0].__class__(name=text, args={text: text}, result=text)
    lines = [
        Trial(
            run_id=GOING, item_id=text, lane=lane, index=0, status=Status.CRASHED, reason=text,
            final_response=text, served=(ServedCall(call=call, rule=Rule.MISS, note=text),),
        )
        for lane in (Lane.OLD, Lane.NEW)
    ]  # fmt: skip
    path.write_text("".join(encode(line) + "\n" for line in lines) + '{"half of a li', encoding="utf-8")
    with closing(ProgressFile(folder / ".replay" / "replay.duckdb", GOING)) as tally:
        tally.write(RunProgress(done=2, total=9, failed=2, spent_usd=0.25))
        yield


EXAMINED = (RUN_ID, "?items=1", "/labels", "/trace?id=trace-01")
"""Ends of the addresses of pages that together have every kind of element; `make full` examines all pages."""


@in_browser
@pytest.mark.slow
def test_no_page_has_a_barrier(server: Server, tab: Browser) -> None:
    with going(server.folder, "where is my order"), server.client() as client:
        client.post(f"/runs/{RUN_ID}/labels/draw", data={"size": "4"})
        server.open(tab)
        pages = {
            "/": None,
            f"/runs/{RUN_ID}": ".row .open",
            f"/runs/{RUN_ID}/triage": None,
            f"/runs/{RUN_ID}/triage?items=1": "summary[data-key=p]",
            f"/runs/{RUN_ID}/triage/edit?item=item-0": None,
            f"/runs/{RUN_ID}/labels": None,
            f"/runs/{RUN_ID}/labels?by=another": None,
            "/traces": None,
            "/trace?id=trace-01": None,
            "/trends": None,
            f"/runs/{GOING}": None,
            "/nothing": None,
        }
        for page, opened in pages.items():
            tab.look(1280)
            tab.open(server.base + page)
            if opened:
                tab.page.click(opened)
            examined = FULL or page.endswith(EXAMINED)
            if examined:
                assert tab.barriers() == [], page
            # Dark, and on a telephone: colours and widths are what may differ there.
            tab.look(390, 844, dark=True)
            if examined:
                rules = ("color-contrast", "target-size", "scrollable-region-focusable")
                assert tab.barriers(*rules) == [], page
            assert tab.eval("document.documentElement.scrollWidth") == 390, page
        tab.look()
        assert all("404" in line for line in tab.console)
        tab.console.clear()


def test_a_request_that_does_not_end_is_given_up_without_a_word(tmp_path: Path) -> None:
    fill(tmp_path, [item("t1")], [])
    with serving(tmp_path) as server, server.client() as client:
        cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
        with socket.create_connection(("127.0.0.1", server.port)) as half:
            half.sendall(
                f"POST /runs/{RUN_ID}/triage/skip HTTP/1.1\r\nHost: {server.host}\r\nOrigin: {server.base}\r\n"
                f"Cookie: {cookie}\r\nExpect: 100-continue\r\nContent-Length: 9\r\n"
                "Content-Type: application/x-www-form-urlencoded\r\n\r\n".encode()
            )
            # It reads the body now, which never comes.
            assert half.recv(100).startswith(b"HTTP/1.1 100")
            server.process.send_signal(2)
            assert server.process.wait(PATIENCE_S) == 0


@in_browser
@pytest.mark.slow
def test_no_payload_runs_on_any_page(tmp_path: Path, tab: Browser) -> None:
    bad = HOSTILE
    scores: dict[str, Score] = {bad: bad}
    fields: dict[str, Any] = {
        **dict.fromkeys(("name", "session_id", "user_id", "environment", "release", "model", "error"), bad),
        "input": bad,
        "final_response": bad + bad,
        "tags": (bad,),
        "scores": scores,
        "metadata": {bad: bad, "link": "javascript:document.title='pwned'"},
    }
    call = CALLS[0].__class__(name=bad, args={bad: bad}, result=bad)
    said = tuple(Message(role=role, text=bad) for role in ("user", bad, "assistant"))
    asked = Message(role="assistant", tool_calls=(call,))
    hostile = item(
        bad, trace_id=bad, input=bad, stratum=bad, tags=(bad,), metadata={bad: bad}, recorded_response=bad
    )
    fill(
        tmp_path,
        [hostile, item("item-1", input=bad)],
        [production(bad, messages=(*said, asked), tool_calls=(call,), **fields)],
        version=bad,
    )
    with going(tmp_path, bad), serving(tmp_path) as server, server.client() as client:
        client.post(f"/runs/{RUN_ID}/labels/draw", data={"size": "4", "by": bad})
        client.post(f"/runs/{RUN_ID}/labels/draw", data={"size": "4"})
        trace = re.search(r'href="(/trace\?id=[^"]+)"', client.get("/traces").text)
        assert trace is not None
        server.open(tab)
        query = httpx.QueryParams(
            dict.fromkeys(
                ("text", "where", "month", "metric", "of", "said", "item", "by", "expect", "trait"), bad
            )
        )
        pages = [
            *(
                "/",
                f"/runs/{RUN_ID}",
                f"/runs/{RUN_ID}/triage",
                f"/runs/{RUN_ID}/triage/edit?{httpx.QueryParams({'item': bad})}",
                f"/runs/{RUN_ID}/labels",
                "/traces",
                "/trends",
                f"/runs/{GOING}",
            ),
            trace[1].replace("&amp;", "&"),
            *(f"{path}?{query}" for path in ("/traces", "/trends", "/trace", f"/runs/{RUN_ID}/triage")),
            *(f"/runs/{RUN_ID}/{path}?{query}" for path in ("triage/edit", "labels")),
            f"/runs/{bad.replace('/', '').replace(' ', '%20').replace('?', '').replace('#', '')}",
        ]
        for page in pages:
            tab.open(server.base + page, "document.querySelector('main')")
            tab.eval("document.querySelector('.row .open')?.click()")
            if page == f"/runs/{GOING}":
                # Both the page and what its script draws anew.
                tab.eval("document.querySelector('.latest tbody').replaceChildren()")
                tab.until("document.querySelectorAll('.latest tbody tr').length === 2")
            found = tab.eval(
                "({title: document.title, bad: [...document.querySelectorAll('img, iframe, math, body *[onload], "
                "[onerror], [onfocus], [ontoggle], [style], main style')].map((node) => node.outerHTML), "
                "scripts: [...document.scripts].filter((one) => !one.src && one.type !== 'application/json').length, "
                "links: [...document.links].map((one) => one.protocol)})"
            )
            assert found["title"].endswith("· replaydiff"), page
            assert "pwned" not in found["title"] or "document.title" in found["title"]
            assert (found["bad"], found["scripts"]) == ([], 0), page
            assert set(found["links"]) <= {"http:"}, page
        # The policy was never needed: nothing was tried that it had to refuse.
        assert not [line for line in tab.console if "Content Security Policy" in line]
        tab.console.clear()
