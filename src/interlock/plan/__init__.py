"""Plans: a team and its tasks in a file. Pure but for `reading.load`, `initial.inspect` and `initial.initialise`.

`fields` is the table of what may stand in a plan; `reading` makes a `document.Plan` of it, or says everything that is
wrong; `schema` publishes it; `ordering` and `comparing` say what to create, in which order, when a plan runs again;
`initial` proposes a first plan for a project.
"""
