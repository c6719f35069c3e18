package protocol

// ProduceResponse is an answer to Produce, versions 3 to 13. Its slices may be used again.
type ProduceResponse struct {
	Version    int16
	ThrottleMs int32
	Topics     []ProduceTopic
	Nodes      []Node // v10+: where the leaders of CurrentLeader are
}

// ProduceTopic is one topic of an answer: Name up to v12, ID from v13.
type ProduceTopic struct {
	Name       string
	ID         [16]byte
	Partitions []ProducePartition
}

// ProducePartition is one partition of an answer.
type ProducePartition struct {
	Index           int32
	ErrorCode       Code
	BaseOffset      int64         // -1 on errors
	LogAppendTimeMs int64         // -1 with CreateTime
	LogStart        int64         // v5+; -1 when not known
	RecordErrors    []RecordError // v8+
	ErrorMessage    string        // v8+; "" = null
	CurrentLeader   *LeaderHint   // v10+; nil = absent
}

// RecordError says what is wrong with one record of a refused batch.
type RecordError struct {
	Index   int32  // in the batch
	Message string // "" = null
}

// AppendProduceResponse appends a whole answer frame: size, header, body. The bytes are those of kmsg.ProduceResponse.AppendTo.
func AppendProduceResponse(dst []byte, correlationID int32, r *ProduceResponse) []byte {
	if r.Version < 3 || r.Version > 13 {
		panic("BUG: no such version of a Produce answer")
	}
	at := len(dst)
	flexible := r.Version >= 9
	dst = append(dst, 0, 0, 0, 0)
	dst = appendInt32(dst, correlationID)
	if flexible {
		dst = append(dst, 0)
	}
	dst = appendLength(dst, len(r.Topics), flexible)
	for i := range r.Topics {
		dst = appendProduceTopic(dst, r.Version, &r.Topics[i])
	}
	dst = appendInt32(dst, r.ThrottleMs)
	switch {
	case !flexible:
	case r.Version >= 10 && len(r.Nodes) > 0:
		dst = appendNodes(append(dst, 1, 0), r.Nodes)
	default:
		dst = append(dst, 0)
	}
	return finishFrame(dst, at)
}

func appendProduceTopic(dst []byte, version int16, t *ProduceTopic) []byte {
	flexible := version >= 9
	if version >= 13 {
		dst = append(dst, t.ID[:]...)
	} else {
		dst = appendString(dst, t.Name, flexible)
	}
	dst = appendLength(dst, len(t.Partitions), flexible)
	for i := range t.Partitions {
		dst = appendProducePartition(dst, version, &t.Partitions[i])
	}
	if flexible {
		dst = append(dst, 0)
	}
	return dst
}

func appendProducePartition(dst []byte, version int16, p *ProducePartition) []byte {
	flexible := version >= 9
	dst = appendInt32(dst, p.Index)
	dst = appendInt16(dst, int16(p.ErrorCode))
	dst = appendInt64(dst, p.BaseOffset)
	dst = appendInt64(dst, p.LogAppendTimeMs)
	if version >= 5 {
		dst = appendInt64(dst, p.LogStart)
	}
	if version >= 8 {
		dst = appendRecordErrors(dst, p.RecordErrors, flexible)
		dst = appendNullableString(dst, p.ErrorMessage, p.ErrorMessage != "", flexible)
	}
	switch {
	case !flexible:
	case version >= 10 && p.CurrentLeader != nil && *p.CurrentLeader != LeaderHint{-1, -1}:
		dst = appendLeaderHint(append(dst, 1, 0), *p.CurrentLeader)
	default:
		dst = append(dst, 0)
	}
	return dst
}

func appendRecordErrors(dst []byte, list []RecordError, flexible bool) []byte {
	dst = appendLength(dst, len(list), flexible)
	for i := range list {
		dst = appendInt32(dst, list[i].Index)
		dst = appendNullableString(dst, list[i].Message, list[i].Message != "", flexible)
		if flexible {
			dst = append(dst, 0)
		}
	}
	return dst
}
