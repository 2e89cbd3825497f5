package program

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/sandbox"
)

// liveLog shows the lines of a program as events of its run. The program does
// not wait for the database: lines that come faster than they can be written
// share an event.
type liveLog struct {
	db     *database.DB
	runs   *run.Service
	call   record.Call
	logger *slog.Logger

	mu      sync.Mutex
	pending []entry
	left    int // bytes that may still be shown
	woken   chan struct{}
	done    chan struct{}
}

// entry is some lines of one stream.
type entry struct {
	stream sandbox.Stream
	text   strings.Builder
}

// maxEntry is the most text of one event, in bytes.
const maxEntry = 64 << 10

func (s *Service) openLog(ctx context.Context, call record.Call) *liveLog {
	l := &liveLog{
		db: s.deps.DB, runs: s.deps.Runs, call: call, logger: s.deps.Logger, left: s.deps.Settings.MaxLog,
		woken: make(chan struct{}, 1), done: make(chan struct{}),
	}
	go l.write(context.WithoutCancel(ctx))
	return l
}

// line takes one line. It never blocks.
func (l *liveLog) line(stream sandbox.Stream, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left < 0 {
		return
	}
	l.left -= len(text) + 1
	if l.left < 0 {
		text = "[further output is not shown live]"
	}
	last := len(l.pending) - 1
	if last >= 0 && l.pending[last].stream == stream && l.pending[last].text.Len()+len(text) < maxEntry {
		l.pending[last].text.WriteByte('\n')
	} else {
		l.pending = append(l.pending, entry{stream: stream})
		last++
	}
	l.pending[last].text.WriteString(text)
	select {
	case l.woken <- struct{}{}:
	default: // the writer will look anyway
	}
}

// close writes what is left and returns when it is written. No line may come
// afterwards.
func (l *liveLog) close() {
	close(l.woken)
	<-l.done
}

func (l *liveLog) write(ctx context.Context) {
	defer close(l.done)
	for {
		_, open := <-l.woken
		l.mu.Lock()
		entries := l.pending
		l.pending = nil
		l.mu.Unlock()
		if len(entries) > 0 {
			l.append(ctx, entries)
		}
		if !open {
			return
		}
	}
}

// append writes entries as events. Output that cannot be shown live is in the
// outcome all the same.
func (l *liveLog) append(ctx context.Context, entries []entry) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	err := l.db.InTx(ctx, func(tx database.Tx) error {
		for i := range entries {
			level := "info"
			if entries[i].stream == sandbox.Stderr {
				level = "error"
			}
			_, err := l.runs.Append(ctx, tx, l.call.Run(), run.NewEvent{
				Type: run.Log, CallID: l.call.CallID,
				Payload: map[string]any{"log": map[string]any{"level": level, "stream": entries[i].stream, "content": entries[i].text.String()}},
			})
			if err != nil {
				return fmt.Errorf("live output of %s: %w", l.call.CallID, err)
			}
		}
		return nil
	})
	if err != nil {
		l.logger.ErrorContext(ctx, "output is not shown live", "error", err)
	}
}
