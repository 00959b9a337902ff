"""Every setting in one table: name, default, unit and help. Reading one is `settings.get("inbox_limit")`.

Precedence, strongest first: `INTERLOCK_<NAME>` in the environment, the team's own value, `<home>/settings.json`,
the default. Values are int, float, bool or text, told by the default. Team-scoped settings may be set per team.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from interlock.errors import ConfigParseError, InvalidRequest


class Setting(NamedTuple):
    """One row of the table."""

    name: str
    default: int | float | bool | str
    help: str
    team: bool = True
    minimum: float | None = None
    choices: tuple[str, ...] = ()
    secret: bool = False
    path: bool = False

    @property
    def variable(self) -> str:
        """The environment variable that overrides it."""
        return f"INTERLOCK_{self.name.upper().replace('.', '_')}"

    def shown(self, value: object) -> object:
        """`value` without the password that an address may hold; of a secret, only that it is set."""
        if self.secret:
            return "(set, not shown)" if value else ""
        if not isinstance(value, str):
            return value
        value = re.sub(r"(\bpassword=)(?:'[^']*'|[^\s&']+)", r"\1***", value)
        return re.sub(r"(://[^/@:]*:)[^@/]*@", r"\1***@", value)

    def parse(self, value: object, where: str) -> int | float | bool | str:
        """`value` as this setting's type.

        Raises:
            InvalidRequest: it is not of that type, below the minimum, or none of the choices.
        """
        try:
            parsed = self._convert(value)
        except (TypeError, ValueError):
            kind = {bool: "true or false", int: "a whole number", float: "a number"}.get(type(self.default), "text")
            raise InvalidRequest(
                f"{where}: {self.name} must be {kind}, not {value!r}", field=self.name, value=value
            ) from None
        if self.choices and parsed not in self.choices:
            raise InvalidRequest(
                f"{where}: {self.name} must be one of: {', '.join(self.choices)}", field=self.name, value=value
            )
        if self.path and parsed and not os.path.isabs(os.path.expanduser(str(parsed))):
            raise InvalidRequest(
                f"{where}: {self.name} must be an absolute path, not {value!r}", field=self.name, value=value
            )
        if self.minimum is not None and isinstance(parsed, (int, float)) and parsed < self.minimum:
            raise InvalidRequest(
                f"{where}: {self.name} must be at least {self.minimum:g}, not {value!r}", field=self.name, value=value
            )
        return parsed

    def _convert(self, value: object) -> int | float | bool | str:
        if isinstance(self.default, bool):
            if isinstance(value, bool):
                return value
            word = str(value).strip().lower()
            if word in ("1", "true", "yes", "on"):
                return True
            if word in ("0", "false", "no", "off"):
                return False
            raise ValueError(word)
        if isinstance(value, bool):
            raise TypeError("a truth value is not a number or a text")
        if isinstance(self.default, int):
            if isinstance(value, float) and not value.is_integer():
                raise ValueError(value)
            return int(value)  # type: ignore[call-overload, no-any-return]
        if isinstance(self.default, float):
            return float(value)  # type: ignore[arg-type]
        if not isinstance(value, str):
            raise TypeError("not a text")
        return value


PERMISSIONS = ("ask", "workspace", "read-only", "unattended")
"""What a member's agent may do without asking (see `runner.permissions`)."""
MODEL_CLASSES = ("haiku", "sonnet", "opus")
"""From the smallest to the largest."""

SETTINGS: tuple[Setting, ...] = (
    Setting("team_limit", 100, "Active teams per home.", team=False, minimum=1),
    Setting("member_limit", 10, "Members per team; the lead counts, people do not.", minimum=1),
    Setting("task_limit", 1000, "Open tasks per team.", minimum=1),
    Setting("inbox_limit", 1000, "Unread messages per inbox; the next one is refused, none is dropped.", minimum=1),
    Setting("message_bytes", 102_400, "Largest message content, in bytes of UTF-8.", minimum=1),
    Setting("subject_chars", 200, "Longest task subject, in characters.", minimum=1),
    Setting("body_chars", 10_000, "Longest task body, in characters; the Work Log does not count.", minimum=0),
    Setting(
        "claim_policy",
        "strict",
        "What a claim of a task with open blockers does: `strict` refuses, `soft` warns and succeeds.",
        choices=("strict", "soft"),
    ),
    Setting(
        "force",
        "members",
        "Who may claim past open blockers with `--force`: `members`, `lead` (and people), or `nobody`.",
        choices=("members", "lead", "nobody"),
    ),
    Setting("claim_ttl", 0, "Seconds a claim made by hand lasts without a heartbeat; 0: for ever.", minimum=0),
    Setting(
        "heartbeat_ttl", 300, "Seconds a run that heartbeats may stay silent before it counts as stale.", minimum=1
    ),
    Setting("paused", False, "Runners start nothing new in the team; `interlock pause` and `resume` set it."),
    Setting("labels", "", "What this machine's workers offer to tasks that ask for it, such as gpu,linux.", team=False),
    Setting("parallel", 3, "Runs that a runner keeps open at once in a team; a plan may say otherwise.", minimum=1),
    Setting(
        "member_parallel",
        0,
        "Tasks a member may be at at once, whoever gave them to it; one more claim is refused. 0: any number.",
        minimum=0,
    ),
    Setting(
        "ageing",
        86_400.0,
        "Seconds by which a task must be older to go before one of the next higher priority, so that none waits for "
        "ever; 0: priority alone counts.",
        minimum=0,
    ),
    Setting(
        "weight",
        1,
        "The team's share of `machine_parallel` while several teams have work: of twice the weight, twice the runs.",
        minimum=1,
    ),
    Setting(
        "machine_parallel",
        0,
        "Runs that `interlock up` keeps open at once, in all teams together, and as many again all "
        "`interlock work --url` with this home; 0: as many as their `parallel` allow.",
        team=False,
        minimum=0,
    ),
    Setting("retries", 3, "Failed attempts at a task before it goes to deadletter.", minimum=0),
    Setting("retry_delay", 2.0, "Seconds before the second attempt; doubled for each further one.", minimum=0),
    Setting(
        "verify_rounds", 3, "Times a task may come back from a failed verify before it goes to deadletter.", minimum=1
    ),
    Setting("verify_timeout", 1800, "Seconds a verify command may take.", minimum=1),
    Setting(
        "isolation",
        "none",
        "Where runners let tasks be done: `none`, all in the team's directory; `worktree`, each in a git worktree.",
        choices=("none", "worktree"),
    ),
    Setting(
        "mirror.claude",
        "",
        "An absolute path of a directory that shows the team in the layout of Claude Code's Agent Teams, too.",
        path=True,
    ),
    Setting("worktree_setup", "", "A command that prepares a fresh worktree; a plan's `setup`."),
    Setting(
        "worktree_copy",
        "",
        "Files and directories that a fresh worktree gets a copy of, one on a line; a plan's `copy`.",
    ),
    Setting(
        "artifact_bytes",
        268_435_456,
        "What a run made that git ignores is kept with it up to so many bytes; beyond, its worktree stays.",
        minimum=0,
    ),
    Setting("setup_timeout", 600, "Seconds the command that prepares a worktree may take.", minimum=1),
    Setting("git_timeout", 120, "Seconds one call of git may take.", minimum=1),
    Setting("task_timeout", 3600, "Seconds one run of a task may take before it is cancelled.", minimum=1),
    Setting(
        "language",
        "en",
        "The language in which people are asked about a task that stopped without a question: `en` or `ja`.",
        choices=("en", "ja"),
    ),
    Setting(
        "protocol_senders",
        "owner",
        "Whose AOF/1 messages count: `owner` (of the task, of the handoff), or `any`.",
        choices=("owner", "any"),
    ),
    Setting(
        "may_be_blocked",
        "READ_INFO REPORT WORKFLOW none",
        "Types of tasks that may be blocked (`none`: without a type); others await a response instead.",
    ),
    Setting("check_before", True, "In worktrees, each `verify` is also run on the tree before the work."),
    Setting(
        "check_files",
        "",
        "Patterns of further files that checks read as their own, one on a line; a plan's `protect`.",
    ),
    Setting("strict", False, "Work that is verified only by tests it changed waits for a person before it is merged."),
    Setting("unattended", False, "Never prompt: defaults that may be taken are, after `question_timeout`."),
    Setting(
        "question_timeout",
        900.0,
        "Seconds until an unattended question takes its default, where the asker allows it.",
        minimum=0,
    ),
    Setting("question_reminder", 3600.0, "Seconds between two reminders of an open question; 0: none.", minimum=0),
    Setting(
        "held_grace",
        60.0,
        "Seconds that an answered task is kept for the session that asked and waits.",
        minimum=0,
    ),
    Setting(
        "hold_time",
        900.0,
        "Seconds that the session of an agent stays open for the answer to its question; then it is closed, and the "
        "answer begins a new run.",
        minimum=0,
    ),
    Setting(
        "session_idle",
        300.0,
        "Seconds that the session of an agent without a task stays open for its next task or message; 0: none does.",
        minimum=0,
    ),
    Setting(
        "mail_turns",
        20,
        "Prompts in a row with nothing but other agents' messages that an agent gets, at a task or between two.",
        minimum=0,
    ),
    Setting("stuck_turns", 3, "Turns of an agent without any progress before it is told so.", minimum=1),
    Setting(
        "repeated_calls",
        30,
        "Tool calls in a row, less than a tenth of them with a new input or output, before a turn is interrupted; 0: "
        "it never is.",
        minimum=0,
    ),
    Setting(
        "when_repeating",
        "nudge",
        "What follows then: `nudge`, it is told so once, and after that the attempt fails; `session`, the attempt "
        "fails and the next has a new session; `question`, a person is asked.",
        choices=("nudge", "session", "question"),
    ),
    Setting(
        "permissions",
        "ask",
        "What members may do whose plan does not say: `ask`, `workspace`, `read-only` or `unattended`.",
        choices=PERMISSIONS,
    ),
    Setting(
        "allowed_commands",
        "",
        "Beginnings of commands, one on a line, that agents may run unasked with `workspace` and `unattended`.",
    ),
    Setting("task_turns", 0, "Turns that all runs of one task may take before a person is asked; 0: any.", minimum=0),
    Setting("task_tokens", 0, "Tokens that all runs of one task may use before a person is asked; 0: any.", minimum=0),
    Setting(
        "task_cost_usd", 0.0, "Dollars that all runs of one task may cost before a person is asked; 0: any.", minimum=0
    ),
    Setting("stop_grace", 5.0, "Seconds between asking a process to end (TERM) and ending it (KILL).", minimum=0),
    Setting(
        "keep_processes",
        "",
        "Names of daemons, with spaces between, that a run may leave running; everything else is ended with it.",
    ),
    Setting("output_bytes", 1_048_576, "Output kept of one run or verify, in bytes; the middle is cut.", minimum=1024),
    Setting("shutdown_timeout", 300, "Seconds a shutdown request waits for its answers.", minimum=1),
    Setting("workflow_parallel", 1, "Workflows of a team at work at once; the others wait in the queue.", minimum=1),
    Setting(
        "workflow_silence",
        60,
        "Seconds an agent of a workflow may be silent (no text, no running tool) before it is ended; 0: for ever.",
        minimum=0,
    ),
    Setting(
        "workflow_nested",
        300,
        "Seconds without progress after which Party Mode or elicitation in a workflow is ended; 0: none.",
        minimum=0,
    ),
    Setting("workflow_timeout", 1800, "Seconds without progress after which a workflow fails; 0: none.", minimum=0),
    Setting(
        "workflow_ceiling", 86_400, "Seconds one turn of a workflow's agent may take, whatever it does.", minimum=1
    ),
    Setting("workflow_hooks", True, "Programs that workflows name as hooks are run; false: none is."),
    Setting(
        "workflow_document_checkpoints",
        True,
        "The documents of a finished workflow keep the list of its checkpoints in their frontmatter; false: it is "
        "removed at the end.",
    ),
    Setting("workflow_party_round", 120, "Seconds one round of Party Mode may take.", minimum=1),
    Setting("workflow_sync_wait", 120, "Seconds that validators at work at once are waited for.", minimum=1),
    Setting("workflow_subagents", 10, "Agents of one workflow at work at once, beside its own.", minimum=1),
    Setting(
        "workflow_max_model",
        "opus",
        "The largest class of model that a workflow's subagents get: `haiku`, `sonnet` or `opus`.",
        choices=MODEL_CLASSES,
    ),
    Setting(
        "workflow_reviewer",
        "",
        "Who reviews the code that workflows write: an agent such as codex, or a program with its arguments; empty: "
        "the agent that wrote it, in a session that knows nothing of it.",
    ),
    Setting("workflow_reviewer_model", "", "The model of those who review, in their agent's own words; empty: any."),
    Setting("workflow_selection", 300, "Seconds an agent's session is kept waiting for a human's answer.", minimum=0),
    Setting(
        "workflow_menu_interval", 2.0, "Seconds between two menus of workflows that are put to a human.", minimum=0
    ),
    Setting(
        "workflow_menu_pause", 10, "Menus in a row after which a human is asked to pause first; 0: never.", minimum=0
    ),
    Setting(
        "workflow_progress",
        "summary",
        "How talkative a workflow is: verbose, summary, silent or streaming.",
        choices=("verbose", "summary", "silent", "streaming"),
    ),
    Setting("workflow_queue_limit", 100, "Entries of the queue of workflows; one more removes the oldest.", minimum=1),
    Setting("wait_timeout", 30.0, "Seconds a long-poll waits when the caller does not say.", team=False, minimum=0),
    Setting("busy_timeout", 10.0, "Seconds to wait for a locked ledger before `ledger_busy`.", team=False, minimum=0),
    Setting(
        "ledger",
        "",
        "Where ledgers are kept: empty, a file per team in this home; or `postgresql://USER@HOST/DATABASE`.",
        team=False,
    ),
    Setting("ledger_schema", "interlock", "The schema of a PostgreSQL database that lists its teams.", team=False),
    Setting(
        "ledger_notices",
        True,
        "Whether a PostgreSQL server wakes those who wait on other machines at once; they look twice a second anyway.",
        team=False,
    ),
    Setting(
        "ledger_direct",
        "",
        "The address of the PostgreSQL server itself, where `ledger` is that of a pooler such as PgBouncer.",
        team=False,
    ),
    Setting("wal_bytes", 16_777_216, "Size at which a ledger's write-ahead log is emptied.", team=False, minimum=65536),
    Setting("http_port", 8420, "Where `interlock up` listens, or the next free of ten; 0: any.", team=False, minimum=0),
    Setting("http_host", "127.0.0.1", "The address `interlock up` listens on.", team=False),
    Setting("http_hosts", "", "Further names that `interlock up` may be called by, with spaces between.", team=False),
    Setting(
        "http_proxies",
        "",
        "Addresses or networks of proxies with TLS before `interlock up`, whose `X-Forwarded-Proto` and "
        "`X-Forwarded-Host` count, with spaces between.",
        team=False,
    ),
    Setting("http_body_bytes", 4_194_304, "Largest body of an HTTP request, in bytes.", team=False, minimum=1024),
    Setting("http_body_seconds", 60.0, "Seconds in which all of a body must come.", team=False, minimum=0.1),
    Setting(
        "notify.command",
        "",
        "A program that is told when something needs a human: words or a JSON list, never read by a shell.",
        team=False,
    ),
    Setting(
        "notify.webhook",
        "",
        "Addresses that the same is sent to, as JSON by POST, with spaces between; in the form of that program with "
        "`slack+`, `discord+` or `ntfy+` before `https://`.",
        team=False,
        secret=True,
    ),
    Setting(
        "notify.secret",
        "",
        "The key that signs what `notify.webhook` gets (Standard Webhooks): `whsec_` and base64, or any text.",
        team=False,
        secret=True,
    ),
    Setting(
        "notify.email",
        "",
        "Mailboxes that the same is sent to, with spaces between: `smtps://USER:PASSWORD@HOST/?to=YOU@EXAMPLE.ORG`.",
        team=False,
        secret=True,
    ),
    Setting(
        "notify.push",
        "",
        "Lets the page offer Web Push: your address for push services, such as `mailto:you@example.org`; after it the "
        "origins of services that are not a browser maker's.",
        team=False,
    ),
    Setting(
        "notify.interval", 30.0, "Seconds between two notifications; what comes between waits.", team=False, minimum=1
    ),
    Setting("notify.digest", "", "A time of day, such as 07:00, for a line on each team's last day.", team=False),
    Setting(
        "otel",
        False,
        "Whether traces and metrics are sent over OTLP, to where `OTEL_EXPORTER_OTLP_ENDPOINT` says (extra `otel`).",
        team=False,
    ),
    Setting(
        "a2a",
        False,
        "Whether `interlock up` offers each team as an agent of the Agent2Agent protocol (extra `a2a`).",
        team=False,
    ),
    Setting(
        "memory",
        "local",
        "Where what was learned is kept: `local`, a file of this home; `forgetful`, a Forgetful MCP server.",
        team=False,
        choices=("local", "forgetful"),
    ),
    Setting(
        "forgetful_command",
        "uvx forgetful-ai",
        "The program that is the Forgetful server: words or a JSON list, never read by a shell.",
        team=False,
    ),
    Setting(
        "forgetful_url", "", "The address of a Forgetful server that runs already, instead of the program.", team=False
    ),
    Setting(
        "serena_command",
        "",
        "A Serena MCP server, started in the project; its memories are read before a workflow begins.",
        team=False,
    ),
    Setting("serena_url", "", "The address of a Serena server that runs already, instead of the program.", team=False),
    Setting("mirror", True, "Write the files that show the ledger (task files, inboxes, config.json)."),
)

BY_NAME: dict[str, Setting] = {setting.name: setting for setting in SETTINGS}
VARIABLES = {setting.name: setting.variable for setting in SETTINGS}
"""By the name of a setting."""


class Settings:
    """The settings in force for one home and, with `for_team`, one team.

    Those of a home whose values are a `SettingsFile` are always what the file says now; `for_team` answers those of
    this moment, so that a verb, or a run that begins, sees one set of them.
    """

    def __init__(
        self,
        home: Mapping[str, Any] | SettingsFile | None = None,
        team: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._home = {} if home is None else home
        self._team = team or {}
        self._environment = os.environ if environment is None else environment

    def for_team(self, values: Mapping[str, Any]) -> Settings:
        """The same settings with one team's own values laid over."""
        home = self._home.values_now() if isinstance(self._home, SettingsFile) else self._home
        return Settings(home, values, self._environment)

    def get(self, name: str) -> Any:
        """The value in force, parsed."""
        return self.look_up(name)[0]

    def look_up(self, name: str) -> tuple[Any, str]:
        """The value in force and where it comes from: environment, team, home or default."""
        setting = known(name)
        text = self._environment.get(VARIABLES[name])
        if text is not None:
            return setting.parse(text, setting.variable), "environment"
        if setting.team and name in self._team:
            return setting.parse(self._team[name], "team setting"), "team"
        home = self._home.values_now() if isinstance(self._home, SettingsFile) else self._home
        if name in home:
            return setting.parse(home[name], "settings.json"), "home"
        return setting.default, "default"


class SettingsFile:
    """A home's `settings.json`, read again when it has changed: whoever sets something means what runs now, too.

    A file that can no longer be read keeps what it said last, so that a slip in an editor stops no run; the log, every
    new command and `interlock doctor` name the fault.

    Raises:
        ConfigParseError: it cannot be read at first.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        # Taken before the file is read: a change in between is read the next time.
        self._read = stamp(path), read_file(path)
        self._faulty: object = None

    def values_now(self) -> Mapping[str, Any]:
        """What it says. Costs one `stat` where nothing has changed."""
        now = stamp(self._path)
        if now != self._read[0]:
            try:
                self._read = now, read_file(self._path)
            except ConfigParseError as error:
                if self._faulty != now:
                    import logging  # here, since every command reads settings and few complain

                    logging.getLogger("interlock.settings").warning("%s What it said before holds.", error.message)
                self._faulty = now
        return self._read[1]


def stamp(path: str) -> tuple[int, ...] | None:
    """What is another after a change of a file; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def known(name: str) -> Setting:
    """The row of that name.

    Raises:
        InvalidRequest: there is none; the message names the nearest.
    """
    setting = BY_NAME.get(name)
    if setting is None:
        from difflib import get_close_matches

        near = get_close_matches(name, BY_NAME, n=1)
        hint = f" Did you mean {near[0]}?" if near else " `interlock config list` shows all."
        raise InvalidRequest(f"There is no setting {name!r}.{hint}", field=name)
    return setting


def read_file(path: str) -> dict[str, Any]:
    """The values of a home's `settings.json`; an absent file has none.

    Raises:
        ConfigParseError: the file is not a JSON object of known settings.
    """
    try:
        with open(path, encoding="utf-8") as file:
            values = json.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigParseError(f"{path} cannot be read: {error}. Fix or remove it.", path=path) from error
    if not isinstance(values, dict):
        raise ConfigParseError(f"{path} must hold one JSON object of settings.", path=path)
    return values
