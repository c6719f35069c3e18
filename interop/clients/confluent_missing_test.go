//go:build !cgo

package clients

import (
	"testing"

	"github.com/leatmq/leat/interop/harness"
)

func TestConfluent(t *testing.T) { harness.Missing(t, "confluent-kafka-go needs cgo and a C compiler") }
