"""Reading a package's files: bounded, tolerant of encodings, each at most once for one package."""

from __future__ import annotations

import csv
import io
import os
import tomllib
from collections.abc import Mapping
from typing import Any

from interlock.workflow.definition import frontmatter
from interlock.workflow.definition.frontmatter import Settings

LIMIT = 2_000_000  # bytes of one file; the largest real one has 90,000


class Files:
    """The files below one directory, kept once they were read. Paths are absolute or relative to it."""

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)
        self._texts: dict[str, str | None] = {}
        self._settings: dict[str, Settings] = {}

    def path(self, path: str) -> str:
        """The absolute path, without `..`."""
        return os.path.normpath(os.path.join(self.root, path))

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        return os.path.isfile(self.path(path))

    def text(self, path: str) -> str | None:
        """The text of a file; None where there is none, it cannot be read, or it is far too large."""
        whole = self.path(path)
        if whole not in self._texts:
            self._texts[whole] = _read(whole)
        return self._texts[whole]

    def settings(self, path: str) -> Settings:
        """The settings of a file; an absent one has none."""
        whole = self.path(path)
        if whole not in self._settings:
            self._settings[whole] = frontmatter.read(self.text(whole) or "", os.path.basename(whole))
        return self._settings[whole]

    def rows(self, path: str) -> list[dict[str, str]]:
        """The rows of a CSV file with a heading; rows that lack columns are left out."""
        text = self.text(path)
        if not text:
            return []
        try:
            return [
                {str(key): value for key, value in row.items() if isinstance(value, str)}
                for row in csv.DictReader(io.StringIO(text, newline=""))
                if None not in row.values()
            ]
        except csv.Error:
            return []

    def toml(self, path: str) -> Mapping[str, Any]:
        """The tables of a TOML file; an absent or broken one has none."""
        try:
            return tomllib.loads(self.text(path) or "")
        except tomllib.TOMLDecodeError:
            return {}


def _read(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            content = file.read(LIMIT + 1)
    except OSError:
        return None
    if len(content) > LIMIT:
        return None
    return content.decode("utf-8-sig", "replace")
