package run

import (
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/money"
)

// totalRow is what the calls of a run add up to, in the table of the records of
// calls, which only their own module writes.
type totalRow struct {
	ResultID                        string
	Version                         int
	Calls, Running, Waiting, Failed int64
	ResultBytes, ProgramBytes       int64
}

// program is the toolset of the records that are programs.
const program = "execute_code"

// totals reads the calls of the named runs, by the index of runs. A call before
// the column of sizes is as large as what is stored of it.
func (repository) totals(h database.Handle, uid string, runs []Ref) ([]totalRow, error) {
	var rows []totalRow
	return rows, database.ScopedFound(h, uid).Table(metaRow{}.TableName()).
		Select(`result_id, version,
			SUM(CASE WHEN toolset_id <> ? THEN 1 ELSE 0 END) AS calls,
			SUM(CASE WHEN toolset_id <> ? AND status = 'executing' THEN 1 ELSE 0 END) AS running,
			SUM(CASE WHEN toolset_id <> ? AND status = 'waiting' THEN 1 ELSE 0 END) AS waiting,
			SUM(CASE WHEN toolset_id <> ? AND status = 'failed' THEN 1 ELSE 0 END) AS failed,
			SUM(CASE WHEN type = ? AND status IN ('completed', 'failed') THEN COALESCE(result_bytes, OCTET_LENGTH(output)) ELSE 0 END) AS result_bytes,
			SUM(CASE WHEN toolset_id = ? AND status IN ('completed', 'failed') THEN COALESCE(result_bytes, OCTET_LENGTH(output)) ELSE 0 END) AS program_bytes`,
			program, program, program, program, ids.PTC, program).
		Where("result_id IN ? AND deleted_at IS NULL", names(runs)).
		Group("result_id, version").Scan(&rows).Error
}

type costRow struct {
	ActionResultID string
	Version        int
	Credits        money.Amount
}

func (repository) costs(h database.Handle, uid string, runs []Ref) ([]costRow, error) {
	var rows []costRow
	return rows, database.ScopedFound(h, uid).Table("credit_usages").
		Select("action_result_id, version, SUM(amount) AS credits").
		Where("action_result_id IN ?", names(runs)).
		Group("action_result_id, version").Scan(&rows).Error
}

// names are the ids of runs. Their other versions are summed up as well: that lets
// every database find the rows by an index.
func names(runs []Ref) []string {
	list := make([]string, len(runs))
	for i, r := range runs {
		list[i] = r.ResultID
	}
	return list
}
