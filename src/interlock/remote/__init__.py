"""A home on another machine, as its `interlock up` serves it: the same verbs, with the same answers and errors.

connection.py   requests, answers and errors over HTTP; what was lost on the way is sent again
home.py         Home and Team, their verbs made from the signatures of the local ones
"""
