"""`python -m ttray`: the `ttray` command, also where no script is installed."""

from ttray.cli.app import main

if __name__ == "__main__":
    main()
