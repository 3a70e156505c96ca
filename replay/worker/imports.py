"""Modules that are run again, or under another name: their tools are patched before anybody can call them.

A module that holds a patch point or a patched function is known by its name and by its file. Whenever the
import system has run one (`importlib.reload`, an import after `del sys.modules[…]`, a loader by hand), its
tools are patched at once. Code that is run past the import system (`exec`, `runpy`) is refused where it would
make such tools anew, and so is a tool's original code, copied or run.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - importing pathlib takes 8 ms

_LIBRARY = (os.path.dirname(os.path.realpath(os.__file__)) + os.sep, FOLDER + os.sep)  # noqa: PTH120
"""Where Python's own modules are, and this one."""
_PAST_AUDIT = {"PyFunction_New", "PyFunction_NewWithQualName", "PyEval_EvalCode", "PyEval_EvalCodeEx"}
"""Functions of C that make or run code without an event."""


class ImportGuard:
    """Sees modules being run. There is one in a process."""

    def __init__(
        self,
        is_ours: Callable[[str, str], bool],
        patch: Callable[[Any], None],
        refuse: Callable[[str], BaseException],
        need: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """Begin to see them.

        Args:
            is_ours: whether the module of this name and file holds tools.
            patch: patches the tools of such a module.
            refuse: keeps why the running trial cannot go on; what it returns is raised.
            need: patches the tools of a source file before code of it that came from elsewhere is run;
                returns whether that was possible.
        """
        self._is_ours, self._patch, self._refuse, self._need = is_ours, patch, refuse, need
        self._running = threading.local()
        self.others: dict[str, Callable[[], None]] = {}
        """Modules of the standard library, with what is to be done once they are imported."""
        # What runs modules for `import`, for `reload`, and for whoever has a loader in hand.
        bootstrap: Any = sys.modules["_frozen_importlib"]
        loaders: Any = sys.modules["_frozen_importlib_external"]
        bootstrap._load_unlocked = self._around(bootstrap._load_unlocked, lambda spec: spec)
        bootstrap._exec = self._around(bootstrap._exec, lambda spec, _: spec)
        loaders._LoaderBasics.exec_module = self._around(
            loaders._LoaderBasics.exec_module, lambda _, module: module.__spec__
        )
        sys.addaudithook(self._heard)

    def _around(self, run: Callable[..., Any], spec_of: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(run)
        def around(*args: Any) -> Any:
            spec = spec_of(*args)
            name, file = getattr(spec, "name", ""), real_path(getattr(spec, "origin", None))
            if name in self.others:
                result = run(*args)
                # One of these functions calls another: the inner one was first.
                self.others.pop(name, lambda: None)()
                return result
            if not self._is_ours(name, file):
                return run(*args)
            depth = getattr(self._running, "depth", 0)
            self._running.depth = depth + 1
            try:
                result = run(*args)
            finally:
                self._running.depth = depth
            # The import system gives the module back, a loader changes the one that it is given.
            self._patch(result if isinstance(result, types.ModuleType) else args[-1])
            return result

        return around

    def _heard(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "exec":
            originals = _originals()
            if args[0] in originals and not originals.making:
                raise self._refuse(f"it runs the original code of a tool, {args[0].co_name}")
            if isinstance(args[0], types.CodeType) and not getattr(self._running, "depth", 0):
                self._check(args[0])
        elif event == "function.__new__":
            if getattr(_originals(), "making", False):
                return
            if not self._need(args[0].co_filename):
                raise self._refuse(f"it runs code of {args[0].co_filename}, whose tools cannot be answered")
            if args[0] in _originals():
                raise self._refuse(f"it copied the original code of a tool, {args[0].co_name}")
        elif event == "object.__setattr__":
            if args[1] == "__code__":
                self._check_change(args[0], args[2])
        elif event == "ctypes.dlsym" and args[1] in _PAST_AUDIT:
            raise self._refuse(f"it looks up {args[1]} with ctypes, which runs code past every patch")
        elif event == "cpython.PyInterpreterState_New":
            raise self._refuse("it starts a second interpreter in its process, where no tool is answered")

    def _check_change(self, function: Any, code: Any) -> None:
        originals = _originals()
        if not originals or originals.making:
            return
        if code in originals:
            raise self._refuse(f"it copied the original code of a tool, {code.co_name}")
        if sys.modules["_replaydiff_worker_trampoline"].handler_of(function) is not None:
            raise self._refuse(f"it replaced the code of a tool, {function.__name__}")

    def _check(self, code: types.CodeType) -> None:
        if code.co_name != "<module>":
            return
        if self._is_ours("", real_path(code.co_filename)) or any(one in _originals() for one in _codes(code)):
            raise self._refuse(
                f"it runs {code.co_filename} outside the import system, where its tools cannot be answered"
            )


def load(name: str) -> Any:
    """Load a module beside this one (`a.b`: in a folder there), under a name that no module of a user has."""
    private = f"_replaydiff_worker_{name}"
    if private not in sys.modules:
        from importlib.util import module_from_spec, spec_from_file_location

        path = os.path.join(FOLDER, f"{name.replace('.', os.sep)}.py")  # noqa: PTH118
        spec: Any = spec_from_file_location(private, path)
        module = sys.modules[private] = module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[private]


def is_library(file: str) -> bool:
    """Whether a source file comes with Python or was installed, so that others than the agent use it."""
    if any(f"/{folder}/" in file for folder in ("site-packages", "dist-packages")):
        return True
    return file.startswith(_LIBRARY)


def _originals() -> Any:
    """The original code of tools; nothing where none was patched yet."""
    trampoline = sys.modules.get("_replaydiff_worker_trampoline")
    return getattr(trampoline, "ORIGINALS", ())


def same_text(file: str, known: Iterable[str]) -> str:
    """Return which of the known source files this one is, or is a copy of; empty for none."""
    files = {one for one in known if one}
    if not file or file in files:
        return file
    if is_library(file):
        return ""
    try:
        size = os.path.getsize(file)  # noqa: PTH202
        copied = (one for one in files if os.path.getsize(one) == size and _bytes(one) == _bytes(file))  # noqa: PTH202
        return next(copied, "")
    except OSError:
        return ""


def _bytes(file: str) -> bytes:
    with open(file, "rb") as opened:  # noqa: PTH123
        return opened.read()


def real_path(file: Any) -> str:
    """Return the path of a source file without links; empty for what is none."""
    return _without_links(file) if isinstance(file, str) and file.endswith((".py", ".pyc")) else ""


@functools.cache
def _without_links(file: str) -> str:
    # The files of tools are looked at before every trial.
    folder, name = os.path.split(file)
    path = os.path.join(_folder_without_links(folder), name)  # noqa: PTH118
    return os.path.realpath(path) if os.path.islink(path) else path  # noqa: PTH114


@functools.cache
def _folder_without_links(folder: str) -> str:
    # A system call for each folder of the path, and many files are in one.
    return os.path.realpath(folder)


def file_of(module: str) -> str:
    """Return the source file of an imported module."""
    return real_path(getattr(sys.modules.get(module), "__file__", None))


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield const
            yield from _codes(const)
