"""Phoenix and OpenInference: `records` (what a file or an answer holds) → `importers.spans` → traces."""
