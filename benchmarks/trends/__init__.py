"""Whether what is foretold of larger sizes comes true: `make trends`."""
