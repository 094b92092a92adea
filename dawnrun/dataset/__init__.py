"""Where the images are, which of them are in a batch, and which window of each is seen."""
