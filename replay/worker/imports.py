"""Modules that are executed: at an import, a reload, or by a loader in hand."""

from __future__ import annotations

import functools
import importlib.machinery
import os
import sys
import zipimport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def after_execution(callback: Callable[[Any], None]) -> None:
    """Call this with every module once its code was executed, before whoever imports it can use it.

    Modules whose loader is neither of a file nor of an archive are not seen.
    """
    loaders: tuple[Any, ...] = (
        importlib.machinery.SourceFileLoader,
        importlib.machinery.SourcelessFileLoader,
        zipimport.zipimporter,
    )
    for loader in loaders:
        # That of archives executes while it loads, before Python 3.10.
        method = "exec_module" if hasattr(loader, "exec_module") else "load_module"
        setattr(loader, method, _followed(getattr(loader, method), callback))


def _followed(execute: Callable[..., Any], callback: Callable[[Any], None]) -> Callable[..., Any]:
    @functools.wraps(execute)
    def executing(self: Any, module: Any) -> Any:
        loaded = execute(self, module)
        callback(module if loaded is None else loaded)
        return loaded

    return executing


def real_path(file: Any) -> str:
    """Return the path of a source file without links; empty for what is none."""
    return _without_links(file) if isinstance(file, str) and file.endswith((".py", ".pyc")) else ""


@functools.cache
def _without_links(file: str) -> str:
    return os.path.realpath(file)


def file_of(module: Any) -> str:
    """Return the source file of a module, or of the imported module of this name; empty where it has none."""
    imported = sys.modules.get(module) if isinstance(module, str) else module
    return real_path(getattr(imported, "__file__", None))
