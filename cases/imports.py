"""Which files of a folder a Python module needs: read from its import statements, nothing is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


class Imports:
    """The modules of one folder, as a process that runs in it would find them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._direct: dict[Path, frozenset[Path]] = {}

    def file_of(self, module: str) -> Path | None:
        """The file of a module by its dotted name; None where the folder has none."""
        if not module:
            return None
        path = self._folder.joinpath(*module.split("."))
        return next(
            (file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None
        )

    def closure(self, start: Path, *, leave_out: set[Path]) -> frozenset[Path]:
        """A file and every file it needs, directly or not; those in `leave_out` are not gone into."""
        found: set[Path] = set()
        waiting = [start]
        while waiting:
            file = waiting.pop()
            if file not in found:
                found.add(file)
                waiting += self._needs(file) - leave_out
        return frozenset(found)

    def _needs(self, file: Path) -> frozenset[Path]:
        if file not in self._direct:
            try:
                tree = ast.parse(file.read_bytes())
            except (SyntaxError, ValueError, OSError):
                self._direct[file] = frozenset()
            else:
                found = (self.file_of(name) for name in self._names(tree, file))
                self._direct[file] = frozenset(one for one in found if one is not None)
        return self._direct[file]

    def _names(self, tree: ast.Module, file: Path) -> Iterator[str]:
        own = file.relative_to(self._folder).with_suffix("").parts
        package = own[:-1]
        yield from _with_parents(".".join(package))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for name in node.names:
                    yield from _with_parents(name.name)
            elif isinstance(node, ast.ImportFrom):
                above = package[: len(package) - (node.level - 1)] if node.level else ()
                module = ".".join([*above, *([node.module] if node.module else [])])
                yield from _with_parents(module)
                for name in node.names:
                    yield f"{module}.{name.name}" if module else name.name


def _with_parents(module: str) -> Iterator[str]:
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        yield ".".join(parts[:end])
