package protocol

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Names, numbers and retriable flags of all codes, as the classes of Kafka 4.4.0 have them.
func TestCodesLikeKafka(t *testing.T) {
	f, err := os.Open("testdata/error_codes.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for s := bufio.NewScanner(f); s.Scan(); n++ {
		var code int16
		var retriable int
		var name string
		if _, err := fmt.Sscan(s.Text(), &code, &retriable, &name); err != nil {
			t.Fatal(err)
		}
		c := Code(code)
		if c.Name() != name || c.Retriable() != (retriable == 1) {
			t.Errorf("%d: %s, retriable %v; Kafka: %s", code, c.Name(), c.Retriable(), s.Text())
		}
		if (c.Message() == "") != (c == None) {
			t.Errorf("%s has the message %q", name, c.Message())
		}
	}
	if n != len(codes) || int(codeMax-codeMin)+1 != len(codes) {
		t.Errorf("%d codes in the file, %d in the table", n, len(codes))
	}
	if c := Code(999); c.Name() != "UNKNOWN_SERVER_ERROR" || c.Retriable() || c.Message() == "" {
		t.Errorf("a code that does not exist: %s", c)
	}
	if c := Code(-2); c.Name() != "UNKNOWN_SERVER_ERROR" {
		t.Errorf("a code that does not exist: %s", c)
	}
}

func TestAPIsSorted(t *testing.T) {
	if !slices.IsSortedFunc(APIs, func(a, b API) int { return int(a.Key) - int(b.Key) }) {
		t.Error("APIs must be in order of key")
	}
	for key := int16(-2); key < 200; key++ {
		a := LookupAPI(key)
		if i := slices.IndexFunc(APIs, func(a API) bool { return a.Key == key }); i < 0 != (a == nil) || a != nil && a.Key != key {
			t.Errorf("lookup of key %d: %+v", key, a)
		}
	}
}

// What is listed is listed exactly as Kafka 4.4.0 lists it.
func TestRangesLikeKafka(t *testing.T) {
	text, err := os.ReadFile("testdata/api_ranges_kafka_4.4.0.txt")
	if err != nil {
		t.Fatal(err)
	}
	theirs := map[int16]string{}
	for line := range strings.Lines(string(text)) {
		var key, low, high int16
		if n, _ := fmt.Sscanf(line, "%d %d-%d", &key, &low, &high); n == 3 {
			theirs[key] = versions(low, high)
		}
	}
	for _, a := range APIs {
		if ours := versions(a.AdvertisedMin, a.Max); ours != theirs[a.Key] {
			t.Errorf("%s is listed as %s, by Kafka as %q", a.Name, ours, theirs[a.Key])
		}
	}
}

// The exact bytes of every version's answer. When the table of APIs grows, they change: look at the difference.
func TestAPIVersionsGolden(t *testing.T) {
	const path = "testdata/api_versions.txt"
	var b strings.Builder
	for version := int16(0); version <= 5; version++ {
		fmt.Fprintf(&b, "v%d %s\n", version, hex.EncodeToString(AppendResponse(nil, 7, APIVersions(version, Features, 3))))
	}
	fmt.Fprintf(&b, "unsupported %s\n", hex.EncodeToString(AppendResponse(nil, 7, UnsupportedAPIVersions())))
	if os.Getenv("REWRITE") != "" {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("got\n%swant\n%s(REWRITE=1 writes the file)", b.String(), want)
	}
}

func TestAPIVersions(t *testing.T) {
	features := []Feature{{"from.zero", 0, 2, 1}, {"from.one", 1, 2, 2}, {"off", 1, 3, 0}}
	for version := int16(0); version <= 5; version++ {
		resp := APIVersions(version, features, 9)
		back := kmsg.NewPtrApiVersionsResponse()
		back.Version = version
		if err := back.ReadFrom(AppendResponse(nil, 1, resp)[8:]); err != nil { // header v0 in every version: gotcha 2
			t.Fatal(err)
		}
		if len(back.ApiKeys) != len(APIs) || back.ErrorCode != 0 {
			t.Fatalf("v%d: %+v", version, back)
		}
		// Gotcha 1: Produce is listed from 0.
		if p := back.ApiKeys[0]; p.ApiKey != KeyProduce || p.MinVersion != 0 || p.MaxVersion != 13 {
			t.Errorf("v%d: Produce is listed as %+v", version, p)
		}
		var supported, finalized []string
		for _, f := range back.SupportedFeatures {
			supported = append(supported, f.Name)
		}
		for _, f := range back.FinalizedFeatures {
			finalized = append(finalized, f.Name)
		}
		want := map[int16]string{3: "[from.one off]", 4: "[from.zero from.one off]", 5: "[from.zero from.one off]"}[version]
		if want == "" {
			want = "[]"
		}
		if fmt.Sprint(supported) != want { // KAFKA-17011
			t.Errorf("v%d: supported features %v, want %s", version, supported, want)
		}
		if (version >= 3) != (fmt.Sprint(finalized) == "[from.zero from.one]") || (version >= 3) != (back.FinalizedFeaturesEpoch == 9) {
			t.Errorf("v%d: finalised %v, epoch %d", version, finalized, back.FinalizedFeaturesEpoch)
		}
	}
	if resp := APIVersions(5, features, -1); len(resp.FinalizedFeatures) != 0 || resp.FinalizedFeaturesEpoch != -1 {
		t.Errorf("without an epoch: %+v", resp)
	}
}

// Until there are transactions no client may be told to use the second protocol of transactions.
func TestNoTransactionVersion(t *testing.T) {
	for _, f := range Features {
		if f.Name == "transaction.version" && LookupAPI(24) == nil {
			t.Error("transaction.version without AddPartitionsToTxn")
		}
	}
}

// Gotchas 3 and 4: an unknown version is answered in version 0, with the range to try, whose maximum is below what was rejected.
func TestUnsupportedAPIVersions(t *testing.T) {
	frame := AppendResponse(nil, 7, UnsupportedAPIVersions())
	if got, want := hex.EncodeToString(frame), "00000010"+"00000007"+"0023"+"00000001"+"0012"+"0000"+"0005"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestCompatibilityTable(t *testing.T) {
	table := CompatibilityTable()
	lines := strings.Split(strings.TrimSpace(table), "\n")
	if len(lines) != len(APIs)+2 {
		t.Errorf("%d lines for %d APIs", len(lines), len(APIs))
	}
	for _, want := range []string{"| 0 | Produce | 3-13 | 0-13 |", "| 1 | Fetch | 4-18 | 4-18 |  |", "| 61 | DescribeProducers | 0 | 0 |  |"} {
		if !strings.Contains(table, want) {
			t.Errorf("no row %q in\n%s", want, table)
		}
	}
	for _, line := range lines {
		if strings.Count(line, "|") != 6 {
			t.Errorf("row %q", line)
		}
	}
}
