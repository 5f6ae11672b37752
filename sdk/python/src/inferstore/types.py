"""The types of the API, and of the inputs and outputs of the model kinds."""

from ._generated import *  # noqa: F403
