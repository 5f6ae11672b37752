#!/bin/sh
# Runs a model on a picture: upload, create once, poll, download. Needs curl and jq.
#   BASE_URL=https://host/api/v1 API_KEY=… sh run.sh photo.png clear.png
set -eu
photo=$1 result=$2 model=haze-removal
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The key reaches curl in a file, not on its command line.
printf 'header = "x-api-key: %s"\n' "$API_KEY" >"$work/key"

# Sends a request, again after a lost response, a 408, a 429 or a 5xx, and honours Retry-After. -o FILE comes first.
send() {
  for attempt in 1 2 3 4 5; do
    rm -f "$2" "$work/head"
    code=0
    status=$(curl -sS --fail-with-body --globoff -D "$work/head" -w '%{http_code}' "$@" <"$photo") || code=$?
    case $code:$status in
      0:*) return ;;
      # The numbers of curl for a connection that fails or breaks.
      22:408 | 22:429 | 22:5* | [67]:* | 16:* | 18:* | 28:* | 35:* | 5[256]:* | 92:*) ;;
      *) break ;;
    esac
    after=$(sed -n 's/^[Rr]etry-[Aa]fter: *0*\([0-9]\{1,5\}\).*/\1/p' "$work/head" 2>/dev/null | tail -n 1)
    [ "$attempt" = 5 ] || sleep "$((${after:-0} > attempt ? ${after:-0} : attempt))"
  done
  [ "$code" != 22 ] || jq -r .message "$2" >&2 2>/dev/null || cat "$2" >&2
  exit 1
}
call() { send "$@" -K "$work/key" -H 'content-type: application/json'; }

# 1. Upload. The first bytes say what the file is. The target grants access and needs no key.
case $(od -An -tx1 -N12 <"$photo" | tr -d ' \n') in
  89504e47*) mime=image/png ;;
  ffd8ff*) mime=image/jpeg ;;
  47494638*) mime=image/gif ;;
  52494646????????57454250) mime=image/webp ;;
  *) echo "$photo: not a PNG, JPEG, GIF or WebP" >&2; exit 2 ;;
esac
jq -n --arg name "${photo##*/}" --arg mime "$mime" --argjson size "$(wc -c <"$photo")" \
  '{folder: "samples", $name, $mime, $size}' >"$work/file.json"
call -o "$work/target.json" -d @"$work/file.json" "$BASE_URL/api-key/storage/upload/create-presigned-url"
jq -r '.data | "url = \(.endpoint | tojson)", if .endpoint | contains("X-Amz-Algorithm")
  then .fields | fromjson | to_entries[] | "header = \("\(.key): \(.value)" | tojson)"
  else .fields | fromjson | to_entries[] | "form-string = \("\(.key)=\(.value)" | tojson)" end' "$work/target.json" >"$work/target"
if grep -q '^form-string' "$work/target"; then
  send -o "$work/uploaded" -K "$work/target" -F 'file=@-;filename=photo'
else
  send -o "$work/uploaded" -K "$work/target" --upload-file "$photo"
fi

# 2. Create once: all attempts carry one key, so that they make one task.
key=$(od -An -tx1 -N16 /dev/urandom | tr -d ' \n')
jq '{input_image: .data.download_url}' "$work/target.json" >"$work/inputs.json"
call -o "$work/created.json" -H "idempotency-key: $key" -d @"$work/inputs.json" "$BASE_URL/api-key/model/$model/task"
task=$(jq -er .data.data "$work/created.json")
echo "task $task"

# 3. Poll until the status is terminal.
pause=1
while :; do
  call -o "$work/task.json" "$BASE_URL/api-key/task/$task/detail"
  case $(jq -r .data.status "$work/task.json") in
    success) break ;;
    failed) jq -r '.data | "failed: \(.message)"' "$work/task.json" >&2; exit 1 ;;
    canceled) echo "the task was canceled, and is not billed" >&2; exit 1 ;;
  esac
  sleep "$pause"
  [ "$pause" -ge 5 ] || pause=$((pause + 1))
done

# 4. Download.
jq -r '.data.result.result.output_image | "url = \(tojson)"' "$work/task.json" >"$work/image"
send -o "$work/result" -K "$work/image" --location
cat "$work/result" >"$result"
echo "$result"
