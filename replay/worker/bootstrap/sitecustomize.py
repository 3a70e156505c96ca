"""The first thing that a Python runs which a replayed agent started: its tools are patched as well.

Found on PYTHONPATH, before the user's `sitecustomize`, which is imported afterwards. Read by any Python, so
its syntax is that of the oldest; one that is too old, and one where this fails, runs without patched tools.
"""
# mypy: ignore-errors

import os
import sys


def _begin():
    folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != folder]  # noqa: PTH100
    settings = os.environ.get("REPLAYDIFF_WORKER")
    if settings is None or sys.version_info < (3, 9):
        return
    from importlib.machinery import SourceFileLoader
    from importlib.util import module_from_spec, spec_from_file_location

    worker = os.path.dirname(folder)  # noqa: PTH120
    path = os.path.join(worker, "__init__.py")  # noqa: PTH118
    spec = spec_from_file_location(
        "_replaydiff_worker",
        path,
        loader=SourceFileLoader("_replaydiff_worker", path),
        submodule_search_locations=[worker],
    )
    package = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(package)
    from _replaydiff_worker import children, imports

    imports.after_execution(children.ChildProcess(settings).after_execution)


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


try:
    _begin()
except Exception as error:
    sys.stderr.write("replay: the tools of this process are not answered: " + repr(error) + "\n")
_next()
