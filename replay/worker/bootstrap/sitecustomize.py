"""The first thing that a Python runs which a replayed agent started: its tools are patched as well.

Found on PYTHONPATH, before the user's own `sitecustomize`, which is imported afterwards. Where it cannot do
its work, the process ends: a tool that nobody answers would run for real. Read by any Python, so its syntax
is that of the oldest.
"""
# mypy: ignore-errors

import os
import sys


def _begin():
    folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != folder]  # noqa: PTH100
    text = os.environ.get("REPLAYDIFF_TAPE")
    if text is None:
        return
    if sys.version_info < (3, 9):  # noqa: UP036
        sys.stderr.write("replay: the tools of an agent cannot be answered in so old a Python\n")
        os._exit(1)
    try:
        _load(os.path.dirname(folder), "processes")  # noqa: PTH120
        _load(os.path.dirname(folder), "imports")  # noqa: PTH120
        _load(os.path.dirname(folder), "descendant").begin(text)  # noqa: PTH120
    except BaseException as error:
        sys.stderr.write("replay: this process cannot be patched: " + repr(error) + "\n")
        os._exit(1)


def _load(folder, name):
    import _frozen_importlib as importer
    import _frozen_importlib_external as files

    private = "_replaydiff_worker_" + name
    path = os.path.join(folder, name + ".py")  # noqa: PTH118
    spec = importer.ModuleSpec(private, files.SourceFileLoader(private, path), origin=path)
    spec.has_location = True
    module = sys.modules[private] = importer.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _next():
    """Import the `sitecustomize` that this one hides."""
    mine = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if getattr(error, "name", "sitecustomize") != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", mine)


_begin()
_next()
