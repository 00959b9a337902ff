"""Examinations of finished work: each implements `control.examination.Examination`."""
