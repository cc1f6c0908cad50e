"""What stands in messages: their shapes, prompt tags, what was typed, context, exit codes."""
