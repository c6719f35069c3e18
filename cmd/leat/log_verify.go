package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leatmq/leat/engine"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/metadata"
	"github.com/leatmq/leat/segment"
)

// progressInterval is how often a long check says how far it is.
const progressInterval = 2 * time.Second

// finding is one thing that is wrong, as `leat log verify --output json` shows it.
type finding struct {
	File     string `json:"file"`
	Position int64  `json:"position"` // in bytes; -1 when it is the whole file
	Problem  string `json:"problem"`
}

// report is the result of a check.
type report struct {
	Dir       string    `json:"dir"`
	Files     int       `json:"files"`
	Bytes     int64     `json:"bytes"`
	Problems  []finding `json:"problems"`
	Unchecked []string  `json:"unchecked,omitempty"` // files that this version has no check for
}

// verification walks a directory.
type verification struct {
	fsys     vfs.FS
	shallow  bool
	report   report
	progress io.Writer
	told     time.Time
}

func newLogVerify() *cobra.Command {
	var (
		output  string
		shallow bool
	)
	cmd := &cobra.Command{
		Use:   "verify DIR",
		Short: "Check every file of a data directory or of one partition's directory",
		Long: "Check every batch and record (checksums, offsets, timestamps), every index entry against its data file, every snapshot and checkpoint\n" +
			"of a data directory or of one partition's directory. Nothing is changed; the broker should be stopped.\n" +
			"Exit code 1 when something is wrong, with file and position of the damage.",
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			v := &verification{fsys: vfs.OS, shallow: shallow, progress: cmd.ErrOrStderr(), told: time.Now()}
			v.report = report{Dir: args[0], Problems: []finding{}}
			if err := v.dir(args[0]); err != nil {
				return err
			}
			if v.report.Files == 0 {
				return fmt.Errorf("%s has no file of a log in it: is it the data directory, or a partition's directory?", args[0])
			}
			if err := v.print(cmd.OutOrStdout(), output); err != nil {
				return err
			}
			if len(v.report.Problems) > 0 {
				return &quietError{exitFailed}
			}
			return nil
		},
	}
	addOutputFlag(cmd, &output)
	cmd.Flags().BoolVar(&shallow, "shallow", false, "check batches by their checksum only, not record by record")
	return cmd
}

func (v *verification) dir(dir string) error {
	entries, err := v.fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name)
		if e.IsDir {
			if err := v.dir(path); err != nil {
				return err
			}
			continue
		}
		v.file(path, e.Size)
	}
	return segment.VerifyOrder(v.fsys, dir, func(p segment.Problem) error {
		v.found(p.File, p.Pos, p.Kind.String()+": "+p.Msg)
		return nil
	})
}

func (v *verification) file(path string, size int64) {
	v.tellProgress(path)
	name := filepath.Base(path)
	_, _, isSegment := segment.ParseFileName(name)
	switch {
	case engine.IsSideFile(name):
		v.report.Files++
		v.report.Bytes += size
		if _, err := engine.ReadSideFile(v.fsys, path); err != nil {
			v.found(path, -1, err.Error())
		}
	case strings.HasSuffix(name, segment.CleanedSuffix), strings.HasSuffix(name, segment.SwapSuffix):
		// of a compaction that was interrupted: the next start removes it or puts it in place
	case metadata.IsSnapshotFile(name):
		v.report.Files++
		v.report.Bytes += size
		if err := metadata.VerifySnapshotFile(v.fsys, path); err != nil {
			v.found(path, -1, err.Error())
		}
	case isSegment:
		v.report.Files++
		v.report.Bytes += size
		v.segmentFile(path)
	case name != ".lock" && name != ".reserve" && !strings.HasSuffix(name, ".tmp"):
		v.report.Unchecked = append(v.report.Unchecked, path)
	}
}

func (v *verification) segmentFile(path string) {
	err := segment.Verify(v.fsys, path, !v.shallow, func(p segment.Problem) error {
		if !p.Harmless() {
			v.found(p.File, p.Pos, p.Kind.String()+": "+p.Msg)
		}
		return nil
	})
	if err != nil {
		v.found(path, -1, err.Error())
	}
}

func (v *verification) found(file string, pos int64, problem string) {
	v.report.Problems = append(v.report.Problems, finding{file, pos, problem})
}

func (v *verification) tellProgress(path string) {
	if time.Since(v.told) < progressInterval {
		return
	}
	v.told = time.Now()
	fmt.Fprintf(v.progress, "checked %d files, %d MB; now %s\n", v.report.Files, v.report.Bytes>>20, path)
}

func (v *verification) print(w io.Writer, output string) error {
	if output == "json" {
		return printJSON(w, &v.report)
	}
	for _, p := range v.report.Problems {
		where := "whole file"
		if p.Position >= 0 {
			where = fmt.Sprintf("position %d", p.Position)
		}
		fmt.Fprintf(w, "%s: %s: %s\n", p.File, where, p.Problem)
	}
	for _, path := range v.report.Unchecked {
		fmt.Fprintf(w, "%s: not checked, not a file of leat\n", path)
	}
	_, err := fmt.Fprintf(w, "%d files, %d bytes checked: %d problems\n", v.report.Files, v.report.Bytes, len(v.report.Problems))
	return err
}
