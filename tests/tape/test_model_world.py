"""An answer is given only where a small world with objects, replayed call by call, would give it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replaydiff.replay.model import Rule, ToolCall
from replaydiff.replay.tape import Tape, TapeRules

USERS = ("U-100", "U-200")
OWNERS = {"O-1001": "U-100", "O-1002": "U-100", "O-2001": "U-200"}
RULES = TapeRules(unsteady={"get_tick", "get_next_page"}, effects={"get_next_page": "read"})


@dataclass
class World:
    """Orders of two users, a catalogue, notes, a counter and a pager; `terse` writes return no record."""

    terse: bool
    orders: dict[str, str] = field(default_factory=lambda: dict.fromkeys(OWNERS, "active"))
    names: dict[str, str] = field(default_factory=lambda: dict.fromkeys(USERS, "Ann"))
    notes: list[str] = field(default_factory=list)
    ticks: int = 0
    pages: int = 0

    def call(self, name: str, args: Mapping[str, Any]) -> Any:
        """Return what a tool returns, and change what it changes."""
        return getattr(self, name)(**args)

    def get_order(self, order_id: str) -> Any:
        return {"order_id": order_id, "user_id": OWNERS[order_id], "status": self.orders[order_id]}

    def get_user(self, user_id: str) -> Any:
        return {"user_id": user_id, "name": self.names[user_id], "orders": self._of(user_id)}

    def get_summary(self, user_id: str) -> Any:
        """Return what writes to orders change, without naming an order."""
        active = sum(self.orders[order] == "active" for order in self._of(user_id))
        return f"{self.names[user_id]} has {active} active orders"

    def list_orders(self) -> Any:
        return dict(self.orders)

    def search_orders(self, query: str) -> Any:
        return sorted(order for order, status in self.orders.items() if status == query)

    def get_product(self, sku: str) -> Any:
        return {"sku": sku, "price": len(sku)}

    def list_notes(self) -> Any:
        return list(self.notes)

    def get_tick(self) -> Any:
        self.ticks += 1
        return self.ticks

    def get_next_page(self) -> Any:
        self.pages += 1
        return [f"item {self.pages}"]

    def set_status(self, order_id: str, status: str) -> Any:
        """Change an order; a lost one cannot be changed, and the call fails."""
        if self.orders[order_id] == "lost":
            return "Error: the order is lost"
        self.orders[order_id] = status
        return "ok" if self.terse else self.get_order(order_id)

    def rename_user(self, user_id: str, name: str) -> Any:
        self.names[user_id] = name
        return "ok" if self.terse else self.get_user(user_id)

    def add_note(self, text: str) -> Any:
        self.notes.append(text)
        return "ok"

    def process(self, text: str) -> Any:
        """Change the order that a text names."""
        for order in OWNERS:
            if order in text:
                self.orders[order] = "processed"
        return "done"

    def _of(self, user_id: str) -> list[str]:
        return [order for order, owner in OWNERS.items() if owner == user_id]


orders, users = st.sampled_from(sorted(OWNERS)), st.sampled_from(USERS)
statuses = st.sampled_from(["active", "lost", "sent"])


def _calls(tool: str, /, **args: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    return st.tuples(st.just(tool), st.fixed_dictionaries(args))


CALLS = st.one_of(
    _calls("get_order", order_id=orders),
    _calls("set_status", order_id=orders, status=statuses),
    _calls("get_user", user_id=users),
    _calls("get_summary", user_id=users),
    _calls("rename_user", user_id=users, name=st.sampled_from(["Bob", "Cy"])),
    _calls("list_orders"),
    _calls("search_orders", query=statuses),
    _calls("get_product", sku=st.sampled_from(["SKU-100", "SKU-200"])),
    _calls("list_notes"),
    _calls("add_note", text=st.sampled_from(["about O-1001", "about nothing"])),
    _calls("process", text=st.sampled_from(["please do O-1001", "please do O-2001"])),
    _calls("get_tick"),
    _calls("get_next_page"),
)


def record(calls: Sequence[tuple[str, dict[str, Any]]], *, terse: bool) -> tuple[ToolCall, ...]:
    """Return the recording of some calls in a new world."""
    world = World(terse)
    return tuple(
        ToolCall(name=name, args=args, index=index, result=world.call(name, args))
        for index, (name, args) in enumerate(calls)
    )


@st.composite
def recordings_and_trials(draw: st.DrawFn) -> tuple[list[Any], list[Any]]:
    """Draw two sequences of a few different calls: what was recorded, and what a trial makes of it."""
    few = st.sampled_from(draw(st.lists(CALLS, min_size=2, max_size=5)))
    return draw(st.lists(few, max_size=7)), draw(st.lists(few, max_size=7))


def check(
    recorded_calls: Sequence[Any], trial_calls: Sequence[Any], *, terse: bool, runs_misses: bool
) -> int:
    """Replay a trial beside its world, and return how many of its calls were answered."""
    tape = Tape(record(recorded_calls, terse=terse), RULES)
    world = World(terse)
    answered = 0
    for name, args in trial_calls:
        answer = tape.answer(name, args)
        if answer.recorded is not None:
            assert answer.recorded.result == world.call(name, args), (recorded_calls, trial_calls)
            answered += 1
            continue
        assert answer.rule is Rule.MISS
        assert answer.reason is not None
        assert answer.note
        # A call that nothing answers runs in a world beside the recording, or fails.
        tape.write(name, args)
        if runs_misses:
            world.call(name, args)
    return answered


@settings(max_examples=300)
@given(recordings_and_trials(), st.booleans(), st.booleans())
def test_what_answers_is_what_the_world_gives(
    sequences: tuple[list[Any], list[Any]], terse: bool, runs_misses: bool
) -> None:
    check(*sequences, terse=terse, runs_misses=runs_misses)


READS = [
    ("get_order", {"order_id": "O-1001"}), ("get_order", {"order_id": "O-2001"}), ("get_user", {"user_id": "U-100"}),
    ("get_user", {"user_id": "U-200"}), ("get_summary", {"user_id": "U-100"}), ("list_orders", {}),
    ("search_orders", {"query": "sent"}), ("get_product", {"sku": "SKU-100"}), ("list_notes", {}), ("get_tick", {}),
    ("get_next_page", {}),
]  # fmt: skip
WRITES = [
    ("set_status", {"order_id": "O-1001", "status": "sent"}), ("set_status", {"order_id": "O-1001", "status": "lost"}),
    ("set_status", {"order_id": "O-2001", "status": "sent"}), ("rename_user", {"user_id": "U-100", "name": "Bob"}),
    ("add_note", {"text": "about O-1001"}), ("process", {"text": "please do O-1001"}),
]  # fmt: skip


@pytest.mark.parametrize("terse", [True, False])
def test_every_read_after_every_write(terse: bool) -> None:
    answered = 0
    for read, write, later in product(READS, WRITES, WRITES[::3]):
        recordings = [[read, write], [write, read], [read, write, read], [write, later, read], [read]]
        trials = [[write, read, read], [read, read, write], [later, write, read], [write, later, read]]
        for recorded_calls, trial_calls in product(recordings, trials):
            for runs_misses in (True, False):
                answered += check(recorded_calls, trial_calls, terse=terse, runs_misses=runs_misses)
    assert answered > 4_000


@given(st.lists(CALLS, max_size=12), st.booleans())
def test_the_recording_itself_is_answered_throughout(
    calls: list[tuple[str, dict[str, Any]]], terse: bool
) -> None:
    recording = record(calls, terse=terse)
    tape = Tape(recording, RULES)
    assert [tape.answer(call.name, call.args).recorded for call in recording] == [*recording]


@given(st.lists(CALLS, max_size=8), st.lists(CALLS, max_size=8))
def test_the_tape_is_a_function_of_what_was_asked(
    calls: list[tuple[str, dict[str, Any]]], asked: list[tuple[str, dict[str, Any]]]
) -> None:
    recording = record(calls, terse=False)
    first, second = Tape(recording, RULES), Tape([*recording], RULES)
    assert [first.answer(*call) for call in asked] == [second.answer(*call) for call in asked]


@pytest.mark.parametrize("terse", [True, False])
def test_reads_without_writes_are_answered_in_any_order_and_number(terse: bool) -> None:
    reads = [
        ("get_order", {"order_id": "O-1001"}),
        ("get_user", {"user_id": "U-100"}),
        ("list_orders", {}),
        ("get_product", {"sku": "SKU-100"}),
    ]
    tape = Tape(record(reads, terse=terse), RULES)
    assert all(tape.answer(*call).recorded for call in [*reversed(reads), *reads, *reads])
