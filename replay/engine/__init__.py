"""The engine: items replayed in their lanes, nothing lost.

Three layers. *Build*: `versions` and `worktree` turn what a person named into something that can be run,
`items`, `steps` and `observed` turn samples, golden sets and recordings into what is replayed, `starting`
makes agents of versions. *Order*: `plan` says what comes when, `schedule` how fast. *Batch*: `run` starts the
agents, hands out trials, keeps each one in the `journal` the moment it ends, and goes on where an earlier
process stopped.

One asyncio process does all of it and is the only one that writes to the store.
"""
