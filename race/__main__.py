"""`python -m race` is the same as the `race` command."""

from race.cli import main

if __name__ == "__main__":
    main()
