"""Runs a command in a terminal of its own and draws what stood there as SVG: one moment of it, and its last lines.

usage: terminal_picture.py [--moment TEXT] [--tail LINES] PICTURE.svg COMMAND [ARGUMENT …]

--moment chooses the first screen that shows TEXT; what was drawn over later is not lost that way. Without it, the last
screen is drawn. Names that differ from run to run (temporary directories, where Python lies) are evened out, so the
picture of the same program looks the same wherever it is drawn. Nothing is loaded from elsewhere, neither now nor by
whoever looks at the picture.
"""

from __future__ import annotations

import argparse
import io
import os
import pty
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

COLUMNS, LINES = 108, 44

# A screen is about to be drawn over where the cursor is moved up.
REWIND = re.compile(r"\r?(?:\x1b\[2K|\x1b\[\d*A)*\x1b\[\d*A(?:\x1b\[2K)*")
OTHER_CONTROLS = re.compile(r"\x1b\[(?:\?25[lh]|\d*K|\?\d+[hl])")
STYLE = re.compile(r"\x1b\[([\d;]*)m")
EVENED = (
    (re.compile(r"\S*/interlock-demo-\w+"), "/tmp/interlock-demo"),
    (re.compile(r"\S*/(python[\d.]*)(?=\s|$)"), r"\1"),
)

CELL_WIDTH, LINE_HEIGHT, FONT_SIZE = 8.0, 19.0, 13.3
MARGIN, BAR = 20.0, 38.0
BACKGROUND, FRAME, TEXT, DIM, TITLE = "#10151c", "#2a323d", "#d5dce6", "#7d8896", "#9aa5b4"
COLOURS = {
    "31": "#ff7b72",
    "32": "#6fd08c",
    "33": "#e9b44c",
    "34": "#79b8ff",
    "35": "#cf9bff",
    "36": "#56c7d9",
}
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


@dataclass(frozen=True, slots=True)
class Look:
    """How a stretch of text looks."""

    colour: str | None = None
    bold: bool = False
    dim: bool = False
    reverse: bool = False

    def after(self, codes: str) -> Look:
        """This look with the codes of an escape sequence applied."""
        look = self
        for code in codes.split(";"):
            if code in ("", "0"):
                look = Look()
            elif code == "1":
                look = replace(look, bold=True)
            elif code == "2":
                look = replace(look, dim=True)
            elif code == "7":
                look = replace(look, reverse=True)
            elif code in COLOURS:
                look = replace(look, colour=COLOURS[code])
        return look


def record(command: list[str]) -> tuple[str, int]:
    """Everything that `command` printed to its terminal, and its exit code."""
    import fcntl
    import struct
    import termios

    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", COLUMNS=str(COLUMNS), LINES=str(LINES))
        os.environ.pop("NO_COLOR", None)
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


def screens(output: str) -> list[list[str]]:
    """What stood on the screen, each time before something was drawn over and at the end."""
    lines: list[str] = [""]
    found: list[list[str]] = []
    place = 0
    text = output.replace("\r\n", "\n")
    for rewind in REWIND.finditer(text):
        lines = _written(lines, text[place : rewind.start()])
        found.append(lines)
        up = sum(int(number or 1) for number in re.findall(r"\x1b\[(\d*)A", rewind[0]))
        lines = [*lines[: max(0, len(lines) - 1 - up)], ""]
        place = rewind.end()
    return [*found, _written(lines, text[place:])]


def _written(lines: list[str], text: str) -> list[str]:
    first, *rest = OTHER_CONTROLS.sub("", text).split("\n")
    return [*lines[:-1], lines[-1] + first, *rest]


def choose(output: str, moment: str | None, tail: int) -> list[str]:
    """The lines to draw: the first screen that shows `moment`, and the last `tail` lines below it.

    Raises:
        ValueError: nothing showed `moment`.
    """
    every = screens(output)
    last = _trimmed(every[-1])
    if moment is None:
        return last
    for screen in every:
        if any(moment in STYLE.sub("", line) for line in screen):
            return [*_trimmed(screen), "", "\x1b[2m ⋮\x1b[0m", "", *last[-tail:]] if tail else _trimmed(screen)
    raise ValueError(f"no screen showed {moment!r}")


def _trimmed(lines: list[str]) -> list[str]:
    kept = list(lines)
    while kept and not STYLE.sub("", kept[-1]).strip():
        kept.pop()
    return kept


def evened(line: str) -> str:
    """The line without what differs from run to run."""
    for pattern, text in EVENED:
        line = pattern.sub(text, line)
    return line


def stretches(line: str) -> Iterator[tuple[int, str, Look]]:
    """(column, text, look) of every stretch of a line that looks the same."""
    look, column, place = Look(), 0, 0
    for code in [*STYLE.finditer(line), None]:
        text = line[place : code.start() if code else len(line)]
        if text.strip() or look.reverse:
            yield column, text, look
        column += len(text)
        if code:
            look, place = look.after(code[1]), code.end()


def draw(lines: list[str], title: str) -> str:
    """The lines, with their colours, in a window with a title."""
    width = COLUMNS * CELL_WIDTH + 2 * MARGIN
    height = BAR + len(lines) * LINE_HEIGHT + 2 * MARGIN - 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" role="img" aria-label="{escape(title)}">',
        f"<style>text{{font:{FONT_SIZE}px {FONT};fill:{TEXT};white-space:pre}}.b{{font-weight:700}}"
        f".d{{fill:{DIM}}}.t{{fill:{TITLE}}}</style>",
        f'<rect x=".5" y=".5" width="{width - 1:g}" height="{height - 1:g}" rx="10" fill="{BACKGROUND}" '
        f'stroke="{FRAME}"/>',
        *(f'<circle cx="{24 + 20 * n}" cy="20" r="6" fill="{c}"/>'
          for n, c in enumerate(("#ff5f57", "#febc2e", "#28c840"))),
        f'<text class="t" x="{width / 2:g}" y="24" text-anchor="middle">{escape(title)}</text>',
    ]  # fmt: skip
    for row, line in enumerate(lines):
        baseline = BAR + MARGIN + row * LINE_HEIGHT
        parts += [_stretch(column, text, look, baseline) for column, text, look in stretches(evened(line))]
    return "\n".join([*parts, "</svg>", ""])


def _stretch(column: int, text: str, look: Look, baseline: float) -> str:
    shown = text if look.reverse else text.rstrip()
    lead = 0 if look.reverse else len(shown) - len(shown.lstrip())
    shown = shown[lead:]
    x, length = MARGIN + (column + lead) * CELL_WIDTH, len(shown) * CELL_WIDTH
    names = " ".join(name for name, wanted in (("b", look.bold), ("d", look.dim and not look.colour)) if wanted)
    attributes = f' class="{names}"' if names else ""
    fill = BACKGROUND if look.reverse else look.colour
    # As an attribute the style sheet would win over it.
    attributes += f' style="fill:{fill}"' if fill else ""
    attributes += ' opacity=".75"' if look.dim and look.colour else ""
    # The length holds the columns together whatever font whoever looks at it has.
    words = (
        f'<text{attributes} x="{x:g}" y="{baseline:g}" textLength="{length:g}" lengthAdjust="spacingAndGlyphs" '
        f'xml:space="preserve">{escape(shown, quote=False)}</text>'
    )
    if not look.reverse:
        return words
    top = baseline - LINE_HEIGHT + 5
    return (
        f'<rect x="{x:g}" y="{top:g}" width="{length:g}" height="{LINE_HEIGHT:g}" rx="3" '
        f'fill="{look.colour or TEXT}"/>{words}'
    )


def main(arguments: list[str]) -> int:
    """Record, choose, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", metavar="PICTURE.svg")
    parser.add_argument("--moment", metavar="TEXT")
    parser.add_argument("--tail", metavar="LINES", type=int, default=0)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    asked = parser.parse_args(arguments)
    if not asked.command:
        parser.error("say which command to run")
    output, code = record(asked.command)
    if code:
        print(f"{' '.join(asked.command)} ended with {code}:\n{output}", file=sys.stderr)
        return 1
    name = " ".join([Path(asked.command[0]).name, *asked.command[1:]])
    lines = [f"\x1b[32m$\x1b[0m \x1b[1m{name}\x1b[0m", *choose(output, asked.moment, asked.tail)]
    Path(asked.picture).parent.mkdir(parents=True, exist_ok=True)
    Path(asked.picture).write_text(draw(lines, name), encoding="utf-8")
    print(f"wrote {asked.picture}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
