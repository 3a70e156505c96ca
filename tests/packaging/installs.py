"""Fresh virtual environments with replaydiff installed in them, made without a network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
OFFLINE = ("--offline", "--quiet")


def uv(*words: str) -> None:
    """Run uv of the development environment, and show what it printed when it fails."""
    done = subprocess.run(
        [Path(sys.executable).with_name("uv"), *words],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"uv {' '.join(words)}\n{done.stdout}{done.stderr}"


def build(folder: Path, *kinds: str) -> None:
    """Build into a folder; without `kinds` an sdist of the checkout and a wheel of that sdist."""
    uv(
        "build",
        *OFFLINE,
        "--no-build-isolation",
        "--python",
        sys.executable,
        *kinds,
        "--out-dir",
        str(folder),
    )


class Installed:
    """A virtual environment with replaydiff, its declared dependencies and pytest, and nothing else.

    The dependencies are links to the packages of the environment that runs the tests: there is nothing to
    download or to unpack. What replaydiff does not declare is not linked, so its absence shows.
    """

    def __init__(self, folder: Path, what: str | Path, extras: Sequence[str] = ()) -> None:
        """Install `what`: a wheel, or a checkout in editable form, with the packages of extras."""
        self.folder = folder
        self._extras = ("", *extras)
        venv.create(folder, with_pip=False, symlinks=True)
        self.python = folder / "bin" / "python"
        found = subprocess.run(
            [self.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        self.packages = Path(found.stdout.strip())
        editable = Path(what).is_dir()
        self._link(["replaydiff", "pytest"] + (["hatchling"] if editable else []))
        self._script("pytest", "from pytest import console_main as main")
        form = ["--no-build-isolation", "--editable"] if editable else []
        uv("pip", "install", *OFFLINE, "--no-deps", "--python", str(self.python), *form, str(what))

    def _link(self, names: list[str]) -> None:
        """Link the distributions and all they require, but for replaydiff."""
        linked: set[str] = set()
        while names:
            name = re.sub(r"[-_.]+", "-", names.pop()).lower()
            if name in linked:
                continue
            linked.add(name)
            found = distribution(name)
            for text in found.requires or []:
                wanted = Requirement(text)
                extras = self._extras if name == "replaydiff" else ("",)
                if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in extras):
                    names.append(wanted.name)
            if name == "replaydiff":
                continue
            for top in {file.parts[0] for file in found.files or []} - {"..", "__pycache__"}:
                if not (self.packages / top).exists():
                    (self.packages / top).symlink_to(Path(str(found.locate_file(top))).resolve())

    def _script(self, name: str, imported: str) -> None:
        script = self.folder / "bin" / name
        script.write_text(f"#!{self.python}\nimport sys\n{imported}\nsys.exit(main())\n")
        script.chmod(0o755)

    def run(self, words: list[str], cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a command of this environment, as a person who activated it does."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTEST", "PYTHON", "REPLAY", "COV", "VIRTUAL"))
        }
        return subprocess.run(
            [str(self.folder / "bin" / words[0]), *words[1:]],
            cwd=cwd,
            env={**kept, "PATH": f"{self.folder / 'bin'}:{kept['PATH']}", "COLUMNS": "100", **env},
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
