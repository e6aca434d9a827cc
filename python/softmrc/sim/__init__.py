"""The fabric simulator: the engine that runs on the wire, in virtual time, from two hosts to 131,072."""

try:
    import numpy as _numpy  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "numpy":
        raise
    message = "softmrc.sim needs numpy, which is not installed: pip install 'softmrc[sim]'"
    raise ModuleNotFoundError(message, name="numpy") from None
