"""Read what a run left in the store and compute what changed."""
