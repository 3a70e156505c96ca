"""A Phoenix server on loopback: pages of spans, annotations, projects, as the real one answers.

`calls` lists what was asked. `faults` are answers to give first, in turn: an HTTP status, or `cut` for a
connection that breaks off in the middle of the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import unquote

from tests.stand_ins.loopback import Reply, Request, reply, serving

Params = dict[str, list[str]]
Answer = tuple[int, Any] | Reply
_PAGE = reply(200, b"<!DOCTYPE html><title>Phoenix</title>", {"Content-Type": "text/html"})
"""What any path gets that is none of the API's."""


@dataclass
class Phoenix:
    """The server, and what is in it: `spans` oldest first, as they arrived."""

    url: str = ""
    spans: list[dict[str, Any]] = field(default_factory=list)
    annotations: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {"span": [], "trace": []})
    project: str = "default"
    key: str | None = None
    old: bool = False
    """It knows no annotations of traces and does not look at `trace_id`."""
    largest_page: int = 1000
    """More spans at once are more than it can take."""
    down_after: int | None = None
    """From this many requests on it answers none."""
    calls: list[tuple[str, Params]] = field(default_factory=list)
    faults: list[int | str] = field(default_factory=list)

    def stumbles(self) -> Iterator[int | str | None]:
        """Yield what goes wrong with each request."""
        while True:
            yield self.faults.pop(0) if self.faults else None

    def answer(self, request: Request) -> Answer:
        """Status and body."""
        self.calls.append((request.path, request.params))
        if self.key is not None and request.headers.get("authorization") != f"Bearer {self.key}":
            return 401, {"detail": "Invalid token"}
        if self.down_after is not None and len(self.calls) > self.down_after:
            return 400, {"detail": "down for maintenance"}
        path = [unquote(part) for part in request.path.split("/")[2:]]
        if path[0] == "elsewhere":
            return _PAGE
        if path == ["projects"]:
            return 200, {"data": [{"id": "UHJvamVjdDox", "name": self.project}], "next_cursor": None}
        if path[:2] != ["projects", self.project]:
            return 404, b"Project not found"
        if path[2:] == ["spans"]:
            return self._spans(request.params)
        if path[2:] == ["span_annotations"] or (path[2:] == ["trace_annotations"] and not self.old):
            return self._annotations(path[2].removesuffix("_annotations"), request.params)
        return _PAGE

    def _spans(self, asked: Params) -> Answer:
        """Newest arrival first; the cursor names the first span of the next page."""
        limit = int(asked.get("limit", ["100"])[0])
        if limit > self.largest_page:
            return 500, {"detail": "out of memory"}
        found = [(number, span) for number, span in enumerate(self.spans) if self._is_asked_for(span, asked)][
            ::-1
        ]
        if "cursor" in asked:
            found = [(number, span) for number, span in found if number <= int(asked["cursor"][0])]
        following = str(found[limit][0]) if len(found) > limit else None
        return 200, {"data": [span for _, span in found[:limit]], "next_cursor": following}

    def _is_asked_for(self, span: dict[str, Any], asked: Params) -> bool:
        start = datetime.fromisoformat(span["start_time"])
        if "start_time" in asked and start < datetime.fromisoformat(asked["start_time"][0]):
            return False
        if "end_time" in asked and start >= datetime.fromisoformat(asked["end_time"][0]):
            return False
        return self.old or span["context"]["trace_id"] in asked.get("trace_id", [span["context"]["trace_id"]])

    def _annotations(self, what: str, asked: Params) -> Answer:
        ids = asked.get(f"{what}_ids", [])
        if not {span["context"][f"{what}_id"] for span in self.spans} & set(ids):
            return 404, {"detail": f"None of the supplied {what}_ids exist in this project"}
        start, limit = int(asked.get("cursor", ["0"])[0]), int(asked.get("limit", ["10"])[0])
        found = [one for one in self.annotations[what] if one[f"{what}_id"] in ids]
        following = str(start + limit) if len(found) > start + limit else None
        return 200, {"data": found[start : start + limit], "next_cursor": following}


@contextmanager
def phoenix() -> Iterator[Phoenix]:
    """A running server."""
    state = Phoenix()
    with serving(state.answer) as server:
        state.url, server.stumbles = server.url, state.stumbles()
        yield state
