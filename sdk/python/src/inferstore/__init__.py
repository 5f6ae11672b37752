"""Client of Inferstore, an inference and storage service.

>>> from inferstore import Client
>>> with Client() as client:
...     print(client.balance())
"""

from . import _errors
from ._client import AsyncClient, Client
from ._errors import *  # noqa: F403
from ._types import File, ModelId, Outcome, UploadedFile

__all__ = ["AsyncClient", "Client", "File", "ModelId", "Outcome", "UploadedFile"]
__all__ += _errors.__all__
