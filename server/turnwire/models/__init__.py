"""Models: the provider interface and its implementations."""
