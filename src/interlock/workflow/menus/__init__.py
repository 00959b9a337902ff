"""Menus in what an agent says: whether there is one, what its options mean, and which of them may be answered."""
