"""The notebooks of the guide, run from their first cell to their last."""

from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).parents[2] / "docs" / "notebooks"


def run(name, folder):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    nbclient.NotebookClient(notebook, timeout=900, resources={"metadata": {"path": str(folder)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return "".join(output.get("text", "") for output in outputs)


def test_digits_in_five_minutes(tmp_path):
    said = run("digits.ipynb", tmp_path)
    assert "(64, 28, 28, 1)" in said


def test_your_own_gan(tmp_path):
    pytest.importorskip("torch", reason="PyTorch is not installed: `pip install torch==2.11.0 onnx` runs this notebook")
    said = run("own-gan.ipynb", tmp_path)
    right, before = (float(part.split("right: ")[-1].split("%")[0]) for part in (said, said.split("samples, ")[1]))
    assert right > 70 > 30 > before
