"""Reports, each read from summaries of event logs."""
