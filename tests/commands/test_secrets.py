"""Secrets of the environment and of the settings reach nothing that is stored, printed or reported."""

from __future__ import annotations

import base64
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from replaydiff.replay.engine.versions import changes
from replaydiff.replay.masking import MASKED, is_secret_name, masked, masked_url, masked_version
from replaydiff.replay.model import Version, VersionKind
from replaydiff.replay.store.connection import open_store
from tests.engine.project import Project, two_revisions

SECRET = 'sk-live-9f8e7d6c/5b4a+\\"ü'
OTHER = "another-1234567"
AGENT = """
import os, sys, urllib.parse

def call(name, args) -> str:
    return "THE REAL TOOL RAN"

def run_agent(text, **options):
    key = os.environ["ACME_API_KEY"]
    print("asked with", key, file=sys.stderr)
    number = int(text.rpartition("-")[2])
    if number == 0:
        raise ValueError(f"401: {key} is no key, see https://acme.example/?key={urllib.parse.quote(key, safe='')}")
    if number == 1:
        call("get_order_status", {"order_id": text, "auth": key})
    return {"final_response": f"{call('get_order_status', {'order_id': text})} {key}"}
"""
SETTINGS = f"""
[agent]
entrypoint = "app.agent:run_agent"
tools = ["app.agent:call"]
[versions.one]
args = {{ api_key = "{OTHER}" }}
"""
FORMATS = ("terminal", "markdown", "json", "junit", "html", "csv")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = two_revisions(tmp_path / "shop")
    project.settings(SETTINGS)
    project.write("v", AGENT)
    project.sample(3)
    return project


def _leaks(text: str) -> int:
    forms = {
        SECRET,
        OTHER,
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        SECRET[:12],
    }
    return sum(text.count(form) for form in forms)


@pytest.mark.slow
def test_no_secret_leaves_a_run_by_any_output(project: Project) -> None:
    def output(*args: str) -> str:
        done = project.replay(*args, ACME_API_KEY=SECRET)
        assert done.code in (0, 3), done.err
        return done.out + done.err

    args = ("--sample", "october", "--old", "one", "--new", ".", "--trials", "1", "--no-aa")
    found = {"run": output("run", *args, "--debug")}
    run = project.run().id
    for args in (("diff",), ("diff", "--json"), ("show", "order-0", "--run", run), ("export", "runs")):
        found[" ".join(args)] = output(*args)
    for name in FORMATS:
        output("report", "--format", name, "-o", f"r.{name}")
        found[name] = (project.folder / f"r.{name}").read_text()
    with open_store(project.store, read_only=True) as con:
        for (table,) in con.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            found[table] = str(con.execute(f"SELECT * FROM {table}").fetchall())
    assert {name: count for name, text in found.items() if (count := _leaks(text))} == {}
    assert "[ACME_API_KEY] is no key" in found["trials"]
    assert "asked with [ACME_API_KEY]" in found["trials"]
    assert MASKED in found["runs"]


def test_a_run_with_another_key_resumes(project: Project) -> None:
    args = ("--sample", "october", "--old", "one", "--new", ".", "--trials", "1", "--no-aa")
    assert project.replay("run", *args, ACME_API_KEY=SECRET).code == 3
    project.settings(SETTINGS.replace(OTHER, "yet-another-key"))
    retried = ("run", "--resume", project.run().id, "--retry", "agent_error")
    assert project.replay(*retried, ACME_API_KEY="a-new-key-of-acme").code == 3
    assert "[ACME_API_KEY] is no key" in str(project.trials())


@pytest.mark.parametrize(
    ("version", "kept"),
    [
        ({"args": {"model": "m", "api_key": OTHER}}, {"args": {"model": "m", "api_key": MASKED}}),
        ({"args": {"auth": {"user": "u", "n": 3}}}, {"args": {"auth": {"user": MASKED, "n": 3}}}),
        ({"command": ("a", "--token", OTHER, "x")}, {"command": ("a", "--token", MASKED, "x")}),
        ({"command": ("a", f"--api-key={OTHER}")}, {"command": ("a", f"--api-key={MASKED}")}),
        ({"command": ("env", f"API_TOKEN={OTHER}")}, {"command": ("env", f"API_TOKEN={MASKED}")}),
        ({"url": f"http://h/p?a=1&api_key={OTHER}#f"}, {"url": f"http://h/p?a=1&api_key={MASKED}#f"}),
    ],
)
def test_secrets_by_name_are_masked_in_a_version(version: dict[str, object], kept: dict[str, object]) -> None:
    whole = Version(name="v", kind=VersionKind.PYTHON, **version)  # type: ignore[arg-type]
    assert masked_version(whole) == replace(whole, **kept)  # type: ignore[arg-type]
    assert changes(masked_version(whole), whole) == []


@pytest.mark.parametrize(
    "name", ["ACME_API_KEY", "GH_TOKEN", "DB_PASSWORD", "api_key", "X_AUTH", "apikey", "OAUTH_X"]
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["GIT_AUTHOR_NAME", "MAX_TOKENS", "TOKENIZERS_PARALLELISM", "KEYBOARD", "author", "PATH"]
)
def test_names_of_no_secrets(name: str) -> None:
    assert not is_secret_name(name)


def test_short_values_and_paths_stay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("A_TOKEN", "basic")
    monkeypatch.setenv("B_TOKEN", str(tmp_path))
    monkeypatch.setenv("C_TOKEN", "long-enough")
    monkeypatch.setenv("D_TOKEN", "long-enough-and-longer")
    assert (
        masked(f"basic {tmp_path} long-enough-and-longer long-enough")
        == f"basic {tmp_path} [D_TOKEN] [C_TOKEN]"
    )
    assert masked_url("http://[") == "http://["
    assert "D_TOKEN" in os.environ


@pytest.mark.parametrize("before", ["", "a", "user:"])
@pytest.mark.parametrize("after", ["", "?", "\n"])
def test_a_secret_in_base64_is_masked_wherever_it_begins(
    monkeypatch: pytest.MonkeyPatch, before: str, after: str
) -> None:
    monkeypatch.setenv("ACME_API_KEY", SECRET)
    text = f"{before}{SECRET}{after}".encode()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        left = masked(encode(text).decode())
        assert "[ACME_API_KEY]" in left
        assert len(left) <= len("[ACME_API_KEY]") + 16
