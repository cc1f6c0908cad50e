"""Hooks: agents tell of their events as they happen, without noticing that anybody listens."""
