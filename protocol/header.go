package protocol

import (
	"encoding/binary"
	"fmt"
)

// Header is a request's header.
type Header struct {
	Key, Version  int16
	CorrelationID int32
	ClientID      string
	HasClientID   bool // false: null
}

// UnsupportedError is a request whose key or version this broker does not answer. Key, version and correlation id are known, nothing behind them
// is. Kafka closes the connection, but for ApiVersions, where the caller answers UnsupportedAPIVersions.
type UnsupportedError struct {
	Key, Version  int16
	CorrelationID int32
}

func (e *UnsupportedError) Error() string {
	if a := LookupAPI(e.Key); a != nil {
		return fmt.Sprintf("%s version %d is not supported (%s is)", a.Name, e.Version, versions(a.Min, a.Max))
	}
	return fmt.Sprintf("request with the unknown API key %d (version %d)", e.Key, e.Version)
}

// MalformedError is a request that does not follow the format of its key and version, or that would need unreasonable memory. The connection
// cannot be trusted any more and is closed.
type MalformedError struct {
	Key, Version int16
	Msg          string
}

func (e *MalformedError) Error() string {
	name := fmt.Sprintf("key %d", e.Key)
	if a := LookupAPI(e.Key); a != nil {
		name = a.Name
	}
	return fmt.Sprintf("malformed %s request, version %d: %s", name, e.Version, e.Msg)
}

// ParseHeader reads the header of a request frame (without its size). See Header.Parse.
func ParseHeader(frame []byte) (h Header, body []byte, err error) {
	body, err = h.Parse(frame)
	return h, body, err
}

// Parse reads the header of a request frame (without its size) into h and returns the body, which aliases the frame. ClientID is a copy, or the
// one h had before when it is the same: parsing all requests of a connection into one Header allocates once.
//
// Errors: *UnsupportedError with Key, Version and CorrelationID set in h; *MalformedError. After an error h has no client id: it would be that of an
// earlier request. The client id may be null or empty, unknown tagged fields are skipped.
func (h *Header) Parse(frame []byte) (body []byte, err error) {
	if body, err = h.parse(frame); err != nil {
		h.ClientID, h.HasClientID = "", false
	}
	return body, err
}

func (h *Header) parse(frame []byte) (body []byte, err error) {
	if len(frame) < 8 {
		return nil, &MalformedError{Key: -1, Version: -1, Msg: fmt.Sprintf("a frame of %d bytes is too short for a header", len(frame))}
	}
	h.Key = int16(binary.BigEndian.Uint16(frame))
	h.Version = int16(binary.BigEndian.Uint16(frame[2:]))
	h.CorrelationID = int32(binary.BigEndian.Uint32(frame[4:]))
	a := LookupAPI(h.Key)
	if a == nil || !a.Supports(h.Version) {
		return nil, &UnsupportedError{Key: h.Key, Version: h.Version, CorrelationID: h.CorrelationID}
	}
	r := reader{b: frame[8:]}
	id, null := r.shortString() // stays a string with a 2-byte length in flexible versions
	if a.IsFlexible(h.Version) {
		r.skipTags()
	}
	if r.bad {
		return nil, &MalformedError{Key: h.Key, Version: h.Version, Msg: "the header ends early"}
	}
	h.HasClientID = !null
	if h.ClientID != string(id) {
		h.ClientID = string(id)
	}
	return r.b, nil
}
