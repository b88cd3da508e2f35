import os
import tempfile

# Kernels of tests are cached for the length of one run.
_cache = tempfile.TemporaryDirectory(prefix="fulgurite-tests-")
os.environ["FULGURITE_CACHE_DIR"] = _cache.name


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden", action="store_true", help="write the expected texts of tests/golden anew"
    )
    parser.addoption(
        "--all-mutations", action="store_true", help="tests/e2e/test_mutations.py without a sample"
    )
