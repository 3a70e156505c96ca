"""The support assistant of Fernhill, a shop for houseplants."""
