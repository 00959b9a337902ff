"""An agent that tries to be somebody else: `impostor.py DIRECTORY`. `tries.json` there says what, and how it disguises;
`tried.json` gets what came of each: exit code and error."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

NEEDED = ("HOME", "PATH", "INTERLOCK_HOME")
TEST = """
import os, subprocess, unittest
class Test(unittest.TestCase):
    def test(self):
        self.assertEqual(subprocess.run({words!r}, env={clean!r}).returncode, 0)
unittest.main()
"""


DEEP = """
import os, sys
for _ in range(100):
    if os.fork():
        os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
os.execvp(sys.argv[1], sys.argv[1:])
"""
HIDING = {
    "in a PID namespace": ["unshare", "-r", "-p", "-f", "--mount-proc"],
    "in a PID namespace with the old /proc": ["unshare", "-r", "-p", "-f"],
    "below an empty /proc": ["unshare", "-r", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"],
    "below a hundred others": [sys.executable, "-c", DEEP],
}


def clean() -> dict[str, str]:
    """Only what nobody can do without; our own command is on the PATH."""
    return {name: os.environ[name] for name in NEEDED}


def disguised(how: str, words: list[str], place: Path) -> None:
    """Run the words, and wait for their end."""
    if how.startswith("env -i"):
        words = ["env", "-i", *(f"{name}={value}" for name, value in clean().items()), *words]
    if how in HIDING:
        words = ["env", "-i", *(f"{name}={value}" for name, value in clean().items()), *HIDING[how], *words]
    if how == "from a test":
        file = place / "test_evil.py"
        file.write_text(TEST.format(words=words, clean=clean()))
        words = [sys.executable, str(file)]
    if how.endswith("as a daemon"):
        os.mkfifo(place / "done")
        words = [*words, "daemon"]
    subprocess.run(words, start_new_session=how.endswith("of its own"), check=False)
    if how.endswith("as a daemon"):
        with open(place / "done"):
            pass  # until it has ended


def on_the_command_line(words: list[str]) -> tuple[int, str]:
    """What `interlock` answers: its exit code, and what it says on stderr."""
    from interlock.surfaces.cli.entry import run

    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        code = run(["--json", *words])
    return code, said.getvalue()


def in_python(line: str) -> tuple[int, str]:
    """The same for a line of Python."""
    import interlock
    from interlock.errors import InterlockError

    home = interlock.connect()
    try:
        exec(line, {"home": home, "team": home.team("crew")})
    except InterlockError as error:
        return 1, json.dumps({"error": error.code})
    return 0, ""


def over_mcp(what: dict[str, str]) -> tuple[int, str]:
    """The same for a tool of an `interlock mcp` that was started as somebody; where it does not even begin, what it
    says."""
    words = ["-m", "interlock.surfaces.cli", "--json", "--team", what["team"], "mcp", "--as", what["as"]]
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    call = {"name": what["tool"], "arguments": what.get("arguments", {})}
    asked: list[dict[str, object]] = [
        {"id": 1, "method": "initialize", "params": client},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": call},
    ]
    server = subprocess.Popen(
        [sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert server.stdin is not None and server.stdout is not None and server.stderr is not None
    with contextlib.suppress(BrokenPipeError):
        server.stdin.write("".join(json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in asked))
        server.stdin.flush()
    for line in server.stdout:
        answer = json.loads(line)
        if answer.get("id") == 2:
            with contextlib.suppress(BrokenPipeError):
                server.stdin.close()
            server.wait()
            return int(answer["result"].get("isError", False)), str(answer["result"]["content"][0]["text"])
    return server.wait(), server.stderr.read()


def attempt(place: Path) -> None:
    """Try everything, as the program that was started for it."""
    found = {}
    for name, what in json.loads((place / "tries.json").read_text())["tries"].items():
        code, said = {str: in_python, list: on_the_command_line, dict: over_mcp}[type(what)](what)
        answer = json.loads(said.strip().splitlines()[-1]) if said else {}
        found[name] = [code, answer["error"] if code else answer.get("you")]
    (place / "tried.new").write_text(json.dumps(found))
    os.rename(place / "tried.new", place / "tried.json")


def main() -> None:
    place = Path(sys.argv[1])
    how = json.loads((place / "tries.json").read_text())["how"]
    if how == "wait":
        os.mkfifo("go")
        Path("waits").write_text("yes\n")
        Path("go").read_text()  # until somebody has written it, for who writes needs a reader to the end
    else:
        disguised(how, [sys.executable, __file__, str(place), "try"], place)


def alone() -> None:
    """Have a session of one's own, and no parent that was there before."""
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)


if sys.argv[2:] == ["try"]:
    attempt(Path(sys.argv[1]))
elif sys.argv[2:] == ["try", "daemon"]:
    alone()
    attempt(Path(sys.argv[1]))
    open(Path(sys.argv[1]) / "done", "w").close()
else:
    main()
