"""`python -m turnwire` is the command line."""

from turnwire.cli import main

main()
