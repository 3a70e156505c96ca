"""Frameworks whose tools are answered at the framework's own call site: `tools = ["langchain"]`.

Each module here is one framework; `base` says what it must have. They are loaded by their path, in the user's
interpreter, and only where `tools` names them.
"""
