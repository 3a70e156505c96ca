"""Comparisons whose truth is known: agents with given pass rates, put through `diff.compute.compute`."""
