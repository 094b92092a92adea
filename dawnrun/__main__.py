"""`python -m dawnrun`."""

from dawnrun.cli.main import main

if __name__ == "__main__":
    main()
