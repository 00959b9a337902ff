"""What drives a team: the worker that runs tasks, what it lets programs see, and how it checks their results.

As attributes of this package, modules are loaded with their first use.
"""

from __future__ import annotations


def __getattr__(name: str) -> object:
    if name == "log_reading":
        import interlock.runner.log_reading
    elif name == "registration":
        import interlock.runner.registration
    elif name == "run_processes":
        import interlock.runner.run_processes
    elif name == "scheduler":
        import interlock.runner.scheduler
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(interlock.runner, name)
