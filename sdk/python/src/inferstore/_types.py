"""Types that callers hand over and get back."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic, NewType, TypeAlias, TypedDict, TypeVar, cast

if TYPE_CHECKING:
    from ._generated import TaskDetail, UploadFolder

Output = TypeVar("Output")

ModelId = NewType("ModelId", str)
"""A model that is no kind of the document: `client.run(ModelId("my-model"), {...})` takes any inputs."""

Amount: TypeAlias = Decimal | int | str
"""An amount of money. A `float` is refused, because it holds no cents exactly."""


@dataclass(frozen=True)
class File:
    """A file in memory, with the name under which it is stored."""

    content: bytes = field(repr=False)
    name: str
    mime: str | None = None


Seconds: TypeAlias = float | timedelta | None

FileInput: TypeAlias = str | PathLike[str] | File
"""A URL as text, a local path as a `Path`, or a file in memory."""


class CreateOptions(TypedDict, total=False):
    """Options of `create_once`."""

    key: str
    """Idempotency key: the same key with the same inputs is one task, also from another process. Default: random."""
    deadline: Seconds
    """Time limit in seconds for everything. Default: none."""
    max_cost: Amount | None
    """The task is not created when the price is higher or not stated."""
    require_serving: bool
    """The task is not created when no node serves the model."""
    folder: UploadFolder
    """Folder of uploaded inputs. Default: `samples`."""


class RunOptions(CreateOptions, total=False):
    """Options of `run`."""

    cancel_at_deadline: bool
    """Cancels the task at the deadline if it is still queued."""


@dataclass(frozen=True)
class Outcome(Generic[Output]):
    """A task that succeeded."""

    task: str
    output: Output
    cost: Decimal | None
    stored_inputs: list[str] = field(repr=False)
    """URLs of the uploaded inputs. They are stored, and billed, until they are deleted."""
    is_adopted: bool
    """Whether the task was found in the history after the response to its create was lost."""
    detail: TaskDetail = field(repr=False)


@dataclass(frozen=True)
class UploadedFile:
    """A stored file. Its URL can be used as an input."""

    download_url: str = field(repr=False)
    name: str
    mime: str
    size: int


def as_object(value: Any) -> dict[str, Any]:
    """Returns an object of a response; what is absent or of another type counts as empty."""
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}
