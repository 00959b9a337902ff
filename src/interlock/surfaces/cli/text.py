"""Arguments that hold text: `-` reads it from stdin, within bounds."""

from __future__ import annotations

import sys

import click

from interlock.errors import InvalidRequest

STDIN_BYTES = 4_194_304


class Text(click.ParamType):  # type: ignore[type-arg]
    """A text; `-` stands for what comes on stdin, up to 4 MiB of UTF-8, without its last line break."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """See `click.ParamType.convert`.

        Raises:
            InvalidRequest: see `read_stdin`.
        """
        if value != "-":
            return value
        if ctx is not None and ctx.meta.setdefault("interlock.stdin", param) is not param:
            raise click.BadParameter("only one argument can be read from stdin", ctx, param)
        return read_stdin()


def read_stdin() -> str:
    """What comes on stdin.

    Raises:
        InvalidRequest: it is too long or not UTF-8.
    """
    data = sys.stdin.buffer.read(STDIN_BYTES + 1)
    if len(data) > STDIN_BYTES:
        raise InvalidRequest(
            f"More than {STDIN_BYTES} bytes came on stdin, over the size limit. Put the text into a file and give its "
            "path.",
            limit=STDIN_BYTES,
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"What came on stdin is not UTF-8: {error.reason} at byte {error.start}.") from None
    return text.removesuffix("\n")


TEXT = Text()
