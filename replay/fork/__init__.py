"""Replay a trial with one fact edited: a companion, which the core does without."""
