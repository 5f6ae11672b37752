"""A client written by hand over `requests`, in the manner of the SDKs of comparable services, for
`cargo xtask bench peers`: every request is sent up to three times (openai-python), and a task is read
every half second (replicate-python). A line on standard input is a piece of work, and a line on standard
output tells how it went. Needs BASE_URL and API_KEY."""

import json
import os
import sys
import time

import requests

ATTEMPTS = 3
POLL_EVERY_SECONDS = 0.5
TIMEOUT_SECONDS = 60


class Client:
    def __init__(self, base_url, api_key):
        self.base_url = base_url
        self.session = requests.Session()
        self.session.headers["x-api-key"] = api_key

    def request(self, method, path, **options):
        for attempt in range(ATTEMPTS):
            is_last = attempt == ATTEMPTS - 1
            try:
                answer = self.session.request(
                    method, self.base_url + path, timeout=TIMEOUT_SECONDS, **options
                )
                if is_last or not (answer.status_code == 429 or answer.status_code >= 500):
                    answer.raise_for_status()
                    return answer.json()["data"]
            except (requests.ConnectionError, requests.Timeout):
                if is_last:
                    raise
            time.sleep(0.5 * 2**attempt)

    def run(self, model, picture):
        task_id = self.request("POST", f"/api-key/model/{model}/task", json={"input": picture})["data"]
        while True:
            task = self.request("GET", f"/api-key/task/{task_id}/detail")
            if task["status"] == "success":
                return task["result"]["result"]["output"]
            if task["status"] in ("failed", "canceled"):
                raise RuntimeError(task["message"])
            time.sleep(POLL_EVERY_SECONDS)

    def upload(self, path):
        name, size, mime = os.path.basename(path), os.path.getsize(path), "video/mp4"
        declaration = {"folder": "samples", "name": name, "mime": mime, "size": size}
        target = self.request("POST", "/api-key/storage/upload/create-presigned-url", json=declaration)
        fields = json.loads(target["fields"])
        with open(path, "rb") as file:
            if "X-Amz-Algorithm" in target["endpoint"]:
                headers = {"content-type": fields["Content-Type"]}
                sent = requests.put(target["endpoint"], data=file, headers=headers, timeout=TIMEOUT_SECONDS)
            else:
                sent = requests.post(
                    target["endpoint"], data=fields, files={"file": file}, timeout=TIMEOUT_SECONDS
                )
        sent.raise_for_status()
        return target["download_url"]


def main():
    client = Client(os.environ["BASE_URL"], os.environ["API_KEY"])
    print("ready", flush=True)
    for line in sys.stdin:
        work, *arguments = line.split()
        try:
            print("ok", {"run": client.run, "upload": client.upload}[work](*arguments), flush=True)
        except Exception as error:
            print("failed", repr(error).replace("\n", " "), flush=True)


if __name__ == "__main__":
    main()
