package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leatmq/leat/engine"
	"github.com/leatmq/leat/index"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/metadata"
	"github.com/leatmq/leat/record"
	"github.com/leatmq/leat/segment"
)

// dumper prints one entry of a file: named values in order, as a line for people or a JSON object.
type dumper struct {
	w       io.Writer
	json    bool
	records bool
	damaged bool
	printed int // entries, of all files
}

// pair is one named value.
type pair struct {
	name  string
	value any
}

func newLogDump() *cobra.Command {
	var (
		output  string
		records bool
	)
	cmd := &cobra.Command{
		Use:   "dump FILE...",
		Short: "Print the batches of data files and the entries of index, snapshot and checkpoint files",
		Long: "Print the batches of data files (.log) and of the metadata's snapshots (.checkpoint), and the entries of .index, .timeindex, .txnindex,\n" +
			".snapshot and checkpoint files.\n" +
			"Exit code 1 when something in them is damaged; the damage is printed where it is.",
		Example: "  leat log dump data/orders-0/00000000000000000000.log --records",
		Args:    usageArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, files []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			d := &dumper{w: cmd.OutOrStdout(), json: output == "json", records: records}
			for _, name := range files {
				before := d.printed
				if err := d.dump(name); err != nil {
					return err
				}
				if d.printed == before {
					if err := d.nothing(name); err != nil {
						return err
					}
				}
			}
			if d.damaged {
				return &quietError{exitFailed}
			}
			return nil
		},
	}
	addOutputFlag(cmd, &output)
	cmd.Flags().BoolVar(&records, "records", false, "also print the records of each batch: offset, timestamp, key, value, headers")
	return cmd
}

func (d *dumper) dump(name string) error {
	if engine.IsSideFile(name) {
		return d.sideFile(name)
	}
	if metadata.IsSnapshotFile(name) {
		return d.metadataSnapshot(name)
	}
	_, suffix, ok := segment.ParseFileName(name)
	suffix = strings.TrimSuffix(suffix, segment.DeletedSuffix)
	if !ok {
		return usageError{fmt.Errorf("%s: not a file that a log directory has", name)}
	}
	switch suffix {
	case segment.LogSuffix:
		return d.log(name)
	case segment.IndexSuffix:
		return segment.DumpIndex(vfs.OS, name, func(i int, e index.OffsetEntry, problem error) error {
			return d.entry(name, i, problem, pair{"offset", e.Offset}, pair{"position", e.Position})
		})
	case segment.TimeIndexSuffix:
		return segment.DumpTimeIndex(vfs.OS, name, func(i int, e index.TimeEntry, problem error) error {
			return d.entry(name, i, problem, pair{"timestamp", e.Timestamp}, pair{"offset", e.Offset})
		})
	default:
		return segment.DumpTxnIndex(vfs.OS, name, func(i int, e index.AbortedTxn, problem error) error {
			return d.entry(name, i, problem, pair{"producerId", e.ProducerID}, pair{"firstOffset", e.FirstOffset},
				pair{"lastOffset", e.LastOffset}, pair{"lastStableOffset", e.LastStableOffset})
		})
	}
}

func (d *dumper) sideFile(name string) error {
	f, err := engine.ReadSideFile(vfs.OS, name)
	if unreadable(err) {
		return err
	}
	if err != nil {
		d.damaged = true
		return d.print(name, pair{"damage", err.Error()})
	}
	for _, line := range f.Lines {
		if err := d.print(name, pair{"kind", f.Kind}, pair{"entry", line}); err != nil {
			return err
		}
	}
	return nil
}

// unreadable tells a file that could not be read from one that was read and is damaged.
func unreadable(err error) bool {
	_, ok := errors.AsType[*fs.PathError](err)
	return ok
}

// metadataSnapshot prints the batches of a snapshot of the metadata, and what is wrong with it as a whole.
func (d *dumper) metadataSnapshot(name string) error {
	if err := d.log(name); err != nil {
		return err
	}
	if err := metadata.VerifySnapshotFile(vfs.OS, name); err != nil {
		d.damaged = true
		return d.print(name, pair{"damage", err.Error()})
	}
	return nil
}

func (d *dumper) entry(name string, i int, problem error, values ...pair) error {
	if errors.Is(problem, index.ErrUnused) {
		return d.print(name, pair{"entry", i}, pair{"unused", "zeros from here on"})
	}
	values = append([]pair{{"entry", i}}, values...)
	if problem != nil {
		d.damaged = true
		values = append(values, pair{"damage", problem.Error()})
	}
	return d.print(name, values...)
}

func (d *dumper) log(name string) error {
	end, err := segment.DumpLog(vfs.OS, name, func(b segment.DumpedBatch) error { return d.batch(name, b) })
	if err != nil || end.Pos == end.Size {
		return err
	}
	if end.Pos == 0 && end.Reason == segment.ZeroTail {
		if err := d.nothing(name); err != nil {
			return err
		}
	}
	if end.Reason == segment.ZeroTail {
		return d.print(name, pair{"position", end.Pos}, pair{"unused", strconv.FormatInt(end.Size-end.Pos, 10) + " bytes allocated ahead"})
	}
	d.damaged = true
	return d.print(name, pair{"position", end.Pos}, pair{"damage", fmt.Sprintf("%d bytes are no batch: %s", end.Size-end.Pos, end.Detail)})
}

func (d *dumper) batch(name string, dumped segment.DumpedBatch) error {
	b := dumped.Batch
	values := []pair{
		{"position", dumped.Pos}, {"baseOffset", b.BaseOffset()}, {"lastOffset", b.LastOffset()}, {"count", b.Count()}, {"size", b.SizeInBytes()},
		{"baseSequence", b.BaseSequence()}, {"producerId", b.ProducerID()}, {"producerEpoch", b.ProducerEpoch()},
		{"partitionLeaderEpoch", b.PartitionLeaderEpoch()}, {"isTransactional", b.IsTransactional()}, {"isControl", b.IsControl()},
		{"timestampType", timestampType(b)}, {"maxTimestamp", b.MaxTimestamp()}, {"compression", b.Codec().String()}, {"crc", b.CRC()},
	}
	if dumped.Problem != nil {
		d.damaged = true
		return d.print(name, append(values, pair{"damage", dumped.Problem.Error()})...)
	}
	if err := d.print(name, values...); err != nil || !d.records {
		return err
	}
	return d.recordsOf(name, b)
}

func timestampType(b record.Batch) string {
	if b.TimestampType() == record.LogAppendTime {
		return "LogAppendTime"
	}
	return "CreateTime"
}

func (d *dumper) recordsOf(name string, b record.Batch) error {
	err := b.Records(func(r *record.Record) error {
		ts := b.BaseTimestamp() + r.TimestampDelta
		if b.TimestampType() == record.LogAppendTime {
			ts = b.MaxTimestamp()
		}
		values := []pair{{"offset", b.BaseOffset() + int64(r.OffsetDelta)}, {"timestamp", ts}, {"time", time.UnixMilli(ts).UTC().Format(time.RFC3339Nano)}}
		values = append(values, payload("key", r.Key, r.KeyNull()), payload("value", r.Value, r.ValueNull()))
		return d.print(name, values...)
	})
	if err != nil {
		d.damaged = true
		return d.print(name, pair{"damage", err.Error()})
	}
	return nil
}

// payload shows bytes as text, quoted where they are not; null as null.
func payload(name string, b []byte, null bool) pair {
	if null {
		return pair{name, nil}
	}
	return pair{name, string(b)}
}

// nothing tells people that a file has no entries. In JSON no line says it.
func (d *dumper) nothing(name string) error {
	if d.json {
		return nil
	}
	what := "entries"
	if _, suffix, ok := segment.ParseFileName(name); ok && strings.TrimSuffix(suffix, segment.DeletedSuffix) == segment.LogSuffix {
		what = "batches"
	}
	_, err := fmt.Fprintf(d.w, "%s no %s\n", name, what)
	return err
}

// print writes one entry. In JSON each is an object on a line of its own.
func (d *dumper) print(file string, values ...pair) error {
	d.printed++
	var line strings.Builder
	if !d.json {
		line.WriteString(file)
		for _, v := range values {
			fmt.Fprintf(&line, " %s: %s", v.name, shown(v.value))
		}
		_, err := fmt.Fprintln(d.w, line.String())
		return err
	}
	line.WriteString(`{"file":` + quoted(file))
	for _, v := range values {
		line.WriteString("," + quoted(v.name) + ":" + quoted(v.value))
	}
	_, err := fmt.Fprintln(d.w, line.String()+"}")
	return err
}

func quoted(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("BUG: %T does not go into JSON: %v", v, err))
	}
	return string(b)
}

func shown(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		if strings.ContainsFunc(v, func(r rune) bool { return !strconv.IsPrint(r) }) {
			return strconv.Quote(v)
		}
		return v
	}
	return fmt.Sprint(v)
}
