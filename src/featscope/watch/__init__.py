"""A run as it trains, in a browser on this machine."""
