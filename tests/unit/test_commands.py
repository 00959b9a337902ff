"""How a written command becomes arguments."""

from __future__ import annotations

import subprocess

import pytest

from interlock.errors import InvalidRequest
from interlock.processes.commands import argv


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("ruff check src", ["ruff", "check", "src"]),
        ("  pytest -q\ttests ", ["pytest", "-q", "tests"]),
        ("echo 'a && b' \"c | d\"", ["echo", "a && b", "c | d"]),
        (r"echo a\;b \$HOME '$HOME'", ["echo", "a;b", "$HOME", "$HOME"]),
        ("git diff HEAD~1", ["git", "diff", "HEAD~1"]),
        ("echo a#b --x=1", ["echo", "a#b", "--x=1"]),
        ("grep -c '*' \"?\"", ["grep", "-c", "*", "?"]),
        ("make CC=clang", ["make", "CC=clang"]),
        ("export-docs --all", ["export-docs", "--all"]),
        ("./if.sh", ["./if.sh"]),
    ],
)
def test_a_plain_command_needs_no_shell(command: str, words: list[str]) -> None:
    assert argv(command) == words


@pytest.mark.parametrize(
    "command",
    [
        "a && b",
        "a | b",
        "a; b",
        "a > out",
        "cat < in",
        "(a)",
        "echo $HOME",
        'echo "$HOME"',
        "echo `date`",
        'echo "`date`"',
        "ls *.py",
        "ls a?",
        "ls [ab]",
        "ls ~/x",
        "a\nb",
        "CI=1 pytest",
        "! grep -q TODO src",
        "exit 3",
        "if true\nthen echo yes\nfi",
        "a # why",
        "a &",
        "cat <<'EOF'\ndon't\nEOF",
    ],
)
def test_shell_language_goes_to_a_shell_as_it_is_written(command: str) -> None:
    assert argv(command) == ["/bin/sh", "-c", command]


def test_a_here_document_with_an_apostrophe_works_in_the_shell_it_goes_to() -> None:
    done = subprocess.run(argv("cat <<'EOF'\ndon't\nEOF"), capture_output=True, text=True, check=True)
    assert done.stdout == "don't\n"


@pytest.mark.parametrize("command", ["", "  \n", "echo 'a", 'a && echo "b', "echo a\\", "a\0b", "'' x"])
def test_what_cannot_be_a_command_is_refused_with_a_way_out(command: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        argv(command)
    assert refusal.value.message.startswith("The command")
