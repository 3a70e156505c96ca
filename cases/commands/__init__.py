"""Commands: parse, call, print. They may import anything; nothing imports a command."""
