"""Decide whether what a boundary blocked stops a run, and say what to do about it.

In the first trials of a lane a blocked event outside of a tool that may run stops the run: the agent needs
it, so the replay would not be what production does, or it is a tool that nobody listed. Later events are
counted and named only.

An event counts where a line of the agent's code led to it (in Python), or any program behind a command asked
the proxy for it. What libraries do by themselves in threads of their own, and services that only measure
(`INCIDENTAL`), stop nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from replaydiff.replay.agents import Outcome
from replaydiff.replay.errors import ReplayError
from replaydiff.replay.model import Blocked, Lane, Version, VersionKind
from replaydiff.replay.settings.toml import toml_text

INCIDENTAL = (
    "*.sentry.io", "*.posthog.com", "*.langfuse.com", "api.smith.langchain.com", "telemetry.*",
    "*.traceloop.com", "*.datadoghq.com", "*.datadoghq.eu", "*.newrelic.com", "*.nr-data.net",
    "*.honeycomb.io", "*.segment.io", "*.segment.com", "*.mixpanel.com", "*.amplitude.com", "*.wandb.ai",
    "*.applicationinsights.azure.com", "logfire-*.pydantic.dev", "*.opentelemetry.io", "pypi.org",
    "169.254.169.254", "169.254.170.2", "[fd00:ec2::254]", "metadata.google.internal",
)  # fmt: skip
"""Hosts that collect measurements or answer where a machine runs; `*` is any text."""
INCIDENTAL_PORTS = {514, 4317, 4318, 6831, 6832, 8125, 8126, 9411, 14268, 24224}
"""Ports of collectors on this machine: syslog, OpenTelemetry, Jaeger, StatsD, Datadog, Zipkin, Fluentd."""
_LOOPBACK = re.compile(r"(127\.[0-9.]+|\[::1\]|localhost):(\d+)")
_HOSTS = re.compile("|".join(re.escape(host).replace(r"\*", ".*") for host in INCIDENTAL))
UNIX_SOCKET = "a Unix socket"


class BlockedError(ReplayError):
    """The agent of a version needs something that its boundary blocks."""

    def __init__(self, lane: Lane, version: Version, event: Blocked) -> None:
        self.lane, self.version, self.event = lane, version.name, event
        self.fix = advice(event)
        super().__init__(
            f"the run was stopped: in lane {lane} ({version.name}) the boundary blocked {described(event)}, "
            "outside of a tool that may run",
            hint=self.fix,
        )


def described(event: Blocked) -> str:
    """Return a blocked event in words: `a connection to api.stripe.com:443 at app/pay.py:31`."""
    at = f" at {event.at}" if event.at else ""
    if event.what == UNIX_SOCKET:
        return f"{event.what}{at}"
    return f"{'a change of' if event.what.startswith('/') else 'a connection to'} {event.what}{at}"


def advice(event: Blocked) -> str:
    """Return what a person can do about a blocked event."""
    listed = "list the function that does it in `tools` of [agent], so that recordings answer it"
    if event.what == UNIX_SOCKET:
        return f"{listed}, or connect to a TCP port that `network` of [world] names"
    if event.what.startswith("/"):
        return f"{listed}, or allow it with writable = [{toml_text(event.what)}] in [world] of replay.toml"
    _, _, port = event.what.rpartition(":")
    where = event.what if port.isdigit() else f"{event.what}:PORT"
    return f"{listed}, or allow it with network = [{toml_text(where)}] in [world] of replay.toml"


def is_incidental(event: Blocked) -> bool:
    """Return whether an event is a measurement, or a question where the machine runs."""
    loopback = _LOOPBACK.fullmatch(event.what)
    if loopback is not None:
        return int(loopback[2]) in INCIDENTAL_PORTS
    host, separator, port = event.what.rpartition(":")
    return _HOSTS.fullmatch(host if separator and port.isdigit() else event.what) is not None


def stopping_event(version: Version, events: Iterable[Blocked]) -> Blocked | None:
    """Return the first event that stops a run; None where none does."""
    for event in events:
        has_cause = event.at is not None or version.kind is VersionKind.COMMAND
        if has_cause and not event.in_tool and not is_incidental(event):
            return event
    return None


def check_blocked(lane: Lane, version: Version, outcome: Outcome) -> None:
    """Look at what was blocked in one of the first trials of a lane.

    Raises:
        BlockedError: the agent needs something that its boundary blocks.
    """
    event = stopping_event(version, outcome.blocked)
    if event is not None:
        raise BlockedError(lane, version, event)
