#!/usr/bin/env python3
"""Gathers the pages of the site: guides, experiments, and references made from the code.

    tools/site.py PROGRAM OUT

PROGRAM is the built `s2m`; the Python package must be installed in the environment that runs this. `make docs` calls it
and lets mkdocs make the site of OUT.
"""

import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)]*)?\))")
#: Experiments whose run files are those of another one: its results name them without a folder.
SHARED = {"calibration": "table1"}


def rewritten(text: str, move) -> str:
    """Links of a page, each moved; those to other places stay."""

    def one(match: re.Match) -> str:
        target = match[2]
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        return match[1] + move(target) + match[3]

    return LINK.sub(one, text)


class Site:
    def __init__(self, out: Path) -> None:
        self.out = out
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)

    def page(self, source: Path, name: str) -> None:
        """A page of the repository under another name, with all that it links to beside it."""
        folder = Path(name).parent

        def move(target: str) -> str:
            path = (source.parent / target).resolve()
            if not path.exists() and source.parent.name in SHARED:
                path = ROOT / "experiments" / SHARED[source.parent.name] / target
            if not path.is_relative_to(ROOT) or not path.exists():
                sys.exit(f"{source.relative_to(ROOT)}: there is no `{target}`")
            return os.path.relpath(self.place(path), folder)

        text = rewritten(source.read_text(encoding="utf-8"), move)
        self.write(name, text)

    def place(self, path: Path) -> str:
        """Where a file of the repository lies on the site; copied there if it is no page."""
        name = path.relative_to(ROOT)
        if path == ROOT / "README.md":
            return "index.md"
        if path == ROOT / "docs" / "README.md":
            return "documents.md"
        if name.parts[0] == "docs":
            name = Path(*name.parts[1:])
        elif name.parts[0] != "experiments":
            name = Path("source") / name
        if path.is_dir():
            return str(name)
        if path.suffix == ".ipynb":
            self.write(str(name.with_suffix(".md")), notebook(path))
            (self.out / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, self.out / name)
            return str(name.with_suffix(".md"))
        if path.suffix != ".md" or name.parts[0] == "source":
            if path.suffix == ".md":
                name = name.with_suffix(".txt")
            (self.out / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, self.out / name)
        return str(name)

    def write(self, name: str, text: str) -> None:
        path = self.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def notebook(path: Path) -> str:
    """Cells of a notebook as a page. Their outputs are not kept in the repository, so there are none here."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    text = ["".join(cell["source"]) for cell in cells]
    shown = [
        one if cell["cell_type"] == "markdown" else f"```python\n{one}\n```" for cell, one in zip(cells, text, strict=True)
    ]
    note = f"*This is the notebook [{path.name}]({path.name}) without its outputs; `make test` runs it from first to last cell.*"
    return "\n\n".join([shown[0], note, *shown[1:]]) + "\n"


def program_reference(program: str) -> str:
    """Help of all commands, and of the commands inside these."""

    def help_of(*command: str) -> str:
        ran = subprocess.run([program, *command, "--help"], capture_output=True, text=True, check=True)
        return ran.stdout.rstrip()

    def pages_of(*command: str) -> list[str]:
        said = help_of(*command)
        pages = [f"{'#' * min(4, 2 + max(0, len(command) - 1))} {' '.join(['s2m', *command])}", f"```text\n{said}\n```"]
        listed = re.search(r"^Commands:\n(.*?)^\S", said, re.M | re.S)
        for inner in re.findall(r"^  ([a-z-]+)  ", listed[1], re.M) if listed else []:
            if inner != "help":
                pages += pages_of(*command, inner)
        return pages

    return "\n\n".join(["# The program", "What `--help` prints.", *pages_of()]) + "\n"


def python_reference() -> str:
    """Signatures and docstrings of the Python package."""
    import s2m

    pages = ["# Python", "Made from the docstrings of the package; [the guide](../python.md) comes first."]
    for name in s2m.__all__:
        thing = getattr(s2m, name)
        if inspect.isclass(thing):
            constructed = not issubclass(thing, Exception) and name in ("Model", "Bank")
            title = f"s2m.{name}{signature(thing) if constructed else ''}"
            pages += [f"## {name}", f"```python\n{title}\n```", documented(thing)]
            for member, value in inspect.getmembers(thing):
                if member.startswith("_") or issubclass(thing, Exception):
                    continue
                is_property = isinstance(value, property)
                if is_property or inspect.isfunction(value):
                    shown = "" if is_property else signature(value)
                    pages += [f"### {name}.{member}", f"```python\n{member}{shown}\n```", documented(value)]
        elif callable(thing):
            pages += [f"## {name}", f"```python\ns2m.{name}{signature(thing)}\n```", documented(thing)]
    try:
        import s2m.ray as cluster
    except ImportError:
        return "\n\n".join(pages) + "\n"
    pages += ["## s2m.ray", documented(cluster)]
    for function in (cluster.mine, cluster.sample):
        shown = f"s2m.ray.{function.__name__}{signature(function)}"
        pages += [f"### s2m.ray.{function.__name__}", f"```python\n{shown}\n```", documented(function)]
    return "\n\n".join(pages) + "\n"


def signature(thing) -> str:
    text = str(inspect.signature(thing)).replace("'", "")
    return text if len(text) < 100 else text.replace(", ", ",\n    ").replace("(", "(\n    ", 1)


def documented(thing) -> str:
    text = inspect.getdoc(thing) or ""
    text = re.sub(r":(?:class|func|meth|mod):`~?([^`]+)`", r"`\1`", text)
    # Examples become blocks of code.
    return re.sub(r"((?:^>>> .*\n?(?:^(?!\s*$).*\n?)*)+)", r"```pycon\n\1\n```\n", text, flags=re.M)


def gallery(site: Site) -> str:
    """All pictures of the experiments."""
    pages = ["# Gallery", "Every picture is made by `s2m reproduce`; its experiment says how."]
    for picture in sorted((ROOT / "experiments").glob("*/*.png")):
        name = picture.parent.name
        place = site.place(picture)
        pages.append(f"### [{name}](experiments/{name}/RESULTS.md): {picture.stem}\n\n![{name}, {picture.stem}]({place})")
    return "\n\n".join(pages) + "\n"


def main() -> None:
    program, out = sys.argv[1], Path(sys.argv[2])
    site = Site(out)
    site.page(ROOT / "README.md", "index.md")
    for guide in sorted((ROOT / "docs").glob("*.md")):
        site.page(guide, "documents.md" if guide.name == "README.md" else guide.name)
    for results in sorted((ROOT / "experiments").glob("*/RESULTS.md")):
        site.page(results, f"experiments/{results.parent.name}/RESULTS.md")
    for notebook in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        site.place(notebook)
    site.write("reference/program.md", program_reference(program))
    site.write("reference/python.md", python_reference())
    site.write("gallery.md", gallery(site))


main()
