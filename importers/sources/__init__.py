"""The sources of traces: one module or folder for each; `importers.base.BUILTIN` lists them."""
