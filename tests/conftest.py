"""Here, so that tests in folders below find `command` and `captures` beside it."""
