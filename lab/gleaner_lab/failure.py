"""What the user can repair: it is printed without a traceback."""


class Failure(Exception):
    """A message that names the input and the remedy."""
