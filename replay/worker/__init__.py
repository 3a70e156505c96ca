"""Code that runs in the user's interpreter: it imports only the standard library, and its own modules.

`replay.agents.subprocess` starts `main.py` by its path. In that process this folder is the package
`_replaydiff_worker`, a name that no package of a user has.
"""
