"""Pure mathematics: no domain types, no store. Each function names its formula and its source."""
