"""Where the cases in `vectors/` come from; `generate.py` writes them.

Expectations are stated here, never computed by the code that the cases are for.
"""
