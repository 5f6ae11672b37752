#!/bin/sh
# Compares DOCUMENT with its version at the commit BASE, for the caller of USES; FAIL fails the job when something breaks.
set -eu

old=$(mktemp)
trap 'rm -f "$old"' EXIT
git show "$BASE:./$DOCUMENT" >"$old"

code=0
report=$("$PROGRAM" "$old" "$DOCUMENT" --format markdown ${USES:+--uses "$USES"}) || code=$?
[ "$code" -le 1 ] || exit "$code"

breaks=false
[ "$code" -eq 0 ] || breaks=true
printf 'breaks=%s\n' "$breaks" >>"$GITHUB_OUTPUT"
{
  printf '## Changes of `%s` since `%s`\n\n' "$DOCUMENT" "$BASE"
  [ "$breaks" = true ] || printf 'Nothing breaks.\n\n'
  printf '%s\n' "$report"
} >>"$GITHUB_STEP_SUMMARY"
printf '%s\n' "$report"

[ "$FAIL" != true ] || exit "$code"
