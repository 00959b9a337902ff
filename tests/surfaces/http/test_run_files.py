"""What runs printed and left, read from a machine that sees no file of the home."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import interlock
from interlock import errors
from interlock.app.home import Home
from interlock.app.team import Team
from interlock.core.unit_of_work import Principal
from interlock.model.names import SYSTEM
from interlock.model.run import Artifact
from interlock.model.worker import PIECE_BYTES
from tests.surfaces.http.harness import Server

APART = ("unshare", "--map-root-user", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"')
"""Runs a program before whose eyes a directory is empty."""
Cli = Callable[..., "subprocess.Popen[bytes]"]

pytestmark = pytest.mark.skipif(
    subprocess.run([*APART, "/mnt", "true"], capture_output=True).returncode != 0, reason="needs unshare"
)


@pytest.fixture
def local(server: Server) -> Iterator[Home]:
    with interlock.connect(str(server.home), environment={}) as home:
        yield home


@pytest.fixture
def there(server: Server, team: str) -> Iterator[Team]:
    with interlock.connect(server.url, server.tokens.admin(), environment={}) as home:
        yield home.team(team)


@pytest.fixture
def cli(server: Server, team: str, tmp_path: Path) -> Cli:
    """The command line on a machine where the home of the server is not."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    environment |= {"INTERLOCK_URL": server.url, "INTERLOCK_TOKEN": server.tokens.admin(), "INTERLOCK_TEAM": team}
    environment |= {"INTERLOCK_HOME": str(tmp_path / "none"), "PYTHONUNBUFFERED": "1"}

    def begin(*words: str, program: tuple[str, ...] = ("-m", "interlock.surfaces.cli")) -> subprocess.Popen[bytes]:
        command = [*APART, str(server.home), sys.executable, *program, *words]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=tmp_path)

    return begin


@pytest.fixture
def log(server: Server, local: Home, team: str) -> Path:
    """The log of the first run of a task that bob is at; its directory has the task's name."""
    task = local.team(team).create_task("noisy")
    local.team(team).claim(task.id, by="bob")
    path = server.home / "teams" / team / "runs" / task.id / "output.1.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def refused(command: subprocess.Popen[bytes]) -> str:
    said = command.communicate(timeout=100)[1]
    assert command.returncode == 1, said
    return str(json.loads(said)["error"])


def test_output_arrives_whole_in_parts_that_cut_characters(cli: Cli, log: Path, there: Team, local: Home) -> None:
    sign = "€".encode()
    text = "x" * (PIECE_BYTES % len(sign) + 1) + "€" * PIECE_BYTES + "\nthe end, without a break"
    data = text.encode()
    assert data[PIECE_BYTES - 2 : PIECE_BYTES] == sign[:2]
    log.write_bytes(data)
    task = log.parent.name
    first = there.output_part(task, most=10 * PIECE_BYTES)
    assert (first.run, first.start, first.size, first.ended) == (1, 0, len(data), False)
    assert first.data == data[:PIECE_BYTES] and there.output_part(task, start=len(data) + 9).data == b""
    with pytest.raises(errors.InvalidRequest, match="start must be a whole number"):
        there.output_part(task, start=-1)
    for start, most in ((0, 3), (len(data) - 2, 3), (7, 0)):
        assert there.output_part(task, 1, start=start, most=most) == local.team(there.name).output_part(
            task, 1, start=start, most=most
        )
    assert cli("logs", task).communicate(timeout=100) == (data, b"")
    assert json.loads(cli("--json", "logs", "bob").communicate(timeout=100)[0]) == {
        "task_id": task, "run": 1, "path": None, "text": text
    }  # fmt: skip
    log.write_bytes(b"\xff\xfe no text \xe2\x82")
    assert cli("logs", task).communicate(timeout=100)[0] == log.read_bytes()
    told = json.loads(cli("--json", "logs", task).communicate(timeout=100)[0])
    assert told["text"] == "\ufffd\ufffd no text \ufffd"


def test_a_log_is_followed_as_it_grows_until_its_run_ends(cli: Cli, log: Path, local: Home, team: str) -> None:
    log.write_text("begun\n")
    following = cli("--json", "logs", log.parent.name, "--follow")
    assert following.stdout is not None
    assert json.loads(following.stdout.readline())["text"] == "begun\n"
    sign = "€\n".encode()
    with log.open("ab", buffering=0) as file:
        file.write("Größe\n5 ".encode() + sign[:1])
        assert json.loads(following.stdout.readline())["text"] == "Größe\n"
        file.write(sign[1:] + b"and ended")
    local.team(team).complete(log.parent.name, by="bob")
    rest, said = following.communicate(timeout=100)
    assert [json.loads(line)["text"] for line in rest.splitlines()] == ["5 €\n", "and ended"]
    assert (following.returncode, said) == (0, b"")


def test_output_that_is_not_there_or_disappears_is_an_error_with_its_code(
    cli: Cli, log: Path, there: Team, local: Home
) -> None:
    task = log.parent.name
    assert refused(cli("--json", "logs", task)) == "run_not_found"
    log.write_text("begun\n")
    following = cli("--json", "logs", task, "--follow")
    assert following.stdout is not None and following.stdout.readline()
    log.unlink()
    assert refused(following) == "run_not_found"
    for verb in (there.output_part, local.team(there.name).output_part):
        with pytest.raises(errors.RunNotFound, match="printed nothing, or its log was pruned, or is on another"):
            verb(task, 1)
        with pytest.raises(errors.RunNotFound, match=r"has no run 7\."):
            verb(task, 7)
    with pytest.raises(errors.LocalOnly, match="output_part"):
        there.output(task)


MEASURED = """
import resource, sys
from interlock.surfaces.cli.entry import run
run(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""


@pytest.mark.long
def test_a_huge_log_takes_little_memory_on_both_machines(cli: Cli, log: Path, server: Server, there: Team) -> None:
    def peak() -> int:
        status = Path(f"/proc/{server.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0])

    def measured() -> tuple[int, int]:
        out, said = cli("logs", log.parent.name, program=("-c", MEASURED)).communicate(timeout=300)
        return len(out), int(said.split()[-1])

    log.write_bytes(b"x" * PIECE_BYTES)
    size, least = measured()
    assert size == PIECE_BYTES
    before = peak()
    with log.open("wb") as file:
        file.truncate(100_000_000)  # one line
    size, most = measured()
    assert size == 100_000_000
    assert most - least < 20_000 and peak() - before < 40_000, (least, most, before, peak())


def test_files_that_a_run_left_are_read_by_who_sees_no_file_of_the_home(
    cli: Cli, log: Path, server: Server, there: Team, local: Home
) -> None:
    task, here = log.parent.name, local.team(there.name)
    place = log.parent / "artifacts" / "1"
    (place / "build").mkdir(parents=True)
    data = os.urandom(PIECE_BYTES + 1)
    (place / "build" / "all").write_bytes(data)
    (place / "out").symlink_to("/etc/passwd")
    (place / "secret").write_text("not listed")
    made = [
        Artifact(task, 1, "build/all", "file", len(data), "0" * 64), Artifact(task, 1, "out", "link", 11, "0" * 64),
        Artifact(task, 1, "node_modules", "cache"), Artifact(task, 1, "gone", "file", 1, "0" * 64),
    ]  # fmt: skip
    with local.workspace(there.name).act(Principal(SYSTEM)) as act:
        act.rows.runs.keep(task, 1, made)
    assert {one.path: one.file for one in there.artifacts(task)} == dict.fromkeys(one.path for one in made)
    assert {one.file for one in here.artifacts(task)} == {None, *(str(place / one.path) for one in made if one.size)}
    assert cli("task", "file", task, "build/all").communicate(timeout=100) == (data, b"")
    told = json.loads(cli("--json", "task", "file", task, "build/all", "--run", "1").communicate(timeout=100)[0])
    assert (told["run"], base64.b64decode(told["content"])) == (1, data)
    for team in (there, here):
        assert team.artifact_part(task, "out").data == b"/etc/passwd", "a link is not followed"
        for path, run in (("secret", None), ("../../../token", None), ("node_modules", 1), ("out", 2), ("gone", 1)):
            with pytest.raises(errors.ArtifactNotFound):
                team.artifact_part(task, path, run)
    assert refused(cli("--json", "task", "file", task, "secret")) == "artifact_not_found"
    shown = cli("task", "show", task).communicate(timeout=100)[0].decode()
    assert f"interlock task file {task} build/all" in shown and "cache, not kept" in shown
    assert str(server.home) not in shown


def test_where_a_worktree_lies_on_the_other_machine_is_said_so(
    cli: Cli, log: Path, server: Server, local: Home, team: str
) -> None:
    task = log.parent.name
    with local.workspace(team).act(Principal(SYSTEM)) as act:
        found = act.rows.tasks.get(task)
        assert found is not None
        act.rows.tasks.update(found, worktree={"path": "/srv/trees/one", "branch": "interlock/one", "base": "0" * 40})
    shown = cli("task", "show", task).communicate(timeout=100)[0].decode()
    assert f"/srv/trees/one on interlock/one, on the machine of {server.url}" in shown


def test_a_ledger_is_copied_to_no_path_of_the_other_machine(cli: Cli, server: Server, tmp_path: Path) -> None:
    assert refused(cli("--json", "ledger", "backup", str(tmp_path / "copy.gz"))) == "local_only"
    assert not list(tmp_path.iterdir())
    out, said = cli("--json", "ledger", "backup").communicate(timeout=100)
    assert Path(json.loads(out)["path"]).is_relative_to(server.home), said
