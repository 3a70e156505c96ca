"""Where `replay` is installed, and what its packages replaced if that is the agent's environment."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.metadata import distribution, distributions
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name


class Package(NamedTuple):
    """A distribution as far as it is compared; read once: each look at metadata parses all of it."""

    version: str
    requires: tuple[str, ...]


Installed: TypeAlias = dict[str, Package]
_TOOLS = frozenset({"pip", "setuptools", "wheel", "uv", "replaydiff"})
_LOCKS = ("uv.lock", "poetry.lock", "pdm.lock")
"""Lock files with a `[[package]]` table for each package."""


def required_packages(*extras: str) -> Iterator[Requirement]:
    """Yield what the installed distribution requires on this machine.

    Args:
        extras: whose packages are meant beside those that are always required.
    """
    for text in distribution("replaydiff").requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield requirement


def packages_beside() -> list[str]:
    """Return the packages of our environment that `replay` does not need, by name."""
    installed = _installed()
    return sorted(installed.keys() - _closure(installed) - _TOOLS)


def replaced_packages(folder: Path) -> list[str]:
    """Return a sentence for each of our packages whose version is not what the agent asks for.

    Args:
        folder: of the agent, with its requirements or lock file.
    """
    installed = _installed()
    our_packages = _closure(installed)
    sentences = []
    asking = [
        *_declared(folder),
        *(
            (f"{name} {installed[name].version}", requirement)
            for name in sorted(installed.keys() - our_packages - _TOOLS)
            for requirement in _requirements(installed[name].requires)
        ),
    ]
    for asker, requirement in asking:
        name = canonicalize_name(requirement.name)
        if name not in our_packages or (
            requirement.marker and not requirement.marker.evaluate({"extra": ""})
        ):
            continue
        version = installed[name].version
        if not requirement.specifier.contains(version, prereleases=True):
            sentences.append(f"{asker} asks for {name}{requirement.specifier}, and {version} is installed")
    return sentences


def _installed() -> Installed:
    """Return the distributions in our own environment, not those of a system below it."""
    inside = Path(sys.prefix).resolve()
    by_name: Installed = {}
    for candidate in distributions():
        metadata = candidate.metadata
        name = metadata["Name"]
        if name and Path(str(candidate.locate_file(""))).resolve().is_relative_to(inside):
            package = Package(metadata["Version"], tuple(candidate.requires or ()))
            by_name.setdefault(canonicalize_name(name), package)
    return by_name


def _closure(installed: Installed) -> set[str]:
    """Return the names of what `replay` and its extras need, in turn, as far as it is installed."""
    reached: set[tuple[str, str]] = set()
    extras = distribution("replaydiff").metadata.get_all("Provides-Extra") or ()
    waiting = [*required_packages(*extras)]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        # `pyjwt[crypto]` needs what that extra of it needs, too.
        new = {(name, extra) for extra in ("", *requirement.extras)} - reached
        if name not in installed or not new:
            continue
        reached |= new
        for inner in _requirements(installed[name].requires):
            if inner.marker is None or any(inner.marker.evaluate({"extra": extra}) for _, extra in new):
                waiting.append(inner)
    return {name for name, _ in reached}


def _declared(folder: Path) -> Iterator[tuple[str, Requirement]]:
    """Yield the requirements of an agent's files, each with the file's name."""
    for file in (folder / "requirements.lock", folder / "requirements.txt"):
        lines = _text(file).splitlines()
        texts = (line.split(" #")[0].split(" --hash")[0].rstrip(" \\") for line in lines)
        yield from ((file.name, requirement) for requirement in _requirements(texts))
    for lock in _LOCKS:
        for package in _toml(folder / lock).get("package", ()):
            if isinstance(package, dict) and isinstance(package.get("version"), str):
                text = f"{package.get('name')}=={package['version']}"
                yield from ((lock, requirement) for requirement in _requirements([text]))
    project = _toml(folder / "pyproject.toml").get("project", {})
    named = project.get("dependencies", ()) if isinstance(project, dict) else ()
    texts = (text for text in named if isinstance(text, str))
    yield from (("pyproject.toml", requirement) for requirement in _requirements(texts))


def _requirements(texts: Iterable[str]) -> Iterator[Requirement]:
    """Yield what can be read as requirements: options, addresses and folders are left out."""
    for text in texts:
        with suppress(InvalidRequirement):
            yield Requirement(text)


def _toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_text(file))
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
