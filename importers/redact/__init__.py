"""Personal data and secrets, replaced by stable tokens before anything is stored: `[import.redact]`."""

from replaydiff.importers.redact.redactor import Redactor, redactor

__all__ = ["Redactor", "redactor"]
