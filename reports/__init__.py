"""Show what the other packages computed; no report computes a figure."""
