"""The shop's agents, one module each, with a factory that makes one."""
