package config

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// fileBytesMax limits a configuration file: the largest sensible one is a few kilobytes.
const fileBytesMax = 1 << 20

// property is one line of a properties file.
type property struct {
	name, value string
	line        int
}

// readProperties reads a Java properties file: name=value, name:value or name value; # and ! begin comment lines; a backslash at the end continues
// a line; \n \t \r \f \uXXXX and \ before any other letter are understood.
func readProperties(path string) ([]property, error) {
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
	list, err := parseProperties(string(data))
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	return list, nil
}

func parseProperties(text string) ([]property, error) {
	var list []property
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
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
		p := property{line: number}
		var err1, err2 error
		p.name, err1 = unescape(name)
		p.value, err2 = unescape(rest)
		if err1 != nil || err2 != nil || p.name == "" {
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
