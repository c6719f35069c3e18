package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/leatmq/leat/client"
)

// lineMax is the longest line that is read: no broker takes a request that is larger.
const lineMax = 100 << 20

// lineReader reads lines of any bytes. The last one may lack its end.
type lineReader struct {
	r    *bufio.Reader
	long []byte // a line that does not fit into the reader
	read int64  // bytes
	line int64  // number of the last one, from 1
}

func newLineReader(r io.Reader) *lineReader { return &lineReader{r: bufio.NewReaderSize(r, 256<<10)} }

// next is the next line without its end; the bytes are valid until the following call. io.EOF: there is none.
func (l *lineReader) next() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	l.read += int64(len(line))
	if errors.Is(err, bufio.ErrBufferFull) {
		line, err = l.rest(line)
	}
	if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
		return nil, err
	}
	l.line++
	return bytes.TrimSuffix(line, []byte{'\n'}), nil
}

// rest reads on in a long line.
func (l *lineReader) rest(begin []byte) ([]byte, error) {
	l.long = append(l.long[:0], begin...)
	for {
		more, err := l.r.ReadSlice('\n')
		l.read += int64(len(more))
		l.long = append(l.long, more...)
		switch {
		case len(l.long) > lineMax:
			return nil, fmt.Errorf("line %d has more than %d MiB: no broker takes such a record", l.line+1, lineMax>>20)
		case !errors.Is(err, bufio.ErrBufferFull):
			return l.long, err
		}
	}
}

// recordParser makes a record of a line. False: there is none in it. What it puts into the record may lie in the line.
type recordParser func(line []byte, r *client.Record) (ok bool, err error)

// textParser is values; with a separator, what stands before the first one is the key. A line without it has the key null.
func textParser(separator string) recordParser {
	return func(line []byte, r *client.Record) (bool, error) {
		r.Key, r.Value = cutKey(line, separator)
		return true, nil
	}
}

func cutKey(line []byte, separator string) (key, value []byte) {
	if separator != "" {
		if i := bytes.Index(line, []byte(separator)); i >= 0 {
			return line[:i:i], notNull(line[i+len(separator):])
		}
	}
	return nil, notNull(line)
}

// notNull makes a slice that is empty one that is not nil.
func notNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// hexParser is the same in hexadecimal; a dash is null.
func hexParser(separator string) recordParser {
	return func(line []byte, r *client.Record) (ok bool, err error) {
		key, value := cutKey(bytes.TrimSuffix(line, []byte{'\r'}), separator)
		if r.Key, err = unhex(key); err == nil {
			r.Value, err = unhex(value)
		}
		return true, err
	}
}

// unhex decodes in place.
func unhex(b []byte) ([]byte, error) {
	if b == nil || string(b) == "-" {
		return nil, nil
	}
	n, err := hex.Decode(b, b)
	if err != nil {
		return nil, errors.New("it is not hexadecimal; two digits for each byte, or a dash for null, are expected")
	}
	return notNull(b[:n]), nil
}

// jsonRecord is a line of JSON: what `leat consume --output json` prints, or less.
type jsonRecord struct {
	Topic       json.RawMessage `json:"topic"`  // not looked at: of where the record was read
	Offset      json.RawMessage `json:"offset"` // likewise
	Partition   *int32          `json:"partition"`
	Timestamp   *int64          `json:"timestamp"`
	Key         json.RawMessage `json:"key"`
	KeyBase64   []byte          `json:"keyBase64"`
	Value       json.RawMessage `json:"value"`
	ValueBase64 []byte          `json:"valueBase64"`
	Headers     jsonHeaders     `json:"headers"`
}

type jsonHeader struct {
	Key         string          `json:"key"`
	KeyBase64   []byte          `json:"keyBase64"`
	Value       json.RawMessage `json:"value"`
	ValueBase64 []byte          `json:"valueBase64"`
}

// jsonHeaders is [{"key": "a", "value": "1"}], or {"a": "1"} when the order plays no role.
type jsonHeaders []jsonHeader

func (h *jsonHeaders) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '{' {
		return strictJSON(b, (*[]jsonHeader)(h))
	}
	d := json.NewDecoder(bytes.NewReader(b))
	_, _ = d.Token() // the brace
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		one := jsonHeader{Key: name.(string)}
		if err := d.Decode(&one.Value); err != nil {
			return err
		}
		*h = append(*h, one)
	}
	return nil
}

// strictJSON decodes and refuses names that are not known.
func strictJSON(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more behind the object")
	}
	return nil
}

// jsonParser reads one object per line; empty lines are passed over. With keepPartition, records go to the partitions that they name.
func jsonParser(keepPartition bool) recordParser {
	return func(line []byte, r *client.Record) (bool, error) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			return false, nil
		}
		if !utf8.Valid(line) {
			return false, errors.New("it is not UTF-8; other bytes go into keyBase64 and valueBase64")
		}
		var j jsonRecord
		if err := strictJSON(line, &j); err != nil {
			return false, jsonMistake(err)
		}
		return true, j.fill(r, keepPartition)
	}
}

// jsonMistake says what is wrong with a line.
func jsonMistake(err error) error {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if e.Field == "" {
			return fmt.Errorf("it is a JSON %s; an object such as {\"key\": \"k\", \"value\": \"v\"} is expected", e.Value)
		}
		return fmt.Errorf("%s cannot be a JSON %s", e.Field, e.Value)
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fmt.Errorf("%s is no field of a record; there are key, value, keyBase64, valueBase64, headers, timestamp and partition", name)
	}
	return fmt.Errorf("it is no JSON object: %w", err)
}

func (j *jsonRecord) fill(r *client.Record, keepPartition bool) (err error) {
	if r.Key, err = jsonBytes("key", j.Key, j.KeyBase64); err != nil {
		return err
	}
	if r.Value, err = jsonBytes("value", j.Value, j.ValueBase64); err != nil {
		return err
	}
	if keepPartition {
		if j.Partition == nil {
			return errors.New("it has no partition, and --keep-partition is given")
		}
		r.Partition = *j.Partition
	}
	if j.Timestamp != nil {
		if *j.Timestamp < 0 {
			return fmt.Errorf("timestamp %d is before 1970", *j.Timestamp)
		}
		r.Timestamp = time.UnixMilli(*j.Timestamp)
	}
	for i := range j.Headers {
		h := &j.Headers[i]
		value, err := jsonBytes("value of header "+h.Key, h.Value, h.ValueBase64)
		if err != nil {
			return err
		}
		key := h.Key
		if h.KeyBase64 != nil {
			key = string(h.KeyBase64)
		}
		r.Headers = append(r.Headers, client.Header{Key: key, Value: value})
	}
	return nil
}

// jsonBytes is a value as bytes: a string; null; an object or array, which is taken as it is written; or bytes in Base64.
func jsonBytes(name string, raw json.RawMessage, base64 []byte) ([]byte, error) {
	switch {
	case raw != nil && base64 != nil:
		return nil, fmt.Errorf("%s is there twice, as it is and in Base64", name)
	case base64 != nil:
		return base64, nil
	case raw == nil || string(raw) == "null":
		return nil, nil
	case raw[0] == '{' || raw[0] == '[':
		return raw, nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("%s is %s; a string, null, an object or an array is expected", name, raw)
	}
	return []byte(s), nil
}
