"""AOF/1: how an agent reports, hands over and is understood (specification `aof-protocols.md`, decisions 14 to 21).

    text ──parsing──> envelope ──routing──> one handler, one transaction ──> answer
                                   │
                completion · status · handoff  (what each type does to the ledger)

`dropped` takes in the files that agents leave in a run's directory, `session_end` applies what they said. pydantic
is used in this package only: outside of it an envelope is JSON.
"""
