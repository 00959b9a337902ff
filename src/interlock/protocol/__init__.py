"""AOF/1: how an agent reports, hands over and is understood (specification `aof-protocols.md`, decisions 14 to 21).

    text ──message──> envelope ──routing──> one of the handlers, one transaction ──> answer

`authority` says who may say what; `dropped` takes in the files that agents leave in a run's directory, and applies
them when the session ends. pydantic is used in this package only: outside of it an envelope is JSON.
"""
