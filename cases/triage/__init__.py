"""Review the items of a run: which ones, in which order, and what a person decides about them."""
