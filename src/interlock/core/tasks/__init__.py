"""The rules of the task ledger: who may create, claim, finish and change what, and what follows from it.

Every verb runs inside one transaction and takes a `UnitOfWork`. `transition.move` is the only way a state changes.
"""
