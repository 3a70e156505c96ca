"""Find which commit, hunk or setting changed an agent: a companion, which the core does without.

`inference`, `search`, `minimise` and `hunks` compute on values alone; `bisection` replays what they ask for.
"""
