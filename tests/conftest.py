def pytest_addoption(parser):
    parser.addoption(
        "--update-golden", action="store_true", help="write the expected texts of tests/golden anew"
    )
    parser.addoption(
        "--all-mutations", action="store_true", help="tests/e2e/test_mutations.py without a sample"
    )
