"""`interlock join` and `interlock leave` on the settings of a project."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.app.team import Team

Run = Callable[..., subprocess.CompletedProcess[str]]

THEIRS = {
    ".claude/settings.local.json": '{\n\t"permissions": {"allow": ["Bash(ls:*)"] },\n\t"hooks": {"Stop": [\n\t\t'
    '{"hooks": [{"type": "command", "command": "say done"}]}\n\t]},\n\t"enabledMcpjsonServers": ["docs"]\n}',
    ".mcp.json": '{"mcpServers":{"docs":{"command":"docs-server"}}}\n',
    ".codex/hooks.json": '{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"say done"}]}]}}',
    ".codex/config.toml": 'model = "x"   # mine\r\n[mcp_servers.docs]\r\ncommand = "docs-server"',
    ".gemini/settings.json": '{\n    // mine\n    "mcpServers": { "docs": { "command": "docs-server" } },\n}\n',
    "opencode.json": '{"$schema": "https://opencode.ai/config.json", "mcp": {}}\n',
}
OF = {
    "claude": [".claude/settings.local.json", ".mcp.json"],
    "codex": [".codex/hooks.json", ".codex/config.toml"],
    "gemini": [".gemini/settings.json"],
    "opencode": ["opencode.json"],
}


@pytest.fixture
def run(project: Path, team: Team) -> Run:
    def call(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(["interlock", *words], capture_output=True, text=True)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return call


@pytest.fixture
def theirs(project: Path) -> dict[str, bytes]:
    """Settings that somebody has already."""
    for path, text in THEIRS.items():
        (project / path).parent.mkdir(exist_ok=True)
        (project / path).write_bytes(text.encode())
    return snapshot(project)


def snapshot(project: Path) -> dict[str, bytes]:
    """Every file with its content."""
    return {
        path.relative_to(project).as_posix(): path.read_bytes()
        for path in sorted(project.rglob("*"))
        if path.is_file() and ".git/" not in path.as_posix().replace(".git/info", "")
    }


def joined(program: str) -> list[str]:
    return ["join", "--team", "alpha", "--name", "ada", "--agent", program]


@pytest.mark.parametrize("program", list(OF))
def test_joining_adds_to_what_others_put_there_and_leaving_gives_every_byte_back(
    run: Run, project: Path, theirs: dict[str, bytes], program: str
) -> None:
    run(*joined(program))
    changed = {path for path, data in theirs.items() if (project / path).read_bytes() != data}
    assert changed == set(OF[program])
    for path in OF[program]:
        text = (project / path).read_text()
        assert "interlock" in text
        for word in ("say done", "docs-server", "Bash(ls:*)"):
            assert (word in text) == (word in THEIRS[path])
    assert "returned to the queue" not in run("leave").stdout
    assert snapshot(project) == theirs


@pytest.mark.parametrize("program", list(OF))
def test_joining_where_nothing_was_leaves_nothing_behind(run: Run, project: Path, program: str) -> None:
    run(*joined(program))
    assert set(OF[program]) <= set(snapshot(project))
    run("leave")
    assert list(project.iterdir()) == []


@pytest.mark.parametrize("program", list(OF))
def test_joining_twice_changes_nothing(run: Run, project: Path, theirs: dict[str, bytes], program: str) -> None:
    run(*joined(program))
    once = snapshot(project)
    assert "unchanged" in run(*joined(program)).stdout
    assert snapshot(project) == once
    run("join", "--team", "alpha", "--name", "bea", "--agent", program)
    again = (project / OF[program][0]).read_text()
    assert "--name bea" in again.replace('", "', " ").replace('",\n', " ") or '"bea"' in again
    assert "--name ada" not in again
    run("leave")
    assert snapshot(project) == theirs


def test_what_is_written_is_what_the_programs_read(run: Run, project: Path, theirs: dict[str, bytes]) -> None:
    for program in OF:
        run(*joined(program))
    claude = json.loads((project / ".claude/settings.local.json").read_text())
    assert set(claude["hooks"]) == {"SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd"}
    assert claude["enabledMcpjsonServers"] == ["interlock", "docs"]
    server = json.loads((project / ".mcp.json").read_text())["mcpServers"]["interlock"]
    assert server["command"] == "interlock" and server["args"][-4:] == ["--joined", "claude", "--name", "ada"]
    codex = tomllib.loads((project / ".codex/config.toml").read_bytes().decode())["mcp_servers"]
    assert codex["interlock"]["args"][-4:] == ["--joined", "codex", "--name", "ada"]
    assert set(json.loads((project / ".codex/hooks.json").read_text())["hooks"]) == {
        "SessionStart", "UserPromptSubmit", "PostToolUse", "Stop",
    }  # fmt: skip
    assert json.loads((project / "opencode.json").read_text())["mcp"]["interlock"]["type"] == "local"


def test_comments_are_not_lost_where_our_entries_were_edited(run: Run, project: Path, theirs: dict[str, bytes]) -> None:
    run(*joined("gemini"))
    path = project / ".gemini/settings.json"
    written = path.read_text()
    edited = written.replace('"interlock": {', '"interlock": { /* ours */', 1)
    assert edited != written
    path.write_text(edited)
    assert "lose its comments" in run("leave").stdout and path.read_text() == edited
    path.write_text(written)
    run("leave")
    assert snapshot(project) == theirs


def test_what_somebody_added_since_stays(run: Run, project: Path, theirs: dict[str, bytes]) -> None:
    run(*joined("claude"))
    path = project / ".claude/settings.local.json"
    value = json.loads(path.read_text())
    value["permissions"]["allow"].append("Bash(make:*)")
    path.write_text(json.dumps(value, indent=4))
    run("leave")
    wanted = json.loads(THEIRS[".claude/settings.local.json"])
    wanted["permissions"]["allow"].append("Bash(make:*)")
    assert json.loads(path.read_text()) == wanted
    assert (project / ".mcp.json").read_bytes() == theirs[".mcp.json"]


def test_a_file_that_somebody_broke_is_left_alone_and_tried_again_later(run: Run, project: Path) -> None:
    run(*joined("claude"))
    path = project / ".claude/settings.local.json"
    whole = path.read_text()
    path.write_text(whole + "oops")
    assert "left as it is" in run("leave").stdout
    assert path.read_text() == whole + "oops"
    path.write_text(whole)
    run("leave")
    assert list(project.iterdir()) == []


def test_without_the_record_our_entries_are_known_by_what_they_call(
    run: Run, project: Path, theirs: dict[str, bytes]
) -> None:
    for program in OF:
        run(*joined(program))
    shutil.rmtree(project / ".interlock")
    run("leave")
    for path in THEIRS:
        assert "interlock" not in (project / path).read_text()
        assert "docs-server" in (project / path).read_text() or "docs-server" not in THEIRS[path]


@pytest.mark.parametrize("content", [b"{", b"{}{}", b"\xff\xfe{}", b'{"a":' + b"[" * 100_000])
def test_a_broken_file_of_a_project_that_never_joined_is_left_alone(run: Run, project: Path, content: bytes) -> None:
    path = project / ".claude/settings.local.json"
    path.parent.mkdir()
    path.write_bytes(content)
    assert "cannot be read" in run(*joined("claude"), code=1).stderr
    assert "left as it is" in run("leave").stdout
    assert snapshot(project) == {".claude/settings.local.json": content}


def test_a_file_behind_a_link_gets_its_bytes_back_and_the_link_stays(run: Run, project: Path) -> None:
    link, real, new = project / ".claude/settings.local.json", project / "shared.json", project / ".mcp.json"
    link.parent.mkdir()
    real.write_text('{"a": 1}')
    link.symlink_to("../shared.json")
    new.symlink_to("later.json")
    run(*joined("claude"))
    assert "interlock" in real.read_text() and "interlock" in (project / "later.json").read_text()
    run("leave")
    assert real.read_text() == '{"a": 1}' and link.is_symlink()
    assert new.is_symlink() and not new.exists()
    # Nor does a link stand in the way where the record is lost.
    run(*joined("claude"))
    shutil.rmtree(project / ".interlock")
    run("leave")
    assert "interlock" not in real.read_text() and link.is_symlink()


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        (".claude/settings.local.json", "{", "cannot be read"),
        (".claude/settings.local.json", '{"hooks": []}', "`hooks` is not an object"),
        (".mcp.json", '{"mcpServers": {"interlock": {"command": "mine"}}}', "there already"),
        (".mcp.json", "[]", "one JSON object"),
    ],
)
def test_what_cannot_be_merged_is_refused_and_nothing_is_changed(
    run: Run, project: Path, path: str, text: str, said: str
) -> None:
    (project / ".claude").mkdir()
    (project / path).write_text(text)
    before = snapshot(project)
    assert said in run(*joined("claude"), code=1).stderr
    assert snapshot(project) == before


def test_a_link_that_leads_out_of_the_project_is_not_written_through(run: Run, project: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (project / ".claude").symlink_to(tmp_path / "outside")
    assert "leads out of the project" in run(*joined("claude"), code=1).stderr
    assert list((tmp_path / "outside").iterdir()) == []


def test_the_home_directory_is_no_project(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "home directory" in run(*joined("claude"), code=1).stderr


def test_git_ignores_what_is_new_and_what_it_tracks_is_said(run: Run, project: Path) -> None:
    git(project, "init", "-q")
    (project / ".mcp.json").write_text("{}\n")
    git(project, "add", ".mcp.json")
    exclude = (project / ".git/info/exclude").read_bytes()
    assert ".mcp.json is tracked by git" in run(*joined("claude")).stderr
    run(*joined("codex"))
    assert git(project, "status", "--porcelain", "--untracked-files=all").splitlines() == ["AM .mcp.json"]
    run("leave", "--agent", "claude")
    assert git(project, "status", "--porcelain", "--untracked-files=all").splitlines() == ["A  .mcp.json"]
    run("leave")
    assert (project / ".git/info/exclude").read_bytes() == exclude
    assert sorted(path.name for path in project.iterdir()) == [".git", ".mcp.json"]


def git(directory: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=directory, capture_output=True, text=True, check=True).stdout


def test_leaving_everywhere(run: Run, project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    run(*joined("claude"))
    subprocess.run(["interlock", *joined("gemini")], cwd=other, check=True, capture_output=True)
    run("leave", "--all")
    assert (list(project.iterdir()), list(other.iterdir())) == ([], [])
    assert "Nothing has joined here" in run("leave").stdout


def test_the_member_is_there_before_its_first_window(run: Run, team: Team) -> None:
    document = json.loads(run("--json", *joined("claude")).stdout)
    assert document["name"] == "ada" and [one["done"] for one in document["files"]] == ["written", "written"]
    assert "ada" in [member.name for member in team.members()]
    team.send(to="ada", content="before it came")


def test_a_member_that_a_runner_drives_cannot_be_joined(run: Run, team: Team) -> None:
    team.spawn("ada", command=["true"], agent="command")
    assert "driven by Interlock" in run(*joined("claude"), code=1).stderr


def test_the_program_is_found_by_what_is_there(run: Run, project: Path, tmp_path: Path) -> None:
    for name in ("claude", "codex"):
        program = Path(shutil.which("interlock") or "").with_name(name)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    assert "--agent with one of" in run("join", code=1).stderr
    (project / ".codex").mkdir()
    assert "codex" in run("join").stdout
    assert (project / ".codex/hooks.json").exists()


def test_an_interrupted_write_leaves_the_old_file(run: Run, project: Path, theirs: dict[str, bytes]) -> None:
    os.chmod(project / ".claude", 0o555)
    try:
        if os.geteuid() != 0:
            assert "could not be joined" in run(*joined("claude"), code=1).stderr
    finally:
        os.chmod(project / ".claude", 0o755)
    assert (project / ".claude/settings.local.json").read_bytes() == theirs[".claude/settings.local.json"]
