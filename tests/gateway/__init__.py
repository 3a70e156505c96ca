"""The model gateway, between real agents in real processes and model stand-ins over real sockets."""
