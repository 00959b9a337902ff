"""A team as an agent of the Agent2Agent protocol, 1.0 and 0.3, over JSON-RPC (extra `a2a`, setting `a2a`).

    endpoint.py   the addresses within `interlock up`: the card of a team, and its methods
    methods.py    the methods over the verbs of a team
    words.py      what a team has, in the messages of the protocol

A2A's task is a task of the team, and its context a chat session: nothing is kept here that the ledger does not have.
"""
