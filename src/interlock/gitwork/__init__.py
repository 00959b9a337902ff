"""Separate working copies: each task in a git worktree and on a branch of its own, merged by Interlock.

    interlock/<team>                      the integration branch, made from the user's HEAD
    interlock-work/<team>/<task id>       one branch per task, started from it
    refs/interlock/<team's own id>        where its last merge left that branch: it is this team's, not an
                                          older one's, and can be brought back
    refs/interlock/stash/<commit>         what disappeared from the user's stash while somebody was at work
    <home>/teams/<team>/worktrees/<task id>

Git cannot have both `interlock/t` and `interlock/t/x`, hence the second name. The user's checkout is read, never
written, but by `delivery.merge_into`, which a person asked for.
"""
