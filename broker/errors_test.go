package broker

import (
	"errors"
	"fmt"
	"testing"

	"github.com/leatmq/leat/engine"
	"github.com/leatmq/leat/metadata"
	"github.com/leatmq/leat/protocol"
	"github.com/leatmq/leat/record"
)

// B-E13, B-E14: what can happen in normal life has a code of its own that clients act on rightly; only what nobody foresaw is UNKNOWN_SERVER_ERROR.
func TestCodeOf(t *testing.T) {
	for _, e := range codes {
		if got := codeOf(fmt.Errorf("wrapped: %w", e.err)); got != e.code {
			t.Errorf("%v: %s, want %s", e.err, got.Name(), e.code.Name())
		}
		if e.code == protocol.UnknownServerError {
			t.Errorf("%v has no code", e.err)
		}
	}
	for _, tc := range []struct {
		err  error
		want protocol.Code
	}{
		{nil, protocol.None},
		{errors.New("unforeseen"), protocol.UnknownServerError},
		{&engine.StorageError{Path: "p", Op: "write", Err: errors.New("io")}, protocol.KafkaStorageError},
		{&record.Error{Kind: record.CorruptMessage}, protocol.CorruptMessage},
		{&metadata.Error{Kind: metadata.Busy}, protocol.RequestTimedOut},
	} {
		if got := codeOf(tc.err); got != tc.want {
			t.Errorf("%v: %s, want %s", tc.err, got.Name(), tc.want.Name())
		}
	}
	for kind, code := range kindCodes {
		if kind != metadata.KindUnknown && code == protocol.UnknownServerError {
			t.Errorf("metadata kind %v has no code", kind)
		}
	}
}
