"""Addresses of a team that are one verb of `Team` each: what the body may hold and what the address is for come from
the verb's own signature and docstring."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from inspect import Parameter, Signature, cleandoc, signature
from types import NoneType
from typing import Any, get_args, get_type_hints

from fastapi import APIRouter
from pydantic import Field, create_model
from starlette.responses import Response

from interlock.app.team import Team
from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.surfaces.http.lists import ListPage, Paged
from interlock.surfaces.http.request_context import Reader, RequestContext, slow
from interlock.surfaces.http.requests import MemberRequest, body_of
from interlock.surfaces.http.responses import Document, answer, documented
from interlock.surfaces.http.types import Body, Full, MessageType, Saying, TeamName, Text

NOT_SAID = ("by", "sender", "on_update")
"""Arguments of verbs that are nobody's to give over HTTP, or are given by all bodies."""
TEXTS: dict[str, tuple[Any, Any]] = {"reason": (Saying, Body), "summary": (Saying, Body), "client_id": (Full, Full)}
"""The rules of a text that has to be given, and of one that may be left out; `Full` and `Text` where not listed."""
KINDS = {"type": MessageType, "metadata": Json}


@dataclass(frozen=True, slots=True)
class VerbRoute:
    """One address below that of a team.

    Attributes:
        answers: documents the answer.
        access: who may POST it; without, it is a GET for everybody.
        verb: of `Team`, where the address does not end in it.
        under: the field of the answer that holds what the verb returns; without, that is the answer.
        named: where that is a list which comes in pages, what tells one item from the others.
        request: what the body holds, where the verb's own arguments do not say it.
        slow: it may take minutes, with a check, git or a setup.
    """

    path: str
    answers: type[Document]
    access: Any = None
    verb: str = ""
    under: str = ""
    named: Callable[[Any], str] | None = None
    request: type[MemberRequest] | None = None
    status: int = 200
    slow: bool = False


def add(router: APIRouter, tag: str, routes: Iterable[VerbRoute]) -> None:
    """Mount these addresses."""
    for route in routes:
        verb = route.verb or route.path.rpartition("/")[2]
        places = re.findall(r"{(\w+)}", route.path)
        request = route.request or (request_of(getattr(Team, verb), len(places)) if route.access else None)
        made = _endpoint(verb, places, route)
        kinds = {"context": route.access or Reader, "team": TeamName, **dict.fromkeys(places, str)}
        kinds |= {"page": Paged} if route.named is not None else {}
        kinds |= {"given": body_of(request)} if request is not None else {}
        # FastAPI reads here what a request holds, and each verb has its own.
        parameters = [Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind) for name, kind in kinds.items()]
        made.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        router.add_api_route(
            route.path, slow(made) if route.slow else made, methods=["POST" if route.access else "GET"], name=verb,
            tags=[tag], description=_about(getattr(Team, verb)), status_code=route.status,
            responses=documented(route.answers, route.status),
        )  # fmt: skip


def _endpoint(verb: str, places: list[str], route: VerbRoute) -> Callable[..., Response]:
    def endpoint(
        context: RequestContext, team: str, given: MemberRequest | None = None, page: ListPage | None = None, **at: str
    ) -> Response:
        acting = context.team(team) if given is None else context.acting(team, given.by)
        fields = {} if given is None else given.given()
        found = getattr(acting, verb)(*(at[place] for place in places), **fields)
        if page is not None:
            return answer(page.of(route.under, found, route.named))
        return answer({route.under: found} if route.under else found, route.status)

    return endpoint


def request_of(verb: Callable[..., Any], places: int = 0) -> type[MemberRequest]:
    """The arguments of a verb but the first, which are in the address, as the model of a body."""
    hints, fields = get_type_hints(verb), {}

    def add_field(name: str, kind: Any, default: Any) -> None:
        needed, optional = TEXTS.get(name, (Full, Text))
        if NoneType in get_args(kind):
            kind = (optional if str in get_args(kind) else KINDS.get(name, bool)) | None
        elif kind is str:
            kind = KINDS.get(name, needed)
        fields[name] = (kind, default)

    for parameter in list(signature(verb).parameters.values())[1 + places :]:
        if parameter.kind is Parameter.VAR_KEYWORD:
            [described] = get_args(hints[parameter.name])
            for name, kind in get_type_hints(described).items():
                # Where it is left out, the verb knows what that means.
                add_field(name, kind, None if NoneType in get_args(kind) else Field(default_factory=lambda: None))
        elif parameter.name not in NOT_SAID:
            required = parameter.default is Parameter.empty
            add_field(parameter.name, hints[parameter.name], ... if required else parameter.default)
    if not fields:
        return MemberRequest
    name = "".join(word.capitalize() for word in verb.__name__.split("_"))
    return create_model(f"{name}Request", __base__=MemberRequest, **fields)  # type: ignore[call-overload,no-any-return]


def _about(verb: Callable[..., Any]) -> str:
    """What a verb's docstring says before its sections, in the words of JSON."""
    return re.split(r"\n\n(?:Args|Returns|Raises):", cleandoc(verb.__doc__ or ""))[0].replace("None ", "`null` ")
