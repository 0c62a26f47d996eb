"""From a stored run to its conclusion: pure, without clock, file or network."""
