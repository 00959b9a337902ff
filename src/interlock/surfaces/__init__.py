"""The faces: each translates between a way of asking and the client port, and decides nothing."""
