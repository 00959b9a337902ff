"""Every verb of the command line in one table, in the order of its help. A row's module is loaded when it is called."""

from __future__ import annotations

import click

from interlock.surfaces.cli.command import Branch, as_json
from interlock.version import __version__

TREE: dict[str, tuple[tuple[str, str, str], ...]] = {
    "Everyday": (
        ("demo", "run:demo", "see the main job at work, on a real plan, in under a minute"),
        ("init", "plan:init", "find agents, git and the tests; write interlock.toml and a plan"),
        ("plan", "plan:plan", 'have an agent propose a plan for a "GOAL"; nothing starts'),
        ("run", "run:run", 'run a plan, or a "GOAL", with a team of agents: live board, report'),
        ("up", "interlock.serve.command:up", "scheduler, workers, HTTP API, web page, MCP over HTTP"),
        ("open", "server:open_", "a fresh link to the web page"),
        ("status", "status:status", "what needs you, what runs, what is next"),
        ("report", "status:report", "what is done with its evidence, what failed and why"),
        ("logs", "logs:logs", "the output of a task's or member's run"),
        ("attach", "logs:attach", "follow a task while it is worked on, run after run"),
        ("question list", "question:list_", "what waits for a human"),
        ("question reply", "question:reply", "answer a question about a task"),
        ("question ask", "question:ask", "ask a human about a task"),
        ("merge", "task:merge", "merge finished work into a branch of yours"),
        ("diff", "task:diff", "what a task changed"),
        ("pause", "server:pause", "start no new tasks, in the team or of one member"),
        ("resume", "server:resume", "resume after a pause, or after a member was stopped"),
        ("stop", "server:stop", "stop a team's runner, or one member"),
        ("down", "server:down", "stop everything that runs in this home"),
        ("workflow list", "workflow:list_", "the workflows that are installed here"),
        ("workflow show", "workflow:show", "the steps of a workflow and what it needs"),
        ("workflow run", "workflow:run", "take an agent through a workflow of many steps"),
        ("workflow status", "workflow:status", "progress and decisions of a run"),
        ("workflow adjust", "workflow:adjust", "say how careful or talkative a run is"),
        ("workflow resume", "workflow:resume", "resume an interrupted or failed run"),
        ("workflow rollback", "workflow:rollback", "take a run back to before a step"),
        ("workflow cancel", "workflow:cancel", "cancel a run"),
        ("workflow feedback", "workflow:feedback", "say what was good or bad, see and undo what was learned"),
        ("workflow queue", "workflow:queue", "workflows that wait for their turn"),
        ("story list", "story:list_", "the stories of a project, and what each waits for"),
        ("story plan", "story:plan", "what an agent proposes that stories wait for"),
        ("story show", "story:show", "what a story waits for, and what became of it"),
        ("story next", "story:next_", "the stories that could be started now"),
        ("story run", "story:run", "implement stories: a worktree each, reviewed, verified, merged"),
        ("story redo", "story:redo", "implement a story once more that is done"),
        ("story sweep", "story:sweep", "do what builds found and left to others"),
        (
            "import",
            "importing:import_",
            "take over the tasks of Backlog.md, beads and others",
        ),
        ("memory status", "memory:status", "where memory is, whether it answers, what waits for it"),
        ("memory search", "memory:search", "what memory knows about something"),
        ("memory list", "memory:list_", "what memory knows of a project"),
        ("memory flush", "memory:flush", "ask memory again, and hand over what waits"),
        ("doctor", "home:doctor", "check ledger, files and mirror; repair what can be repaired"),
        ("config list", "home:list_settings", "every setting, its value and where it comes from"),
        ("config get", "home:get", "one setting"),
        ("config set", "home:set_", "set or unset a setting of the home, or with --team of a team"),
        ("agents list", "agents:list_", "which agent programs there are, and what is known to work"),
        ("agents check", "agents:check", "try an agent program with one small task"),
        ("agents registry", "agents:registry", "the agents of the ACP registry"),
        ("login", "login:login", "use the home of a server elsewhere, with every command"),
        ("logout", "login:logout", "use the home on this machine again"),
        ("help", "about:help_", "how a verb is used"),
        ("version", "about:version", "show the version"),
        ("completion", "about:completion", "shell code that completes verbs, plans, teams, tasks, settings"),
        ("uninstall", "uninstall:uninstall", "remove what Interlock keeps on this machine"),
    ),
    "Team": (
        ("team create", "team:create", "create a team"),
        ("team list", "team:list_", "all teams of this home"),
        ("team show", "team:show", "one team with its members"),
        ("team adopt", "team:adopt", "say that a team which works elsewhere is to work here"),
        ("team delete", "team:delete", "delete a team with everything in it"),
        ("member spawn", "team:spawn", "add a member"),
        ("member list", "team:members", "who takes part, and on what"),
        ("member remove", "team:remove", "take a member out; its tasks go back to the queue"),
        ("task create", "task:create", "create a task"),
        ("task list", "task:list_", "the tasks, all or those asked for"),
        ("task show", "task:show", "one task, whole"),
        ("task graph", "task:graph", "what waits for what"),
        ("task claim", "task:claim", "take a task"),
        ("task file", "logs:file", "a file that a run left outside git"),
        ("task worktree", "task:worktree", "a git worktree for a task of mine"),
        ("task next", "task:next_", "take the most urgent ready task"),
        ("task update", "task:update", "edit a task, log a line, or take it forward"),
        ("task depend", "task:depend", "add or remove a dependency"),
        ("task release", "task:release", "give a task back"),
        ("task complete", "task:complete", "report a task as finished; its verify is run here"),
        ("task delete", "task:delete", "delete a task"),
        ("task approve", "task:approve", "approve what is under review"),
        ("task reject", "task:reject", "send it back to its author, with a reason"),
        ("task retry", "task:retry", "retry a task that failed permanently"),
        ("task cancel", "task:cancel", "cancel a task"),
        ("task block", "task:block", "stop a task for a reason that is not a dependency"),
        ("task unblock", "task:unblock", "let a blocked task continue"),
        ("task assign", "task:assign", "reserve a task for a member, or free it"),
        ("task heartbeat", "task:heartbeat", "show that I still work on a task"),
        ("message send", "message:send", "send a message to a member, to lead or to human"),
        ("message broadcast", "message:broadcast", "send a message to all members"),
        ("message read", "message:read", "read my messages"),
        ("message wait", "message:wait", "wait until a message comes"),
        ("message history", "message:history", "old and new messages; marks nothing as read"),
        ("shutdown request", "team:request_shutdown", "ask a member to stop, or announce my own shutdown"),
        ("shutdown approve", "team:approve_shutdown", "agree to a shutdown"),
        ("shutdown reject", "team:reject_shutdown", "refuse a shutdown"),
    ),
    "Plumbing": (
        ("join", "agents:join", "let the agent program of this directory take part in a team"),
        ("leave", "agents:leave", "take its hooks and MCP entry out again"),
        ("hook", "message:hook", "what an agent program's hooks call, once it has joined"),
        ("inject", "message:inject", "my new messages as XML, marked delivered (for hooks)"),
        ("mcp", "server:mcp", "MCP over stdio for one member"),
        ("acp", "server:acp", "the team as one agent of an editor, over ACP on stdio"),
        ("service install", "service:install", "have `interlock up` started when you log in"),
        ("service remove", "service:remove", "no longer start it when you log in"),
        ("service status", "service:status", "whether it runs, and where it listens"),
        ("work", "run:work", "workers only: wait for tasks and do them"),
        ("workers list", "workers:list_", "the processes that do a team's tasks, on whatever machine"),
        ("workers drain", "workers:drain", "let a worker finish what it does, and end"),
        ("workers pause", "workers:pause", "let a worker start nothing new"),
        ("workers resume", "workers:resume", "let a worker work again"),
        ("protocol send", "protocol:send", "one AOF/1 message from stdin, acted on"),
        ("protocol schema", "protocol:schema", "the JSON Schema of AOF/1 messages"),
        ("session-end", "protocol:session_end", "apply the results of my tasks in progress"),
        ("scheduler poll", "server:poll", "recover abandoned tasks, once"),
        ("events", "logs:events", "the team's history, and what is being added to it"),
        ("verify-receipt", "status:verify_receipt", "check a signed report, and say what it proves"),
        ("ledger version", "ledger:show_versions", "the version of each team's tables, and where they are"),
        ("ledger init", "ledger:prepare_ledgers", "make what the ledgers of all teams share"),
        ("ledger migrate", "ledger:migrate_ledgers", "bring tables to this version, or see what that would do"),
        ("ledger check", "ledger:check_ledgers", "whether ledgers are whole"),
        ("ledger backup", "ledger:back_up_ledger", "copy a team's ledger beside its files"),
        ("ledger prune", "ledger:prune_ledgers", "delete history of what was finished long ago"),
        ("ledger export", "ledger:export_ledger", "everything in a team's ledger as one file"),
        ("ledger move", "ledger:move_ledgers", "all teams to a PostgreSQL server, or back into files"),
        ("ledger import", "ledger:import_ledger", "a team from such a file"),
        ("token create", "home:create_token", "a token for a member or a person, for HTTP"),
        ("token list", "home:list_tokens", "whose tokens there are, and what they allow"),
        ("token revoke", "home:revoke_token", "revoke a token"),
        ("analyze menu", "analyze:menu", "the menu that a text ends in"),
        ("analyze validation", "analyze:validation", "by what a workflow says that it has succeeded"),
        ("analyze preflight", "analyze:preflight", "what a workflow needs, and what of it is missing"),
        ("analyze cross-reference", "analyze:cross_reference", "what PRD, architecture and stories disagree about"),
        ("analyze skill", "analyze:skill", "the workflow that a message asks for"),
        ("analyze project", "analyze:project", "greenfield or brownfield"),
        ("analyze tier", "analyze:tier", "how much method a project needs, by its description"),
        ("analyze confidence", "analyze:confidence", "how far a result can be trusted, by its signals"),
        ("analyze artifact", "analyze:artifact", "whether an agent or workflow keeps to the standard"),
    ),
}

BRANCHES: dict[str, tuple[str, str]] = {
    "question": (
        "list, reply: what waits for a human",
        "What waits for a human: reviews, and whatever an agent cannot decide.",
    ),
    "workflow": (
        "list, show, run, status, adjust, and more on runs",
        "Workflows of many steps, run by agents that are watched and answered. What cannot be decided is asked.",
    ),
    "story": (
        "list, show, next, run: stories implemented by a team",
        "The stories of a project: listed in order with what each waits for, and implemented by a team of agents.",
    ),
    "memory": (
        "status, search, list, flush: what was learned",
        "What earlier work has learned: kept when a workflow has ended, told to the agent before the next one starts.",
    ),
    "config": (
        "list, get, set: the settings",
        "The settings. The strongest first: INTERLOCK_<NAME> in the environment, the team's own value, the home's, the "
        "default.",
    ),
    "team": (
        "create, list, show, delete",
        "Teams: the members, tasks, messages and history of each are in one ledger.",
    ),
    "member": ("spawn, list, remove", "Who takes part in a team: the lead, and members at work."),
    "task": (
        "create, list, show, claim, complete, and more on tasks",
        "Tasks. Name one by its id, by the last part of it (003), or by its key in a plan.",
    ),
    "agents": (
        "list, check: agent programs on this machine",
        "Agent programs: which are installed, how they are driven, and what each is known to do. A file agents.toml in "
        "the home adds others.",
    ),
    "message": (
        "send, broadcast, read, wait, history",
        "Messages between members. The ledger keeps every one; what was not seen for sure is shown again.",
    ),
    "scheduler": (
        "poll: resume abandoned tasks",
        "The scheduler resumes abandoned tasks. `interlock run` does so all the time.",
    ),
    "analyze": (
        "what the workflow engine sees in a text or project",
        "What the workflow engine sees in a text or project. The result is always one JSON document on stdout; it may "
        "be an `error`, and the exit code is 0 all the same. Nothing is changed.",
    ),
    "ledger": (
        "export, import, move, back up, check: where ledgers are",
        "Where ledgers are: in files of the home, or on a PostgreSQL server; and a ledger as one file, the same from "
        "both.",
    ),
    "token": (
        "create, list, revoke: access over HTTP",
        "Who has access over HTTP. The home's own token, in its file `token`, is readable by you only and may do all.",
    ),
    "service": (
        "install, uninstall, status: the server, at each login",
        "The server of this home as a service of yours: a unit of systemd, or an agent of launchd.",
    ),
    "protocol": ("send, schema: AOF/1", "AOF/1, the messages in which agents report, hand over and answer."),
    "workers": (
        "list, drain, pause, resume: who does the tasks, and where",
        "Workers, the processes that do a team's tasks: `interlock run`, `up` and `work`, on whatever machine.",
    ),
    "shutdown": (
        "request, approve, reject",
        "The shutdown handshake: a member is asked to stop, or announces that it will, and those concerned answer.",
    ),
}

ABOUT = """A team of coding agents in one workspace, safely.

The team is --team, INTERLOCK_TEAM, the one that interlock.toml names, the one that works in this directory, or the
only one there is. You act as --as, INTERLOCK_MEMBER, or `human`, who may do what the lead may."""

FIRST_STEPS = """First steps:
  interlock demo                       see it work, without a model
  interlock init && interlock run plan.yaml
  interlock team create alpha && interlock task create "Write the parser"

Completion in the shell: eval "$(interlock completion bash)"   (zsh, fish)

Exit codes: 0 done; 1 refused or failed; 2 wrong usage; 3 nothing there (with --exit-code); 130 interrupted;
141 nobody reads the output. `interlock run` ends with 0 only when every task is done.
"""


VERSION = "interlock.version"
"""In the notes of a line: whether the version is asked for."""


class Root(Branch):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        if ctx.meta.get(VERSION):  # Asked for here, once it is known whether as JSON.
            as_document = ctx.obj is not None and ctx.obj.json
            click.echo(as_json({"version": __version__}) if as_document else f"interlock {__version__}")
            ctx.exit()
        return rest

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write(f"\n{FIRST_STEPS}")

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in BRANCHES and cmd_name not in self.commands:
            prefix = cmd_name + " "
            all_rows = [row for rows in TREE.values() for row in rows]
            rows = {
                path.removeprefix(prefix): (where, line) for path, where, line in all_rows if path.startswith(prefix)
            }
            short, about = BRANCHES[cmd_name]
            self.commands[cmd_name] = Branch(cmd_name, rows, {"Commands": list(rows)}, help=about, short_help=short)
        return super().get_command(ctx, cmd_name)


def _root() -> Root:
    top: dict[str, tuple[str, str]] = {}
    titles: dict[str, list[str]] = {}
    for title, rows in TREE.items():
        for path, where, line in rows:
            name = path.split(" ")[0]
            if name not in top:
                top[name] = ("", BRANCHES[name][0]) if name in BRANCHES else (where, line)
                titles.setdefault(title, []).append(name)
    version = click.option(
        "-V", "--version", is_flag=True, expose_value=False, help="Show the version and exit.",
        callback=lambda ctx, param, value: ctx.meta.update({VERSION: value}),
    )  # fmt: skip
    return version(Root("interlock", top, titles, help=ABOUT))


cli = _root()
"""The root of the command line."""
