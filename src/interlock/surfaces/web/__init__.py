"""The page: what needs a person, the board, every task and conversation, kept up to date while it is open.

    pages.py          which pages there are, and of which regions each is made
    actions.py        what forms do: one verb of the client each
    task_actions.py   which buttons a task has
    rendering.py      from a page to HTML: templates, fragments of one region, what a browser may keep
    page_context.py   one request for one page: who looks, at what
    prose.py          texts of others as safe HTML
    event_text.py     events as sentences
    graph_layout.py   the dependency graph as a picture
    views/            what each region shows, from the client's verbs

The HTML is whole without JavaScript: forms post, links lead. `static/` makes it live: on an event the regions concerned
are fetched again and merged into the page.
"""
