"""A stand-in cluster for a machine without one, and the demo app that runs on it and on real ones."""
