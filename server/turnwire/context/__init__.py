"""Context: canonical history becomes model input."""
