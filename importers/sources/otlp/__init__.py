"""OpenTelemetry files: `records` (what a file holds, in any of its dialects) → `importers.spans` → traces."""
