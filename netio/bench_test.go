package netio

import (
	"testing"
)

func BenchmarkEcho(b *testing.B) {
	for _, d := range drivers() {
		name := d.name
		if d.tls {
			name += "+tls"
		}
		b.Run(name, func(b *testing.B) {
			s := start(b, d.options(Options{Handler: newTestHandler(echo)}))
			c := dial(b, d, s)
			p := pattern(100)
			req := frameOf(p)
			buf := make([]byte, len(req))
			b.ReportAllocs()
			for b.Loop() {
				c.raw(req)
				readFull(b, c, buf)
			}
		})
	}
}

// BenchmarkEchoPipelined keeps 16 requests on their way on one connection.
func BenchmarkEchoPipelined(b *testing.B) {
	for _, d := range drivers() {
		if d.tls {
			continue
		}
		b.Run(d.name, func(b *testing.B) {
			s := start(b, d.options(Options{Handler: newTestHandler(echo)}))
			c := dial(b, d, s)
			const depth = 16
			var req []byte
			for range depth {
				req = append(req, frameOf(pattern(100))...)
			}
			buf := make([]byte, len(req))
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if n%depth == 0 {
					c.raw(req)
					readFull(b, c, buf)
				}
			}
		})
	}
}

func BenchmarkProduce1MiB(b *testing.B) {
	for _, d := range drivers() {
		if d.tls {
			continue
		}
		b.Run(d.name, func(b *testing.B) {
			answer := frameOf([]byte("ok"))
			s := start(b, d.options(Options{Handler: newTestHandler(func(c *Call) { c.Complete(Response{Body: answer}) })}))
			c := dial(b, d, s)
			req := frameOf(pattern(1 << 20))
			buf := make([]byte, len(answer))
			b.SetBytes(int64(len(req)))
			b.ReportAllocs()
			for b.Loop() {
				c.raw(req)
				readFull(b, c, buf)
			}
		})
	}
}

func readFull(b testing.TB, c *client, buf []byte) {
	for n := 0; n < len(buf); {
		k, err := c.Read(buf[n:])
		if err != nil {
			b.Fatal(err)
		}
		n += k
	}
}
