// Package netio accepts connections, cuts their bytes into frames, hands the frames to a Handler, and sends the answers
// back in the order of the requests. It knows frames, not requests: a frame is a 4-byte big-endian length and that many
// bytes; an answer is bytes and ranges of files, written as given.
//
// # Two drivers
//
// "epoll" (Linux) runs a few event loops. One loop owns a connection: its descriptor, its framer, its
// pipeline and its place in epoll are touched by that loop only. File ranges leave by sendfile(2).
//
// "net" (every platform, and TLS everywhere) runs a reader and a writer goroutine per connection over the standard
// library. Both drivers show the Handler the same Call and Conn, so the broker does not know which one is below.
//
// # One request
//
//	frame complete -> Call appended to the connection's pipeline -> Handler.OnRequest(call)   (loop or reader goroutine)
//	call.Complete(response)                                                                   (any goroutine, once)
//	the call is the oldest of its connection and completed -> its parts are sent -> everything it held is released
//
// Completing out of order is normal; the pipeline keeps an answer until all older answers are out.
//
// # Who owns what
//
//   - The request's Frame belongs to the Call until Complete, which releases it. A handler that needs the bytes longer, or
//     wants them freed earlier (record batches waiting for replication), takes the frame with Call.TakeFrame before it
//     shares the call; from then on the last Release returns the memory to the pool. Frames are reference counted:
//     Retain once per additional user.
//   - The Call belongs to the handler from OnRequest until Complete, and to netio afterwards: after Complete the handler
//     must not touch it, for it is reused. Call.User stays with the Call from one use to the next, so that a handler's
//     per-request state needs no pool of its own; it is netio's to keep, untouched, until the answer has left.
//   - Response.Body, Parts, Buffer and every FileRef belong to netio from Complete until the answer has left or the
//     connection is gone. Then, exactly once: each FileRef is released (as soon as its range is out), then Buffer, then
//     Release runs.
//
// Under invariant.Enabled neither frames nor calls are reused and released frames are overwritten, so that a second
// Release, a second Complete and a read after release are found instead of corrupting another request.
//
// # Back-pressure
//
// A connection is not read (it is muted) while any of these holds: it has Options.MaxInFlight unanswered requests; its
// unanswered request frames exceed Options.InFlightBytesLimit; its completed but unsent bytes exceed
// Options.QueuedBytesLimit (file ranges are free: they hold no memory); the handler asked for it (Conn.Mute); the frame it
// sends needs memory that is not there; its peer or this server has finished sending requests.
//
// A frame's length is checked before memory is taken for it. The memory of all request frames, from their beginning to their
// last Release, is at most
//
//	Options.FrameBytesLimit + connections x 64 KiB
//
// because every connection has 64 KiB of its own: a connection without unanswered requests can always send one of up to
// 64 KiB, whatever the others hold. All else is shared. A long frame begins with a little and doubles when that is full of
// bytes that have arrived, so a length alone takes nothing from others; only while less than half of the limit is in use, up
// to 1 MiB is taken at once, to be read into without a copy. Who needs more than there is waits alone, and is granted memory
// as others give it back. (Beside the frames, a connection that is not read may hold up to 64 KiB of what had been read, and
// released frames stay in pools for a while.)
//
// Memory cannot be held for ever: a connection whose frame gets less than 64 KiB further in Options.FrameTimeout is closed,
// and when somebody has waited longer than a second, those with unfinished frames that make the least progress are, until
// somebody is served (SlowFrameError). Time in which this server does not read counts against nobody.
//
// A connection has at most 32 requests delivered before the others of its loop get their turn.
//
// # End of a connection
//
// Handler.OnClose runs exactly once per connection with the reason, after which Call.Canceled of its open calls is true. A
// peer that closes its sending side still gets the answers to what it asked, for at most Options.HalfCloseTimeout. A
// panic in OnRequest closes that connection and no other.
package netio
