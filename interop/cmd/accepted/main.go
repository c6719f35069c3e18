// Command accepted prints the table of accepted differences from Kafka for docs/COMPATIBILITY.md.
package main

import (
	"fmt"

	"github.com/leatmq/leat/interop/differential"
)

func main() { fmt.Print(differential.AcceptedMarkdown()) }
