"""Graders: each scores one trial of one item. `base.BUILTIN` lists them."""
