"""Agents for tests, run as a version's folder: `shop` behaves, `misbehaving` does what it should not."""
