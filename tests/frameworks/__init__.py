"""Agents of the genuine frameworks, each replayed by an interpreter that has the framework installed."""
