"""Replay production traces of tool-calling agents against two versions, and report what changed."""

__version__ = "0.1.0"
