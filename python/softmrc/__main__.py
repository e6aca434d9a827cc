"""`python -m softmrc`: the same as the command `softmrc`."""

from softmrc.cli.app import main

if __name__ == "__main__":
    main()
