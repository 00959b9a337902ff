"""Files that a verb reads: `-` is stdin. Bounded, and tolerant of what is not UTF-8."""

from __future__ import annotations

import os

import click

from interlock.errors import StorageError
from interlock.surfaces.cli.text import read_stdin

FILE_BYTES = 4_194_304


class Source(click.ParamType):  # type: ignore[type-arg]
    """A file to read. Its value is (path, text); the path of stdin is `-`."""

    name = "file"

    def convert(
        self, value: str | tuple[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """See `click.ParamType.convert`.

        Raises:
            StorageError: it cannot be read, or is too large.
        """
        if isinstance(value, tuple):
            return value
        if value != "-":
            return value, read_file(value)
        if ctx is not None and ctx.meta.setdefault("interlock.stdin", param) is not param:
            raise click.BadParameter("only one argument can be read from stdin", ctx, param)
        return value, read_stdin()


class Folder(click.ParamType):  # type: ignore[type-arg]
    """A directory that is there."""

    name = "directory"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """See `click.ParamType.convert`.

        Raises:
            StorageError: it is not there or cannot be read.
        """
        if not os.path.isdir(value) or not os.access(value, os.R_OK | os.X_OK):
            raise StorageError(f"{value} is not a directory that can be read. Name one that is there.", path=value)
        return value


def read_file(path: str) -> str:
    """The text of a file.

    Raises:
        StorageError: it cannot be read, or is too large.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(FILE_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise StorageError(
            f"{path} cannot be read: {reason}. Name a file that is there, or `-` for stdin.", path=path
        ) from None
    if len(data) > FILE_BYTES:
        raise StorageError(f"{path} has more than {FILE_BYTES} bytes. Give the part that matters.", path=path)
    return data.decode("utf-8-sig", "replace")


SOURCE = Source()
FOLDER = Folder()
