"""The first thing that a Python runs behind a boundary, or that a replayed agent started.

Behind a boundary `multiprocessing` does without Unix sockets; the tools of what an agent started are patched
as well. Found on PYTHONPATH, before the user's `sitecustomize`, which is imported afterwards. Read by any
Python, so its syntax is that of the oldest; one that is too old, and one where this fails, runs without.
"""
# mypy: ignore-errors

import os
import sys


def _begin():
    folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != folder]  # noqa: PTH100
    settings, ports = os.environ.get("REPLAYDIFF_WORKER"), os.environ.get("REPLAY_SPARE_PORTS")
    if (settings is None and ports is None) or sys.version_info < (3, 9):
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
    if ports is not None:
        from _replaydiff_worker import substitutes

        substitutes.install(int(port) for port in ports.split(",") if port)
    if settings is not None:
        from _replaydiff_worker import children, imports

        imports.after_execution(children.ChildProcess(settings).after_execution)


def _next():
    """Import the `sitecustomize` that this one hides."""
    this_module = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if getattr(error, "name", "sitecustomize") != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", this_module)


try:
    _begin()
except Exception as error:
    sys.stderr.write("replay: the tools of this process are not answered: " + repr(error) + "\n")
_next()
