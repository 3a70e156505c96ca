"""What every page is handed, and how an answer is made of a template."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.responses import HTMLResponse

from replaydiff.replay.engine.tally import running
from replaydiff.replay.settings import Settings
from replaydiff.reports.html.render import environment
from replaydiff.reports.view.cache import Cached, StoreCache
from replaydiff.reports.view.live import LiveRuns

if TYPE_CHECKING:
    from replaydiff.cases.triage.decisions import Decisions
    from replaydiff.diff.result import DiffResult

T = TypeVar("T")
_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Site:
    """A store, settings, the person before the screen, and what was seen of runs that go on."""

    settings: Settings
    shelf: StoreCache
    desk: Decisions
    follower: LiveRuns

    def page(
        self, template: str, *found: Cached[Any], status: int = 200, area: str = "", **values: Any
    ) -> HTMLResponse:
        """A page; `found` is what it stands on, `area` the part of the site it belongs to."""
        old = next((one for one in found if one.busy), None)
        text = (
            environment(_HERE / "templates")
            .get_template(template)
            .render(area=area, old=old, running=running(self.shelf.store), **values)
        )
        return HTMLResponse(text, status_code=status)

    def result(self, kind: str, run: str, make: Callable[[DiffResult], T]) -> Cached[T]:
        """What `make` makes of a run's result, kept under a kind; the run by a unique beginning of its id."""
        from replaydiff.diff.compute import compute

        return self.shelf.read(kind, run, lambda con: make(compute(con, run, self.settings)))


def asset(name: str) -> str:
    """A style or script of the site."""
    return (_HERE / "assets" / name).read_text(encoding="utf-8")
