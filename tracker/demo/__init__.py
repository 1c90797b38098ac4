"""A Hub on loopback over real git repositories, for `hubwatch demo` and for tests."""
