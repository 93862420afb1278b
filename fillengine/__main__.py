"""`python -m fillengine` is the command line."""

from fillengine.cli import main

main()
