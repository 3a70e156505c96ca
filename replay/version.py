"""The version of the distribution, and the commit that it was built from."""

from __future__ import annotations

import subprocess
from pathlib import Path

VERSION = "0.1.0"
_PACKAGE = Path(__file__).resolve().parent


def commit() -> str | None:
    """Return the commit that this copy was built from, or its clone is at; None if neither is known."""
    try:
        return (_PACKAGE / "COMMIT").read_text(encoding="utf-8").strip()
    except OSError:
        pass
    if not (_PACKAGE.parent / ".git").exists():
        return None
    command = ["git", "-C", str(_PACKAGE.parent), "rev-parse", "HEAD"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return result.stdout.strip() if result.returncode == 0 else None


def described() -> str:
    """Return the version as a person reports it: `0.1.0 (commit 0a1b2c3d4e5f)`."""
    built_from = commit()
    return f"{VERSION} (commit {built_from[:12]})" if built_from else VERSION
