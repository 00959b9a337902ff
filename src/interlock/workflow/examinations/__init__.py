"""Examinations of finished work by others than whoever made it."""
