"""A study: what it computes, and the document that it leaves."""

from collections.abc import Mapping
from pathlib import Path

from curator_node.new_files import replace_text


def write_texts(out: Path, files: Mapping[str, str]) -> None:
    """Write files of a folder, by name, UTF-8 with newlines as they are."""
    for name, text in files.items():
        replace_text(out / name, text)
