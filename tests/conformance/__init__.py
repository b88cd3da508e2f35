"""fulgurite against eager: PyTorch's own operator, module and optimizer databases, and models.

`python -m tests.conformance --help` says how to run it; `suite.py` is the way in for tests.
"""
