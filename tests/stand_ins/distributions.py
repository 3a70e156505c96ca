"""Distributions with entry points, as an installer leaves them on the path, made from the pages of docs/extending."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs" / "extending"


def blocks(page: str, language: str) -> list[str]:
    """Return the code blocks of a page of docs/extending in one language."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def install(site: Path, module: str, source: str, project: str) -> None:
    """Put a distribution of one module into a folder that is on the path.

    Args:
        site: the folder.
        module: name of the module.
        source: its text.
        project: text of its pyproject.toml, entry points included.
    """
    about = tomllib.loads(project)["project"]
    name, version = about["name"], about["version"]
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (site / f"{module}.py").write_text(source)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{entry} = {target}\n" for entry, target in entries.items())
            for group, entries in about["entry-points"].items()
        )
    )
