"""Errors that the command line reports as one line instead of a stack trace."""


class BitgateError(Exception):
    """Base of every error that bitgate raises on purpose; the message ends with what to do next."""


class UsageError(BitgateError):
    """The command, the configuration or a case file is wrong (exit code 2)."""


class LoadError(BitgateError):
    """A candidate could not be found, sliced, imported or executed up to its definition (exit code 2)."""


class HarnessError(BitgateError):
    """The harness itself failed, so that nothing can be said about the candidate (exit code 3)."""
