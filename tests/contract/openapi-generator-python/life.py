"""Drives the service with the Python client of openapi-generator. See ../README.md for the environment
and the output."""

import base64
import json
import os
import sys
import time

import openapi_client
import urllib3
from openapi_client import (
    AccountApi,
    FileUrl,
    ModelListRequest,
    ModelsApi,
    ModelSort,
    PresignRequest,
    StorageApi,
    TasksApi,
    UploadFolder,
)

LARGE_FILE_SIZE = 5_242_881
POLL_INTERVAL = 0.3
MAX_POLLS = 200
TERMINAL = ("success", "failed", "canceled")
SMALL_PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def client_with(key):
    configuration = openapi_client.Configuration(host=os.environ["BASE_URL"], api_key={"ApiKey": key})
    return openapi_client.ApiClient(configuration)


def status_code_of_failure(call):
    """Returns the status code in the error of a call, or None when the call succeeds."""
    try:
        call()
    except openapi_client.ApiException as error:
        return error.status
    return None


def send(target, name, mime, content):
    """Step 2 of an upload. It is not part of the API and must not carry the API key."""
    fields = json.loads(target.fields)
    http = urllib3.PoolManager()
    if "X-Amz-Algorithm" in target.endpoint:
        headers = {"content-type": fields["Content-Type"]}
        response = http.request("PUT", target.endpoint, body=content, headers=headers)
    else:
        form = [*fields.items(), ("file", (name, content, mime))]
        response = http.request("POST", target.endpoint, fields=form)
    if response.status > 299:
        sys.exit(f"step 2: {response.status} {response.data!r}")


def upload(storage, name, mime, content):
    declaration = PresignRequest(folder=UploadFolder.SAMPLES, mime=mime, name=name, size=len(content))
    target = storage.create_presigned_upload(declaration).data
    send(target, name, mime, content)
    return target.download_url


def wait(tasks, task_id):
    for _ in range(MAX_POLLS):
        task = tasks.get_task(task_id).data
        if task.status in TERMINAL:
            return task
        time.sleep(POLL_INTERVAL)
    sys.exit(f"the task {task_id} has no terminal status")


def main():
    client, model = client_with(os.environ["API_KEY"]), os.environ["MODEL"]
    account, models = AccountApi(client), ModelsApi(client)
    tasks, storage = TasksApi(client), StorageApi(client)
    if os.environ.get("MODE") in ("html502", "http429"):
        return {"code": status_code_of_failure(account.get_balance)}

    refused = status_code_of_failure(AccountApi(client_with("wrong-key")).get_balance)
    balance = account.get_balance().data
    models.list_models(ModelListRequest(search="color", sort=ModelSort.TRENDING, limit=5))
    detail = models.get_model(model).data
    version = models.get_model_versioning(model).data
    models.get_model_cost(model)
    models.get_model_serving(model)

    run = f"openapi-generator-python-{time.time_ns()}"
    small = upload(storage, f"{run}.png", "image/png", SMALL_PNG)
    large = upload(storage, f"{run}.mp4", "video/mp4", bytes(LARGE_FILE_SIZE))

    task = wait(tasks, tasks.create_task(model, {"input": small}).data.data)
    history = tasks.list_tasks(limit=100, offset=0).data
    second = tasks.create_task_alias(model, {"input": small}).data.data
    # A node may have been faster than the cancel.
    status_code_of_failure(lambda: tasks.cancel_task(second))
    canceled = wait(tasks, second)

    listing = storage.list_files("samples", page=1, page_size=20).data
    statistics = storage.get_storage_statistics().data
    deleted = sum(storage.delete_file(FileUrl(url=url)) is not None for url in (small, large))

    descriptor = (version.input_format or {}).get("input")
    return {
        "refused": refused,
        "balance": balance.balance,
        "price": detail.price,
        "visibility": detail.visibility,
        "type": descriptor and descriptor.type,
        "status": task.status,
        "output": task.result and task.result.result and task.result.result["output"],
        "history": history.total,
        "after_cancel": canceled.status,
        "files": None if listing.files is None else len(listing.files),
        "total_files": statistics.total_files,
        "deleted": deleted,
    }


if __name__ == "__main__":
    print(json.dumps(main()))
