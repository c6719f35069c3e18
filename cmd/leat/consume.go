package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/leatmq/leat/client"
	"github.com/leatmq/leat/protocol"
)

// consuming is `leat consume` as its flags make it.
type consuming struct {
	clusterFlags
	place startPlace

	partitions   []int32
	group        string
	protocol     string
	isolation    string
	maxMessages  int64
	exitAtEnd    bool
	idle         time.Duration
	template     string
	keySeparator string
	key          string
	count        bool

	topics []string
	format recordFormat
	only   []byte // the key of the records that are shown; nil: any
	config client.ConsumerConfig
}

func newConsume() *cobra.Command {
	var f consuming
	cmd := &cobra.Command{
		Use:   "consume TOPIC...",
		Short: "Read records of topics, from their end on or from anywhere else",
		Long: "Read records of topics and print them: what is written from now on, or from where --from-beginning, --offset or --from-time say; up to the end there is now (--exit-at-end),\n" +
			"to a number of records (--max-messages), or until Ctrl-C. With --group the members of a group share the partitions, and begin where the group's committed offsets are; offsets\n" +
			"are committed of what is printed: every second, when a partition goes to another member, and at the end.\n\n" +
			"Text is the values byte for byte, a line each. JSON is an object on each line, with what is not UTF-8 in Base64 (keyBase64, valueBase64). Hex is values in hexadecimal, a dash\n" +
			"for null. " + templateHelp,
		Example: "  leat consume orders\n" +
			"  leat consume orders --from-beginning --exit-at-end --output json\n" +
			"  leat consume orders --offset -10 --exit-at-end --template '%p %o %d %k %s\\n'\n" +
			"  leat consume orders --from-time 1h --key customer-7\n" +
			"  leat consume orders --group billing --from-beginning\n" +
			"  leat consume orders --from-beginning --exit-at-end --count",
		Args: usageArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.topics = args
			if err := f.check(cmd.Flags().Changed); err != nil {
				return err
			}
			return f.run(cmd)
		},
	}
	fs := cmd.Flags()
	f.connection.add(fs)
	f.place.add(cmd)
	fs.DurationVar(&f.timeout, "timeout", 30*time.Second, "how long to try while the cluster does not answer")
	fs.Int32SliceVar(&f.partitions, "partition", nil, "only these `PARTITIONS`, such as 0,2; by default all")
	fs.StringVar(&f.group, "group", "", "be a member of this consumer `GROUP`")
	fs.StringVar(&f.protocol, "group-protocol", "classic", "how the members of the group agree: classic, or consumer (KIP-848: the broker assigns, and nothing stops meanwhile)")
	fs.StringVar(&f.isolation, "isolation-level", "read_uncommitted", "read_uncommitted, or read_committed: without records of transactions that are open or aborted")
	fs.Int64Var(&f.maxMessages, "max-messages", 0, "end after so many records; 0: any number")
	fs.BoolVar(&f.exitAtEnd, "exit-at-end", false, "end where the partitions end now")
	fs.DurationVar(&f.idle, "idle-timeout", 0, "end when nothing comes for so long; 0: wait for ever")
	fs.StringVarP(&f.output, "output", "o", "text", "how to print: text, json or hex")
	fs.StringVar(&f.template, "template", "", "how to print, as a `TEMPLATE` such as '%k: %s\\n'")
	fs.StringVar(&f.keySeparator, "key-separator", "", "print keys too, and this `TEXT` between key and value, such as : or \\t")
	fs.StringVar(&f.key, "key", "", "only records with this `KEY`")
	fs.BoolVar(&f.count, "count", false, "print how many records there are, at the end, and not the records")
	cmd.ValidArgsFunction = f.completeTopics(0)
	completeValues(cmd, map[string]string{"output": "text json hex", "group-protocol": "classic consumer", "isolation-level": "read_uncommitted read_committed", "offset": "earliest latest"})
	return cmd
}

// check makes of the flags what they mean.
func (f *consuming) check(changed func(string) bool) error {
	if f.timeout <= 0 {
		return usageError{fmt.Errorf("--timeout is more than nothing, not %v", f.timeout)}
	}
	if err := f.load(); err != nil {
		return err
	}
	if err := f.place.check(changed); err != nil {
		return usageError{err}
	}
	if err := f.checkFormat(changed); err != nil {
		return usageError{err}
	}
	switch {
	case f.group == "" && changed("group"):
		return usageError{errors.New("--group is given without a name")}
	case f.group == "" && changed("group-protocol"):
		return usageError{errors.New("--group-protocol is for members of a --group")}
	case f.group != "" && (len(f.partitions) > 0 || f.place.kind != "" && f.place.kind != "from-beginning"):
		return usageError{errors.New("--group goes without --partition, --offset and --from-time: a group has offsets and shares the partitions itself; `leat group reset` moves its offsets")}
	case f.maxMessages < 0 || f.idle < 0:
		return usageError{errors.New("--max-messages and --idle-timeout are 0 or more")}
	}
	for _, p := range f.partitions {
		if p < 0 {
			return usageError{fmt.Errorf("--partition is 0 or more, not %d", p)}
		}
	}
	if changed("key") {
		f.only = []byte(f.key)
	}
	return f.configure()
}

func (f *consuming) checkFormat(changed func(string) bool) error {
	separator, err := unescape(f.keySeparator)
	if err != nil {
		return fmt.Errorf("--key-separator %q: %w", f.keySeparator, err)
	}
	switch {
	case changed("template") && (changed("output") || separator != ""):
		return errors.New("--template says it all: it goes without --output and --key-separator")
	case changed("template"):
		if f.format, err = templateFormat(f.template); err != nil {
			return fmt.Errorf("--template %q: %w", f.template, err)
		}
		return nil
	case f.output == "json" && separator != "":
		return errors.New("--key-separator is for text and hex: JSON has keys of its own")
	}
	switch f.output {
	case "text":
		f.format = textFormat(separator)
	case "hex":
		f.format = hexFormat(separator)
	case "json":
		f.format = jsonFormat
	default:
		return fmt.Errorf("--output is text, json or hex, not %q", f.output)
	}
	return nil
}

func (f *consuming) configure() error {
	f.config = client.ConsumerConfig{Group: f.group, DisableAutoCommit: true, OffsetReset: client.ResetEarliest, HeartbeatInterval: time.Second}
	if f.group != "" && f.place.kind == "" {
		f.config.OffsetReset = client.ResetLatest
	}
	f.config.MaxWait = min(500*time.Millisecond, max(f.timeout, time.Second)/2)
	switch f.protocol {
	case "classic":
	case "consumer":
		f.config.Protocol = client.ConsumerProtocol
	default:
		return usageError{fmt.Errorf("--group-protocol is classic or consumer, not %q", f.protocol)}
	}
	switch f.isolation {
	case "read_uncommitted":
	case "read_committed":
		f.config.IsolationLevel = client.ReadCommitted
	default:
		return usageError{fmt.Errorf("--isolation-level is read_uncommitted or read_committed, not %q", f.isolation)}
	}
	return nil
}

// run reads until it is enough. A reader of the output that goes away ends it quietly, and so does Ctrl-C.
func (f *consuming) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	pipe := make(chan os.Signal, 1) // else the signal would end the program before it has left its group
	signal.Notify(pipe, syscall.SIGPIPE)
	defer signal.Stop(pipe)
	partitions, err := f.find(ctx)
	if err != nil {
		return err
	}
	config := f.clientConfig()
	config.MetadataMaxAge = growthCheck
	c, err := client.New(config)
	if err != nil {
		return usageError{err}
	}
	defer c.Close()
	r := &reading{consuming: f, w: cmd.OutOrStdout(), now: time.Now}
	f.config.OnRevoked = r.revoked
	if r.consumer, err = c.NewConsumer(f.config); err != nil {
		return usageError{err}
	}
	if err = r.begin(ctx, partitions); err == nil {
		err = r.all(ctx)
	}
	err = errors.Join(f.explain(r.quiet(ctx, err)), r.end(ctx))
	if f.count && err == nil {
		return f.printCount(r)
	}
	return err
}

// find is the partitions that are meant.
func (f *consuming) find(ctx context.Context) (all []client.TopicPartition, err error) {
	topics, err := f.lookUp(ctx, f.topics)
	if err != nil {
		return nil, err
	}
	for _, name := range f.topics {
		t := topics[name]
		if t.Err != nil {
			if client.Code(t.Err) == protocol.UnknownTopicOrPartition {
				return nil, noTopic(f.servers[0], name)
			}
			return nil, t.Err
		}
		some := f.partitions
		if len(some) == 0 {
			for p := range t.Leaders {
				some = append(some, int32(p))
			}
		}
		for _, p := range some {
			if int(p) >= len(t.Leaders) {
				return nil, noPartition(name, p, len(t.Leaders))
			}
			all = append(all, client.TopicPartition{Topic: name, Partition: p})
		}
	}
	return all, nil
}

func (f *consuming) printCount(r *reading) error {
	if f.output == "json" {
		return printJSON(r.w, struct {
			Records int64 `json:"records"`
		}{r.shown})
	}
	_, err := fmt.Fprintln(r.w, r.shown)
	return err
}

// explain adds the way out to what a consumer says.
func (f *consuming) explain(err error) error {
	if e, ok := errors.AsType[*client.UnknownTopicError](err); ok {
		return noTopic(f.servers[0], e.Topic)
	}
	return f.adviseClient(err)
}

// startPlace says where to begin.
type startPlace struct {
	beginning bool
	offset    string
	time      string
	kind      string // the flag that was given; "": the end

	at   int64 // of offset when it is a number; negative: so many before the end
	when time.Time
}

func (p *startPlace) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.BoolVar(&p.beginning, "from-beginning", false, "begin with the oldest record there is; with --group, where the group has no offset")
	fs.StringVar(&p.offset, "offset", "", "begin at this `OFFSET` of each partition: a number, earliest, latest, or -N for the last N")
	fs.StringVar(&p.time, "from-time", "", "begin with the first record not older than this `TIME`: RFC 3339, such as 2026-11-30T08:00:00Z, or a duration before now, such as 1h30m")
}

func (p *startPlace) check(changed func(string) bool) error {
	for _, name := range []string{"from-beginning", "offset", "from-time"} {
		if changed(name) && (name != "from-beginning" || p.beginning) {
			if p.kind != "" {
				return fmt.Errorf("--%s and --%s exclude each other", p.kind, name)
			}
			p.kind = name
		}
	}
	switch p.kind {
	case "offset":
		return p.checkOffset()
	case "from-time":
		return p.checkTime()
	}
	return nil
}

func (p *startPlace) checkOffset() (err error) {
	switch p.offset {
	case "earliest", "beginning":
		p.kind = "from-beginning"
		return nil
	case "latest", "end":
		p.kind = ""
		return nil
	}
	if p.at, err = strconv.ParseInt(p.offset, 10, 64); err != nil || strings.HasPrefix(p.offset, "+") || p.offset == "-0" {
		return fmt.Errorf("--offset is a number, earliest, latest, or -N for the last N records, not %q", p.offset)
	}
	return nil
}

func (p *startPlace) checkTime() error {
	if d, err := parseDuration(p.time); err == nil {
		p.when = now().Add(-d)
	} else if p.when, err = time.Parse(time.RFC3339, p.time); err != nil {
		return fmt.Errorf("--from-time: %q is neither a time as in RFC 3339, such as 2026-11-30T08:00:00Z, nor a duration, such as 1h30m", p.time)
	}
	if p.when.UnixMilli() < 0 {
		return errors.New("--from-time: a time before 1970")
	}
	return nil
}
