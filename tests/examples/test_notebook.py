"""The notebook of the examples, executed as Jupyter executes it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.stand_ins.full import full

NOTEBOOK = Path(__file__).parents[2] / "examples" / "math-tools" / "compare.ipynb"


@full
@pytest.mark.filterwarnings("default")  # the kernel's own packages warn
def test_the_notebook_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    folder = tmp_path / "math-tools"
    shutil.copytree(NOTEBOOK.parent, folder)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    pages = [output.data["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    assert len([page for page in pages if page]) == 2, "the diff and the table display themselves as HTML"
    assert "rounding" in str(outputs)
    assert not [output for output in outputs if output.output_type == "error"]
