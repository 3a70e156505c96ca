"""Run versions of an agent: types, store, sampling, tape, agents, engine, and the commands."""
