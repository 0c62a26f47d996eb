"""The conductor: the only room where load and cluster are alive together."""
