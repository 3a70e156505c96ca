"""A store that something else has damaged: `doctor` finds it, or every row is as it was."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import replaydiff as rd
from replaydiff.replay.errors import StoreError
from replaydiff.replay.store.connection import open_store
from replaydiff.replay.store.traces import write_traces
from tests.diff import build
from tests.engine.project import order
from tests.stand_ins.full import examples

PAGE = 4096
WRITE_LOG = """
import duckdb, os, sys
con = duckdb.connect(sys.argv[1], config={"checkpoint_threshold": "1GB"})
con.execute("PRAGMA disable_checkpoint_on_shutdown")
con.begin()
con.execute("UPDATE runs SET sample = 'renamed'")
con.execute("DELETE FROM traces WHERE trace_id = 'order-1'")
con.commit()
os._exit(0)
"""
Damage = Callable[[bytes, random.Random], bytes]


def _cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(1, len(content))]


def _flip(content: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << chance.randrange(8)]) + content[place + 1 :]


def _page(content: bytes, chance: random.Random) -> tuple[int, bytes]:
    at = chance.randrange(len(content) // PAGE) * PAGE
    return at, content[at : at + PAGE]


def _zeros(content: bytes, chance: random.Random) -> bytes:
    at, _ = _page(content, chance)
    return content[:at] + bytes(PAGE) + content[at + PAGE :]


def _stale_page(content: bytes, chance: random.Random) -> bytes:
    (at, _), (_, other) = _page(content, chance), _page(content, chance)
    return content[:at] + other + content[at + PAGE :]


def _garbage(content: bytes, chance: random.Random) -> bytes:
    return chance.randbytes(len(content))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with traces and a run, and a log of one transaction."""
    folder = tmp_path_factory.mktemp("damaged")
    items = [build.item(f"t{number}") for number in range(3)]
    path = build.store(folder, items, [one for item in items for one in build.trials(item, old="1", new="0")])
    with open_store(path) as con:
        write_traces(con, [order(number) for number in range(200)])
    subprocess.run([sys.executable, "-c", WRITE_LOG, str(path)], check=True)
    return path


def _state(path: Path) -> dict[str, Any]:
    with open_store(path, read_only=True) as con:
        tables = [name for (name,) in con.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        return {table: con.execute(f"FROM {table} ORDER BY ALL").fetchall() for table in tables}


def _write(folder: Path, store: bytes, log: bytes | None) -> Path:
    folder.mkdir()
    path = folder / "replay.duckdb"
    path.write_bytes(store)
    if log is not None:
        path.with_name("replay.duckdb.wal").write_bytes(log)
    return path


def _in_a_child(check: Callable[[], None]) -> int:
    """Run a check in a fork, which damage may end; return its wait status, 0 if the check held."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            check()
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1]


@pytest.mark.parametrize("damage", [_cut, _flip, _zeros, _stale_page, _garbage])
@pytest.mark.parametrize("of_log", [False, True], ids=["store", "log"])
@pytest.mark.slow
def test_damage_is_found_or_nothing_is_different(
    damage: Damage, of_log: bool, template: Path, tmp_path: Path
) -> None:
    store, log = template.read_bytes(), template.with_name("replay.duckdb.wal").read_bytes()
    if of_log and damage in (_zeros, _stale_page):
        log += bytes(PAGE)  # Short of a page, this log has none of its own.
    allowed = [_state(_write(tmp_path / "without", store, None))]
    if of_log:
        allowed.append(_state(_write(tmp_path / "with", store, log)))
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    for number in range(examples(1, 100)):
        changed = (store, damage(log, chance)) if of_log else (damage(store, chance), None)

        def check(name: str = f"{number}", changed: tuple[bytes, bytes | None] = changed) -> None:
            project = rd.open(tmp_path, db=_write(tmp_path / f"doctor-{name}", *changed))
            [found] = [one for one in project.doctor().findings if one.name == "store"]
            if found.state == "wrong":
                assert any(advice in found.text for advice in ("restore", "name another file", "upgrade"))
                return
            try:
                assert _state(_write(tmp_path / f"reader-{name}", *changed)) in allowed
            except (duckdb.Error, StoreError) as error:
                raise AssertionError(f"doctor found nothing, and reading fails: {error}") from None

        assert _in_a_child(check) == 0, f"seed {seed}, example {number}"
