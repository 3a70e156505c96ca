"""The Python API: `Project`, its results, and the composition of all packages behind them.

`project` is what users and commands call. Each other module composes the packages for one group of
methods; nothing below this room knows it, and nothing above it goes past it.
"""
