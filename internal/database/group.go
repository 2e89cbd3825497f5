package database

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/portico-run/portico/internal/database/lite"
)

// groups commit together what is ready together. Transactions of one group change
// the same rows (a run's, a user's), so that each of them would wait for the commit
// of the one before. The first one goes at once; what comes while a commit is under
// way goes with the next one, in one transaction.
//
// What holds for each of them, whoever goes with it:
//   - It is reported as done only after the commit that holds all of it.
//   - PostgreSQL takes back a transaction of which it refuses a statement, with all
//     that went together. Each is then sent alone, and fails or not by itself. SQLite
//     takes back the one that it refuses, and keeps the others.
//   - Its caller may leave at any time. Before it is sent, nothing of it is; after,
//     it may be committed, as with any caller that leaves during a commit. The
//     others go on.
//   - Statements that Last queued come after all others, in the order of their
//     rows, so that two transactions of several processes never wait for each other.
type groups struct {
	mu sync.Mutex
	of map[string]*group // those that have a commit under way
}

type group struct{ waiting []*member }

// member is a transaction that waits for the commit before it.
type member struct {
	ctx   context.Context //nolint:containedctx // whose end takes it out of the group
	batch *Batch
	lead  chan []*member // gets those that this one is to send, itself among them
	done  chan error
}

const (
	// maxTogether bounds what goes in one transaction.
	maxTogether = 32
	// maxGroup bounds those that wait; any more go alone.
	maxGroup = 1024
)

// errAlone tells a member that what it went with was taken back.
var errAlone = errors.New("the transaction is to be sent alone")

// commit sends a transaction as a whole, with others of its group if they are ready
// at the same time.
func (db *DB) commit(ctx context.Context, who string, b *Batch) error {
	m := &member{ctx: ctx, batch: b, lead: make(chan []*member, 1), done: make(chan error, 1)}
	switch db.groups.join(who, m) {
	case goesFirst:
		defer db.groups.next(who)
		return db.send(ctx, b)[0]
	case goesAlone:
		return db.send(ctx, b)[0]
	}
	var err error
	select {
	case err = <-m.done:
	case together := <-m.lead:
		err = db.together(who, together) //nolint:contextcheck // theirs together
	case <-ctx.Done():
		err = ctx.Err()
		if together := db.groups.leave(who, m); together != nil {
			_ = db.together(who, together) //nolint:contextcheck // the others rely on it; this one's caller has gone
		}
	}
	if errors.Is(err, errAlone) {
		return db.send(ctx, b)[0]
	}
	return err
}

// together sends what waited, in one transaction, tells the others and lets the
// next ones go. The error is that of the first.
func (db *DB) together(who string, members []*member) error {
	ctx, cancel := whileAny(members)
	defer cancel()
	batches := make([]*Batch, len(members))
	for i, m := range members {
		batches[i] = m.batch
	}
	errs := db.send(ctx, batches...)
	db.groups.next(who)
	for i, m := range members[1:] {
		m.done <- errs[i+1]
	}
	return errs[0]
}

// whileAny ends when all members have left.
func whileAny(members []*member) (context.Context, context.CancelFunc) {
	if len(members) == 1 {
		return members[0].ctx, func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(members[0].ctx))
	var left atomic.Int64
	stops := make([]func() bool, len(members))
	for i, m := range members {
		stops[i] = context.AfterFunc(m.ctx, func() {
			if left.Add(1) == int64(len(members)) {
				cancel()
			}
		})
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}

type turn int

const (
	goesFirst turn = iota
	goesAlone
	waits
)

func (g *groups) join(who string, m *member) turn {
	g.mu.Lock()
	defer g.mu.Unlock()
	of := g.of[who]
	switch {
	case of == nil:
		if g.of == nil {
			g.of = map[string]*group{}
		}
		g.of[who] = &group{}
		return goesFirst
	case len(of.waiting) >= maxGroup:
		return goesAlone
	}
	of.waiting = append(of.waiting, m)
	return waits
}

// next lets go what waited for a commit, which is over.
func (g *groups) next(who string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	of := g.of[who]
	if len(of.waiting) == 0 {
		delete(g.of, who)
		return
	}
	n := min(len(of.waiting), maxTogether)
	ready := of.waiting[:n:n]
	of.waiting = slices.Clone(of.waiting[n:])
	ready[0].lead <- ready
}

// leave takes out a member that waits. One that was chosen to send gets what it is
// to send.
func (g *groups) leave(who string, m *member) []*member {
	g.mu.Lock()
	defer g.mu.Unlock()
	if of := g.of[who]; of != nil {
		if i := slices.Index(of.waiting, m); i >= 0 {
			of.waiting = slices.Delete(of.waiting, i, i+1)
			return nil
		}
	}
	select {
	case together := <-m.lead:
		return together
	default:
		return nil
	}
}

// refused says that the database refused a statement and took back its transaction.
// After the end of PostgreSQL's connection, which is a FATAL error, nobody knows.
func refused(err error) bool {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		return answer.SeverityUnlocalized == "ERROR"
	}
	answer, ok := errors.AsType[*lite.Error](err)
	return ok && answer.Refused() || errors.Is(err, errNotOne)
}

// statements are those of the transaction that this one and others make together.
func (b *Batch) statements(others ...*Batch) *pgx.Batch {
	var (
		all  pgx.Batch
		last []statement
	)
	for _, each := range append([]*Batch{b}, others...) {
		for _, s := range each.first {
			all.Queue(s.text(), s.args...)
		}
		last = append(last, each.last...)
	}
	slices.SortStableFunc(last, func(x, y statement) int { return strings.Compare(x.row, y.row) })
	for _, s := range last {
		all.Queue(s.text(), s.args...)
	}
	return &all
}

// text is what PostgreSQL gets.
func (s statement) text() string {
	if s.one {
		return s.sql + exactlyOne
	}
	return s.sql
}
