"""Measurements, one scenario a file, each beside the floor that no implementation could get below."""
