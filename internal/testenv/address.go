package testenv

import (
	"crypto/rand"
	"net"
	"testing"
)

// FreeAddress is one that nobody listens on, and that nobody takes before the
// test does: the system gives out ports of 127.0.0.1, this is another address
// of the same machine.
func FreeAddress(t testing.TB) string {
	t.Helper()
	var b [3]byte
	_, _ = rand.Read(b[:]) // never fails
	host := net.IPv4(127, 1+b[0]%254, b[1], 1+b[2]%254)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(host.String(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}
