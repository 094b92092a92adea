"""The training itself; the only package that imports torch."""
