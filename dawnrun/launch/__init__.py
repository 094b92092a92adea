"""Starting a run on the machines of a site."""
