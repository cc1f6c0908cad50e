"""Engines: drivers of other programs. Each is one thin package over the four seams of `pipeline`."""
