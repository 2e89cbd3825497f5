package database

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"gorm.io/gorm/logger"
)

// slow is how long a statement takes before it is logged.
const slow = time.Second

// LevelStatement is a level of the log, below debugging, at which it has every
// statement.
const LevelStatement = slog.LevelDebug - 4

// statementLog logs statements that fail or are slow. Their text, with places
// instead of values, is made only then: values may be secrets, and making it
// costs as much as a small query.
type statementLog struct{ log *slog.Logger }

// LogMode implements logger.Interface; there is one mode.
func (l statementLog) LogMode(logger.LogLevel) logger.Interface { return l }

// Info implements logger.Interface.
func (l statementLog) Info(ctx context.Context, text string, _ ...any) {
	l.log.DebugContext(ctx, "database", "message", text)
}

// Warn implements logger.Interface.
func (l statementLog) Warn(ctx context.Context, text string, _ ...any) {
	l.log.WarnContext(ctx, "database", "message", text)
}

// Error implements logger.Interface.
func (l statementLog) Error(ctx context.Context, text string, _ ...any) {
	l.log.ErrorContext(ctx, "database", "message", text)
}

// Trace implements logger.Interface.
func (l statementLog) Trace(ctx context.Context, begin time.Time, statement func() (string, int64), err error) {
	took := time.Since(begin)
	expected := err == nil || errors.Is(err, logger.ErrRecordNotFound) || errors.Is(err, context.Canceled)
	level := slog.LevelWarn
	switch {
	case expected && took < slow:
		level = LevelStatement
	case IsDuplicate(err):
		level = slog.LevelDebug // callers expect it, and say what it means
	}
	if !l.log.Enabled(ctx, level) {
		return
	}
	text, rows := statement()
	l.log.Log(ctx, level, "statement", "sql", text, "rows", rows, "took", took, "error", err)
}

// ParamsFilter keeps the values out of the text.
func (statementLog) ParamsFilter(_ context.Context, sql string, _ ...any) (string, []any) {
	return sql, nil
}
