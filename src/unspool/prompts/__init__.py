"""What stands in messages: their shapes, prompt tags, what was typed, the context around it."""
