"""Uploads as users of boto3 do them, against a service of its own, and holds our signatures against
the ones that botocore computes for the same inputs.

Run by `.ci/boto3`, which brings boto3 along. The first argument is the program that runs a service.
"""

import base64
import datetime
import hashlib
import hmac
import json
import pathlib
import sqlite3
import subprocess
import sys
import urllib.parse
import urllib.request

import boto3
import botocore.auth
import botocore.awsrequest
import botocore.credentials
import botocore.session
import urllib3

TIER = 5_242_880
ACCESS_KEY, REGION = "inferstore", "us-east-1"
http = urllib3.PoolManager(retries=False)


class Service:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ready = json.loads(self.process.stdout.readline())
        database = pathlib.Path(self.ready["data_folder"], "inferstore.db")
        with sqlite3.connect(database) as connection:
            query = "SELECT value FROM settings WHERE name = 'signing secret'"
            (secret,) = connection.execute(query).fetchone()
        self.credentials = botocore.credentials.Credentials(ACCESS_KEY, secret)

    def call(self, path, body=None):
        headers = {"x-api-key": self.ready["api_key"], "content-type": "application/json"}
        body = None if body is None else json.dumps(body)
        response = http.request("GET" if body is None else "POST", self.ready["base_url"] + path, body=body, headers=headers)
        assert response.status == 200, response.data
        return response.json()["data"]

    def presign(self, name, mime, size):
        body = {"folder": "documents", "mime": mime, "name": name, "size": size}
        target = self.call("/api-key/storage/upload/create-presigned-url", body)
        return target["endpoint"], json.loads(target["fields"]), target["download_url"]

    def stored(self):
        return self.call("/api-key/storage/upload/statistics")["total_files"]


def at(moment):
    """The moment of a signature, where botocore asks for the time."""
    moment = datetime.datetime.strptime(moment, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
    botocore.auth.get_current_datetime = lambda *_, **__: moment.replace(tzinfo=None)
    return moment


def signed_url_is_botocores(service, endpoint, mime, size):
    """Signs the same request with botocore, at the same moment, and expects the same URL."""
    parts = urllib.parse.urlsplit(endpoint)
    query = dict(urllib.parse.parse_qsl(parts.query))
    at(query["X-Amz-Date"])
    url = f"{parts.scheme}://{parts.netloc}{parts.path}?x-target={query['x-target']}"
    headers = {"content-length": str(size), "content-type": mime}
    request = botocore.awsrequest.AWSRequest("PUT", url, headers=headers)
    expires = int(query["X-Amz-Expires"])
    botocore.auth.S3SigV4QueryAuth(service.credentials, "s3", REGION, expires=expires).add_auth(request)
    signed = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(request.url).query))
    assert signed == query, (signed, query)


def policy_is_botocores(service, fields):
    """Has botocore sign the conditions of our policy, and expects our fields."""
    policy = json.loads(base64.b64decode(fields["policy"]))
    at(fields["x-amz-date"])
    ours = ("x-amz-algorithm", "x-amz-credential", "x-amz-date")
    conditions = [c for c in policy["conditions"] if str(c[1]).removeprefix("$") not in ours]
    request = botocore.awsrequest.AWSRequest("POST", "http://storage")
    request.context["s3-presign-post-fields"] = {}
    request.context["s3-presign-post-policy"] = {"expiration": policy["expiration"], "conditions": conditions}
    botocore.auth.S3SigV4PostAuth(service.credentials, "s3", REGION).add_auth(request)
    theirs = request.context["s3-presign-post-fields"]
    for name in ours:
        assert theirs[name] == fields[name], (name, theirs[name], fields[name])
    # The policies differ in the order of their conditions, so ours is signed with botocore's key.
    auth = botocore.auth.S3SigV4PostAuth(service.credentials, "s3", REGION)
    request.context["timestamp"] = fields["x-amz-date"]
    assert auth.signature(fields["policy"], request) == fields["x-amz-signature"]


def post(endpoint, fields, content, name="file.bin"):
    form = [*fields.items(), ("file", (name, content))]
    response = http.request("POST", endpoint, fields=form)
    return response.status, code(response.data)


def put(endpoint, fields, content):
    response = http.request("PUT", endpoint, body=content, headers=fields)
    return response.status, code(response.data)


def code(text):
    _, _, rest = text.decode().partition("<Code>")
    return rest.partition("</Code>")[0]


def good_uploads(service):
    for name in ["plain.bin", "with space $5 ${filename}.bin", "日本語+%&'\"ü.bin"]:
        for size in [1, TIER, TIER + 1]:
            content = bytes(size)
            endpoint, fields, url = service.presign(name, "application/x-boto", size)
            if "X-Amz-Algorithm" in endpoint:
                signed_url_is_botocores(service, endpoint, "application/x-boto", size)
                status, _ = put(endpoint, fields, content)
            else:
                policy_is_botocores(service, fields)
                status, _ = post(endpoint, fields, content, name)
            assert status in (200, 204), (name, size, status)
            response = http.request("GET", url)
            assert (response.status, response.data) == (200, content), (name, size, response.status)
            etag = hashlib.md5(content).hexdigest()
            assert response.headers["etag"] == f'"{etag}"'


def downloads_by_boto3(service):
    """boto3 reads what is open to everyone, and can do nothing else without the secret."""
    _, _, url = service.presign("plain.bin", "application/x-boto", 1)
    root, bucket, key = url.split("/files-")[0], *("files-" + url.split("/files-")[1]).split("/", 1)
    anonymous = boto3.client(
        "s3",
        endpoint_url=root,
        region_name=REGION,
        config=boto3.session.Config(signature_version=botocore.UNSIGNED, s3={"addressing_style": "path"}),
    )
    response = anonymous.get_object(Bucket=bucket, Key=urllib.parse.unquote(key), Range="bytes=1-3")
    assert response["Body"].read() == bytes(3) and response["ContentType"] == "application/x-boto"
    for attempt in (
        lambda: anonymous.list_objects_v2(Bucket=bucket),
        lambda: anonymous.delete_object(Bucket=bucket, Key=key),
        lambda: anonymous.put_object(Bucket=bucket, Key=key, Body=b"x"),
        lambda: anonymous.list_buckets(),
    ):
        try:
            attempt()
        except botocore.exceptions.ClientError as refusal:
            assert refusal.response["Error"]["Code"] == "AccessDenied", refusal
        else:
            raise AssertionError("this must be refused")


def bad_uploads(service):
    before = service.stored()
    endpoint, fields, _ = service.presign("bad.bin", "x/y", 4)
    zero = fields | {"x-amz-signature": "0" * 64}
    assert post(endpoint, zero, b"1234") == (403, "SignatureDoesNotMatch")
    assert post(endpoint, fields | {"key": "documents/other"}, b"1234") == (403, "AccessDenied")
    assert post(endpoint, fields | {"Content-Type": "text/html"}, b"1234") == (403, "AccessDenied")
    assert post(endpoint, fields, b"123") == (400, "EntityTooSmall")
    assert post(endpoint, fields, b"12345") == (400, "EntityTooLarge")
    endpoint, fields, _ = service.presign("bad.bin", "x/y", TIER + 1)
    assert put(endpoint, {"Content-Type": "text/html"}, bytes(TIER + 1)) == (403, "SignatureDoesNotMatch")
    assert put(endpoint, fields, bytes(TIER + 2)) == (403, "SignatureDoesNotMatch")
    assert put(endpoint, fields | {"x-api-key": "key"}, bytes(TIER + 1)) == (400, "InvalidRequest")
    assert put(endpoint.replace("bad.bin", "good.bin"), fields, bytes(TIER + 1)) == (403, "SignatureDoesNotMatch")
    assert service.stored() == before


def main():
    service = Service(sys.argv[1])
    try:
        good_uploads(service)
        downloads_by_boto3(service)
        bad_uploads(service)
    finally:
        service.process.stdin.close()
        service.process.wait()
    print(f"boto3 {boto3.__version__}: signatures, uploads and refusals are as S3 has them")


main()
