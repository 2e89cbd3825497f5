package run

import (
	"context"
	"encoding/json"
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
	if err := s.repo.changeMessage(tx, r, c.MessageID, columns); err != nil {
		return fmt.Errorf("change message: %w", err)
	}
	return nil
}

// Messages returns messages of a run, in order; none when the run is not the
// caller's. What they say of calls is what the records of the calls say now.
func (s *Service) Messages(ctx context.Context, a actor.Actor, f MessageFilter) ([]Message, error) {
	var (
		rows  []messageRow
		metas map[string]json.RawMessage
	)
	// Of one moment: a reader goes on after the last one that it was given.
	err := s.db.InSnapshot(ctx, func(h database.Handle) (err error) {
		if rows, err = s.repo.allMessages(h, a.UID, f); err != nil {
			return err
		}
		metas, err = s.callMetas(h, a.UID, rows)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read messages: %w", err)
	}
	messages := make([]Message, len(rows))
	for i, r := range rows {
		messages[i] = r.message()
		if meta, ok := metas[messages[i].CallID]; ok {
			messages[i].CallMeta = meta
		}
	}
	return messages, nil
}

// callMetas is what messages say of their calls, by the ids of the calls.
func (s *Service) callMetas(h database.Handle, uid string, messages []messageRow) (map[string]json.RawMessage, error) {
	var callIDs []string
	for _, m := range messages {
		if m.ToolCallID != nil {
			callIDs = append(callIDs, *m.ToolCallID)
		}
	}
	metas := make(map[string]json.RawMessage, len(callIDs))
	if len(callIDs) == 0 {
		return metas, nil
	}
	rows, err := s.repo.metas(h, uid, callIDs)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		if metas[r.CallID], err = json.Marshal(r.meta()); err != nil {
			return nil, err
		}
	}
	return metas, nil
}

// storable is a text that every database takes.
func storable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// textOf is a text for a column that is NULL where there is none.
func textOf(s string) *string { return database.Optional(storable(s)) }
