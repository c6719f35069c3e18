package config

import (
	"fmt"
	"io"
	"os"

	"github.com/leatmq/leat/internal/properties"
)

// fileBytesMax limits a configuration file: the largest sensible one is a few kilobytes.
const fileBytesMax = 1 << 20

// readProperties reads a Java properties file.
func readProperties(path string) ([]properties.Property, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, fileBytesMax+1))
	if err != nil {
		return nil, err
	}
	if len(data) > fileBytesMax {
		return nil, fmt.Errorf("%s: larger than %d bytes, so hardly a configuration file", path, fileBytesMax)
	}
	list, err := properties.Parse(string(data))
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	return list, nil
}
