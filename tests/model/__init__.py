"""Tests of the domain types."""
