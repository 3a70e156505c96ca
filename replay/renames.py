"""Tools and arguments renamed on purpose: recordings and calls meet under the present names.

    [tools.cancel_order]
    renamed_from = "cancel"
    renamed_args = { id = "order_id" }

Items, their recordings and expectations, observed trials and every call that an agent makes are brought to
the present names where they enter a run. So the tape, matching, grading and reports know no other names, and
the version that still calls `cancel(id=…)` is answered and compared like the one that calls
`cancel_order(order_id=…)`. An argument is renamed only where the call does not have the present name as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from replaydiff.replay.errors import SettingsError
from replaydiff.replay.model import Expectation, Item, JsonObject, Match, Message, ServedCall, ToolCall
from replaydiff.replay.settings import ToolSection
from replaydiff.replay.settings.toml import tool_table


@dataclass(frozen=True, slots=True)
class Renames:
    """The renames of a run's settings."""

    names: Mapping[str, str] = field(default_factory=dict)
    """Earlier name of a tool → its present name."""
    args: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Present name of a tool → earlier name of an argument → its present name."""

    @classmethod
    def of(cls, tools: Mapping[str, ToolSection]) -> Renames:
        """Return the renames that `[tools.NAME]` states.

        Args:
            tools: present name → the settings of the tool.

        Raises:
            SettingsError: two tools claim one earlier name, or a name is both an earlier and a present one.
        """
        names: dict[str, str] = {}
        for name, tool in tools.items():
            earlier = tool.renamed_from
            if earlier is None:
                continue
            if earlier in tools:
                raise SettingsError(
                    f"{tool_table(name)} has renamed_from = {earlier!r}, which has a table "
                    f"{tool_table(earlier)} of its own; remove that table, or the rename"
                )
            if earlier in names:
                raise SettingsError(
                    f"{names[earlier]} and {name} both have renamed_from = {earlier!r}; keep one of them"
                )
            names[earlier] = name
        for name, tool in tools.items():
            contradicted = sorted(set(tool.renamed_args) & set(tool.renamed_args.values()))
            twice = len(set(tool.renamed_args.values())) < len(tool.renamed_args)
            if contradicted or twice:
                what = (
                    f"{contradicted[0]!r} is both an earlier and a present name"
                    if contradicted
                    else "two have one name"
                )
                raise SettingsError(f"renamed_args of {tool_table(name)}: {what}; map each argument once")
        return cls(names, {name: tool.renamed_args for name, tool in tools.items() if tool.renamed_args})

    def __bool__(self) -> bool:
        return bool(self.names or self.args)

    def name(self, name: str) -> str:
        """Return the present name of a tool."""
        return self.names.get(name, name)

    def earlier(self, name: str) -> list[str]:
        """Return the names under which calls of a tool may have been recorded, the present one first."""
        return [name, *(old for old, present in self.names.items() if present == name)]

    def arguments(self, name: str, args: JsonObject) -> JsonObject:
        """Return arguments under their present names.

        Args:
            name: present name of the tool.
            args: of the call.
        """
        new_names = self.args.get(name)
        if not new_names:
            return args
        renamed = {old: new for old, new in new_names.items() if old in args and new not in args}
        return {renamed.get(key, key): value for key, value in args.items()} if renamed else args

    def call(self, call: ToolCall) -> ToolCall:
        """Return a call under its present names."""
        name = self.name(call.name)
        args = self.arguments(name, call.args)
        return call if name == call.name and args is call.args else replace(call, name=name, args=args)

    def served(self, calls: Iterable[ServedCall]) -> tuple[ServedCall, ...]:
        """Return served calls under their present names."""
        return tuple(replace(served, call=self.call(served.call)) for served in calls)

    def item(self, item: Item) -> Item:
        """Return an item with its recording, history and expectation under present names."""
        if not self:
            return item
        return replace(
            item,
            messages=self._messages(item.messages),
            tape=tuple(map(self.call, item.tape)),
            expectation=None if item.expectation is None else self._expectation(item.expectation),
        )

    def _messages(self, messages: Iterable[Message]) -> tuple[Message, ...]:
        return tuple(
            replace(
                message,
                tool_calls=tuple(map(self.call, message.tool_calls)),
                name=self.name(message.name) if message.role == "tool" and message.name else message.name,
            )
            for message in messages
        )

    def _expectation(self, expected: Expectation) -> Expectation:
        calls = expected.tool_calls
        if calls is not None:
            calls = tuple(
                replace(
                    call,
                    name=self.name(call.name),
                    args=None if call.args is None else self.arguments(self.name(call.name), call.args),
                )
                for call in calls
            )
        tools = expected.tools
        return replace(
            expected,
            tool_calls=calls,
            tools=None if tools is None else tuple(map(self.name, tools)),
            match=self._match(expected.match),
        )

    def _match(self, match: Match) -> Match:
        return replace(
            match,
            only_tools=tuple(map(self.name, match.only_tools)),
            ignore_tools=tuple(map(self.name, match.ignore_tools)),
            tools={self.name(name): rule for name, rule in match.tools.items()},
        )
