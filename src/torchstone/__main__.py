"""``python -m torchstone``: the same as the ``torchstone`` command."""

from torchstone.cli.main import main

if __name__ == "__main__":
    main()
