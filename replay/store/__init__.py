"""The store: one DuckDB file. Functions only, domain types in and out; a module a noun."""
