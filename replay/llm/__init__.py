"""The only place that knows a model's SDK: a model to ask, what it costs, and what may be spent."""
