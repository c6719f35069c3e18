package record

import "fmt"

// Codec is a compression codec, by its number in the attributes.
type Codec uint8

const (
	None Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

var codecNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

func (c Codec) String() string {
	if int(c) < len(codecNames) {
		return codecNames[c]
	}
	return fmt.Sprintf("Codec(%d)", uint8(c))
}

// ParseCodec reads the name String gives; "uncompressed", as compression.type has it, is None too.
func ParseCodec(name string) (Codec, error) {
	if name == "uncompressed" {
		return None, nil
	}
	for c, n := range codecNames {
		if n == name {
			return Codec(c), nil
		}
	}
	return None, fmt.Errorf("unknown codec %q: want none, gzip, snappy, lz4 or zstd", name)
}

// Compress appends src, compressed, to dst. level is Kafka's for the codec; 0 is the codec's default.
func Compress(dst, src []byte, c Codec, level int) ([]byte, error) { panic("stub") }

// Decompress appends src, decompressed, to dst: at most limit bytes, else ErrInflate.
func Decompress(dst, src []byte, c Codec, limit int64) ([]byte, error) { panic("stub") }
