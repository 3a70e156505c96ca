"""`replay`, called as a person calls it."""

from tests.commands.conftest import replay as replay
