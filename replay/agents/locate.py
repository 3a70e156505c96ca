"""Where `module:attr[.attr…]`, or `file#export[.attr…]` of JavaScript, is in the source code.

Importing runs the agent's code; reading does not. What the source does not show (a name set by `exec`, an
attribute of an object, a base class in another file) is neither there nor missing.
"""

from __future__ import annotations

import ast
import difflib
import importlib.machinery
import importlib.util
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """What the source shows of a name. Neither position nor problem: only importing it can tell."""

    position: str | None = None
    """`app/agent.py:12`."""
    problem: str | None = None
    """Why it cannot be there, with what is."""
    annotated: bool = False
    """It is a function whose annotation says what it returns."""


def locate(point: str, folder: Path, *, search_installed: bool) -> Location:
    """Return where a name is defined.

    Args:
        point: `module:attr[.attr…]`, or `file#export[.attr…]`, optionally with ` as NAME`.
        folder: where the agent's modules are looked for.
        search_installed: also look where this interpreter imports from; the agent's own may find others.
    """
    if "#" in point:
        return _in_javascript(point, folder)
    module, colon, attributes = point.partition(":")
    if not colon or not attributes or not module:
        return Location(problem=f"{point!r} must be written `module:attr`")
    parts = module.split(".")
    file = _file(folder, parts)
    if file is None and not _is_in(folder, parts[0]):
        if not search_installed:
            return Location()
        spec = _spec(parts[0])
        if spec is None:
            return Location(problem=f"there is no module {parts[0]!r} in {folder}; check `path`")
        roots = [Path(root).parent for root in spec.submodule_search_locations or ()]
        roots += [Path(spec.origin).parent] if spec.origin and not roots else []
        file = next((candidate for root in roots if (candidate := _file(root, parts)) is not None), None)
        if file is None:
            return Location()
    if file is None:
        return Location(problem=f"there is no module {module!r} in {folder}")
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, OSError) as error:
        reason = f"{error.msg} in line {error.lineno}" if isinstance(error, SyntaxError) else str(error)
        return Location(problem=f"{file} cannot be read as Python: {reason}")
    return _search(tree.body, attributes.split("."), module, _shown(file, folder))


def _in_javascript(point: str, folder: Path) -> Location:
    """Return where the text of a file seems to define a name: there is no parser of JavaScript here."""
    file, _, names = point.partition(" as ")[0].partition("#")
    path = folder / file
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        return Location(problem=f"there is no file {file} in {folder} ({error.strerror})")
    name = re.escape(names.partition(".")[0])
    defined = rf"\b(?:function\s*\*?|class|const|let|var)\s+{name}\b|\bexports\.{name}\b|\bas\s+{name}\b"
    match = re.search(r"\bexport\s+default\b" if name == "default" else defined, text)
    if match is None:
        return Location()
    return Location(position=f"{_shown(path, folder)}:{text.count(chr(10), 0, match.start()) + 1}")


def _search(body: Sequence[ast.stmt], names: Sequence[str], owner: str, file: str) -> Location:
    name, *inner_names = names
    defined = dict(_defined(body))
    if name not in defined:
        if "*" in defined or "__getattr__" in defined:
            return Location()
        near = difflib.get_close_matches(name, defined, n=1, cutoff=0.5)
        suggestion = (
            f"did you mean {near[0]!r}?"
            if near
            else f"it defines {', '.join(list(defined)[:8]) or 'nothing'}"
        )
        return Location(problem=f"{owner} ({file}) has no {name!r}; {suggestion}")
    statement = defined[name]
    if not inner_names:
        return Location(position=f"{file}:{statement.lineno}", annotated=_is_annotated(statement))
    if isinstance(statement, ast.ClassDef):
        inside = _search(statement.body, inner_names, f"{owner}.{name}", file)
        # A base class or a decorator may define it.
        return Location() if inside.problem and (statement.bases or statement.decorator_list) else inside
    return Location()


def _is_annotated(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) or statement.returns is None:
        return False
    members = _members(statement.returns)
    return members == ["str"] or (bool(members) and not {"str", "Any", "object"} & {*members})


def _members(annotation: ast.expr) -> list[str]:
    """Return the names of the types that an annotation allows, without `None`."""
    match annotation:
        case ast.Constant(value=str(text)):
            try:
                return _members(ast.parse(text, mode="eval").body)
            except SyntaxError:
                return []
        case ast.Constant(value=None):
            return []
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return [*_members(left), *_members(right)]
        case ast.Subscript(value=generic, slice=inner):
            name = ast.unparse(generic).rpartition(".")[2]
            if name not in ("Optional", "Union"):
                return [name]
            return [member for part in getattr(inner, "elts", [inner]) for member in _members(part)]
    return [ast.unparse(annotation).rpartition(".")[2]]


def _defined(body: Sequence[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """Yield names that these statements bind, each with the statement; `*` for a star import."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield statement.name, statement
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            for alias in statement.names:
                yield (alias.asname or alias.name).partition(".")[0], statement
        elif isinstance(
            statement, ast.If | ast.Try | ast.With | ast.For | ast.While | ast.AsyncWith | ast.Match
        ):
            for _, value in ast.iter_fields(statement):
                for inner in value if isinstance(value, list) else ():
                    if isinstance(inner, ast.stmt):
                        yield from _defined([inner])
                    elif isinstance(inner, ast.ExceptHandler | ast.match_case):
                        yield from _defined(inner.body)
        else:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.id, statement


def _file(root: Path, parts: Sequence[str]) -> Path | None:
    base = root.joinpath(*parts)
    return next((file for file in (base / "__init__.py", base.with_suffix(".py")) if file.is_file()), None)


def _is_in(folder: Path, name: str) -> bool:
    return (folder / name).is_dir() or (folder / f"{name}.py").is_file()


def _spec(name: str) -> importlib.machinery.ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None


def _shown(file: Path, folder: Path) -> str:
    return str(file.relative_to(folder)) if file.is_relative_to(folder) else str(file)
