"""Plans: a team and its tasks in a file.

`fields` is the table of what may stand in a plan. `reading` makes a `document.Plan` of a file, or says everything
that is wrong with it (`nodes` takes the YAML apart, `values` and `rules` judge it); `schema` publishes the table;
`ordering` and `comparing` say what to create, and in which order, when a plan runs again. All of this is pure but for
`reading.load`. `detecting` looks at a project, and `initial` writes a first plan for it.
"""
