"""`replay cases show` and `replay cases edit`."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from replaydiff.replay.commands.options import App, command, golden_option, json_option, print_json, say
from replaydiff.replay.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from replaydiff.replay.api.golden import OpenedCase


@command("show")
@click.argument("name", metavar="CASE")
@golden_option
@click.option(
    "--format", "kind", type=click.Choice(["yaml", "json"]), help="Print it as it would be written."
)
@click.option("-v", "--verbose", "full", is_flag=True, help="Show long texts to their end.")
@json_option
def show(app: App, name: str, path: Path | None, kind: str | None, full: bool) -> None:
    """Show one case of the golden set.

    \b
    Example:
      replay cases show cancel-17
    """
    from replaydiff.replay.golden import case_to_json, yaml_form
    from replaydiff.replay.terminal.text import show as put
    from replaydiff.replay.terminal.text import terminal_width
    from replaydiff.replay.terminal.transcript import Transcript

    golden = app.project.cases.golden_set(path)
    cases = {case.id: case for case in golden.cases()}
    if name not in cases:
        raise UnknownNameError("case", name, cases, where=str(golden.path))
    if app.as_json or kind == "json":
        print_json(case_to_json(cases[name]))
    elif kind == "yaml":
        click.echo(yaml_form.dump(case_to_json(cases[name])), nl=False)
    else:
        put(Transcript(terminal_width(), full=full).case(cases[name]))


@command("edit")
@click.argument("name", metavar="CASE")
@golden_option
@click.option(
    "--format", "kind", type=click.Choice(["yaml", "json"]), help="Default: as the file is written."
)
@click.option(
    "--from",
    "source",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Take the case from this file, instead of opening an editor.",
)
def edit(app: App, name: str, path: Path | None, kind: str | None, source: Path | None) -> None:
    """Edit a case in $EDITOR, as YAML or JSON, and check it before it is saved.

    An error is reported with its line, and the editor opens again. If you stop, the golden set stays as it
    was, and your text is kept. A change of input or expectation counts as a review: it sets
    metadata.last_reviewed to today. Every other case stays byte for byte as it is.

    \b
    Examples:
      replay cases edit cancel-17
      replay cases edit cancel-17 --format yaml
      replay cases edit cancel-17 --from /tmp/replay-edit-x1/cancel-17.json
    """
    from replaydiff.replay.golden.text import read_text

    if source is not None and kind is None:
        kind = "yaml" if source.suffix.lower() in (".yaml", ".yml") else "json"
    opened = app.project.cases.golden_set(path).open_case(name, kind)
    if source is not None:
        _save(opened, read_text(source), source)
        return
    folder = Path(tempfile.mkdtemp(prefix="replay-edit-"))
    file = folder / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('-.')[:60] or 'case'}.{opened.kind}"
    file.write_text(opened.text, encoding="utf-8")
    if _edited(opened, file):
        shutil.rmtree(folder, ignore_errors=True)


def _edited(opened: OpenedCase, file: Path) -> bool:
    """Edit until it is a case or the person gives up; return whether the file can be deleted."""
    from replaydiff.replay.api.golden import EditError, read_case
    from replaydiff.replay.golden.text import read_text

    while True:
        try:
            click.edit(filename=str(file))
            text = read_text(file)
        except (click.ClickException, InputError) as error:
            reason = error.format_message() if isinstance(error, click.ClickException) else str(error)
            raise InputError(
                f"{reason.rstrip('.')}; nothing was changed{_saved_text_note(opened, file)}"
            ) from None
        if text == opened.text:
            say("nothing was changed")
            return True
        try:
            read_case(text)
        except EditError as error:
            say(f"{file.name}: {error}")
            try:
                edits_again = click.confirm("edit it again?", default=True, err=True)
            except click.Abort:
                say("")
                edits_again = False
            if not edits_again:
                raise InputError(
                    f"not a valid case; nothing was changed{_saved_text_note(opened, file)}"
                ) from None
        else:
            _save(opened, text, file)
            return True


def _save(opened: OpenedCase, text: str, file: Path) -> None:
    from replaydiff.replay.api.golden import EditError, save_case

    try:
        case, changed = save_case(opened, text)
    except EditError as error:
        raise InputError(f"{file}: {error}; nothing was changed") from None
    except InputError as error:
        raise InputError(f"{error}; nothing was changed{_saved_text_note(opened, file)}") from None
    moved = f", reviewed {case.provenance.last_reviewed}" if changed else ""
    say(f"saved case {case.id} in {opened.path}{moved}")


def _saved_text_note(opened: OpenedCase, file: Path) -> str:
    return f"; what you wrote is in {file}: `replay cases edit {opened.case.id} --from {file}` uses it"
