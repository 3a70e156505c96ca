"""Personal data and secrets, replaced by stable tokens before anything is stored: `[import.redact]`."""
