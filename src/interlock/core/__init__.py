"""The rules of a team: who acts (`unit_of_work`), tasks, mail, questions, members, shutdown, and reports of it all.

Every verb is one transaction on the team's ledger: it checks, changes and appends its events, all or nothing.
"""
