"""The torch that this build of fulgurite works with."""

import importlib.metadata

REQUIRED = "2.13"


def check_torch() -> None:
    """Raises ImportError, with what to install, where torch is missing or another minor version.

    The extension is built against one minor version of torch; with another it would fail to load
    with a missing symbol, or worse.
    """
    advice = f"Install it with: pip install 'torch=={REQUIRED}.*'"
    try:
        found = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        raise ImportError(
            f"fulgurite needs torch {REQUIRED}, and none is installed. {advice}"
        ) from None
    if not found.startswith(REQUIRED + "."):
        raise ImportError(f"fulgurite needs torch {REQUIRED}, and {found} is installed. {advice}")
