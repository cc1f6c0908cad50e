"""The console command, awake to Ctrl-C before anything large is imported."""

from unspool.io import signals as stops


def main() -> None:
    with stops.AtOnce():
        from unspool.cli import main as run
    run()


if __name__ == "__main__":
    main()
