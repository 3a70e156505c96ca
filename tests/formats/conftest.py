"""`replay` as the tests of commands call it."""

from tests.commands.conftest import replay

__all__ = ["replay"]
