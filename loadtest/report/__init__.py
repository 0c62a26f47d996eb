"""One file for each format a result is written in. Decides nothing."""
