"""Spans of OpenTelemetry: `raw` (as recorded) → `kinds`, `contents`, `facts` (what they say) → `trace`."""
