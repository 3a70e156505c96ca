"""Bring foreign records of agent runs into the store, through one write path."""
