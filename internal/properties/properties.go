// Package properties reads Java properties files: a broker's configuration and the identity of a log directory are written in them.
package properties

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Property is one line of a file.
type Property struct {
	Name, Value string
	Line        int // where it begins, from 1 on
}

// Parse reads a text: name=value, name:value or name value on each line; # and ! begin comment lines; a backslash at the end continues a line;
// \n \t \r \f \uXXXX and \ before any other letter are understood. An error begins with the number of its line and a colon.
func Parse(text string) ([]Property, error) {
	if !utf8.ValidString(text) {
		return nil, errors.New("0: it is not a text file")
	}
	var list []Property
	lines := strings.Split(strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		number := i + 1
		line := strings.TrimLeft(lines[i], " \t\f")
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		for continues(line) {
			line = line[:len(line)-1]
			if i+1 == len(lines) {
				break
			}
			i++
			line += strings.TrimLeft(lines[i], " \t\f")
		}
		name, rest := cutName(line)
		p := Property{Line: number}
		var err1, err2 error
		p.Name, err1 = unescape(name)
		p.Value, err2 = unescape(rest)
		if err1 != nil || err2 != nil || p.Name == "" {
			return nil, fmt.Errorf("%d: %q is not name=value", number, line)
		}
		list = append(list, p)
	}
	return list, nil
}

// continues reports whether a line ends in an odd number of backslashes.
func continues(line string) bool {
	n := len(line) - len(strings.TrimRight(line, `\`))
	return n%2 == 1
}

// cutName splits a line at the first =, : or blank that is not escaped.
func cutName(line string) (name, rest string) {
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '=', ':':
			return line[:i], strings.TrimLeft(line[i+1:], " \t\f")
		case ' ', '\t', '\f':
			rest = strings.TrimLeft(line[i:], " \t\f")
			if rest != "" && (rest[0] == '=' || rest[0] == ':') {
				rest = strings.TrimLeft(rest[1:], " \t\f")
			}
			return line[:i], rest
		}
	}
	return line, ""
}

func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 'r':
			b.WriteByte('\r')
		case 'f':
			b.WriteByte('\f')
		case 'u':
			if i+5 > len(s) {
				return "", strconv.ErrSyntax
			}
			n, err := strconv.ParseUint(s[i+1:i+5], 16, 16)
			if err != nil {
				return "", err
			}
			b.WriteRune(rune(n))
			i += 4
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), nil
}

// Escape writes a value so that Parse and Java read it back.
func Escape(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == '\\' || r == ' ' && i == 0:
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\f':
			b.WriteString(`\f`)
		case r < ' ' || r > '~' && r <= 0xffff:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
