"""`replay init`."""

from __future__ import annotations

from pathlib import Path

import click

from replaydiff.replay.commands.options import App, command
from replaydiff.replay.errors import ReplayError

TEMPLATES = Path(__file__).parent / "templates"
GITIGNORE = (".replay/", "replay-report*")


@command("init")
@click.argument("folder", default=".", type=click.Path(file_okay=False, path_type=Path))
def init(_app: App, folder: Path) -> None:
    """Write replay.toml, a golden set and a CI workflow.

    Run it in your agent's repository. A file that is there already is left as it is.

    \b
    Example:
      replay init
    """
    folder.mkdir(parents=True, exist_ok=True)
    for target, template in (
        (folder / "replay.toml", "replay.toml"),
        (folder / "cases" / "golden.jsonl", "golden.jsonl"),
        (folder / ".github" / "workflows" / "replay.yml", "workflow.yml"),
    ):
        _write(target, (TEMPLATES / template).read_text(encoding="utf-8"))
    _ignore(folder / ".gitignore")
    click.echo(
        "Next: name your agent's entrypoint and tools in replay.toml, then\n"
        "  replay import auto traces.jsonl\n"
        "  replay sample --month --size 50 --name monthly\n"
        "  replay run --old git:main --new . --trials 3 --aa\n"
        "  replay diff"
    )


def _write(target: Path, text: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        click.echo(f"kept     {target}")
    else:
        click.echo(f"wrote    {target}")


def _ignore(target: Path) -> None:
    """Add our lines to .gitignore, leaving every other line as it is."""
    try:
        present = target.read_text(encoding="utf-8") if target.exists() else ""
    except UnicodeDecodeError:
        raise ReplayError(
            f"{target} is not UTF-8 text", hint=f"add these lines by hand: {' '.join(GITIGNORE)}"
        ) from None
    missing = [line for line in GITIGNORE if line not in present.splitlines()]
    if not missing:
        click.echo(f"kept     {target}")
        return
    gap = "" if not present or present.endswith("\n") else "\n"
    with target.open("a", encoding="utf-8") as file:
        file.write(gap + "\n".join(missing) + "\n")
    click.echo(f"{'extended' if present else 'wrote   '} {target}")
