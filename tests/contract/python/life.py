"""The whole life of a caller in Python, with the client of openapi-python-client. The README in the folder
above defines what it does and prints."""

import base64
import json
import os
import time

import httpx
from inferstore_api_client import AuthenticatedClient
from inferstore_api_client.api.account import get_balance
from inferstore_api_client.api.models import (
    get_model,
    get_model_cost,
    get_model_serving,
    get_model_versioning,
    list_models,
)
from inferstore_api_client.api.storage import (
    create_presigned_upload,
    delete_file,
    get_storage_statistics,
    list_files,
)
from inferstore_api_client.api.tasks import cancel_task, create_task, create_task_alias, get_task, list_tasks
from inferstore_api_client.models import (
    Failure,
    FileUrl,
    MimeCategory,
    ModelListRequest,
    ModelSort,
    PresignRequest,
    TaskInput,
    UploadFolder,
)
from inferstore_api_client.types import Unset

FORM_LIMIT = 5_242_880
MAX_POLLS = 300
POLL_INTERVAL_SECONDS = 0.3
TERMINAL = {"success", "failed", "canceled"}
SMALLEST_PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def client_with(key):
    return AuthenticatedClient(
        base_url=os.environ["BASE_URL"], token=key, prefix="", auth_header_name="x-api-key"
    )


def data_of(name, response):
    """What a call returns; ends with the failure when it fails."""
    is_success = 200 <= response.status_code <= 299 and response.parsed is not None
    if not is_success or isinstance(response.parsed, Failure):
        raise SystemExit(f"{name}: {response.status_code} {response.content!r}")
    return response.parsed.data


def known(value):
    """The value, or None when the field is absent."""
    return None if isinstance(value, Unset) else value


def upload(client, name, mime, content):
    declaration = PresignRequest(folder=UploadFolder.SAMPLES, name=name, mime=mime, size=len(content))
    response = create_presigned_upload.sync_detailed(client=client, body=declaration)
    target = data_of("presign", response)
    fields = json.loads(target.fields)
    is_put = "X-Amz-Algorithm" in target.endpoint
    assert is_put == (len(content) > FORM_LIMIT), target.endpoint
    if is_put:
        headers = {"content-type": fields["Content-Type"]}
        sent = httpx.put(target.endpoint, content=content, headers=headers, timeout=60)
    else:
        sent = httpx.post(target.endpoint, data=fields, files={"file": (name, content, mime)}, timeout=60)
    assert sent.is_success, sent.text
    back = httpx.get(target.download_url, timeout=60)
    assert back.content == content, back.status_code
    return target.download_url


def ended(client, task_id):
    for _ in range(MAX_POLLS):
        task = data_of("read the task", get_task.sync_detailed(task_id, client=client))
        if task.status in TERMINAL:
            return task
        time.sleep(POLL_INTERVAL_SECONDS)
    raise SystemExit(f"the task {task_id} did not end")


def life(client, model):
    refused = get_balance.sync_detailed(client=client_with("no-such-key"))
    balance = data_of("balance", get_balance.sync_detailed(client=client))

    search = ModelListRequest(limit=5, search=model.replace("-", " "), sort=ModelSort.TRENDING)
    data_of("search", list_models.sync_detailed(client=client, body=search))
    record = data_of("model", get_model.sync_detailed(model, client=client))
    version = data_of("schema", get_model_versioning.sync_detailed(model, client=client))
    inputs = known(version.input_format)
    data_of("cost", get_model_cost.sync_detailed(model, client=client))
    data_of("serving", get_model_serving.sync_detailed(model, client=client))

    run = f"{os.getpid()}-{time.time_ns()}"
    small = upload(client, f"python-{run}.png", "image/png", SMALLEST_PICTURE)
    large = upload(client, f"python-{run}.mp4", "video/mp4", bytes(FORM_LIMIT + 1))

    body = TaskInput.from_dict({"input": small})
    task_id = data_of("create", create_task.sync_detailed(model, client=client, body=body)).data
    task = ended(client, task_id)
    history = data_of("history", list_tasks.sync_detailed(client=client, limit=100, offset=0))

    response = create_task_alias.sync_detailed(model, client=client, body=body)
    second = data_of("create by the second path", response).data
    # A node may have been faster than the cancel.
    cancel_task.sync_detailed(second, client=client)
    canceled = ended(client, second)

    listed = list_files.sync_detailed("samples", client=client, page_size=20, type_=MimeCategory.IMAGE)
    files = known(data_of("list", listed).files)
    statistics = data_of("statistics", get_storage_statistics.sync_detailed(client=client))
    deletes = [delete_file.sync_detailed(client=client, body=FileUrl(url=url)) for url in (small, large)]
    return {
        "refused": refused.status_code,
        "balance": known(balance.balance),
        "price": known(record.price),
        "visibility": known(record.visibility),
        "type": known(inputs["input"].type_) if inputs else None,
        "status": task.status,
        "output": task.result.result["output"],
        "history": known(history.total),
        "after_cancel": canceled.status,
        "files": None if files is None else len(files),
        "total_files": known(statistics.total_files),
        "deleted": sum(200 <= response.status_code <= 299 for response in deletes),
    }


def main():
    client = client_with(os.environ["API_KEY"])
    if os.environ["MODE"] in ("html502", "http429"):
        print(json.dumps({"code": get_balance.sync_detailed(client=client).status_code}))
    else:
        print(json.dumps(life(client, os.environ["MODEL"])))


if __name__ == "__main__":
    main()
