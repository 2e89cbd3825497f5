package record

import (
	"time"

	"gorm.io/gorm"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/run"
)

// readArguments is how many characters of a record's input a summary needs: those
// that are shown, one that says that there are more, and what is around them.
const readArguments = len(wrapping) + maxArguments + 2

type summaryRow struct {
	UID       string
	PK        int64
	CallID    string
	ResultID  string
	Version   int
	PTCCallID *string `gorm:"column:ptc_call_id"`
	Type      ids.Origin
	ToolsetID string
	ToolName  string
	StepName  *string
	Line      *int
	Status    Status
	Arguments string
	Reason    *string
	Credits   *money.Amount
	Bytes     *int64
	CreatedAt time.Time
	UpdatedAt time.Time
}

func (summaryRow) TableName() string { return "tool_call_results" }

func (r summaryRow) summary() Summary {
	return Summary{
		UID: r.UID, ResultID: r.ResultID, Version: r.Version, StepName: database.Text(r.StepName), CallID: r.CallID, ParentID: database.Text(r.PTCCallID), Origin: r.Type, Toolset: r.ToolsetID, Tool: r.ToolName, Line: number(r.Line), Status: r.Status,
		Arguments: shownArguments(r.Arguments), Error: cut(database.Text(r.Reason), maxError), Credits: r.Credits, Bytes: r.Bytes,
		CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
}

// charged and size are what every reader of calls without their results asks for.
// A call before the column of sizes is as large as what is stored of it.
const (
	charged = `(SELECT u.amount FROM credit_usages u WHERE u.tool_call_id = tool_call_results.call_id) AS credits`
	size    = `CASE WHEN status IN ('completed', 'failed') THEN COALESCE(result_bytes, OCTET_LENGTH(output)) END AS bytes`
)

func (repository) summaries(h database.Handle, uid string, callIDs []string) ([]summaryRow, error) {
	var rows []summaryRow
	err := summarized(database.Scoped(h, uid)).Where("call_id IN ? AND deleted_at IS NULL", callIDs).Find(&rows).Error
	return rows, err
}

// summarized reads calls without their results, and of what they were asked the
// beginning.
func summarized(q *gorm.DB) *gorm.DB {
	return q.Select("pk, uid, call_id, result_id, version, ptc_call_id, type, toolset_id, tool_name, step_name, line, status, "+
		"SUBSTR(input, 1, ?) AS arguments, SUBSTR(error, 1, ?) AS reason, "+charged+", "+size+", created_at, updated_at", readArguments, maxError+1)
}

// programs reads a window of the programs of a run, the oldest first.
func (repository) programs(h database.Handle, r run.Ref, w database.Window) ([]callRow, *int64, error) {
	return database.Oldest[callRow](database.Scoped(h, r.UID).
		Where("result_id = ? AND version = ? AND toolset_id = ? AND deleted_at IS NULL", r.ResultID, r.Version, Program), w)
}

// countChildren counts the calls that programs made.
func (repository) countChildren(h database.Handle, uid string, parentIDs []string) (map[string]int64, error) {
	var rows []struct {
		Parent string
		Calls  int64
	}
	counts := map[string]int64{}
	if len(parentIDs) == 0 {
		return counts, nil
	}
	err := database.Scoped(h, uid).Model(&callRow{}).Select("ptc_call_id AS parent, COUNT(*) AS calls").
		Where("ptc_call_id IN ? AND deleted_at IS NULL", parentIDs).Group("ptc_call_id").Scan(&rows).Error
	for _, r := range rows {
		counts[r.Parent] = r.Calls
	}
	return counts, err
}
