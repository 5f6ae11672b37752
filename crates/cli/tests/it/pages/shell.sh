# The shell of a page: the command with servers in the background, and its blocks as printed but for placeholders.
set -euo pipefail
declare -A placeholders=()
trap 'kill $(jobs -p) 2>/dev/null || true; wait || true' EXIT

# Replaces a text of the page, such as a folder of the system, by one of this run.
placeholder() { placeholders[$1]=$2; }

# Waits for a text in a file that a server writes.
wait_for() {
  for _ in $(seq 1 3000); do
    if grep -q -e "$1" "$2" 2>/dev/null; then return; fi
    sleep 0.1
  done
  echo "no $1 in $2:" >&2
  cat "$2" >&2
  return 1
}

# Prints an address of the service.
address() { sed -n "s/^$1: \([^;]*\).*/\1/p" service.log; }

# Starts the service on ports that the system chooses.
serve() {
  local arguments=(serve) word
  while [ $# -gt 0 ]; do
    word=$1
    shift
    case $word in
      --port | --storage-port | --nodes-port | --operations-port) shift ;;
      *) arguments+=("$word") ;;
    esac
  done
  arguments+=(--port 0 --storage-port 0 --nodes-port 0 --operations-port 0)
  command inferstore "${arguments[@]}" > service 2> service.log &
  case " ${arguments[*]} " in
    *" --ready-json "*) wait_for '"event":"ready"' service ;;
    *" --ephemeral "*) wait_for "Ctrl-C ends the service" service.log ;;
    *) wait_for "Ctrl-C ends the service" service.log && wait_for '"local"' profiles.json ;;
  esac
  placeholder http://127.0.0.1:8789 "$(address "nodes url")"
  placeholder http://127.0.0.1:9090 "$(address "operations url")"
  placeholder /var/lib/inferstore "$(address data)"
}

inferstore() {
  case "$*" in
    *--print-lifecycle*) command inferstore "$@" ;;
    serve | serve\ *) serve "${@:2}" ;;
    console* | open*)
      consoles=$((${consoles-0} + 1))
      command inferstore "$@" > "console-$consoles" 2>&1 &
      wait_for http://127.0.0.1: "console-$consoles"
      ;;
    node\ run\ *)
      command inferstore "$@" --service "$(address "nodes url")" 2> node &
      wait_for registered node
      ;;
    *\ --watch\ *) command inferstore "$@" > watch 2>&1 & ;;
    mcp\ *) command inferstore "$@" < /dev/null ;;
    *) command inferstore "$@" ;;
  esac
}

# A response that is no success ends the page.
curl() {
  case "$*" in
    *--fail*) command curl "$@" ;;
    *) command curl --fail-with-body "$@" ;;
  esac
}

# Runs a block of the page, from standard input; its output is in the file `printed`.
block() {
  local text name
  text=$(cat)
  for name in "${!placeholders[@]}"; do text=${text//"$name"/"${placeholders[$name]}"}; done
  eval "$text" > printed
}
