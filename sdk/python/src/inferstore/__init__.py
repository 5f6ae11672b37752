"""Client of Inferstore, an inference and storage service.

>>> from inferstore import Client
>>> with Client() as client:
...     print(client.balance())
"""

from ._client import AsyncClient, Client
from ._errors import (
    ApiError,
    CallError,
    CostLimitExceeded,
    DeadlineReached,
    DecodeError,
    FileError,
    InferstoreError,
    InvalidArgument,
    InvalidInputs,
    ModelOffline,
    OutcomeUnknown,
    TaskCanceled,
    TaskFailed,
    TransportError,
)
from ._types import File, ModelId, Outcome, UploadedFile

__all__ = [
    "ApiError",
    "AsyncClient",
    "CallError",
    "Client",
    "CostLimitExceeded",
    "DeadlineReached",
    "DecodeError",
    "File",
    "FileError",
    "InferstoreError",
    "InvalidArgument",
    "InvalidInputs",
    "ModelId",
    "ModelOffline",
    "Outcome",
    "OutcomeUnknown",
    "TaskCanceled",
    "TaskFailed",
    "TransportError",
    "UploadedFile",
]
