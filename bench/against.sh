#!/usr/bin/env bash
# against.sh REF: the micro benchmarks of the packages as they are here beside those of the commit REF, in turns, and what benchstat says of them.
# From the environment: PKGS (packages), BENCH (which benchmarks), COUNT (turns, at least 6 for a p-value), TIME (per benchmark and turn), OUT (directory for
# the raw figures; default: they are thrown away), FAIL (a slow-down in per cent: exits 1 if a benchmark's time is that much worse with p < 0.05).
set -euo pipefail
cd "$(git rev-parse --show-toplevel)"
ref=${1:?usage: bench/against.sh REF}
go=${GO:-go}
pkgs=${PKGS:-engine segment index record netio protocol replication}
bench=${BENCH:-.} count=${COUNT:-6} time=${TIME:-100ms}
commit=$(git rev-parse --verify --quiet "$ref^{commit}") || { echo "against.sh: $ref is no commit of this repository" >&2; exit 2; }
tmp=$(mktemp -d)
trap 'git worktree remove --force "$tmp/tree" 2>/dev/null || true; rm -rf "$tmp"' EXIT
git worktree add --quiet --detach "$tmp/tree" "$commit"
out=${OUT:-$tmp/out}
mkdir -p "$out"
: >"$out/old.txt"
: >"$out/new.txt"

build() { # build TREE SIDE: one test binary a package that TREE has
  local p
  for p in $pkgs; do
    [ -d "$1/$p" ] || { echo "against.sh: $2: there is no $p" >&2; continue; }
    (cd "$1" && $go test -c -o "$tmp/$2-${p//\//-}.test" "./$p")
  done
}
build "$tmp/tree" old
build . new

turn() { # turn SIDE TREE PKG
  local bin="$tmp/$1-${3//\//-}.test"
  [ -x "$bin" ] || return 0
  (cd "$2/$3" && "$bin" -test.run '^$' -test.bench "$bench" -test.benchtime "$time" -test.benchmem -test.timeout 30m) >>"$out/$1.txt"
}
for ((n = 1; n <= count; n++)); do
  for p in $pkgs; do
    printf 'turn %d of %d: %-24s\r' "$n" "$count" "$p" >&2
    turn old "$tmp/tree" "$p"
    turn new . "$p"
  done
done
printf '%60s\r' '' >&2
grep -q '^Benchmark' "$out/new.txt" || { echo "against.sh: no benchmark matches $bench in: $pkgs" >&2; exit 2; }
$go tool benchstat "old=$out/old.txt" "new=$out/new.txt"
if [ -n "${FAIL:-}" ]; then
  $go tool benchstat -format csv "old=$out/old.txt" "new=$out/new.txt" 2>/dev/null | awk -F, -v most="$FAIL" '
    $2 == "sec/op" { time = 1 } $2 ~ /^(B|allocs)\/op$|\/s$/ { time = 0 }
    time && $1 != "geomean" && $6 ~ /^\+/ { sub(/^\+/, "", $6); sub(/%$/, "", $6); if ($6 + 0 >= most) { print "slower: " $1 ", +" $6 " %"; bad = 1 } }
    END { exit bad }'
fi
