"""Reviews of finished work by agents other than its author."""
