"""Versions of the software that results were made with."""

from importlib.metadata import version

_VERSIONS_OF = ("ttray", "ray", "torch", "gymnasium", "mujoco", "numpy", "pyarrow", "scipy")


def versions() -> dict[str, str]:
    """The versions that measured and computed numbers depend on, by package."""
    return {name: version(name) for name in _VERSIONS_OF}
