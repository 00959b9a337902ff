"""Examinations of finished work by others than its maker."""
