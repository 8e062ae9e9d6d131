"""What the guides show, typed as it stands there."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from s2m._program import environment, program

ROOT = Path(__file__).parents[2]


def blocks(page):
    """The pieces of Python on a page."""
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.S)


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_the_first_lines_of_python_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = next(block for block in blocks(page) if "import s2m" in block)
    found = {}
    exec(compile(first, page, "exec"), found)
    assert len(found["draw"]) == 1000


def commands(page):
    """The commands on a page, as they are typed: lines that go on are one, remarks are left out."""
    text = re.sub(r"\\\n\s*", " ", page.read_text(encoding="utf-8"))
    typed = re.findall(r"^    (?:\$ )?(s2m [a-z].*)$", text, re.M)
    return [command.split("  #")[0].strip() for command in typed if "$((" not in command]


def embedded(command):
    """Whether all that it needs is inside the package."""
    return command[1] in ("sample", "mine", "classes", "explain", "adapt", "bank") and not any(
        word.endswith(".s2m") for word in command
    )


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.stem)
def test_commands_of_the_guides_run(page, tmp_path):
    """What needs data or networks of one's own is typed too, and must ask for those and not for other options."""
    for typed in commands(page):
        typed = typed.replace("MODEL", "gaussians-exact").replace("QUERY", '"A - B"')
        words = [name for word in shlex.split(typed) for name in expanded(word, tmp_path)]
        if words[1] in ("reproduce", "serve"):
            # These run for long; their names and options are asked for alone.
            words = ["s2m", *words[1:], "--help"]
        words = fresh(words, tmp_path)
        ran = subprocess.run([str(program()), *words[1:]], cwd=tmp_path, env=environment(), capture_output=True, text=True)
        said = f"{typed}\n{ran.stderr}"
        if embedded(words) or words[-1] == "--help":
            assert ran.returncode == 0, said
        else:
            assert ran.returncode == 2 and "Usage:" not in ran.stderr, said


def fresh(words, folder):
    """Another place, where an earlier command has written there already."""
    at = words.index("--out") + 1 if "--out" in words else None
    if at is not None and words[1] == "sample" and (folder / words[at]).exists():
        words = [*words[:at], words[at] + "-again", *words[at + 1 :]]
    return words


def expanded(word, folder):
    """A word as the shell would give it."""
    if "*" not in word:
        return [word]
    return sorted(os.path.relpath(path, folder) for path in folder.glob(word))
