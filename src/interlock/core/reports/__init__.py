"""What people want to know of a team, as data: `now`, over a `night`, and what `needs` them; `text` formats it."""
