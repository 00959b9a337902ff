"""Profiles: ours, the user's, and the agents that come of them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

import interlock
from interlock.agents import acp_registry
from interlock.agents.acp.agent import AcpAgent
from interlock.agents.command import HeadlessAgent
from interlock.agents.profiles import ABILITIES, PERMISSIONS, load
from interlock.agents.programs import InstalledAdapter, adapter_at, find
from interlock.agents.registry import agent_of
from interlock.agents.session import McpServer, Opening, Turn, Update
from interlock.errors import AgentError, ConfigParseError, NotFound
from scripts import pinned
from tests.agents.acting import acp_command


def written(home: Path, text: str) -> str:
    home.mkdir(exist_ok=True)
    (home / "agents.toml").write_text(text)
    return str(home)


def program(directory: Path, name: str, source: str = "") -> Path:
    """A program of that name; `source` is what it does, in Python."""
    directory.mkdir(exist_ok=True)
    file = directory / name
    file.write_text(f"#!{sys.executable}\n{source}\n")
    file.chmod(0o755)
    return file


def test_four_programs_are_known_without_any_file() -> None:
    found = load()
    assert list(found) == ["claude", "codex", "gemini", "opencode"]
    for profile in found.values():
        assert (
            profile.title and profile.acp and profile.headless and profile.limits and "npm install" in profile.install
        )
        assert set(profile.modes) <= set(PERMISSIONS) and set(profile.proven) <= set(ABILITIES)


def test_the_versions_of_adapters_that_are_pinned_are_those_that_were_tried() -> None:
    pins = {**pinned.versions("claude"), **pinned.versions("codex"), **pinned.versions("codex-zed")}
    for name in ("claude", "codex"):
        for adapter in load()[name].adapters:
            assert pins[adapter.package] in adapter.tried


def test_the_version_of_an_agent_is_that_of_what_its_adapter_brings(tmp_path: Path) -> None:
    packages, adapter = tmp_path / "lib" / "node_modules", load()["codex"].adapters[0]
    own = packages / adapter.package
    program(tmp_path / "bin", "other")
    (own / "dist").mkdir(parents=True)
    program(own / "dist", "index.js")
    (tmp_path / "bin" / "codex-acp").symlink_to(own / "dist" / "index.js")
    start = str(tmp_path / "bin" / "codex-acp")
    assert adapter_at(start, (adapter,)) is None, "a program that says of no package"
    (own / "package.json").write_text(json.dumps({"name": adapter.package, "version": "9.9.9"}))
    assert adapter_at(start, (adapter,)) == InstalledAdapter(adapter.package, "9.9.9", None, False)
    brought = packages / "@openai" / "codex"
    for place, version in ((brought, "0.170.0"), (own / "node_modules" / "@openai" / "codex", "0.166.0")):
        place.mkdir(parents=True)
        (place / "package.json").write_text(json.dumps({"name": "@openai/codex", "version": version}))
        assert adapter_at(start, (adapter,)) == InstalledAdapter(adapter.package, "9.9.9", version, False)
    (own / "package.json").write_text(json.dumps({"name": adapter.package, "version": adapter.tried[0]}))
    found = adapter_at(start, load()["codex"].adapters)
    assert found is not None and found.tried and found.brings == "0.166.0"
    assert adapter_at(str(tmp_path / "bin" / "other"), (adapter,)) is None


def test_a_file_in_the_home_adds_agents_and_changes_single_keys(tmp_path: Path) -> None:
    home = written(tmp_path / "home", 'mine.acp = ["my-agent"]\n[claude]\nlogin = "Ask Ada for the key."\n')
    found = load(home)
    assert found["mine"].acp == ("my-agent",) and found["mine"].title == "mine"
    assert found["claude"].login == "Ask Ada for the key." and found["claude"].acp == ("claude-agent-acp",)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[mine]\ntitle = 'x'", r"\[mine\] needs `acp"),
        ("[mine]\nacp = 'x'", r"acp of \[mine\] must be a list of texts"),
        ("[mine]\nacp = ['x']\nenvironmnt = []", r"environmnt of \[mine\] is not known, did you mean 'environment'"),
        ("[mine]\nacp = ['x']\nenvironment = ['a b']", "'a b', which is not the name of a variable"),
        ("[mine]\nacp = ['x']\nvariables = {INTERLOCK_HOME = '/'}", "INTERLOCK_HOME, which is Interlock's own"),
        ("[mine]\nacp = ['x']\nmodes = {ask = 1}", r"modes of \[mine\] must be"),
        ("[mine]\nacp = ['x']\n[[mine.adapters]]\nbrings = 'x'", r"adapters of \[mine\]"),
        ("[mine]\nacp = ['x']\nmodes = {all = 'y'}", "'all'; there are ask, workspace, read-only, unattended"),
        ("[mine]\nacp = ['x']\n[[mine.limits]]\npattern = '('", "no regular expression"),
        ("[mine]\nacp = ['x']\n[[mine.limits]]\npattern = 'x'\nafter = 'soon'", "no number of seconds"),
        ("[mine]\nheadless = ['x']", "needs the word"),
        ("[Mine]\nacp = ['x']", "cannot be an agent's name"),
        ("[shell]\nacp = ['x']", "cannot be an agent's name"),
        ("acp = ['x']", "outside a table"),
        ("[mine", "cannot be read"),
    ],
)
def test_a_fault_in_it_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ConfigParseError, match=complaint):
        load(written(tmp_path / "home", text))


def test_every_fault_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigParseError) as caught:
        load(written(tmp_path / "home", "[mine]\nacp = 1\ntitle = 2\n[yours]\nlogin = 'x'\n"))
    assert len(caught.value.details["errors"]) == 3


def test_programs_are_found_along_path_and_where_npm_puts_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "one", "tool-a")
    (tmp_path / "prefix").mkdir()
    program(tmp_path / "prefix" / "bin", "tool-b")
    monkeypatch.setenv("HOME", str(tmp_path))
    environment = {"PATH": str(tmp_path / "one"), "NPM_CONFIG_PREFIX": str(tmp_path / "prefix")}
    assert find("tool-a", environment) == str(tmp_path / "one" / "tool-a")
    assert find("tool-b", environment) == str(tmp_path / "prefix" / "bin" / "tool-b")
    assert find("tool-c", environment) is None
    (tmp_path / ".npmrc").write_text(f"prefix={tmp_path / 'prefix'}\n")
    assert find("tool-b", {"PATH": "/nowhere"}) == str(tmp_path / "prefix" / "bin" / "tool-b")


def test_sessions_are_preferred_to_single_prompts(tmp_path: Path) -> None:
    environment = {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)}
    with pytest.raises(AgentError, match=r"claude-agent-acp or claude was not found. To install it: npm install"):
        agent_of(load()["claude"], "workspace", environment)
    program(tmp_path / "bin", "claude")
    assert isinstance(agent_of(load()["claude"], "workspace", environment), HeadlessAgent)
    program(tmp_path / "bin", "claude-agent-acp")
    assert isinstance(agent_of(load()["claude"], "workspace", environment), AcpAgent)


def headless(tmp_path: Path, name: str, source: str, permissions: str | None = None, **more: Any) -> tuple[Turn, Any]:
    program(tmp_path / "bin", name, "import json, os, sys\n" + source)
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    agent = agent_of(load()[name], permissions, {"PATH": str(tmp_path / "bin")})
    heard: list[Update] = []

    async def main() -> Turn:
        given: dict[str, Any] = {"session_id": "s", "member": "m", "workdir": str(tmp_path), "environment": environment,
                                 "log": "", "time_limit": 60.0, "stop_grace": 1.0, "output_bytes": 50_000}  # fmt: skip
        session = await agent.open(Opening(**given, **more))
        try:
            return await session.prompt("do it", heard.append)
        finally:
            await session.close()

    return anyio.run(main), heard


def test_without_acp_a_program_gets_prompt_model_mode_and_our_server_as_arguments(tmp_path: Path) -> None:
    server = McpServer("interlock", ("/bin/il", "mcp", "--as", 'a "b"'), {"INTERLOCK_TEAM": "t"})
    turn, _ = headless(tmp_path, "claude", "print(json.dumps(sys.argv[1:]))", "workspace", model="opus", mcp=(server,))
    argv = json.loads(turn.output)
    assert argv[:2] == ["-p", "do it"] and argv[argv.index("--model") + 1] == "opus" and "acceptEdits" in argv
    given = json.loads(argv[argv.index("--mcp-config") + 1])
    assert given == {"mcpServers": {"interlock": {"command": "/bin/il", "args": ["mcp", "--as", 'a "b"']}}}

    import tomllib

    turn, _ = headless(tmp_path, "codex", "print(json.dumps(sys.argv[1:]))", "read-only", mcp=(server,))
    argv = json.loads(turn.output)
    assert argv[0] == "exec" and "do it" in argv and argv[argv.index("--sandbox") + 1] == "read-only"
    settings = tomllib.loads("\n".join(after for word, after in zip(argv, argv[1:], strict=False) if word == "-c"))
    assert settings["allow_login_shell"] is False  # Such a shell would set PATH anew, without our command.
    told = settings["mcp_servers"]["interlock"]
    assert told["args"] == ["mcp", "--as", 'a "b"'] and told["env_vars"] == ["INTERLOCK_TEAM"]


def test_without_acp_a_limit_is_recognised_in_what_a_program_says(tmp_path: Path) -> None:
    turn, _ = headless(
        tmp_path, "codex", "sys.exit('You\\'ve hit your usage limit. Try again in 5 minutes.')", "workspace"
    )
    assert turn.stop == "capacity" and turn.retry_at is not None
    turn, _ = headless(tmp_path, "codex", "print('I set the usage limit to 5')", "workspace")
    assert turn.stop == "end"


def test_permissions_that_nobody_could_hold_it_to_are_refused(tmp_path: Path) -> None:
    program(tmp_path / "bin", "opencode-only")
    home = written(tmp_path / "home", 'mine.headless = ["opencode-only", "{prompt}"]')
    profile = load(home)["mine"]
    environment = {"PATH": str(tmp_path / "bin")}
    for permissions in (None, "ask", "read-only"):
        with pytest.raises(AgentError, match=f"cannot be held to the permissions '{permissions or 'ask'}'"):
            agent_of(profile, permissions, environment)
    program(tmp_path / "bin", "codex")
    with pytest.raises(AgentError, match="or say `permissions`: workspace or read-only or unattended"):
        agent_of(load()["codex"], None, environment)
    agent_of(load()["codex"], "read-only", environment)


@pytest.mark.long
@pytest.mark.parametrize("form", ["profile", "acp"])
def test_a_plan_is_done_by_an_agent_of_ones_own(tmp_path: Path, form: str) -> None:
    script = [[{"write": {"path": "made.txt", "text": "{prompt}"}}, {"call": "task_complete",
                "with": {"task_id": "{task}", "summary": "made"}}, {"say": "that was it"}]]  # fmt: skip
    command = acp_command(tmp_path, turns=script)
    written(tmp_path / "home", f"[mine]\nacp = {json.dumps(command)}\nenvironment = ['MY_KEY']\n")
    (tmp_path / "work").mkdir()
    agent: Any = "mine" if form == "profile" else {"acp": command}
    plan = {
        "team": "crew",
        "workdir": "work",
        "members": {"bob": {"agent": agent}},
        "tasks": {"one": {"subject": "One"}},
    }
    (tmp_path / "plan.yaml").write_text(json.dumps(plan))
    home = interlock.connect(str(tmp_path / "home"))
    home.stage(str(tmp_path / "plan.yaml"))
    assert home.drive("crew") == "finished"
    task = home.team("crew").task("one")
    assert (task.state, task.output, task.owner) == ("done", "made", "bob")
    assert "One" in (tmp_path / "work" / "made.txt").read_text()
    home.close()


@pytest.mark.long
def test_what_a_program_does_not_offer_is_asked_about_at_once_and_costs_no_attempt(tmp_path: Path) -> None:
    command = acp_command(tmp_path, modes=["look", "edit"], turns=[])
    home = interlock.connect(
        written(tmp_path / "home", f"[mine]\nacp = {json.dumps(command)}\nmodes = {{ask = ['plan', 'auto']}}\n")
    )
    plan = {"team": "crew", "members": {"bob": {"agent": "mine"}}, "tasks": {"one": {"subject": "One", "retries": 2}}}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    home.stage(str(tmp_path / "plan.json"))
    home.drive("crew")
    task = home.team("crew").task("one")
    (question,) = home.team("crew").questions()
    assert (task.state, task.failures, len(home.team("crew").runs("one"))) == ("deadletter", 0, 1)
    assert "offers no mode 'plan' or 'auto', only look, edit" in question.text
    home.close()


def test_a_member_may_be_spawned_with_any_profile(tmp_path: Path) -> None:
    home = interlock.connect(written(tmp_path / "home", 'mine.acp = ["no-such-program"]'))
    team = home.create_team("crew")
    team.spawn("bob", agent="mine")
    with pytest.raises(AgentError, match="mine is not installed: no-such-program was not found"):
        home.drive("crew")
    home.close()


REGISTRY: dict[str, Any] = {
    "version": "1.0.0",
    "agents": [
        {"id": "quill", "name": "Quill", "version": "2.1.0", "description": "", "distribution": {
            "npx": {"package": "@quill-ai/quill-code@2.1.0", "args": ["--acp"], "env": {"QUILL_UPDATES": "off"}}}},
        {"id": "reed", "name": "Reed", "version": "0.3.0", "distribution": {"uvx": {"package": "reed-acp==0.3.0"}}},
        {"id": "far", "name": "Far", "version": "1.0.0", "distribution": {
            "binary": {"plan9-sparc": {"archive": "https://example.org/far.tar", "cmd": "./far"}}}},
        {"id": "near", "name": "Near", "version": "1.0.0", "distribution": {"binary": {
            f"{system}-{kind}": {"archive": f"https://example.org/{system}-{kind}.tar", "cmd": "./bin/near"}
            for system in ("linux", "darwin") for kind in ("x86_64", "aarch64")}}},
        {"id": "claude", "name": "Not ours", "version": "9.9.9", "distribution": {"uvx": {"package": "else"}}},
        {"id": "thief", "name": "T", "version": "1.0.0", "distribution": {
            "npx": {"package": "thief", "env": {"INTERLOCK_HOME": "/"}}}},
        {"id": "odd", "name": "Odd", "version": "1.0.0", "distribution": {"npx": {"package": "-rf /"}}},
        {"id": "later", "form": "of another version"},
    ],
}  # fmt: skip


def test_every_agent_of_the_registry_that_there_is_for_this_machine_is_known(tmp_path: Path) -> None:
    home = tmp_path / "home"
    acp_registry.take(str(home), str(kept(tmp_path, REGISTRY)))
    found = load(str(home))
    assert list(found) == ["claude", "codex", "gemini", "opencode", "quill", "reed", "near"]
    assert found["claude"].title == "Claude Code" and not found["claude"].listed
    quill = found["quill"]
    assert quill.acp == ("npm:@quill-ai/quill-code", "--acp") and quill.variables == {"QUILL_UPDATES": "off"}
    assert quill.install == "npm install -g @quill-ai/quill-code@2.1.0" and quill.listed
    assert found["reed"].acp == ("reed-acp",) and found["reed"].install == "uv tool install reed-acp==0.3.0"
    assert found["near"].acp == ("near",) and "https://example.org/" in found["near"].install
    written(home, '[quill]\nlogin = "Ask Ada."\n')
    assert load(str(home))["quill"].login == "Ask Ada." and load(str(home))["quill"].acp == quill.acp


def kept(directory: Path, document: object) -> Path:
    file = directory / "registry.json"
    file.write_text(json.dumps(document))
    return file


def test_the_program_of_a_package_is_found_by_the_name_that_the_package_gives_it(tmp_path: Path) -> None:
    program(tmp_path / "bin", "quill")
    place = tmp_path / "lib/node_modules/@quill-ai/quill-code"
    place.mkdir(parents=True)
    (place / "package.json").write_text(json.dumps({"bin": {"quill": "dist/main.js"}}))
    here = {"PATH": str(tmp_path / "bin"), "NPM_CONFIG_PREFIX": str(tmp_path / "none")}
    assert find("npm:@quill-ai/quill-code", here) == str(tmp_path / "bin/quill")
    assert find("npm:@quill-ai/other", here) is None
    (place / "package.json").write_text("[")
    assert find("npm:@quill-ai/quill-code", here) is None


@pytest.mark.parametrize("text", ["", "[]", '{"agents": 1}', "[" * 100_000])
def test_what_is_no_registry_is_refused_and_the_copy_stays(tmp_path: Path, text: str) -> None:
    home = str(tmp_path / "home")
    acp_registry.take(home, str(kept(tmp_path, REGISTRY)))
    (tmp_path / "registry.json").write_text(text)
    with pytest.raises(ConfigParseError, match="is no ACP registry"):
        acp_registry.take(home, str(tmp_path / "registry.json"))
    assert "quill" in load(home)


@pytest.mark.long
def test_a_plan_is_done_by_an_agent_of_the_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = [[{"call": "task_complete", "with": {"task_id": "{task}", "summary": "made"}}, {"say": "that was it"}]]
    command = acp_command(tmp_path, turns=turns)
    source = f"import os, sys\nif '--version' in sys.argv: sys.exit()\nos.execv({command[0]!r}, {command!r})"
    program(tmp_path / "bin", "reed-acp", source)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    home = interlock.connect(str(tmp_path / "home"))
    assert home.agent_registry() == []
    with pytest.raises(NotFound, match="cannot be read from"):
        home.agent_registry(str(tmp_path / "none.json"))
    listed = {one.info.name: one for one in home.agent_registry(str(kept(tmp_path, REGISTRY)))}
    assert list(listed) == ["quill", "reed", "near"] == [one.info.name for one in home.agent_registry()]
    assert listed["reed"].installed and not listed["quill"].installed
    plan = tmp_path / "plan.json"
    for agent in ("quill", "reed"):
        members = {"bob": {"agent": agent}}
        plan.write_text(json.dumps({"team": "crew", "members": members, "tasks": {"one": {"subject": "One"}}}))
        if agent == "quill":
            with pytest.raises(AgentError, match=r"npm install -g @quill-ai/quill-code@2\.1\.0"):
                home.stage(str(plan))
    home.stage(str(plan))
    assert home.drive("crew") == "finished"
    assert (home.team("crew").task("one").state, home.team("crew").task("one").output) == ("done", "made")
    home.close()
