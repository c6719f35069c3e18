package main

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/leatmq/leat/client"
)

// recordFormat appends a record as it is printed. It allocates nothing but what b needs.
type recordFormat func(b []byte, r *client.Record) []byte

// textFormat is values, one per line, byte for byte; with a separator, keys before them. What is null is empty, and without a separator when the key is.
func textFormat(separator string) recordFormat {
	return func(b []byte, r *client.Record) []byte {
		if separator != "" && r.Key != nil {
			b = append(append(b, r.Key...), separator...)
		}
		return append(append(b, r.Value...), '\n')
	}
}

// hexFormat is the same in hexadecimal; null is a dash.
func hexFormat(separator string) recordFormat {
	return func(b []byte, r *client.Record) []byte {
		if separator != "" {
			b = append(appendHex(b, r.Key), separator...)
		}
		return append(appendHex(b, r.Value), '\n')
	}
}

func appendHex(b, p []byte) []byte {
	if p == nil {
		return append(b, '-')
	}
	return hex.AppendEncode(b, p)
}

// jsonFormat is one JSON object per line. What is not UTF-8 is in keyBase64 or valueBase64.
func jsonFormat(b []byte, r *client.Record) []byte {
	b = append(b, `{"topic":`...)
	b = appendJSONString(b, r.Topic)
	b = append(b, `,"partition":`...)
	b = strconv.AppendInt(b, int64(r.Partition), 10)
	b = append(b, `,"offset":`...)
	b = strconv.AppendInt(b, r.Offset, 10)
	b = append(b, `,"timestamp":`...)
	b = strconv.AppendInt(b, r.Timestamp.UnixMilli(), 10)
	b = appendJSONBytes(append(b, ','), "key", r.Key)
	b = appendJSONBytes(append(b, ','), "value", r.Value)
	if len(r.Headers) > 0 {
		b = append(b, `,"headers":[`...)
		for i := range r.Headers {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSONBytes(append(b, '{'), "key", []byte(r.Headers[i].Key))
			b = appendJSONBytes(append(b, ','), "value", r.Headers[i].Value)
			b = append(b, '}')
		}
		b = append(b, ']')
	}
	return append(b, "}\n"...)
}

// appendJSONBytes adds a member whose value is bytes, or null.
func appendJSONBytes(b []byte, name string, p []byte) []byte {
	b = append(append(b, '"'), name...)
	switch {
	case p == nil:
		return append(b, `":null`...)
	case utf8.Valid(p):
		return appendJSONString(append(b, `":`...), p)
	}
	b = append(b, `Base64":"`...)
	return append(base64.StdEncoding.AppendEncode(b, p), '"')
}

// appendJSONString adds a string that is UTF-8. Control characters are escaped, those of terminals too.
func appendJSONString[S string | []byte](b []byte, s S) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			b = append(append(b, s[start:i]...), '\\', c)
		case c < ' ' || c == 0x7f:
			b = append(b, s[start:i]...)
			b = appendControl(b, c)
		case c == 0xc2 && i+1 < len(s) && s[i+1] < 0xa0: // U+0080 to U+009F
			b = append(b, s[start:i]...)
			i++
			b = appendControl(b, s[i])
		default:
			continue
		}
		start = i + 1
	}
	return append(append(b, s[start:]...), '"')
}

func appendControl(b []byte, c byte) []byte {
	switch c {
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	case '\t':
		return append(b, `\t`...)
	}
	const digits = "0123456789abcdef"
	return append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
}

// templateHelp explains templates in a help text.
const templateHelp = `A template is text with these in it: %k key, %s value, %h headers (name=value,...), %t topic, %p partition, %o offset, %T timestamp in milliseconds,
%d the same as date and time, %K and %S the lengths of key and value (-1: null), %% a percent sign; \n, \t, \r, \0, \\ and \xHH as usual. Nothing is added: for lines, end it with \n.`

// templateParts are what stands behind a percent sign.
var templateParts = map[byte]recordFormat{
	't': func(b []byte, r *client.Record) []byte { return append(b, r.Topic...) },
	'p': func(b []byte, r *client.Record) []byte { return strconv.AppendInt(b, int64(r.Partition), 10) },
	'o': func(b []byte, r *client.Record) []byte { return strconv.AppendInt(b, r.Offset, 10) },
	'T': func(b []byte, r *client.Record) []byte { return strconv.AppendInt(b, r.Timestamp.UnixMilli(), 10) },
	'd': func(b []byte, r *client.Record) []byte { return r.Timestamp.UTC().AppendFormat(b, timeLayout) },
	'k': func(b []byte, r *client.Record) []byte { return append(b, r.Key...) },
	's': func(b []byte, r *client.Record) []byte { return append(b, r.Value...) },
	'K': func(b []byte, r *client.Record) []byte { return appendLength(b, r.Key) },
	'S': func(b []byte, r *client.Record) []byte { return appendLength(b, r.Value) },
	'h': appendHeaders,
	'%': func(b []byte, _ *client.Record) []byte { return append(b, '%') },
}

func appendLength(b, p []byte) []byte {
	if p == nil {
		return append(b, "-1"...)
	}
	return strconv.AppendInt(b, int64(len(p)), 10)
}

func appendHeaders(b []byte, r *client.Record) []byte {
	for i := range r.Headers {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, r.Headers[i].Key...)
		b = append(b, '=')
		b = append(b, r.Headers[i].Value...)
	}
	return b
}

// templateFormat reads a template.
func templateFormat(template string) (recordFormat, error) {
	var parts []recordFormat
	var text []byte
	flush := func() {
		if len(text) > 0 {
			literal := text
			parts = append(parts, func(b []byte, _ *client.Record) []byte { return append(b, literal...) })
			text = nil
		}
	}
	for i := 0; i < len(template); i++ {
		switch template[i] {
		case '%':
			if i++; i == len(template) {
				return nil, errors.New("it ends with a percent sign; write %% for one")
			}
			part, ok := templateParts[template[i]]
			if !ok {
				return nil, fmt.Errorf("%%%c means nothing; there are %%k %%s %%h %%t %%p %%o %%T %%d %%K %%S %%%%", template[i])
			}
			flush()
			parts = append(parts, part)
		case '\\':
			c, n, err := escaped(template[i+1:])
			if err != nil {
				return nil, err
			}
			text = append(text, c)
			i += n
		default:
			text = append(text, template[i])
		}
	}
	flush()
	return func(b []byte, r *client.Record) []byte {
		for _, part := range parts {
			b = part(b, r)
		}
		return b
	}, nil
}

// escaped is the byte that stands behind a backslash, and how long that is.
func escaped(s string) (c byte, n int, err error) {
	if s == "" {
		return 0, 0, errors.New(`it ends with a backslash; write \\ for one`)
	}
	if i := strings.IndexByte(`ntr0\`, s[0]); i >= 0 {
		return "\n\t\r\x00\\"[i], 1, nil
	}
	if s[0] != 'x' || len(s) < 3 {
		return 0, 0, fmt.Errorf(`\%c means nothing; there are \n \t \r \0 \\ \xHH`, s[0])
	}
	v, err := strconv.ParseUint(s[1:3], 16, 8)
	if err != nil {
		return 0, 0, fmt.Errorf(`\x%s is no byte in hexadecimal`, s[1:3])
	}
	return byte(v), 3, nil
}

// unescape reads the escapes of templates in a separator.
func unescape(s string) (string, error) {
	var b []byte
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b = append(b, s[i])
			continue
		}
		c, n, err := escaped(s[i+1:])
		if err != nil {
			return "", err
		}
		b = append(b, c)
		i += n
	}
	return string(b), nil
}
