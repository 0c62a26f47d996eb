"""The cluster side: what the API server says, and what is asked of it."""
