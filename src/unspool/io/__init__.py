"""In and out of the machine: files, compression, dirty JSON, SQLite, temporary folders, times."""
