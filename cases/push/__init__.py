"""Send a golden set and the result of a run to an observability platform."""
