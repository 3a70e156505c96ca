"""Replay a golden set against one version: which cases are selected, and how they ended."""
