"""Runs a command in a terminal of its own and draws what stood there as SVG: as it moved, or one moment of it.

usage: terminal_picture.py [--moment TEXT] [--tail LINES] [--moving] PICTURE.svg COMMAND [ARGUMENT …]

--moment chooses the first screen that shows TEXT; what was drawn over later is not lost that way. Without it, the last
screen is drawn. --moving draws every screen, each as long as it stood there, over and over; whoever wants no movement
sees the moment. Names that differ from run to run (temporary directories, where Python lies) are evened out, so the
picture of the same program looks the same wherever it is drawn. Nothing is loaded from elsewhere, neither now nor by
whoever looks at the picture.
"""

from __future__ import annotations

import argparse
import codecs
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

COLUMNS, LINES = 108, 44
HOLD, LONGEST = 5.0, 1.5
"""Seconds for which the last screen of a moving picture stands, and for which any other one does at most."""

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


@dataclass(frozen=True, slots=True)
class Recording:
    """What a command printed, its exit code, and after how many seconds so many characters were there."""

    output: str
    code: int
    arrivals: tuple[tuple[int, float], ...]

    def reached(self, place: int) -> float:
        """When that character was there."""
        return next((seconds for length, seconds in self.arrivals if length >= place), self.arrivals[-1][1])


def record(command: list[str]) -> Recording:
    """Everything that `command` printed to its terminal."""
    terminal, end = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    environment |= {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(LINES)}
    program = subprocess.Popen(command, stdin=end, stdout=end, stderr=end, env=environment, start_new_session=True)
    os.close(end)
    reading, output, arrivals = codecs.getincrementaldecoder("utf-8")("replace"), "", [(0, 0.0)]
    began = time.monotonic()
    try:
        while block := os.read(terminal, 65536):
            output += reading.decode(block).replace("\r\n", "\n")
            arrivals.append((len(output), time.monotonic() - began))
    except OSError:
        pass  # Linux ends a terminal's output so
    os.close(terminal)
    return Recording(output, program.wait(), tuple(arrivals))


def screens(output: str) -> list[tuple[int, list[str]]]:
    """What stood on the screen, each time before something was drawn over and at the end, with the number of characters
    that were there by then."""
    lines: list[str] = [""]
    found: list[tuple[int, list[str]]] = []
    place = 0
    for rewind in REWIND.finditer(output):
        lines = _written(lines, output[place : rewind.start()])
        found.append((rewind.start(), lines))
        up = sum(int(number or 1) for number in re.findall(r"\x1b\[(\d*)A", rewind[0]))
        lines = [*lines[: max(0, len(lines) - 1 - up)], ""]
        place = rewind.end()
    return [*found, (len(output), _written(lines, output[place:]))]


def frames(recording: Recording, head: list[str]) -> list[tuple[float, list[str]]]:
    """(seconds, lines below `head`) of what is to be seen; what differs by a clock alone is the same."""
    found: list[tuple[float, list[str]]] = []
    known: list[str] = []
    before = 0.0
    for place, lines in screens(recording.output):
        said, now = [worded(line) for line in lines], recording.reached(place)
        if found:
            # A screen stands until the next one is drawn.
            found[-1] = (found[-1][0] + now - before, found[-1][1])
        if said != known:
            found.append((0.0, [*head, *_trimmed(lines)]))
        known, before = said, now
    return [*((min(seconds, LONGEST), lines) for seconds, lines in found[:-1]), (HOLD, found[-1][1])]


def worded(line: str) -> str:
    """The words of a line: no colours, no numbers, no room."""
    return " ".join(re.sub(r"\d+", "#", STYLE.sub("", evened(line))).split())


def _written(lines: list[str], text: str) -> list[str]:
    first, *rest = OTHER_CONTROLS.sub("", text).split("\n")
    return [*lines[:-1], lines[-1] + first, *rest]


def choose(output: str, moment: str | None, tail: int) -> list[str]:
    """The lines to draw: the first screen that shows `moment`, and the last `tail` lines below it.

    Raises:
        ValueError: nothing showed `moment`.
    """
    every = [lines for _, lines in screens(output)]
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
    return _window([_row(row, line) for row, line in enumerate(lines)], len(lines), title)


def draw_moving(shown: list[tuple[float, list[str]]], still: list[str], title: str) -> str:
    """The screens one after the other, over and over; `still` is what stands where nothing moves."""
    whole, height = sum(seconds for seconds, _ in shown), max(len(still), *(len(lines) for _, lines in shown))
    parts: list[str] = []
    style: list[str] = []
    for row in range(height):
        standing = still[row] if row < len(still) else ""
        stretch: list[tuple[float, float, str]] = []
        at = 0.0
        for seconds, lines in shown:
            line, end = lines[row] if row < len(lines) else "", at + seconds
            if stretch and stretch[-1][2] == line:
                stretch[-1] = (stretch[-1][0], end, line)
            else:
                stretch.append((at, end, line))
            at = end
        seen = {line for _, _, line in stretch}
        for begin, end, line in [*stretch, *([(0.0, 0.0, standing)] if standing not in seen else [])]:
            drawn = _row(row, line)
            if drawn and (begin, end) != (0.0, whole):
                name = f"r{len(style)}"
                style.append(_times(name, 100 * begin / whole, 100 * end / whole))
                # Which of several alike stands does not matter, so all of them do.
                hidden = "" if line == standing else ' visibility="hidden"'
                drawn = f'<g style="animation-name:{name}"{hidden}>{drawn}</g>'
            parts.append(drawn)
    style.append(f"g{{animation:{whole:.1f}s step-end infinite}}@media(prefers-reduced-motion){{g{{animation:none}}}}")
    return _window(parts, height, title, "".join(style))


def _times(name: str, begin: float, end: float) -> str:
    """Key frames that show something between two percentages."""
    before = "" if begin <= 0 else "0%{visibility:hidden}"
    after = "" if end >= 100 else f"{end:.2f}%{{visibility:hidden}}"
    return f"@keyframes {name}{{{before}{begin:.2f}%{{visibility:visible}}{after}}}"


def _row(row: int, line: str) -> str:
    baseline = BAR + MARGIN + row * LINE_HEIGHT
    return "\n".join(_stretch(column, text, look, baseline) for column, text, look in stretches(evened(line)))


def _window(parts: list[str], rows: int, title: str, style: str = "") -> str:
    width = COLUMNS * CELL_WIDTH + 2 * MARGIN
    height = BAR + rows * LINE_HEIGHT + 2 * MARGIN - 8
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" role="img" aria-label="{escape(title)}">',
        f"<style>text{{font:{FONT_SIZE}px {FONT};fill:{TEXT};white-space:pre}}.b{{font-weight:700}}"
        f".d{{fill:{DIM}}}.t{{fill:{TITLE}}}{style}</style>",
        f'<rect x=".5" y=".5" width="{width - 1:g}" height="{height - 1:g}" rx="10" fill="{BACKGROUND}" '
        f'stroke="{FRAME}"/>',
        *(f'<circle cx="{24 + 20 * n}" cy="20" r="6" fill="{c}"/>'
          for n, c in enumerate(("#ff5f57", "#febc2e", "#28c840"))),
        f'<text class="t" x="{width / 2:g}" y="24" text-anchor="middle">{escape(title)}</text>',
    ]  # fmt: skip
    return "\n".join([*head, *filter(None, parts), "</svg>", ""])


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
    parser.add_argument("--moving", action="store_true")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    asked = parser.parse_args(arguments)
    if not asked.command:
        parser.error("say which command to run")
    found = record(asked.command)
    if found.code:
        print(f"{' '.join(asked.command)} ended with {found.code}:\n{found.output}", file=sys.stderr)
        return 1
    name = " ".join([Path(asked.command[0]).name, *asked.command[1:]])
    head = [f"\x1b[32m$\x1b[0m \x1b[1m{name}\x1b[0m"]
    still = [*head, *choose(found.output, asked.moment, asked.tail)]
    drawn = draw_moving(frames(found, head), still, name) if asked.moving else draw(still, name)
    Path(asked.picture).parent.mkdir(parents=True, exist_ok=True)
    Path(asked.picture).write_text(drawn, encoding="utf-8")
    print(f"wrote {asked.picture}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
