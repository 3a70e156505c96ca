"""Replay trials on a Ray cluster: `--executor ray`.

The run itself (schedule, looks, retries, rate limits, budgets, journal, store) stays in the driver, the
process that was called. A *host* is a Ray actor that starts the workers of the run's versions on its node, as
they would be started locally, and replays trials in them:

    executor    `RayExecutor`: which versions run on the cluster, and when it is connected to
    shipping    the versions' code as archives, sent by Ray's runtime environment
    agent       `RemoteAgent`: sends an item with its tape to a host, and receives the outcome
    hosts       places for trials on all hosts; a lost host is replaced
    node        `NodeHost`: what runs on a node
    backend     the only module that imports Ray
"""
