#!/bin/sh
# Runs a model on a picture: upload, create once, poll, download. Needs curl and jq.
#   BASE_URL=https://host/api/v1 API_KEY=… sh run.sh photo.png clear.png
set -eu
photo=$1 result=$2 model=haze-removal
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The key reaches curl in a file, not on its command line.
printf 'header = "x-api-key: %s"\n' "$API_KEY" >"$work/key"
# Sends a call again after a lost response, a 408, a 429 or a 5xx, and honours Retry-After.
call() { curl -sS --fail-with-body --retry 5 --retry-all-errors -K "$work/key" -H 'content-type: application/json' "$@"; }

# 1. Upload. The first bytes say what the file is. The target grants access and needs no key.
case $(od -An -tx1 -N12 "$photo" | tr -d ' \n') in
  89504e47*) mime=image/png ;;
  ffd8ff*) mime=image/jpeg ;;
  47494638*) mime=image/gif ;;
  52494646????????57454250) mime=image/webp ;;
  *) echo "$photo: not a PNG, JPEG, GIF or WebP" >&2; exit 2 ;;
esac
jq -n --arg name "${photo##*/}" --arg mime "$mime" --argjson size "$(wc -c <"$photo")" \
  '{folder: "samples", $name, $mime, $size}' >"$work/file.json"
call -d @"$work/file.json" -o "$work/target.json" "$BASE_URL/api-key/storage/upload/create-presigned-url"
if jq -e '.data.endpoint | contains("X-Amz-Algorithm")' "$work/target.json" >/dev/null; then
  jq -r '.data | "url = \(.endpoint | tojson)", (.fields | fromjson | to_entries[] | "header = \("\(.key): \(.value)" | tojson)")' \
    "$work/target.json" | curl -sS --fail-with-body --retry 5 --retry-all-errors -K - --upload-file "$photo"
else
  jq -r '.data | "url = \(.endpoint | tojson)", (.fields | fromjson | to_entries[] | "form-string = \("\(.key)=\(.value)" | tojson)")' \
    "$work/target.json" | curl -sS --fail-with-body --retry 5 --retry-all-errors -K - -F file=@"$photo"
fi
url=$(jq -r .data.download_url "$work/target.json")

# 2. Create once: all attempts carry one key, so that they make one task.
key=$(od -An -tx1 -N16 /dev/urandom | tr -d ' \n')
jq -n --arg url "$url" '{input_image: $url}' >"$work/inputs.json"
call -H "idempotency-key: $key" -d @"$work/inputs.json" -o "$work/created.json" "$BASE_URL/api-key/model/$model/task"
task=$(jq -r .data.data "$work/created.json")
echo "task $task"

# 3. Poll until the status is terminal.
pause=1
while :; do
  call -o "$work/task.json" "$BASE_URL/api-key/task/$task/detail"
  case $(jq -r .data.status "$work/task.json") in
    success) break ;;
    failed | canceled) jq -r '.data | "\(.status): \(.message)"' "$work/task.json" >&2; exit 1 ;;
  esac
  sleep "$pause"
  [ "$pause" -ge 5 ] || pause=$((pause + 1))
done

# 4. Download.
jq -r '.data.result.result.output_image | "url = \(tojson)"' "$work/task.json" |
  curl -sS --fail --location --retry 5 --retry-all-errors -K - -o "$result"
echo "$result"
