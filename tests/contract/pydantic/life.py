"""The whole life of a caller in Python, with httpx and with models of datamodel-code-generator for every
request and every response. The README in the folder above defines what it does and prints."""

import base64
import json
import os
import time

import httpx
import models

FORM_LIMIT = 5_242_880
MAX_POLLS = 300
POLL_INTERVAL_SECONDS = 0.3
TERMINAL = {"success", "failed", "canceled"}
SMALLEST_PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

api = httpx.Client(timeout=60)


def call(model, method, path, body=None, key=os.environ["API_KEY"], **query):
    """Sends a request and returns the response as a model."""
    response = api.request(
        method,
        f"{os.environ['BASE_URL']}{path}",
        params=query,
        json=body.model_dump(mode="json", exclude_unset=True) if body else None,
        headers={"x-api-key": key},
    )
    response.raise_for_status()
    return model.model_validate_json(response.content)


def code_of_balance(key):
    """The status code in the error of `getBalance`."""
    try:
        call(models.BalanceResponse, "GET", "/api-key/balance", key=key)
    except httpx.HTTPStatusError as error:
        if error.response.headers["content-type"] == "application/json":
            models.Failure.model_validate_json(error.response.content)
        return error.response.status_code
    return None


def upload(name, mime, content):
    declaration = models.PresignRequest(folder="samples", name=name, mime=mime, size=len(content))
    path = "/api-key/storage/upload/create-presigned-url"
    target = call(models.PresignedUploadResponse, "POST", path, declaration).data
    endpoint, fields = str(target.endpoint), json.loads(target.fields)
    if "X-Amz-Algorithm" in endpoint:
        headers = {"content-type": fields["Content-Type"]}
        sent = httpx.put(endpoint, content=content, headers=headers, timeout=60)
    else:
        sent = httpx.post(endpoint, data=fields, files={"file": (name, content, mime)}, timeout=60)
    sent.raise_for_status()
    return target.download_url


def ended(task_id):
    for _ in range(MAX_POLLS):
        task = call(models.TaskResponse, "GET", f"/api-key/task/{task_id}/detail").data
        if task.status in TERMINAL:
            return task
        time.sleep(POLL_INTERVAL_SECONDS)
    raise SystemExit(f"the task {task_id} did not end")


def succeeds(model, method, path, body=None):
    try:
        call(model, method, path, body)
    except httpx.HTTPStatusError:
        return False
    return True


def life(model):
    refused = code_of_balance("no-such-key")
    balance = call(models.BalanceResponse, "GET", "/api-key/balance").data
    search = models.ModelListRequest(limit=5, search=model.replace("-", " "), sort="trending")
    call(models.ModelListResponse, "POST", "/api-key/model/list", search)
    record = call(models.ModelResponse, "GET", f"/api-key/model/{model}").data
    version = call(models.ModelVersioningResponse, "GET", f"/api-key/model/{model}/versioning").data
    call(models.TaskCostResponse, "GET", f"/api-key/model/{model}/task/cost")
    call(models.ServingStatusResponse, "GET", f"/api-key/model/{model}/serving")

    run = f"{os.getpid()}-{time.time_ns()}"
    small = upload(f"pydantic-{run}.png", "image/png", SMALLEST_PICTURE)
    large = upload(f"pydantic-{run}.mp4", "video/mp4", bytes(FORM_LIMIT + 1))

    body = models.ColorExtractionInput(input=small)
    created = call(models.TaskCreatedResponse, "POST", f"/api-key/model/{model}/task", body)
    task = ended(created.data.data)
    history = call(models.TaskListResponse, "GET", "/api-key/task/histories", limit=100, offset=0).data
    second = call(models.TaskCreatedResponse, "POST", f"/model/{model}/task", body).data.data
    # A node may have been faster than the cancel.
    succeeds(models.Acknowledgement, "DELETE", f"/api-key/task/{second}/cancel")
    canceled = ended(second)

    folder = "/api-key/storage/upload/samples"
    files = call(models.FileListResponse, "GET", folder, pageSize=20, type="image").data.files
    statistics = call(models.StorageStatisticsResponse, "GET", "/api-key/storage/upload/statistics").data
    deleted = [
        succeeds(models.Acknowledgement, "DELETE", "/api-key/storage/store/url", models.FileUrl(url=url))
        for url in (small, large)
    ]
    return {
        "refused": refused,
        "balance": balance.balance,
        "price": record.price,
        "visibility": record.visibility,
        "type": version.input_format["input"].type if version.input_format else None,
        "status": task.status,
        "output": models.ColorExtractionOutput.model_validate(task.result.result).output,
        "history": history.total,
        "after_cancel": canceled.status,
        "files": None if files is None else len(files),
        "total_files": statistics.total_files,
        "deleted": sum(deleted),
    }


if os.environ["MODE"] in ("html502", "http429"):
    print(json.dumps({"code": code_of_balance(os.environ["API_KEY"])}))
else:
    print(json.dumps(life(os.environ["MODEL"])))
