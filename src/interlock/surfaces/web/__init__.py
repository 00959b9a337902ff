"""The page: what needs a person, the board, every task and conversation, kept up to date while it is open.

    pages.py       which pages there are, and of which regions each is made
    actions.py     what forms do: one verb of the client each
    rendering.py   from a page to HTML: templates, fragments of one region, what a browser may keep
    prose.py       texts of others as safe HTML
    moves.py       which buttons a task has
    sentences.py   events as sentences
    tracks.py      the dependency graph as a picture
    views/         what each region shows, from the client's verbs

The HTML is whole without JavaScript: forms post, links lead. `static/` makes it live: on an event the regions concerned
are fetched again and merged into the page.
"""
