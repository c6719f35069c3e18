package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/leatmq/leat/client"
	"github.com/leatmq/leat/protocol"
	"github.com/leatmq/leat/record"
)

// flushMargin is how much longer than --timeout the end may take: records that cannot be sent shall say themselves why.
const flushMargin = 2 * time.Second

// producing is `leat produce` as its flags make it.
type producing struct {
	clusterFlags
	input         string
	keySeparator  string
	keepPartition bool
	headers       []string
	partition     int32
	acks          string
	compression   string
	linger        time.Duration
	maxRequest    int
	rate          float64

	parse  recordParser
	common []client.Header // of all records
	config client.ProducerConfig
}

func newProduce() *cobra.Command {
	var f producing
	cmd := &cobra.Command{
		Use:   "produce TOPIC [FILE...]",
		Short: "Write lines of standard input, or of files, to a topic",
		Long: "Write lines of standard input, or of files, to a topic: each line is the value of a record, byte for byte, without the line's end. A key may stand before it (--key-separator).\n" +
			"With --input json each line is an object such as {\"key\": \"k\", \"value\": \"v\", \"headers\": {\"h\": \"x\"}, \"timestamp\": 1796040000000}: a key or value is a string, null, or an\n" +
			"object or array, which is written as it stands; bytes that are not UTF-8 go into keyBase64 and valueBase64. It is what `leat consume --output json` prints. With --input hex\n" +
			"keys and values are in hexadecimal, and a dash is null.\n\n" +
			"Records with equal keys go to the same partition, as with Kafka's own producer. It is idempotent: a record is there once, in the order of the lines in its partition, whatever happens\n" +
			"to connections and brokers. At the end, and on Ctrl-C, what was read is sent, and it is said how many records are written.",
		Example: "  echo hello | leat produce greetings\n" +
			"  leat produce orders --key-separator : < orders.txt\n" +
			"  leat produce orders --compression zstd part1.txt part2.txt\n" +
			"  leat consume orders --from-beginning --exit-at-end --output json | leat produce copy --input json",
		Args: usageArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd.Flags().Changed("partition")); err != nil {
				return err
			}
			return f.run(cmd, args[0], args[1:])
		},
	}
	f.clusterFlags.add(cmd)
	fs := cmd.Flags()
	fs.StringVar(&f.input, "input", "text", "what lines are: text, json or hex")
	fs.StringVar(&f.keySeparator, "key-separator", "", "what `TEXT` stands between key and value, such as : or \\t; a line without it has no key (null)")
	fs.BoolVar(&f.keepPartition, "keep-partition", false, "records go to the partitions that their JSON names")
	fs.StringArrayVar(&f.headers, "header", nil, "a header of all records, `NAME=VALUE`; may be given several times")
	fs.Int32Var(&f.partition, "partition", 0, "the partition of all records; by default that of their key, or without one any")
	fs.StringVar(&f.acks, "acks", "all", "who has a record when it counts as written: all replicas in sync, 1 (the leader), or 0 (nobody: it is only sent)")
	fs.StringVar(&f.compression, "compression", "none", "none, gzip, snappy, lz4 or zstd")
	fs.DurationVar(&f.linger, "linger", 5*time.Millisecond, "how long a batch waits for more records")
	fs.IntVar(&f.maxRequest, "max-request-size", 1<<20, "bytes of the largest record; topics have a limit of their own, max.message.bytes")
	fs.Float64Var(&f.rate, "rate", 0, "records per second at most; 0: as fast as it goes")
	cmd.ValidArgsFunction = f.completeTopics(1)
	completeValues(cmd, map[string]string{"input": "text json hex", "acks": "all 1 0", "compression": "none gzip snappy lz4 zstd", "output": "table json"})
	return cmd
}

// check makes of the flags what they mean.
func (f *producing) check(partitionGiven bool) (err error) {
	if err := f.clusterFlags.check(); err != nil {
		return err
	}
	separator, err := unescape(f.keySeparator)
	if err != nil {
		return usageError{fmt.Errorf("--key-separator %q: %w", f.keySeparator, err)}
	}
	switch f.input {
	case "text":
		f.parse = textParser(separator)
	case "hex":
		f.parse = hexParser(separator)
	case "json":
		f.parse = jsonParser(f.keepPartition)
	default:
		return usageError{fmt.Errorf("--input is text, json or hex, not %q", f.input)}
	}
	switch {
	case f.input == "json" && separator != "":
		return usageError{errors.New("--key-separator is for text and hex: JSON has keys of its own")}
	case f.input != "json" && f.keepPartition:
		return usageError{errors.New("--keep-partition is for --input json")}
	case f.keepPartition && partitionGiven:
		return usageError{errors.New("--keep-partition and --partition exclude each other")}
	case partitionGiven && f.partition < 0:
		return usageError{fmt.Errorf("--partition is 0 or more, not %d", f.partition)}
	case f.rate < 0 || math.IsNaN(f.rate) || math.IsInf(f.rate, 0):
		return usageError{errors.New("--rate is 0 or more")}
	case f.linger < 0:
		return usageError{errors.New("--linger is 0 or more")}
	case f.maxRequest < 1024 || f.maxRequest > lineMax:
		return usageError{fmt.Errorf("--max-request-size is 1024 to %d, not %d", lineMax, f.maxRequest)}
	}
	for _, h := range f.headers {
		name, value, ok := strings.Cut(h, "=")
		if !ok {
			return usageError{fmt.Errorf("--header takes NAME=VALUE, not %q", h)}
		}
		f.common = append(f.common, client.Header{Key: name, Value: []byte(value)})
	}
	return f.configure(partitionGiven || f.keepPartition)
}

func (f *producing) configure(explicit bool) (err error) {
	f.config = client.ProducerConfig{Linger: f.linger, MaxRequestSize: f.maxRequest, BufferMemory: int64(max(32<<20, 2*f.maxRequest)), DeliveryTimeout: max(f.timeout, f.linger+time.Second), MaxBlock: f.timeout}
	if f.linger == 0 {
		f.config.Linger = -1
	}
	if f.config.Compression, err = record.ParseCodec(f.compression); err != nil {
		return usageError{fmt.Errorf("--compression is none, gzip, snappy, lz4 or zstd, not %q", f.compression)}
	}
	switch f.acks {
	case "all", "-1":
	case "1":
		f.config.Acks = client.AcksLeader
	case "0":
		f.config.Acks = client.AcksNone
	default:
		return usageError{fmt.Errorf("--acks is all, 1 or 0, not %q", f.acks)}
	}
	if explicit {
		f.config.Partitioner = client.ExplicitPartition()
	}
	return nil
}

// run reads, sends, and says what became of it. The first Ctrl-C ends the reading, a second one the program.
func (f *producing) run(cmd *cobra.Command, topic string, files []string) error {
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := f.findTopic(ctx, topic, cmd.Flags().Changed("partition")); err != nil {
		return err
	}
	config := f.clientConfig()
	config.AutoCreateTopics = true
	c, err := client.New(config)
	if err != nil {
		return usageError{err}
	}
	defer c.Close()
	producer, err := c.NewProducer(f.config)
	if err != nil {
		return usageError{err}
	}
	in, err := openInputs(cmd.InOrStdin(), files)
	if err != nil {
		return err
	}
	s := newSending(producer, topic, in, f)
	progress := startProgress(cmd.ErrOrStderr(), in, s)
	failed, interrupted := s.run(ctx)
	stop()
	if interrupted {
		progress.say("Sending what was read; Ctrl-C again to give it up.")
	}
	flushing, cancel := context.WithTimeout(context.Background(), f.timeout+flushMargin)
	defer cancel()
	if err := producer.Close(flushing); failed == nil && err != nil && s.failure() == nil {
		failed = err
	}
	progress.stop()
	return f.conclude(cmd.OutOrStdout(), s, failed, interrupted && !in.terminal)
}

// findTopic says what is wrong with the topic or the way to it. That it does not exist is no reason: brokers may create it.
func (f *producing) findTopic(ctx context.Context, topic string, partitionGiven bool) error {
	topics, err := f.lookUp(ctx, []string{topic})
	if err != nil {
		return err
	}
	t := topics[topic]
	switch {
	case t.Err == nil && partitionGiven && int(f.partition) >= len(t.Leaders):
		return noPartition(topic, f.partition, len(t.Leaders))
	case t.Err == nil || client.Code(t.Err) == protocol.UnknownTopicOrPartition || client.Retriable(t.Err):
		return nil
	}
	return t.Err
}

// conclude prints what is written, and makes the error.
func (f *producing) conclude(w io.Writer, s *sending, failed error, interrupted bool) error {
	if e := s.failure(); e != nil {
		failed = e
	}
	if failed != nil {
		failed = f.explain(s.topic, failed)
	} else if interrupted {
		failed = errors.New("interrupted; the rest of the input was not read")
	}
	if failed != nil && s.written() == 0 && f.output != "json" {
		return failed
	}
	return errors.Join(s.print(w, f.output, f.acks == "0"), failed)
}

// explain adds the way out to what a producer says.
func (f *producing) explain(topic string, err error) error {
	if e, ok := errors.AsType[*client.UnknownTopicError](err); ok {
		return fmt.Errorf("topic %q does not exist on %s, and is not created by writing to it; `leat topic create %s --bootstrap-server %s` creates it", e.Topic, f.servers[0], e.Topic, f.servers[0])
	}
	if e, ok := errors.AsType[*client.RecordTooLargeError](err); ok {
		return atLine(err, fmt.Errorf("the record takes up to %d bytes, more than --max-request-size (%d)", e.Size, e.Limit))
	}
	if e, ok := errors.AsType[*client.DeliveryTimeoutError](err); ok {
		what := "could not be sent"
		if e.Sent {
			what = "were sent and not acknowledged, so they may be there all the same,"
		}
		if e.Last == nil {
			return fmt.Errorf("records of partition %d %s within %v; look at the broker, or wait longer with --timeout", e.Partition, what, f.timeout)
		}
		return fmt.Errorf("records of partition %d %s within %v: %w", e.Partition, what, f.timeout, f.adviseClient(e.Last))
	}
	if errors.Is(err, client.ErrClosed) || errors.Is(err, context.DeadlineExceeded) && client.Code(err) == protocol.None && !client.Retriable(err) {
		return fmt.Errorf("not all records could be sent to %s within %v; look at the broker, or wait longer with --timeout", f.servers[0], f.timeout)
	}
	if client.Code(err) == protocol.MessageTooLarge {
		return fmt.Errorf("%w; the topic's max.message.bytes is the limit: `leat topic alter %s --config max.message.bytes=N` changes it", err, topic)
	}
	return f.adviseClient(err)
}

// lineError is an error about a line of the input.
type lineError struct {
	name string // of the file; "" for standard input
	line int64
	err  error
}

func (e *lineError) Error() string {
	if e.name == "" {
		return fmt.Sprintf("line %d: %v", e.line, e.err)
	}
	return fmt.Sprintf("%s:%d: %v", e.name, e.line, e.err)
}

func (e *lineError) Unwrap() error { return e.err }

// atLine says of which line it is, where that is known of an error that says it otherwise.
func atLine(of, says error) error {
	if e, ok := errors.AsType[*lineError](of); ok {
		return &lineError{e.name, e.line, says}
	}
	return says
}

// inputs are files one after the other, as lines.
type inputs struct {
	names    []string // that have not been opened; - is standard input
	stdin    io.Reader
	terminal bool  // somebody types
	total    int64 // bytes of all files; 0: not known
	name     string
	file     *os.File // open; nil for standard input
	lines    *lineReader
	before   int64 // bytes of the files that were read
}

// openInputs looks at the files; none are standard input.
func openInputs(stdin io.Reader, files []string) (*inputs, error) {
	in := &inputs{names: files, stdin: stdin}
	if len(files) == 0 {
		in.names = []string{"-"}
	}
	known := true
	for _, name := range in.names {
		if name == "-" {
			f, ok := stdin.(*os.File)
			in.terminal = ok && isTerminal(f)
			known = false
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		if info.IsDir() {
			return nil, fmt.Errorf("%s is a directory; give the files in it", name)
		}
		known = known && info.Mode().IsRegular()
		in.total += info.Size()
	}
	if !known {
		in.total = 0
	}
	return in, nil
}

// next is the next line of all files; see lineReader.next.
func (in *inputs) next() ([]byte, error) {
	for {
		if in.lines == nil {
			if len(in.names) == 0 {
				return nil, io.EOF
			}
			if err := in.open(in.names[0]); err != nil {
				return nil, err
			}
			in.names = in.names[1:]
		}
		line, err := in.lines.next()
		if !errors.Is(err, io.EOF) {
			return line, err
		}
		in.before += in.lines.read
		in.lines = nil
		if in.file != nil {
			_ = in.file.Close()
		}
	}
}

func (in *inputs) open(name string) (err error) {
	r := in.stdin
	in.name, in.file = "", nil
	if name != "-" {
		if in.file, err = os.Open(name); err != nil {
			return err
		}
		in.name, r = name, in.file
	}
	in.lines = newLineReader(r)
	return nil
}

// where puts the place in the input before an error.
func (in *inputs) where(err error) error {
	if in.lines == nil {
		return err
	}
	return &lineError{in.name, in.lines.line, err}
}

// read is the bytes that were read.
func (in *inputs) read() int64 {
	if in.lines == nil {
		return in.before
	}
	return in.before + in.lines.read
}
