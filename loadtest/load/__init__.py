"""The load side: from a schedule to requests with their five times. Knows nothing of Kubernetes."""
