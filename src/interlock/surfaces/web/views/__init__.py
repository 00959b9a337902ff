"""What each region of a page shows, from the client's verbs. One module per page; nothing here knows HTML."""
