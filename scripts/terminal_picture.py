"""Runs a command in a terminal of its own and draws what stands there at the end as SVG.

usage: terminal_picture.py PICTURE.svg COMMAND [ARGUMENT …]
"""

from __future__ import annotations

import io
import os
import pty
import re
import sys
from pathlib import Path

COLUMNS, LINES = 100, 40

# What rewrites the screen rather than adding to it: moves up, erased lines, cursor switched off and on.
ERASE = re.compile(r"\x1b\[(?:\?25[lh]|\d*K|\?\d+[hl])")
UP = re.compile(r"\x1b\[(\d*)A")


def record(command: list[str]) -> tuple[str, int]:
    """Everything that `command` printed to its terminal, and its exit code."""
    import fcntl
    import struct
    import termios

    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", COLUMNS=str(COLUMNS), LINES=str(LINES))
        try:
            os.execvp(command[0], command)
        finally:
            os._exit(127)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    output = io.BytesIO()
    try:
        while block := os.read(terminal, 65536):
            output.write(block)
    except OSError:
        pass  # Linux ends a terminal's output so
    os.close(terminal)
    return output.getvalue().decode(errors="replace"), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def last_screen(output: str) -> str:
    """What stands there at the end: lines that were drawn over count once."""
    lines: list[str] = [""]
    row = 0
    for part in re.split(r"(\n|\r|\x1b\[\d*A)", ERASE.sub("", output)):
        if part == "\n":
            row += 1
            if row == len(lines):
                lines.append("")
        elif up := UP.fullmatch(part):
            row = max(0, row - int(up[1] or 1))
        elif part and part != "\r":
            lines[row] = part
    return "\n".join(lines).strip("\n")


def draw(text: str, title: str) -> str:
    """The text, with its colours, as SVG that loads nothing from elsewhere."""
    from rich._export_format import CONSOLE_SVG_FORMAT
    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(text))
    own_fonts = re.sub(r"@font-face \{\{.*?\}\}|<!--.*?-->", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(title=title, code_format=own_fonts)


def main(arguments: list[str]) -> int:
    """Record, draw, write."""
    if len(arguments) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    target, *command = arguments
    output, code = record(command)
    if code:
        print(f"{' '.join(command)} ended with {code}:\n{output}", file=sys.stderr)
        return 1
    picture = draw(last_screen(output), " ".join([Path(command[0]).name, *command[1:]]))
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    Path(target).write_text(picture, encoding="utf-8")
    print(f"wrote {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
