package wake

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Listener passes the notifications of a PostgreSQL channel on to a Hub, so
// that a commit in one process wakes the readers in all of them. It holds one
// connection of its own, because LISTEN belongs to a connection.
type Listener struct {
	url     string
	channel string
	hub     *Hub
	log     *slog.Logger

	once sync.Once
	stop context.CancelFunc
	done chan struct{}
}

// reconnectAfter is the pause between attempts; readers poll meanwhile.
const reconnectAfter = time.Second

// NewListener returns a listener that has not started.
func NewListener(url, channel string, hub *Hub, log *slog.Logger) *Listener {
	return &Listener{url: url, channel: channel, hub: hub, log: log, done: make(chan struct{})}
}

// Start connects and listens in the background until Stop. It fails when the
// first connection does.
func (l *Listener) Start(ctx context.Context) error {
	conn, err := l.connect(ctx)
	if err != nil {
		return fmt.Errorf("listen for wake-ups: %w", err)
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = cancel
	go func() {
		defer close(l.done)
		l.listen(run, conn)
	}()
	return nil
}

// Stop ends the listening and waits until it has ended.
func (l *Listener) Stop(context.Context) error {
	l.once.Do(func() {
		if l.stop != nil {
			l.stop()
			<-l.done
		}
	})
	return nil
}

func (l *Listener) connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.Connect(ctx, l.url)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{l.channel}.Sanitize()); err != nil {
		_ = conn.Close(ctx)
		return nil, err
	}
	return conn, nil
}

func (l *Listener) listen(ctx context.Context, conn *pgx.Conn) {
	for {
		// Notifications from before LISTEN are lost, so every reader looks once.
		l.hub.PublishAll()
		for {
			n, err := conn.WaitForNotification(ctx)
			if err != nil {
				break
			}
			l.hub.Publish(n.Payload)
		}
		_ = conn.Close(context.WithoutCancel(ctx))
		if conn = l.reconnect(ctx); conn == nil {
			return
		}
	}
}

// reconnect tries until it succeeds or ctx ends; then it returns nil.
func (l *Listener) reconnect(ctx context.Context) *pgx.Conn {
	for ctx.Err() == nil {
		conn, err := l.connect(ctx)
		if err == nil {
			return conn
		}
		l.log.WarnContext(ctx, "wake-ups are late until the database answers", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(reconnectAfter):
		}
	}
	return nil
}
