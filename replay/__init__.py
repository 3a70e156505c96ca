"""replaydiff: replay production traces of an agent against two of its versions, and see what changed."""

__version__ = "0.1.0"
