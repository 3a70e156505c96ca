import sys

# Keep what is compiled up to the end of the collection, Hypothesis among it, wherever the environment says not to:
# pytest would rewrite a hundred modules in every process anew. `conftest.py` ends it before the first test.
sys.dont_write_bytecode = False
