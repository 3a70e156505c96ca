"""`replay demo`: an agent in two revisions, two months of its traces, and a model stand-in to run it with.

`stand_in` serves the Messages API on loopback; `small_model` and `small_judge` write its answers. The tests
use it as their model too.
"""
