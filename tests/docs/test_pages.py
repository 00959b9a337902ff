"""What the documentation shows is what happens: every command is carried out, and its output held against the page."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import tests.postgres
from tests.docs.pages import Block, blocks, name_of, pages
from tests.docs.terminal import Terminal, evened, expected

INTERRUPT = "^C"

RUNNABLE = {"console", "setup"}


def shown(block: Block) -> Iterator[tuple[str, list[str]]]:
    """(command, lines of its output); no command where the block goes on with the output of an earlier one."""
    command, output = "", []
    for line in block.text.rstrip("\n").split("\n"):
        if line.startswith("$ "):
            if command or output:
                yield command, output
            command, output = line[2:], []
        elif line.startswith("> ") and command and not output:
            command += "\n" + line[2:]
        else:
            output.append(line)
    if command or output:
        yield command, output


def wanted_code(commands: list[tuple[str, list[str]]], place: int) -> int:
    """The exit code that the page shows, by an `echo $?` or by an error; else 0."""
    if place + 1 < len(commands) and commands[place + 1][0] == "echo $?":
        return int(commands[place + 1][1][0])
    return 1 if any(line.startswith("error: ") for line in commands[place][1]) else 0


class Reader:
    """Somebody who does everything that a page says, in order."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._terminals: dict[str, Terminal] = {}
        self._waiting: dict[str, str] = {}

    def follow(self, block: Block) -> None:
        """Do what one block says."""
        if "file" in block.notes:
            path = self.directory / block.notes["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
            if block.text.startswith("#!"):
                path.chmod(0o755)
        if block.kind == "setup":
            self._set_up(block)
        elif block.kind == "console" and "not run" not in block.notes:
            self._type(block)
        elif block.kind == "python" and "run" in block.notes:
            self._run_python(block)

    def close(self) -> None:
        """Shut all terminals."""
        for terminal in self._terminals.values():
            terminal.close()

    def _terminal(self, name: str) -> Terminal:
        if name not in self._terminals:
            self._terminals[name] = Terminal(self.directory)
        return self._terminals[name]

    def _set_up(self, block: Block) -> None:
        terminal = self._terminal("")
        if "$SERVER" in block.text:
            terminal.begin(tests.postgres.for_shells())
            terminal.finish("SERVER=")
        terminal.begin(f"({block.text}) 2>&1" if block.text.startswith("#") else block.text)
        output, code = terminal.finish(block.text)
        assert code == 0, f"{block.place}: the setup failed:\n{output}"

    def _run_python(self, block: Block) -> None:
        terminal = self._terminal("")
        (self.directory / ".page.py").write_text(block.text, encoding="utf-8")
        terminal.begin('python3 "$HOME/.page.py"')
        output, code = terminal.finish("python3")
        assert code == 0, f"{block.place}: it failed:\n{output}"

    def _type(self, block: Block) -> None:
        name, _, more = block.notes.get("terminal", "").partition(",")
        terminal = self._terminal(name)
        commands = list(shown(block))
        for place, (command, output) in enumerate(commands):
            if command:
                terminal.begin(command)
            else:
                command = self._waiting.pop(name)
            if more.strip() == "goes on" and place == len(commands) - 1:
                self._waiting[name] = command
                return
            if INTERRUPT in output:
                terminal.interrupt_after(expected(output[: output.index(INTERRUPT)], whole=False), command)
                output = [line for line in output if line != INTERRUPT]
            printed, code = terminal.finish(command)
            want = wanted_code(commands, place)
            assert code == want, f"{block.place}: {command!r} ended with {code}, not {want}:\n{printed}"
            got = evened(printed, self.directory.resolve())
            fits = not output or expected(output).match(got.rstrip("\n") + "\n")
            assert fits, f"{block.place}: {command!r} printed:\n{printed}\nand the page shows:\n" + "\n".join(output)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("page", [page for page in pages() if any(b.kind in RUNNABLE for b in blocks(page))],
                         ids=name_of)  # fmt: skip
def test_a_page_works_as_it_is_written(page: Path, tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    try:
        for block in blocks(page):
            reader.follow(block)
    finally:
        reader.close()


def of_kind(*kinds: str) -> list[Block]:
    return [block for page in pages() for block in blocks(page) if block.kind in kinds]


WHOLE = [block for block in of_kind("yaml") if "part" not in block.notes and "not run" not in block.notes]


@pytest.mark.parametrize("block", WHOLE, ids=lambda block: block.place)
def test_every_plan_shown_is_sound(block: Block, tmp_path: Path) -> None:
    from interlock.plan.reading import load

    plan = tmp_path / "plan.yaml"
    plan.write_text(block.text, encoding="utf-8")
    assert load(str(plan)).tasks


@pytest.mark.parametrize("block", of_kind("json", "toml"), ids=lambda block: block.place)
def test_every_configuration_shown_can_be_read(block: Block) -> None:
    read = json.loads if block.kind == "json" else tomllib.loads
    assert read(block.text)


@pytest.mark.parametrize("block", of_kind("python"), ids=lambda block: block.place)
def test_every_program_shown_compiles(block: Block) -> None:
    compile(block.text, block.place, "exec")


@pytest.mark.parametrize("block", of_kind("sh", "bash"), ids=lambda block: block.place)
def test_every_script_shown_is_shell(block: Block) -> None:
    checked = subprocess.run(["bash", "-n"], input=block.text, text=True, capture_output=True, check=False)
    assert checked.returncode == 0, f"{block.place}: {checked.stderr}"


def test_whatever_is_not_run_says_why() -> None:
    silent = [block.place for page in pages() for block in blocks(page) if block.notes.get("not run") == ""]
    assert not silent, silent


def test_the_python_that_runs_the_tests_is_one_that_the_documentation_names() -> None:
    text = (Path(__file__).resolve().parent.parent.parent / "README.md").read_text(encoding="utf-8")
    least = re.search(r"Python (\d)\.(\d+)", text)
    assert least is not None and sys.version_info >= (int(least[1]), int(least[2]))
