"""The client that openapi-python-client generates, for `cargo xtask bench peers`, as its users write it:
a line on standard input is a piece of work, and a line on standard output tells how it went. Needs
BASE_URL and API_KEY."""

import json
import os
import sys
import time

import httpx
from inferstore_api_client import AuthenticatedClient
from inferstore_api_client.api.storage import create_presigned_upload
from inferstore_api_client.api.tasks import create_task, get_task
from inferstore_api_client.models import PresignRequest, TaskInput, UploadFolder

# What the service suggests for fast models.
POLL_EVERY_SECONDS = 2


def run(client, model, picture):
    body = TaskInput.from_dict({"input": picture})
    created = create_task.sync(model, client=client, body=body).data
    while True:
        task = get_task.sync(created.data, client=client).data
        if task.status == "success":
            return task.result.result["output"]
        if task.status in ("failed", "canceled"):
            raise RuntimeError(task.message)
        time.sleep(POLL_EVERY_SECONDS)


def upload(client, path):
    mime = "video/mp4"
    declaration = PresignRequest(
        folder=UploadFolder.SAMPLES, name=os.path.basename(path), mime=mime, size=os.path.getsize(path)
    )
    target = create_presigned_upload.sync(client=client, body=declaration).data
    fields = json.loads(target.fields)
    with open(path, "rb") as file:
        if "X-Amz-Algorithm" in target.endpoint:
            headers = {"content-type": fields["Content-Type"]}
            sent = httpx.put(target.endpoint, content=file, headers=headers, timeout=60)
        else:
            sent = httpx.post(target.endpoint, data=fields, files={"file": file}, timeout=60)
    sent.raise_for_status()
    return target.download_url


def main():
    client = AuthenticatedClient(
        base_url=os.environ["BASE_URL"],
        token=os.environ["API_KEY"],
        prefix="",
        auth_header_name="x-api-key",
        timeout=httpx.Timeout(60),
    )
    print("ready", flush=True)
    for line in sys.stdin:
        work, *arguments = line.split()
        try:
            print("ok", {"run": run, "upload": upload}[work](client, *arguments), flush=True)
        except Exception as error:
            print("failed", repr(error).replace("\n", " "), flush=True)


if __name__ == "__main__":
    main()
