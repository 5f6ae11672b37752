"""The whole life of a caller in Python, with the client that openapi-python-client generates from the
published document: nothing of ours is in between. Needs BASE_URL, API_KEY and MODEL, a model with one
input `input` that takes an image. `upload` as an argument uploads the smallest picture, prints where it
is, and does nothing else."""

import base64
import json
import os
import re
import sys
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
    DeleteFileRequest,
    Failure,
    MimeCategory,
    ModelListRequest,
    ModelSort,
    PresignRequest,
    TaskInput,
    TaskStatus,
    UploadFolder,
)

FORM_LIMIT = 5_242_880
POLLS = 150
POLL_EVERY_SECONDS = 2
TERMINAL = {TaskStatus.SUCCESS, TaskStatus.FAILED, TaskStatus.CANCELED}
SMALLEST_PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def client_with(key):
    return AuthenticatedClient(
        base_url=os.environ["BASE_URL"], token=key, prefix="", auth_header_name="x-api-key"
    )


def step(name, holds, found=None):
    if not holds:
        raise SystemExit(f"python: {name}: {found!r}")
    print(f"python: {name}", file=sys.stderr)


def data_of(name, answer):
    """What a call answers; ends with what failed when it fails."""
    is_success = 200 <= answer.status_code <= 299 and answer.parsed is not None
    if not is_success or isinstance(answer.parsed, Failure):
        raise SystemExit(f"python: {name}: {answer.status_code} {answer.content!r}")
    return answer.parsed.data


def upload(client, name, mime, content):
    declaration = PresignRequest(folder=UploadFolder.SAMPLES, name=name, mime=mime, size=len(content))
    target = data_of("presign", create_presigned_upload.sync_detailed(client=client, body=declaration))
    fields = json.loads(target.fields)
    is_put = "X-Amz-Algorithm" in target.endpoint
    step(f"the target of {len(content)} bytes is of its tier", is_put == (len(content) > FORM_LIMIT))
    if is_put:
        headers = {"content-type": fields["Content-Type"]}
        sent = httpx.put(target.endpoint, content=content, headers=headers, timeout=60)
    else:
        sent = httpx.post(target.endpoint, data=fields, files={"file": (name, content, mime)}, timeout=60)
    step(f"{len(content)} bytes are taken", sent.is_success, sent.text)
    back = httpx.get(target.download_url, timeout=60)
    step(f"{len(content)} bytes come back as they were", back.content == content, back.status_code)
    return target.download_url


def wait(client, task_id):
    for _ in range(POLLS):
        task = data_of("read the task", get_task.sync_detailed(task_id, client=client))
        if task.status in TERMINAL:
            return task
        time.sleep(POLL_EVERY_SECONDS)
    raise SystemExit(f"python: the task {task_id} did not end")


def read_the_catalog(client, model):
    found = ModelListRequest(limit=5, search=model.replace("-", " "), sort=ModelSort.TRENDING)
    page = data_of("search", list_models.sync_detailed(client=client, body=found))
    step("the catalog can be searched", page.total is not None, page)
    record = data_of("model", get_model.sync_detailed(model, client=client))
    step("the model can be read", record.id == model, record)
    version = data_of("schema", get_model_versioning.sync_detailed(model, client=client))
    step("the model declares its inputs", "input" in version.input_format, version)
    cost = data_of("cost", get_model_cost.sync_detailed(model, client=client))
    step("the cost of a run is a number", isinstance(cost.cost, (int, float)), cost)
    serving = data_of("serving", get_model_serving.sync_detailed(model, client=client))
    step("it is told whether the model is served", isinstance(serving.serving, bool), serving)


def run_tasks(client, model, picture):
    body = TaskInput.from_dict({"input": picture})
    created = data_of("create", create_task.sync_detailed(model, client=client, body=body))
    ended = wait(client, created.data)
    has_result = ended.status == TaskStatus.SUCCESS and ended.result.result is not None
    step("the task ends with a result", has_result, ended)
    history = data_of("history", list_tasks.sync_detailed(client=client, limit=100, offset=0))
    step("the history counts the task", history.total >= 1, history)

    answer = create_task_alias.sync_detailed(model, client=client, body=body)
    second = data_of("create by the second spelling", answer)
    cancel = cancel_task.sync_detailed(second.data, client=client)
    after = wait(client, second.data)
    # A node may have been faster than the cancel.
    is_canceled = 200 <= cancel.status_code <= 299
    step("a cancel does what it says", is_canceled == (after.status == TaskStatus.CANCELED), after)


def tidy_up(client, files):
    answer = list_files.sync_detailed("samples", client=client, page_size=20, type_=MimeCategory.IMAGE)
    step("the folder is listed", data_of("list", answer).files, answer)
    statistics = data_of("statistics", get_storage_statistics.sync_detailed(client=client))
    step("the files are counted", statistics.total_files >= len(files), statistics)
    for url in files:
        deleted = delete_file.sync_detailed(client=client, body=DeleteFileRequest(url=url))
        step("a file is deleted", 200 <= deleted.status_code <= 299, deleted.content)


def main():
    client, model = client_with(os.environ["API_KEY"]), os.environ["MODEL"]
    run = f"{os.getpid()}-{time.time_ns()}"
    small = upload(client, f"python-{run}.png", "image/png", SMALLEST_PICTURE)
    if sys.argv[1:] == ["upload"]:
        print(small)
        return
    large = upload(client, f"python-{run}.mp4", "video/mp4", bytes(FORM_LIMIT + 1))

    refused = get_balance.sync_detailed(client=client_with("nobody-has-this-key"))
    step("a wrong key is refused", refused.status_code == 401 and refused.parsed.status == "fail", refused)
    balance = data_of("balance", get_balance.sync_detailed(client=client))
    step("the balance is a decimal string", re.fullmatch(r"-?\d+(\.\d+)?", balance.balance), balance)
    read_the_catalog(client, model)
    run_tasks(client, model, small)
    tidy_up(client, [small, large])


if __name__ == "__main__":
    main()
