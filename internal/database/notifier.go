package database

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// notifier tells other processes about commits, through PostgreSQL.
//
// It does so after the commit, on a connection of its own: a transaction that
// notifies holds a lock of the whole server until it is on disk, so that no two
// of them commit at the same time. What came in the meantime goes in one
// statement. A process that dies in between costs its readers one poll.
type notifier struct {
	url string
	log *slog.Logger

	mu      sync.Mutex
	waiting map[string]struct{}
	bytes   int  // of the topics that wait
	over    bool // it was said that there are too many

	work   chan struct{} // holds a value when topics wait
	stop   context.CancelFunc
	once   sync.Once
	ending chan struct{}
	done   chan struct{}
}

const (
	// notifyGap is the time between two statements, in which topics gather.
	notifyGap = 10 * time.Millisecond
	// notifyTimeout is how long the server may take for one statement.
	notifyTimeout = 5 * time.Second
	// notifyAgain is the pause after a server that did not answer.
	notifyAgain = time.Second
	// notifyAtEnd is how long closing waits for the last statement.
	notifyAtEnd = 2 * time.Second
	// maxWaiting bounds the topics that wait, in bytes: some 20,000 runs.
	maxWaiting = 1 << 20
)

// notifySQL sets the durability of its own transaction, not of the connection:
// behind a pooler, other clients use the connection next.
const notifySQL = `SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, topic) FROM unnest($2::text[]) AS topic`

// startNotifier starts the goroutine, which outlives ctx until close. It connects
// when there is something to tell.
func startNotifier(ctx context.Context, url string, log *slog.Logger) *notifier {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	n := &notifier{
		url: url, log: log, waiting: map[string]struct{}{},
		work: make(chan struct{}, 1), stop: stop, ending: make(chan struct{}), done: make(chan struct{}),
	}
	go n.run(ctx)
	return n
}

// add queues topics. It never blocks: those that find no room are left to the
// poll.
func (n *notifier) add(topics []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, t := range topics {
		if _, known := n.waiting[t]; known {
			continue
		}
		if n.bytes+len(t) > maxWaiting {
			if !n.over {
				n.log.Warn("too many wake-ups wait for the database; other processes find what they are about by polling", "waiting", len(n.waiting))
			}
			n.over = true
			continue
		}
		n.waiting[t] = struct{}{}
		n.bytes += len(t)
	}
	if len(n.waiting) == 0 {
		return
	}
	select {
	case n.work <- struct{}{}:
	default: // the goroutine was told already
	}
}

func (n *notifier) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	topics := slices.Collect(maps.Keys(n.waiting))
	clear(n.waiting)
	n.bytes, n.over = 0, false
	return topics
}

// close sends what waits and ends the goroutine.
func (n *notifier) close() {
	n.once.Do(func() { close(n.ending) })
	limit := time.AfterFunc(notifyAtEnd, n.stop)
	<-n.done
	limit.Stop()
	n.stop()
}

func (n *notifier) run(ctx context.Context) {
	defer close(n.done)
	var conn *pgx.Conn
	defer func() {
		if conn != nil {
			_ = conn.Close(ctx) // nothing is under way
		}
	}()
	for last := false; !last; {
		select {
		case <-n.work:
		case <-n.ending:
			last = true
		}
		pause := notifyGap
		topics := n.take()
		var err error
		if conn, err = n.tell(ctx, conn, topics); err != nil {
			n.log.Warn("other processes hear of changes late until the database answers", "error", err)
			n.add(topics)
			pause = notifyAgain
		}
		n.pause(pause)
	}
}

// pause ends early when the notifier is closed.
func (n *notifier) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-n.ending:
	}
}

// tell sends topics on a connection, and on a new one if there is none or it
// has died. It returns the connection for the next time.
func (n *notifier) tell(ctx context.Context, conn *pgx.Conn, topics []string) (*pgx.Conn, error) {
	if len(topics) == 0 {
		return conn, nil
	}
	if conn != nil {
		if send(ctx, conn, topics) == nil {
			return conn, nil
		}
		_ = conn.Close(ctx) // it is dead, or of no use
	}
	connecting, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	conn, err := pgx.Connect(connecting, n.url)
	if err != nil {
		return nil, err
	}
	if err := send(ctx, conn, topics); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return conn, nil
}

func send(ctx context.Context, conn *pgx.Conn, topics []string) error {
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	_, err := conn.Exec(ctx, notifySQL, Channel, topics)
	return err
}
