"""Langfuse, asked over HTTP: a stand-in on loopback, and the command line."""
