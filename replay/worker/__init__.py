"""What runs in the user's interpreter: the standard library alone, and nothing of ours around it.

`replay.agents.subprocess` starts `main.py` by its path; nobody imports this package.
"""
