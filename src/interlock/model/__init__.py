"""Values and rules without I/O.

As attributes of this package, modules are loaded with their first use: not every verb pays for every class.
"""

from __future__ import annotations


def __getattr__(name: str) -> object:
    if name == "event":
        import interlock.model.event
    elif name == "evidence":
        import interlock.model.evidence
    elif name == "graph":
        import interlock.model.graph
    elif name == "group":
        import interlock.model.group
    elif name == "guard":
        import interlock.model.guard
    elif name == "question":
        import interlock.model.question
    elif name == "message":
        import interlock.model.message
    elif name == "report":
        import interlock.model.report
    elif name == "run":
        import interlock.model.run
    elif name == "status":
        import interlock.model.status
    elif name == "views":
        import interlock.model.views
    elif name == "witness":
        import interlock.model.witness
    elif name == "worker":
        import interlock.model.worker
    elif name == "workflow":
        import interlock.model.workflow
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(interlock.model, name)
