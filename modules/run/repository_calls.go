package run

import (
	"cmp"
	"slices"
	"time"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/ids"
)

// metaRow is what messages say of a call, in the table of the records of calls,
// which only their own module writes.
type metaRow struct {
	CallID    string
	UID       string
	ToolName  string
	ToolsetID string
	Status    string
	CreatedAt time.Time
	UpdatedAt time.Time
}

// TableName implements gorm's Tabler.
func (metaRow) TableName() string { return "tool_call_results" }

// open reports whether a call with a status has not ended.
func open(status string) bool { return status == "executing" || status == "waiting" }

func (r metaRow) meta() CallMeta {
	m := CallMeta{
		ToolName: r.ToolName, ToolsetID: r.ToolsetID, ToolsetKey: r.ToolsetID, ToolCallID: r.CallID, Status: r.Status, StartTS: r.CreatedAt.UnixMilli(),
	}
	if !open(r.Status) {
		m.EndTS = r.UpdatedAt.UnixMilli()
	}
	return m
}

func (repository) metas(h database.Handle, uid string, callIDs []string) ([]metaRow, error) {
	var rows []metaRow
	// Not the rest of a record: its input and output may have megabytes.
	return rows, database.Scoped(h, uid).Select("call_id", "tool_name", "toolset_id", "status", "created_at", "updated_at").
		Where("call_id IN ?", callIDs).Find(&rows).Error
}

// allMessages are those that are stored, and those of calls that code made.
func (rp repository) allMessages(h database.Handle, uid string, f MessageFilter) ([]messageRow, error) {
	rows, err := rp.messages(h, uid, f)
	if err != nil || f.Spoken {
		return rows, err
	}
	told, err := rp.told(h, uid, f)
	if err != nil {
		return nil, err
	}
	rows = append(rows, told...)
	slices.SortFunc(rows, func(x, y messageRow) int { return cmp.Compare(x.Seq, y.Seq) })
	if f.Limit > 0 {
		rows = rows[:min(len(rows), f.Limit)]
	}
	return rows, nil
}

// told are the messages of calls that code made, which are not stored: a call is
// told by the event of its start. It is unscoped because the table has no user;
// the subqueries hold the wall between users instead.
func (repository) told(h database.Handle, uid string, f MessageFilter) ([]messageRow, error) {
	r := Ref{uid, f.ResultID, f.Version}
	of := "result_id = ? AND version = ?"
	q := database.Unscoped(h).Where(of+" AND seq > ? AND type = ?", f.ResultID, f.Version, f.After, string(ToolCallStart)).
		Where("EXISTS (?)", owned(h, r)).
		Where("EXISTS (?)", database.Scoped(h, uid).Table(metaRow{}.TableName()).Select("1").
			Where("tool_call_results.call_id = run_events.call_id AND tool_call_results.type <> ?", string(ids.Agent))).
		// Those of earlier versions of this server are stored.
		Where("NOT EXISTS (SELECT 1 FROM action_messages m WHERE m.result_id = run_events.result_id AND m.version = run_events.version AND m.seq = run_events.seq)")
	if f.Limit > 0 {
		q = q.Limit(f.Limit)
	}
	var events []eventRow
	err := q.Order("seq").Find(&events).Error
	rows := make([]messageRow, len(events))
	for i, e := range events {
		rows[i] = messageRow{
			MessageID: ids.MessageOf(*e.CallID), ResultID: e.ResultID, Version: e.Version, Seq: e.Seq, Type: Tool, ToolCallID: e.CallID, CreatedAt: e.CreatedAt,
		}
	}
	return rows, err
}
