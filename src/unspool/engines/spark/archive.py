"""Archive: unspool and what it needs, as one file for workers that have neither.

    python -m unspool.engines.spark.archive unspool.tar.gz

It holds what is installed here, native code too, so the workers need the same system and the same
version of Python; pyarrow and pandas, which every Spark that runs Python has, are left to them.
"""

import sys
import tarfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import msgspec  # noqa: F401 - a fault of the installation is told here, not by the workers

import unspool

NAME = "unspool"


def write_archive(path: str) -> list[str]:
    """The archive; the names of the packages in it."""
    names = sorted(_needed(NAME, {}))
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            for file, inner in _files(distribution(name)):
                archive.add(file, inner, recursive=False)
        top = Path(unspool.__file__).parent
        for file in sorted(top.rglob("*")):  # where it stands, also of a checkout
            if file.is_file() and file.suffix != ".pyc":
                archive.add(file, f"{NAME}/{file.relative_to(top)}", recursive=False)
    return names


def _needed(name: str, met: dict[str, None]) -> dict[str, None]:
    """The package and all that it requires; extras are not asked for."""
    key = name.lower().replace("_", "-")
    if key in met:
        return met
    try:
        requires = distribution(name).requires or []
    except PackageNotFoundError:
        return met  # for another system, or another Python
    met[key] = None
    for requirement in requires:
        wanted, _, condition = requirement.partition(";")
        if "extra ==" not in condition:
            end = next((at for at, c in enumerate(wanted) if not (c.isalnum() or c in "-_.")), None)
            _needed(wanted[:end], met)
    return met


def _files(package: Distribution) -> Iterator[tuple[Path, str]]:
    for file in package.files or ():
        path = Path(str(file.locate()))
        outside = file.parts[0] in ("..", NAME)  # scripts; and unspool itself, which comes apart
        if not outside and file.suffix != ".pyc" and path.is_file():
            yield path, file.as_posix()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m unspool.engines.spark.archive FILE.tar.gz")
    print(f"{sys.argv[1]}: {', '.join(write_archive(sys.argv[1]))}")
