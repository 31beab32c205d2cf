"""Real servers for tests: fixtures, and tests of the fixtures themselves."""
