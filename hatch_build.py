"""Put the commit that a distribution was built from into it, for `replay --version`."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface[Any]):
    """Writes `replay/COMMIT`. A wheel of an sdist finds it there, and without git nothing is written."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file to a distribution.

        Args:
            version: of the build target; an editable install reads its repository instead.
            build_data: of hatchling.
        """
        root = Path(self.root)
        if version == "editable" or not (root / ".git").exists():
            return
        head = subprocess.run(
            ["git", "-C", root, "rev-parse", "HEAD"], capture_output=True, text=True, check=False
        )
        if head.returncode == 0:
            file = Path(tempfile.mkdtemp(), "COMMIT")
            file.write_text(head.stdout, encoding="utf-8")
            inside = "replay/COMMIT" if self.target_name == "sdist" else "replaydiff/replay/COMMIT"
            build_data["force_include"][str(file)] = inside
