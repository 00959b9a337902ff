"""The rules of the task ledger: who may create, claim, finish and change what, and what follows from it.

Every verb runs inside one transaction and takes a `UnitOfWork`. `transition.move` is the only way a state changes.

As attributes of this package, they are loaded with their first use.
"""

from __future__ import annotations


def __getattr__(name: str) -> object:
    if name == "answer":
        import interlock.core.tasks.answer
    elif name == "change":
        import interlock.core.tasks.change
    elif name == "claim":
        import interlock.core.tasks.claim
    elif name == "create":
        import interlock.core.tasks.create
    elif name == "finish":
        import interlock.core.tasks.finish
    elif name == "merge":
        import interlock.core.tasks.merge
    elif name == "permission":
        import interlock.core.tasks.permission
    elif name == "review":
        import interlock.core.tasks.review
    elif name == "transition":
        import interlock.core.tasks.transition
    elif name == "verify":
        import interlock.core.tasks.verify
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(interlock.core.tasks, name)
