"""What a run leaves behind: events, run directory, summary."""
