"""The worker protocol: a line of JSON for each run on standard input, a line back on standard output.

    from worker import InputError, serve

    def shout(inputs, folder):
        return {"output": inputs["text"].upper()}

    serve({"shout": shout})

A model is a function from the inputs by name to the outputs by name. Files are paths: those among the inputs can
be read, those among the outputs are written into `folder` and named relative to it. Everything else is spelled as
the customer sent it, so numbers may be strings.
"""

import json
import os
import traceback
from pathlib import Path


class InputError(Exception):
    """An input cannot be used. The customer reads the text."""


def serve(models):
    """Runs tasks of these models until standard input closes."""
    # Standard input and output belong to the protocol. What libraries print goes to standard error, and a child
    # process that reads finds nothing.
    tasks = os.fdopen(os.dup(0), encoding="utf-8")
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)

    def write(line):
        # NaN and infinity are no JSON: such an output is an error of the model.
        lines.write(json.dumps(line, allow_nan=False) + "\n")
        lines.flush()

    write({"ready": True})
    for line in tasks:
        task = json.loads(line)
        try:
            write({"output": models[task["model"]](task["inputs"], Path(task["folder"]))})
        except InputError as error:
            write({"error": {"kind": "input", "message": str(error)}})
        except Exception as error:  # The next task may be a good one.
            traceback.print_exc()
            write({"error": {"kind": "model", "message": f"{type(error).__name__}: {error}"}})
