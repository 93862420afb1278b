"""How an explanation is shown: on the terminal, and as a page."""
