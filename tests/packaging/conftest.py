"""What is built and installed once for all tests of the packaging."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging.installs import ROOT, Installed, build


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an sdist, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    build(folder)
    return folder


@pytest.fixture(scope="session")
def from_wheel(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """An environment with the wheel."""
    return Installed(tmp_path_factory.mktemp("wheel") / "venv", next(built.glob("*.whl")))


@pytest.fixture(scope="session")
def editable(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """An environment with this checkout in editable form."""
    return Installed(tmp_path_factory.mktemp("editable") / "venv", ROOT)
