"""MLflow: `records` (what a record holds) → `trace` (what it means); `live` asks a tracking server."""
