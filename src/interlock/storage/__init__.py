"""Where the truth is kept: ports for ledgers and the catalog of them, their implementations, and files."""
