"""The rules of the task ledger: who may create, claim, finish and change what, and what follows from it.

Every verb runs inside one transaction and takes an `Act`. `transition.move` is the only way a state changes.
"""
