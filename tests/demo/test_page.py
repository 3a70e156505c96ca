"""A walk through the local page on the demo's own run; the pictures of the docs are taken on the way.

make pictures
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.demo.run import DemoRun
from tests.reports.browser import Browser, browser, in_browser
from tests.stand_ins.full import full
from tests.view.test_view import serving

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("demo")]

PICTURES = os.environ.get("REPLAYDIFF_PICTURES")
SAME = """(folder) => {
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode())
    walk.currentNode.data = walk.currentNode.data
      .replaceAll(folder, '/home/ada/replay-demo')
      .replace(/\\d{8}-\\d{6}-[0-9a-f]{4}/g, '20261102-091500-5e1f')
      .replace(/20\\d\\d-\\d\\d-\\d\\d\\s\\d\\d:\\d\\d/g, '2026-11-02 09:15');
}"""
"""The names that differ from run to run are made the same."""


def picture(tab: Browser, folder: Path, name: str, height: int, *, dark: bool = False) -> None:
    """Where pictures are wanted, keep one of the top of the page."""
    if not PICTURES:
        return
    tab.look(1280, height, dark=dark)
    tab.page.evaluate(SAME, str(folder))
    path = Path(PICTURES) / f"{name}.png"
    tab.picture(path)
    assert path.stat().st_size < 200_000
    tab.look()


@full
@in_browser
def test_a_run_is_read_triaged_and_labelled_with_the_keyboard_alone(
    demo_run: DemoRun, tmp_path: Path
) -> None:
    folder = tmp_path / "replay-demo"
    shutil.copytree(demo_run.untouched, folder, symlinks=True)
    golden = folder / "cases" / "golden.jsonl"
    before = len(golden.read_text().splitlines())
    with serving(folder) as server, browser() as tab:
        tab.look()
        tab.open(server.address, "document.querySelector('.runs .chip').textContent === 'HOLD'")
        picture(tab, folder, "view-runs", 300)
        tab.press("j", "Enter")
        tab.until("document.querySelector('.shown')?.textContent === '50 of 50 items'")
        run = str(tab.eval("location.pathname"))
        # From the answer to the items by verdict.
        tab.eval("scrollTo(0, 138)")
        picture(tab, folder, "report", 1000)

        tab.press("/")
        tab.type("cancel")
        tab.until("!document.querySelector('.shown').textContent.startsWith('50 ')")
        tab.press("Escape", "j", "Enter")
        tab.until("document.querySelector('.case .sides table')")
        first = str(tab.eval("document.querySelector('.is-open .open').textContent"))
        tab.press("j", "Enter")
        opened = tab.eval("[...document.querySelectorAll('.is-open .open')].map((one) => one.textContent)")
        assert opened[0] == first
        assert len(set(opened)) == 2
        assert tab.text().lower().count("first difference between old and new") >= 1

        tab.open(f"{server.base}{run}/triage?items=1", "document.querySelector('.alone table')")
        picture(tab, folder, "view-triage", 830, dark=True)
        tab.press("p")
        tab.until("document.activeElement.type === 'radio'")
        tab.press("r", "Enter")
        tab.until("document.querySelector('.done')?.textContent === 'Promoted.'")
        cases = [json.loads(line) for line in golden.read_text().splitlines()]
        assert len(cases) == before + 1
        assert [case["metadata"]["run"] for case in cases if case["metadata"].get("run")] == [run[6:]]

        tab.open(f"{server.base}{run}/labels", "document.querySelector('[name=size]')")
        tab.page.fill("main form [name=size]", "10")
        tab.press("Enter")
        for done in range(10):
            tab.until(f"document.querySelector('.where')?.textContent.includes('· {done} labelled')")
            if done == 4:
                picture(tab, folder, "view-labels", 560)
                tab.open(f"{server.base}{run}/labels", "document.querySelector('.labels')")
            tab.press("123"[done % 3])
        tab.until("document.querySelector('.done')?.textContent.includes('Every response has a label')")

        tab.reload()
        tab.until("document.querySelector('.where').textContent.includes('10 labelled')")
        tab.open(f"{server.base}{run}/triage?items=1", "document.querySelector('.where')")
        assert "1 decided" in tab.text()
        assert tab.console == []
    [sheet] = (folder / ".replay" / "labels").iterdir()
    labels = [json.loads(line)["label"] for line in sheet.read_text().splitlines()]
    assert sorted(labels) == sorted("1231231231")
