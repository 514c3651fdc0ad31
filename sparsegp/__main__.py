"""Entry point of `python -m sparsegp`, which is the same as `sparsegp`."""

from sparsegp.cli import main

if __name__ == "__main__":  # worker processes import the main module again
    main()
