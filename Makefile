# leat: every target runs on a machine with Go and make; `interop` also wants Java 17, Maven, gcc and kcat.
GO      ?= go
BIN     := bin/leat
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
DATA    ?= ./data
ARGS    ?=
FUZZTIME ?= 10s
N       ?= 1000
PAUSE   ?= 20s
BENCH   ?= .
BENCHSKIP ?= Restart|Partitions|Scale|Stages|Heartbeats
REF     ?= HEAD~1

.PHONY: build run test check race fuzz fuzz-recovery corruption bench bench-compare compare interop soak diskfull crash clean help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' Makefile

build: ## build bin/leat
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/leat

run: build ## serve Kafka clients on localhost:9092 with the data under ./data
	./$(BIN) serve --data-dir $(DATA) $(ARGS)

test: ## everything that needs Go alone, under five minutes on two cores
	$(GO) test ./...

check: ## gofmt, vet, staticcheck, the layer test, a compile for darwin/arm64 and windows/amd64
	@files=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$files" ]; then echo "gofmt -w these:"; echo "$$files"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	$(GO) test ./internal/arch
	GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 $(GO) vet ./...
	GOOS=windows GOARCH=amd64 CGO_ENABLED=0 $(GO) vet ./...
	cd interop && $(GO) vet ./...

race: ## the tests under the race detector, invariants on
	$(GO) test -race -timeout 30m ./...

fuzz: ## every fuzz target for FUZZTIME (default 10s) but those that match FUZZSKIP
	@set -e; for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' | grep -Ev '$(or $(FUZZSKIP),^$$)' || true); do \
	    GO=$(GO) fuzz/one.sh $$pkg $$target $(FUZZTIME); \
	  done; done

# What a start reads from disk: segment recovery, index load, snapshots, checkpoints, batch iteration, the metadata's records and snapshots.
RECOVERY := segment/FuzzRecover index/FuzzIndexLoad engine/FuzzDecodeSnapshot engine/FuzzSideFiles record/FuzzFrame metadata/FuzzDecodeRecord \
  metadata/FuzzSnapshot fuzz/FuzzLogRecovery

fuzz-recovery: ## the fuzz targets of what a start reads from disk, for FUZZTIME each
	@set -e; for t in $(RECOVERY); do \
	  GO=$(GO) fuzz/one.sh ./$${t%/*} $${t##*/} $(FUZZTIME); \
	done

corruption: ## start on every damaged data directory there is: every byte of every file (about five minutes)
	LEAT_CORRUPTION=full $(GO) test -count=1 -timeout 30m -v -run "^TestCorruption$$" ./fuzz

bench: ## the benchmark table: records/s, MB/s, CPU per GB, allocations, ratio to the bare system calls; BENCHSKIP=- adds the long ones
	$(GO) test -run '^$$' -bench '$(BENCH)' -skip '$(BENCHSKIP)' -benchtime 1x -timeout 30m ./bench

bench-compare: ## the packages' micro benchmarks beside those of the commit REF (default HEAD~1), in turns, with benchstat; PKGS, BENCH, COUNT, TIME, OUT, FAIL: see bench/against.sh
	GO=$(GO) bench/against.sh $(REF)

compare: ## leat beside Apache Kafka: the same workloads in turns, under ten minutes (Java 17, Maven); writes bin/compare.md and bin/compare.json
	@mkdir -p bin
	cd interop && $(GO) run ./compare -out ../bin $(ARGS)

interop: build ## foreign clients, real Kafka, the differential suite
	cd interop && $(GO) test -count=1 -p 1 -timeout 25m ./...

soak: build ## kill -9 the program N times (default 1000) under load, and during starts, with pauses of PAUSE (default 20s): nothing lost, nothing twice
	cd interop && LEAT_INTEROP_LEAT=$(CURDIR)/$(BIN) $(GO) test -count=1 -timeout 24h -v ./soak -args -kills $(N) -pause $(PAUSE)

diskfull: build ## fill small real file systems (tmpfs, ext4 on a loop device; needs root) ROUNDS times each (default 50) under load
	cd interop && LEAT_DISKFULL_ROUNDS=$(or $(ROUNDS),50) LEAT_INTEROP_LEAT=$(CURDIR)/$(BIN) $(GO) test -count=1 -timeout 4h -v ./diskfull

crash: ## cut the power after every operation, in STATES (default 100,000) states, and the metamorphic test at length (about four minutes); LEAT_SEED=clock takes other ones
	LEAT_CRASH_STATES=$(or $(STATES),100000) $(GO) test -count=1 -timeout 60m -run 'TestCrashPoints|TestMetamorphic' -v ./fuzz

clean: ## remove what build made; data stays
	rm -rf bin
