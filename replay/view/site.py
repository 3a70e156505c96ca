"""What every page gets, and how a response is made from a template."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode

from starlette.responses import HTMLResponse, RedirectResponse, Response

from replaydiff.replay.api.project import Project
from replaydiff.replay.view.cache import Cached, StoreCache
from replaydiff.replay.view.live import LiveRuns
from replaydiff.reports.html import render, transcripts
from replaydiff.reports.html.render import environment

if TYPE_CHECKING:
    from replaydiff.replay.api.diff import DiffResult
    from replaydiff.replay.api.review import Reviewer

T = TypeVar("T")
_FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Site:
    """A project, its reviewer, and the state that the pages keep."""

    project: Project
    reviewer: Reviewer
    cache: StoreCache
    live: LiveRuns

    @classmethod
    def of(cls, project: Project) -> Site:
        """Return the site of a project."""
        return cls(project, project.cases.reviewer(), StoreCache(project), LiveRuns(project))

    def page(
        self, template: str, *cached_values: Cached[Any], status: int = 200, area: str = "", **values: Any
    ) -> HTMLResponse:
        """Return a page that shows `cached_values`; `area` is the part of the site that it belongs to."""
        old = next((cached for cached in cached_values if cached.busy), None)
        text = (
            environment(_FOLDER / "templates")
            .get_template(template)
            .render(area=area, old=old, running=self.project.runs.in_progress(), **values)
        )
        return HTMLResponse(text, status_code=status)

    def near(self, target: str) -> str:
        """Return a path below the project's folder relative to it; anything else as it is."""
        root, path = self.project.settings.root, Path(target)
        return str(path.relative_to(root)) if path.is_relative_to(root) else target

    def result(self, kind: str, run: str, make: Callable[[DiffResult], T]) -> Cached[T]:
        """Return what `make` makes of a run's result, kept under a kind; the run by a beginning of its id."""
        return self.cache.read(kind, run, lambda: make(self.project.diff(run).result))


def address(*path: str, **query: str | None) -> str:
    """Return the address of a page: the parts of its path, and a query without what is None."""
    text = urlencode({name: value for name, value in query.items() if value is not None})
    return "".join(f"/{quote(part, safe='')}" for part in path) + (f"?{text}" if text else "")


def go_to(target: str) -> Response:
    """Return the answer to a form: the page that is shown next."""
    return RedirectResponse(target, status_code=303)


def item_data(result: DiffResult, name: str) -> str:
    """Return the data for the report's script: only the item of this id; empty without it."""
    items = [item for item in result.items if item.item.id == name]
    return render.embedded(transcripts.data(result, items, transcripts.MOST)) if items else ""


def asset(name: str) -> str:
    """Return a style or script of the site."""
    return (_FOLDER / "assets" / name).read_text(encoding="utf-8")
