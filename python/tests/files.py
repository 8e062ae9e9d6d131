"""Folders compared byte by byte."""

from pathlib import Path

#: What differs from run to run: seconds in a report, who held a lock.
DIFFER = {"report.json", "mine.lock"}


def files(folder: Path) -> dict[str, bytes]:
    """All files of a folder by name, but for those that differ from run to run."""
    found = (path for path in sorted(Path(folder).rglob("*")) if path.is_file() and path.name not in DIFFER)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}
