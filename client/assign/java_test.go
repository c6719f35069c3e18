package assign

import (
	"encoding/hex"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

var questions = flag.String("questions", "", "write the questions of TestAgainstJava to a file")

// TestAgainstJava: the answers of Kafka 4.4's own assignors to random questions. Range and RoundRobin answer the same; the sticky ones need not, for
// there are many good answers: theirs is never more even than ours, and keeps no more in its place when it is as even.
func TestAgainstJava(t *testing.T) {
	if *questions != "" {
		if err := os.WriteFile(*questions, randomQuestions(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	file, err := os.ReadFile("testdata/java.txt")
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	ours, theirs := 0, 0
	for line := range strings.Lines(strings.ReplaceAll(string(file), "\r\n", "\n")) {
		question, want, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		assignor, members, partitions := parseQuestion(t, question)
		answer := assignor.Assign(members, partitions)
		asked++
		if want == "fails" { // Java's cooperative-sticky throws an IllegalStateException; ours has an answer
			checkValid(t, members, partitions, answer, nil)
			continue
		}
		if assignor == Range || assignor == RoundRobin {
			if text(answer) != want {
				t.Errorf("%s:\n got %s\nwant %s", question, text(answer), want)
			}
			continue
		}
		java := parseAnswer(want)
		before := map[string][]TopicPartition{}
		for _, m := range members {
			before[m.ID] = m.Owned
			if assignor == Sticky {
				before[m.ID] = stickyClaim(&m).partitions
			}
		}
		if a, b := stayed(before, answer), stayed(before, java); sumOfSquares(answer) > sumOfSquares(java) && assignor == Sticky {
			t.Errorf("%s: %s is less even than %s", question, text(answer), want)
		} else if sumOfSquares(answer) == sumOfSquares(java) {
			ours, theirs = ours+a, theirs+b
			if a < b {
				t.Errorf("%s: %d partitions stay, with Java's assignor %d:\n%s\n%s", question, a, b, text(answer), want)
			}
		}
	}
	t.Logf("%d questions; where both are as even, %d partitions stay, %d with Java's assignors", asked, ours, theirs)
	if asked < 300 {
		t.Errorf("%d questions", asked)
	}
}

// randomQuestions is groups at rest, and what happened to them since.
func randomQuestions() []byte {
	var b strings.Builder
	for seed := range uint64(90) {
		r := rand.New(rand.NewPCG(seed, 7))
		members, partitions := randomGroup(r)
		for _, a := range []Assignor{Range, RoundRobin, Sticky, CooperativeSticky} {
			asked, exist := members, partitions
			if a == Sticky || a == CooperativeSticky {
				asked, exist = change(r, next(a, members, Sticky.Assign(members, partitions), 3), partitions)
			}
			writeQuestion(&b, a, asked, exist)
		}
	}
	return []byte(b.String())
}

func writeQuestion(b *strings.Builder, a Assignor, members []Member, partitions map[string]int32) {
	var topics []string
	for topic, n := range partitions {
		topics = append(topics, fmt.Sprintf("%s=%d", topic, n))
	}
	slices.Sort(topics)
	fmt.Fprintf(b, "%s|%s|", a.Name(), strings.Join(topics, " "))
	for _, m := range members {
		owned := text(map[string][]TopicPartition{"": m.Owned})
		fmt.Fprintf(b, "%s,%s,%s,%s,%d,%x;", m.ID, m.InstanceID, strings.Join(m.Topics, " "), strings.TrimPrefix(owned, ": ")[:max(0, len(owned)-2)], m.Generation, m.UserData)
	}
	b.WriteString("\n")
}

func parseQuestion(t *testing.T, question string) (a Assignor, members []Member, partitions map[string]int32) {
	t.Helper()
	parts := strings.Split(question, "|")
	partitions = map[string]int32{}
	for f := range strings.FieldsSeq(parts[1]) {
		topic, n, _ := strings.Cut(f, "=")
		partitions[topic] = int32(n[0] - '0')
		if len(n) != 1 {
			partitions[topic] = 10*partitions[topic] + int32(n[1]-'0')
		}
	}
	for m := range strings.SplitSeq(strings.TrimSuffix(parts[2], ";"), ";") {
		f := strings.Split(m, ",")
		member := Member{ID: f[0], InstanceID: f[1], Topics: strings.Fields(f[2]), Owned: tps(f[3])}
		if _, err := fmt.Sscan(f[4], &member.Generation); err != nil {
			t.Fatal(err)
		}
		var err error
		if member.UserData, err = hex.DecodeString(f[5]); err != nil {
			t.Fatal(err)
		}
		members = append(members, member)
	}
	return ByName(parts[0]), members, partitions
}

func parseAnswer(s string) map[string][]TopicPartition {
	answer := map[string][]TopicPartition{}
	for m := range strings.SplitSeq(s, "; ") {
		id, all, _ := strings.Cut(m, ":")
		answer[id] = tps(all)
	}
	return answer
}
