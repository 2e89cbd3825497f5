package run

import (
	"context"
	"fmt"
	"strings"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/ids"
)

// AddMessage adds a message to a run that has not ended. It returns ErrMissing
// when the run is not the user's and ErrEnded after its end.
func (s *Service) AddMessage(_ context.Context, tx database.Tx, r Ref, m NewMessage) error {
	if err := s.repo.open(tx, r); err != nil {
		return fmt.Errorf("add message: %w", err)
	}
	return s.addMessage(tx, r, m)
}

// addMessage adds a message to a run whose row is held.
func (s *Service) addMessage(tx database.Tx, of Ref, m NewMessage) error {
	if m.Event < 1 {
		return fmt.Errorf("add message: no event showed the message of %s", m.Type)
	}
	r := s.messageOf(of, m)
	if err := s.repo.insertMessage(tx, &r); err != nil {
		return fmt.Errorf("add message: %w", err)
	}
	return nil
}

func (s *Service) messageOf(of Ref, m NewMessage) messageRow {
	now := s.now()
	r := messageRow{
		MessageID: m.MessageID, ResultID: of.ResultID, Version: of.Version, Seq: m.Event, Type: m.Type, Content: storable(m.Content),
		ReasoningContent: textOf(m.Reasoning), UsageMeta: textOf(string(m.Usage)), ToolCallMeta: textOf(string(m.CallMeta)), ToolCallID: textOf(m.CallID),
		CreatedAt: now, UpdatedAt: now,
	}
	if r.MessageID == "" {
		r.MessageID = ids.New(ids.Message)
	}
	return r
}

// ChangeMessage changes a message of a run of the user's, also after the run's
// end. There need not be one: a call that begins after the end of its run has
// none.
func (s *Service) ChangeMessage(_ context.Context, tx database.Tx, r Ref, c MessageChange) error {
	columns := map[string]any{"updated_at": s.now()}
	if c.Content != nil {
		columns["content"] = storable(*c.Content)
	}
	if meta := textOf(string(c.CallMeta)); meta != nil {
		columns["tool_call_meta"] = meta
	}
	if err := s.repo.changeMessage(tx, r, c.MessageID, columns); err != nil {
		return fmt.Errorf("change message: %w", err)
	}
	return nil
}

// Messages returns messages of a run, in order; none when the run is not the
// caller's.
func (s *Service) Messages(ctx context.Context, a actor.Actor, f MessageFilter) ([]Message, error) {
	rows, err := s.repo.messages(s.db.Read(ctx), a.UID, f)
	if err != nil {
		return nil, fmt.Errorf("read messages: %w", err)
	}
	messages := make([]Message, len(rows))
	for i, r := range rows {
		messages[i] = r.message()
	}
	return messages, nil
}

// storable is a text that every database takes.
func storable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// textOf is a text for a column that is NULL where there is none.
func textOf(s string) *string { return database.Optional(storable(s)) }
