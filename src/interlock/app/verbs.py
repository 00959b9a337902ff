"""The verbs of `Home` and `Team` as they are called from elsewhere: who may, and how their arguments and answers are
written as JSON, both taken from the verb's own signature. A new verb is an admin's until it is listed here."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import Parameter, isfunction, signature
from typing import Any, get_args, get_type_hints

from pydantic import Base64Bytes, BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model

from interlock.app.home import Home
from interlock.app.team import Team
from interlock.errors import InvalidRequest, LocalOnly, NotFound
from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json

ADMIN = ("admin",)
OPERATOR = ("operator", "admin")
WORKER = ("operator", "admin", "worker")
PEOPLE = ("viewer", "operator", "admin")
RUN = (*WORKER, "run")
READER = (*PEOPLE, "worker", "run")
MACHINE = ("operator", "admin", "machine")
ROLES = {
    "operator": OPERATOR, "worker": WORKER, "run": RUN, "people": PEOPLE, "reader": READER, "machine": MACHINE,
    "everyone": (*READER, "machine"),
}  # fmt: skip

BYTES: dict[Any, Any] = {bytes: Base64Bytes}
FILLED = ("by", "face", "within", "here")
"""Arguments that say who calls and from where: the server gives them to a verb of the home."""
NOT_SAID = (*FILLED, "sender", "on_update")
"""Arguments that are no part of a call: whom it acts as is said beside them, and nothing can be called back."""
INSTEAD = {
    "output": "output_part, which gives what a run printed by parts",
    "worktree": "a clone of your own, or let `interlock work` do the task, which makes one",
}
"""What gives the same to who is on another machine."""
TEAM_NAMED = ("team", "project", "name")


def _table(owner: type, here: str, **names: str) -> dict[str, tuple[str, ...]]:
    """Who may call what, for each verb that can be called from elsewhere: all but those `here`."""
    public = {name for one in owner.__mro__ for name, found in vars(one).items() if isfunction(found)}
    listed = {name: ROLES[group] for group, listing in names.items() for name in listing.split()}
    admins = {name for name in public - set(here.split()) if not name.startswith("_")}
    return {**dict.fromkeys(admins, ADMIN), **listed}


HOME = _table(
    Home,
    here="drive stage stage_stories stage_sweep stories story story_team settle_stories propose_dependencies "
    "answer_proposal import_tasks propose plan_path first_plan read_plan "
    "check_plan plan_schema write_receipt move_ledgers export_ledger import_ledger prepare_ledgers ledger_script "
    "prune_ledgers notices push_key push_to telemetry recovery origin_of run_elsewhere note_refusal workspace window "
    "mailing readable tokens managed seated move_team misplaced need_person need_here seat_name machine_share close "
    "warnings agents agent_registry installed_agents default_agent check_agent team_of_project flush_memory "
    "memory_status memories",
    everyone="teams glance team",
    people="projects task_groups group_tasks driven locate",
    operator="chat",
)
TEAM = _table(
    Team,
    here="acting mail read follow changes worktree for_machine output",
    reader="describe id members setting questions conversation events latest head status report integration outdated "
    "witness account board column story workers artifacts member_overviews task tasks graph runs run_result work_log "
    "output_part output_lines artifact_part diff history inbox window_seat shutdown_requests in_workflow workflow_run "
    "workflow_runs installed_workflows resumable_workflow workflow_decisions workflow_checkpoints workflow_queue "
    "learned_preferences",
    run="create_task send broadcast acknowledge finish_handover answer_shutdown",
    worker="claim next_task update depend release complete delete approve reject retry cancel block "
    "unblock assign heartbeat ask request_shutdown protocol "
    "relay_permission relayed_verdict withdraw_relayed session_end end_session end_turn window_sits window_hears "
    "windows_gone",
    operator="reply retry_alike pause resume merge start_workflow resume_workflow cancel_workflow adjust_workflow "
    "tell_workflow workflow_feedback forget_preference queue_workflow reprioritise_workflow unqueue_workflow "
    "clear_workflow_queue rollback_workflow set_worker",
    machine="worker_on worker_beat worker_off work_offer work_objects work_delivered work_reported work_checked",
)
VERBS: dict[type, dict[str, tuple[str, ...]]] = {Home: HOME, Team: TEAM}
REPEATABLE = ("worker_beat", "work_objects", "work_delivered")
"""What may be done twice as well as once, and so needs no key."""
PLACES_OF_HOME = ("directory",)
"""Arguments that name a place on the machine of the home, which only an admin may."""
OWN_MAIL = ("history", "inbox")
"""What shows a member its own mail only."""


@dataclass(slots=True, frozen=True)
class RemoteVerb:
    """One verb of `Home` or `Team`.

    Attributes:
        roles: who may call it.
        places: the names of the arguments that may be given by their place.
        filled: those that say who calls, which the server gives.
        team_named: those that may name the team which it is about.
        opens: it answers with a team, of which only the name is written.
        kind: what it answers with.
    """

    name: str
    roles: tuple[str, ...]
    places: tuple[str, ...]
    filled: tuple[str, ...]
    team_named: tuple[str, ...]
    arguments: type[BaseModel]
    returned: TypeAdapter[Any]
    opens: bool
    kind: Any

    @property
    def changes(self) -> bool:
        """Whether it must be done once: what viewers may call changes nothing."""
        return "viewer" not in self.roles and self.name not in REPEATABLE

    def parse(self, text: bytes) -> Json:
        """The arguments in a JSON document.

        Raises:
            InvalidRequest: one is missing, unknown or of another type.
        """
        try:
            given = self.arguments.model_validate_json(text)
        except ValidationError as error:
            fault = error.errors(include_url=False, include_context=False)[0]
            field = ".".join(map(str, fault["loc"]))
            raise InvalidRequest(f"{self.name}: {field}: {fault['msg']}.", field=field) from None
        return {name: getattr(given, name) for name in given.model_fields_set}

    def write(self, answer: Any) -> bytes:
        """An answer as JSON."""
        return self.returned.dump_json(answer.name if self.opens else answer, warnings=False)

    def read(self, text: bytes) -> Any:
        """The answer in a JSON document; the name of a team where the verb opens one."""
        return self.returned.validate_json(text)


def verb_of(owner: type, name: str) -> RemoteVerb:
    """The verb of that name.

    Raises:
        NotFound: there is none.
        LocalOnly: it works on the machine of the home alone.
    """
    if name in VERBS[owner]:
        return _described(owner, name)
    if not name.startswith("_") and isfunction(getattr(owner, name, None)):
        raise here_only(name)
    raise NotFound(f"There is no verb {name[:80]!r}.", verb=name[:80])


def here_only(name: str) -> LocalOnly:
    """Why that verb cannot be called from elsewhere, and which one can."""
    other = f" From elsewhere use {INSTEAD[name]}." if name in INSTEAD else ""
    return LocalOnly(
        "This needs files or processes of the machine where the home is: run it there, or without "
        f"INTERLOCK_URL and after `interlock logout` in a home of this machine.{other}",
        verb=name,
    )


@cache
def _described(owner: type, name: str) -> RemoteVerb:
    function: Callable[..., Any] = getattr(owner, name)
    hints, open_ended = get_type_hints(function), False
    fields: Json = {}
    places: list[str] = []
    for parameter in list(signature(function).parameters.values())[1:]:
        kind: Any = BYTES.get(hints[parameter.name], hints[parameter.name])
        if parameter.kind is Parameter.VAR_KEYWORD:
            described = get_args(kind)
            open_ended = not described  # of no `TypedDict`: the verb knows
            fields |= {key: (hint, None) for one in described for key, hint in get_type_hints(one).items()}
        elif parameter.name not in NOT_SAID:
            fields[parameter.name] = (kind, ... if parameter.default is Parameter.empty else None)
        if parameter.kind is Parameter.POSITIONAL_OR_KEYWORD:
            places.append(parameter.name)
    rules = ConfigDict(extra="allow" if open_ended else "forbid", strict=True)
    arguments = create_model(f"{name}_arguments", __config__=rules, **fields)
    opens = hints["return"] is Team
    shown: Any = str if opens else BYTES.get(hints["return"], hints["return"])
    return RemoteVerb(
        name, VERBS[owner][name], tuple(places), tuple(one for one in FILLED if one in hints),
        tuple(one for one in TEAM_NAMED if one in fields), arguments, TypeAdapter(shown), opens, shown,
    )  # fmt: skip
