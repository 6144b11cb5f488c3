"""What every other package stands on: errors, flags, source lines, pytrees, text, the cache on disk."""
