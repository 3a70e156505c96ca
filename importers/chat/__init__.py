"""Logs of chat APIs: records of model calls and conversations to traces."""
