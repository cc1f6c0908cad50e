"""Looking at traces and conversations: list, scan, check, compare."""
