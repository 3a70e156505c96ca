"""Find and read the conversations in the store."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING

from replaydiff.replay.conversations import Apart, TurnFacts, chains, join
from replaydiff.replay.model import Trace
from replaydiff.replay.store.histories import with_histories
from replaydiff.replay.store.memory import all_rows
from replaydiff.replay.store.traces import iter_traces

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_TRIM = "trim({}, ' ' || chr(9) || chr(10) || chr(13))"
_EXCHANGE = " || ".join(
    f"left(md5({_TRIM.format(text)}), 16)" for text in ("input", "coalesce(final_response, '')")
)
_TURNS = f"""
SELECT source, session_id, name, count(*) OVER (PARTITION BY source) AS of_source,
    trace_id, started_at, ended_at, user_id, {_EXCHANGE}, follows, source_id
FROM traces WHERE session_id <> '' AND ($session IS NULL OR session_id = $session)
QUALIFY count(*) OVER (PARTITION BY source, session_id, name) > 1
ORDER BY source, session_id, name, started_at, trace_id
"""
_SESSIONS = "SELECT count(DISTINCT (source, session_id)) FROM traces WHERE session_id <> ''"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversations:
    """The conversations of several traces in a store."""

    turns: Mapping[str, tuple[str, ...]]
    """Id of the first trace → ids of the later ones, in order."""
    sessions: int
    """Sessions in the store, those of a single trace among them."""
    apart: Mapping[Apart, Sequence[str]] = field(default_factory=dict)
    """Why traces were not joined → the sessions."""

    @property
    def is_usual(self) -> bool:
        """Return whether most sessions hold a conversation of several traces."""
        return 2 * len(self.turns) > self.sessions

    def are_drawn(self, unit: str | None) -> bool:
        """Return whether samples draw conversations; `unit` is what the settings ask for."""
        return unit == "conversation" or (unit is None and self.is_usual)

    def of_trace(self) -> dict[str, tuple[str, ...]]:
        """Return the ids of the traces of each trace's conversation, in order."""
        joined = [(first, *later) for first, later in self.turns.items()]
        return {name: names for names in joined for name in names}

    def sentences(self) -> Iterator[str]:
        """Yield a sentence for each reason why traces of sessions were not joined."""
        for reason, sessions in self.apart.items():
            yield (
                f"sessions that {reason}: {len(sessions)} (like {sessions[0]!r}); their traces are not "
                "joined, and each is a conversation of its own"
            )


def read_conversations(con: DuckDBPyConnection, session_id: str | None = None) -> Conversations:
    """Return the conversations of a store, or of one session; see `replay.conversations`."""
    turns: dict[str, tuple[str, ...]] = {}
    apart: dict[Apart, list[str]] = {}
    rows = all_rows(con, _TURNS, {"session": session_id})
    for (_, session, _), members in groupby(rows, key=itemgetter(0, 1, 2)):
        members_of_session = list(members)
        linked = chains([TurnFacts(*row[4:]) for row in members_of_session], members_of_session[0][3])
        if isinstance(linked, Apart):
            apart.setdefault(linked, []).append(session)
            continue
        turns |= {first: tuple(later) for first, *later in linked if later}
    [(sessions,)] = con.execute(_SESSIONS).fetchall()
    return Conversations(turns=turns, sessions=sessions, apart=apart)


def get_conversation(con: DuckDBPyConnection, session_id: str) -> Trace | None:
    """Return the first conversation of a session as one trace; None where there is none of several turns."""
    turns = read_conversations(con, session_id).turns
    return next(iter_conversations(con, [(first, *later) for first, later in turns.items()]), None)


def iter_conversations(
    con: DuckDBPyConnection, conversations: Iterable[Sequence[str]], without: Collection[str] = ()
) -> Iterator[Trace]:
    """Yield each conversation as one trace; see `replay.conversations.join`.

    Args:
        con: the store.
        conversations: the full ids of the traces of each, in order.
        without: fields that are not read.

    Raises:
        UnknownNameError: an id is not in the store.
    """
    ids = [list(names) for names in conversations]
    traces = iter_traces(con, (name for names in ids for name in names), without=without, with_history=False)
    for names in ids:
        first, *later = islice(traces, len(names))
        if "messages" not in without:
            [first] = with_histories(con, [first])
        yield join([first, *later])
