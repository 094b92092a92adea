"""Recipe and site: YAML text to typed values, curves and the schedule."""
