#!/usr/bin/env bash
# Apache Kafka 4.4.0 and its command line tools, taken from Maven Central.
#
#   kafka.sh prepare                          fetch the jars (idempotent; every other command does it when needed)
#   kafka.sh format DIR PORT [key=value ...]  write the configuration and format DIR/data, start nothing
#   kafka.sh run    DIR PORT [key=value ...]  one KRaft node in the foreground, data under DIR; ends with this process
#   kafka.sh start  DIR PORT [key=value ...]  the same in the background; returns when it answers; DIR/pid holds its pid
#   kafka.sh stop   DIR                       SIGTERM, then SIGKILL after 30 s
#   kafka.sh tool   CLASS ARGS...             one command line tool by class name, see README.md
#   kafka.sh dump   FILE...                   DumpLogSegments --deep-iteration --print-data-log over log, index and snapshot files
#   kafka.sh ping   PORT                      exit 0 when a registered broker answers on the port
#
# KAFKA_VERSION in the environment takes the jars of another version (for tools that are clients of another age).
#
# Java 17 or newer and Maven are needed. Jars are found through a class path file under
# ${XDG_CACHE_HOME:-~/.cache}/leat-peers. A node uses PORT for clients and PORT2 (environment; default PORT+1)
# for its controller, both on 127.0.0.1.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/leat-peers
sum=$(cksum <"$here/pom.xml" | cut -d' ' -f1)
version=${KAFKA_VERSION:-} # "": that of the pom
cp_file=$cache/classpath-$sum${version:+-$version}

# JVM options of the tools; unquoted where used: a list of words. For tools that start, ask and end, which are most,
# "-XX:+UseSerialGC -XX:TieredStopAtLevel=1" saves a second; not for those that measure.
tool_opts=${KAFKA_TOOL_OPTS:--Xmx512m}

usage() { sed -n '3,11p' "${BASH_SOURCE[0]}" >&2; exit 2; }

# prepare resolves the class path once per pom. Parallel callers wait for one another; a half-written file is never seen.
prepare() {
  [ -s "$cp_file" ] && return
  mkdir -p "$cache"
  exec 9>"$cache/lock"
  if command -v flock >/dev/null; then flock 9; fi
  if [ ! -s "$cp_file" ]; then
    local work
    work=$(mktemp -d "$cache/pom.XXXXXX")
    cp "$here/pom.xml" "$work/pom.xml"
    (cd "$work" && mvn -q -B ${version:+"-Dkafka.version=$version"} dependency:build-classpath "-Dmdep.outputFile=$work/classpath" >&2)
    mv "$work/classpath" "$cp_file"
    rm -rf "$work"
  fi
  exec 9>&-
}

# configure writes DIR/server.properties and formats DIR/data when it is new.
configure() {
  local dir=$1 port=$2 controller=${PORT2:-$(($2 + 1))}
  shift 2
  {
    cat <<CONF
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$controller
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$dir/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
CONF
    for kv in "$@"; do echo "$kv"; done
  } >"$dir/server.properties"
  [ -e "$dir/data/meta.properties" ] && return
  local id
  id=$(java kafka.tools.StorageTool random-uuid 2>/dev/null)
  java kafka.tools.StorageTool format -t "$id" -c "$dir/server.properties" >"$dir/format.out" 2>&1 ||
    { cat "$dir/format.out" >&2; return 1; }
}

# broker becomes the JVM: the caller's pid is the broker's.
broker() {
  exec java -Xms"${KAFKA_HEAP:-1G}" -Xmx"${KAFKA_HEAP:-1G}" -XX:+UseG1GC -XX:MaxGCPauseMillis=20 \
    -XX:InitiatingHeapOccupancyPercent=35 -Djava.awt.headless=true kafka.Kafka "$1/server.properties"
}

# tool runs a class. The first one leaves an archive of the classes that it loaded, which makes later ones start in a
# third of the time; a JVM that cannot use the archive goes on without it.
tool() {
  local archive made
  archive=$cache/tools-$sum-$(readlink -f "$(command -v java)" | cksum | cut -d' ' -f1).jsa
  local quiet=(-Xlog:disable -Xlog:all=error:stderr)
  if [ -s "$archive" ]; then
    exec java $tool_opts -XX:SharedArchiveFile="$archive" "${quiet[@]}" "$@"
  fi
  made=$archive.$$
  trap 'rm -f "$made"' EXIT
  local status=0
  java $tool_opts -XX:ArchiveClassesAtExit="$made" "${quiet[@]}" "$@" || status=$?
  if [ -s "$made" ]; then mv "$made" "$archive"; fi
  exit $status
}

# ping asks Metadata v1 for no topics and looks at the number of brokers: it is 1 only when the node is
# registered and unfenced, which is later than the moment its port opens. The correlation id is 0: a connection to a free
# port may be a connection to itself (simultaneous open), and then the answer, which is the request, says 0 brokers.
ping() {
  (
    exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
    printf '\0\0\0\016\0\003\0\001\0\0\0\0\377\377\0\0\0\0' >&3
    answer=$(timeout 2 head -c 12 <&3 | od -An -tu1 | tr -d '\n')
    # shellcheck disable=SC2086
    set -- $answer
    [ $# -eq 12 ] && [ "${12}" -ge 1 ]
  ) 2>/dev/null
}

start() {
  local dir=$1 port=$2 pid
  (broker "$dir") >"$dir/out" 2>&1 </dev/null &
  pid=$!
  echo "$pid" >"$dir/pid"
  trap 'kill -9 $pid 2>/dev/null || true' EXIT
  for _ in $(seq 600); do
    if ping "$port"; then trap - EXIT; return 0; fi
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  echo "kafka did not start on port $port; the end of its output:" >&2
  tail -20 "$dir/out" >&2
  return 1
}

stop() {
  local pid
  [ -s "$1/pid" ] || return 0
  pid=$(cat "$1/pid")
  kill "$pid" 2>/dev/null || { rm -f "$1/pid"; return 0; }
  for _ in $(seq 300); do
    kill -0 "$pid" 2>/dev/null || { rm -f "$1/pid"; return 0; }
    sleep 0.1
  done
  kill -9 "$pid" 2>/dev/null || true
  rm -f "$1/pid"
}

command=${1:-}
[ $# -gt 0 ] && shift
case $command in
prepare | format | run | start | tool | dump)
  prepare
  CLASSPATH=$(cat "$cp_file")
  export CLASSPATH
  ;;
esac
case $command in
prepare) ;;
format | run | start)
  [ $# -ge 2 ] || usage
  dir=$1 port=$2
  shift 2
  mkdir -p "$dir"
  dir=$(cd "$dir" && pwd)
  configure "$dir" "$port" "$@"
  case $command in
  run) broker "$dir" ;;
  start) start "$dir" "$port" ;;
  esac
  ;;
stop) [ $# -eq 1 ] || usage; stop "$1" ;;
tool) [ $# -ge 1 ] || usage; tool "$@" ;;
dump) [ $# -ge 1 ] || usage
  exec java $tool_opts org.apache.kafka.tools.DumpLogSegments --deep-iteration --print-data-log --files "$(IFS=,; echo "$*")" ;;
ping) [ $# -eq 1 ] || usage; ping "$1" ;;
*) usage ;;
esac
