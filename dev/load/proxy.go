package main

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portico-run/portico/internal/lifecycle"
)

// proxy passes TCP connections on, and can make what is behind it slow, or
// silent.
type proxy struct {
	target   string
	listener net.Listener
	ctx      context.Context //nolint:containedctx // ends when the proxy closes
	cancel   context.CancelFunc
	work     sync.WaitGroup

	delay atomic.Int64 // of each answer, in nanoseconds
	stall atomic.Bool  // nothing passes while it is set
}

func newProxy(ctx context.Context, target string) (*proxy, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{target: target, listener: l}
	p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	p.work.Go(p.accept)
	return p, nil
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return // it is closed
		}
		p.work.Go(func() { p.pass(c) })
	}
}

// pass carries one connection until either side ends it.
func (p *proxy) pass(client net.Conn) {
	defer client.Close()
	server, err := (&net.Dialer{}).DialContext(p.ctx, "tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	ctx, cancel := context.WithCancel(p.ctx)
	var both sync.WaitGroup
	both.Go(func() { defer cancel(); p.copy(ctx, server, client, false) })
	both.Go(func() { defer cancel(); p.copy(ctx, client, server, true) })
	<-ctx.Done()
	_ = errors.Join(client.Close(), server.Close()) // ends the reads
	both.Wait()
}

// stallCheck is how often a silent connection looks whether it may speak again.
const stallCheck = 10 * time.Millisecond

func (p *proxy) copy(ctx context.Context, to io.Writer, from io.Reader, answers bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		for p.stall.Load() {
			if lifecycle.Pause(ctx, stallCheck) != nil {
				return
			}
		}
		if d := time.Duration(p.delay.Load()); d > 0 && answers && lifecycle.Pause(ctx, d) != nil {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// close ends the proxy with all connections.
func (p *proxy) close() error {
	p.cancel()
	err := p.listener.Close()
	p.work.Wait()
	return err
}
