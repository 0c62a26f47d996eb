"""A rolling-update zero-downtime load tester for Kubernetes."""
