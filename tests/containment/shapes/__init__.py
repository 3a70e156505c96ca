"""The attack corpus: every shape that its modules add when they are imported."""

from tests.containment.shapes import (  # noqa: F401
    applications,
    changes,
    functions,
    holders,
    methods,
    packages,
    tables,
    uncovered,
)
from tests.containment.shapes.corpus import SHAPES, Shape

__all__ = ["SHAPES", "Shape"]
