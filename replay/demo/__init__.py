"""`replay demo`: an agent in two revisions, what it did for two months, and a model to run it with.

The model is a stand-in: `stand_in` speaks the Messages API on loopback, `small_model` and `small_judge`
decide what it answers. It is the tests' model too.
"""
