"""Procedure: workflows of many steps, read from their packages, understood, and taken through agents.

Everything here that *analyses* is a pure function from text and settings to a value: it opens no ledger, starts no
agent, and gives the same answer for the same input. That is what makes a run replayable, and what
`interlock analyze` shows.
"""
