"""Traces of genuine instrumentations, compared with what really happened."""
