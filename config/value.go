package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// value is a parsed value; which field counts is told by the key's type.
type value struct {
	null bool
	b    bool
	n    int64
	f    float64
	s    string
	list []string
}

// scaled multiplies a number, keeping "none" (negative) as -1 and stopping at the largest number.
func (v value) scaled(times int64) value {
	if times == 1 {
		return v
	}
	switch {
	case v.n < 0:
		v.n = -1
	case v.n > math.MaxInt64/times:
		v.n = math.MaxInt64
	default:
		v.n *= times
	}
	return v
}

// parse reads a value as Kafka would. The error is a sentence that names the key, the value and what was expected.
func (k *Key) parse(raw string) (value, error) {
	s := strings.TrimSpace(raw)
	switch k.Type {
	case Boolean:
		return k.parseBoolean(s)
	case Int, Short, Long:
		return k.parseNumber(s)
	case Double:
		return k.parseDouble(s)
	case List:
		return k.parseList(s)
	}
	if k.AnyCase {
		s = strings.ToLower(s)
	}
	if len(k.Values) > 0 && !slices.Contains(k.Values, s) {
		return value{}, k.wrong(raw, "one of "+strings.Join(k.Values, ", "))
	}
	return value{s: s, null: k.Nullable && s == ""}, nil
}

func (k *Key) parseBoolean(s string) (value, error) {
	switch strings.ToLower(s) {
	case "true":
		return value{b: true}, nil
	case "false":
		return value{}, nil
	}
	return value{}, k.wrong(s, "true or false")
}

func (k *Key) parseNumber(s string) (value, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < k.Min || n > k.Max || slices.Contains(k.holes, n) {
		return value{}, k.wrong(s, k.numbers())
	}
	return value{n: n}, nil
}

func (k *Key) parseDouble(s string) (value, error) {
	f, err := strconv.ParseFloat(s, 64)
	unlimited := k.Max == math.MaxInt64
	if err != nil || math.IsNaN(f) || f < float64(k.Min) || f > float64(k.Max) && !unlimited {
		if unlimited {
			return value{}, k.wrong(s, fmt.Sprintf("a number, at least %d", k.Min))
		}
		return value{}, k.wrong(s, fmt.Sprintf("a number from %d to %d", k.Min, k.Max))
	}
	return value{f: f}, nil
}

func (k *Key) parseList(s string) (value, error) {
	list := SplitList(s)
	for _, item := range list {
		if item == "" {
			return value{}, k.wrong(s, "a list without empty items")
		}
		if len(k.Values) > 0 && !slices.Contains(k.Values, item) {
			return value{}, k.wrong(s, "a list of "+strings.Join(k.Values, ", "))
		}
	}
	if strings.HasSuffix(k.Name, "throttled.replicas") && !isReplicaList(list) {
		return value{}, k.wrong(s, "* or a list of PARTITION:BROKER")
	}
	return value{list: list, null: k.Nullable && len(list) == 0}, nil
}

// SplitList splits the value of a List key into its items, without the blanks around them and without repetitions; "" has none.
func SplitList(s string) []string {
	if strings.TrimSpace(s) == "" {
		return nil
	}
	var list []string
	seen := map[string]bool{}
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); !seen[item] {
			seen[item] = true
			list = append(list, item)
		}
	}
	return list
}

func isReplicaList(list []string) bool {
	if len(list) == 1 && list[0] == "*" {
		return true
	}
	for _, item := range list {
		partition, broker, ok := strings.Cut(item, ":")
		_, err1 := strconv.ParseUint(partition, 10, 31)
		_, err2 := strconv.ParseUint(broker, 10, 31)
		if !ok || err1 != nil || err2 != nil {
			return false
		}
	}
	return true
}

// print writes a value as Kafka prints it.
func (k *Key) print(v value) string {
	switch {
	case v.null:
		return ""
	case k.Type == Boolean:
		return strconv.FormatBool(v.b)
	case k.Type == Int, k.Type == Short, k.Type == Long:
		return strconv.FormatInt(v.n, 10)
	case k.Type == Double:
		return printDouble(v.f)
	case k.Type == List:
		return strings.Join(v.list, ",")
	}
	return v.s
}

// printDouble always shows a point, as Java does, and an exponent from ten million on.
func printDouble(f float64) string {
	if f >= 1e7 {
		mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'E', -1, 64), "E+")
		if !strings.Contains(mantissa, ".") {
			mantissa += ".0"
		}
		return mantissa + "E" + strings.TrimLeft(exponent, "0")
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

func (k *Key) wrong(raw, expected string) *Error {
	return &Error{Key: k.Name, Msg: fmt.Sprintf("%s: %q is not allowed; expected %s", k.Name, raw, expected)}
}

// numbers describes the numbers a key takes, with their unit.
func (k *Key) numbers() string {
	unit := ""
	for suffix, name := range map[string]string{".ms": " milliseconds", ".bytes": " bytes", ".hours": " hours", ".minutes": " minutes"} {
		if strings.HasSuffix(k.Name, suffix) {
			unit = name
		}
	}
	what := "a whole number"
	if unit != "" {
		what += " of" + unit
	}
	switch {
	case k.Max == math.MaxInt64 && k.Min == math.MinInt64:
		return what
	case k.Max == math.MaxInt64:
		return fmt.Sprintf("%s, at least %d", what, k.Min)
	}
	what = fmt.Sprintf("%s from %d to %d", what, k.Min, k.Max)
	for _, hole := range k.holes {
		what += fmt.Sprintf(", but not %d", hole)
	}
	return what
}
