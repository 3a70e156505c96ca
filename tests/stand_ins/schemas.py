"""The published JSON schemas, each read and checked once."""

from __future__ import annotations

import functools
import json
from pathlib import Path

from jsonschema import Draft202012Validator

FOLDER = Path(__file__).parents[2] / "docs" / "schema"


@functools.cache
def validator(name: str) -> Draft202012Validator:
    """Return what validates documents against `docs/schema/NAME.schema.json`."""
    schema = json.loads((FOLDER / f"{name}.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)
