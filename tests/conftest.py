def pytest_addoption(parser):
    parser.addoption(
        "--update-golden", action="store_true", help="write the expected texts of tests/golden anew"
    )
