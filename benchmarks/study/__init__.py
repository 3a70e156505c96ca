"""A study with a real model: what the tool says beside what was true."""
