package erasure

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
)

// repository is every table that is about users.
type repository struct{}

type userRow struct {
	UID        string
	Name       string
	Email      *string
	DisabledAt *time.Time
}

func (userRow) TableName() string { return "users" }

var errMissing = errs.New(errs.AccountMissing, "There is no such user.").Do("Name a user by id, name or e-mail address; `portico user list` shows them.")

func (repository) user(h database.Handle, uid string) (userRow, error) {
	var row userRow
	err := database.Scoped(h, uid).Take(&row).Error
	if errors.Is(err, database.ErrNotFound) {
		err = errMissing
	}
	return row, err
}

// openRun is a run that has not ended.
type openRun struct {
	ResultID string
	Version  int
}

func (repository) openRuns(h database.Handle, uid string) ([]openRun, error) {
	var runs []openRun
	return runs, database.Scoped(h, uid).Table("action_results").Where("status IN ('waiting', 'running')").Limit(batch).Find(&runs).Error
}

// waiting lists the calls that wait for a person.
func (repository) waiting(h database.Handle, uid string) ([]string, error) {
	var ids []string
	return ids, database.Scoped(h, uid).Table("approvals").Where("state = 'waiting'").Limit(batch).Pluck("call_id", &ids).Error
}

func (repository) openCalls(h database.Handle, uid string) (n int64, err error) {
	return n, database.Scoped(h, uid).Table("tool_call_results").Where("status IN ('executing', 'waiting')").Count(&n).Error
}

// batch is how many rows one transaction changes.
const batch = 500

// next deletes or clears some rows of a part, and says how many.
func (repository) next(tx database.Tx, p part, uid string) (int64, error) {
	key, where := cmp.Or(p.key, "pk"), cmp.Or(p.where, "uid = ?")
	if p.clear == nil {
		q := database.Unscoped(tx.Handle).Exec("DELETE FROM "+p.table+" WHERE "+key+" IN (SELECT "+key+" FROM "+p.table+" WHERE "+where+" LIMIT ?)", uid, batch)
		return q.RowsAffected, q.Error
	}
	var set, differ []string
	var values, others []any
	for _, column := range slices.Sorted(maps.Keys(p.clear)) {
		switch value := p.clear[column]; value {
		case nil:
			set, differ = append(set, column+" = NULL"), append(differ, column+" IS NOT NULL")
		default:
			if value == byUID {
				value = uid
			}
			set, differ = append(set, column+" = ?"), append(differ, column+" <> ?")
			values, others = append(values, value), append(others, value)
		}
	}
	arguments := slices.Concat(values, []any{uid}, others, []any{batch})
	q := database.Unscoped(tx.Handle).Exec("UPDATE "+p.table+" SET "+strings.Join(set, ", ")+" WHERE "+key+" IN (SELECT "+key+" FROM "+p.table+
		" WHERE "+where+" AND ("+strings.Join(differ, " OR ")+") LIMIT ?)", arguments...)
	return q.RowsAffected, q.Error
}

// clearOwn takes out of the audit log what a user did things to, but for other users.
func (repository) clearOwn(tx database.Tx, uid string) (int64, error) {
	q := database.Unscoped(tx.Handle).Exec(`UPDATE audit_events SET detail = '{}', key_id = '',
		subject = CASE WHEN subject IN (SELECT uid FROM users) THEN subject ELSE '' END WHERE pk IN (SELECT pk FROM audit_events
		WHERE uid = ? AND (detail <> '{}' OR key_id <> '' OR subject <> '' AND subject NOT IN (SELECT uid FROM users)) LIMIT ?)`, uid, batch)
	return q.RowsAffected, q.Error
}

// clearAbout takes out of the audit log what others did with a user, but for the id.
func (repository) clearAbout(tx database.Tx, u userRow) (int64, error) {
	in, asked := "instr", "json_extract(detail, '$.q')"
	if tx.Dialect() == database.Postgres {
		in, asked = "strpos", "(CAST(detail AS json) ->> 'q')"
	}
	about := []string{
		in + "(subject, ?) > 0", in + "(detail, ?) > 0", in + "(detail, ?) > 0",
		// Who searches for users types a part of a name or an address.
		"action = 'ask.list-users' AND " + in + "(lower(?), lower(" + asked + ")) > 0",
	}
	arguments := []any{u.UID, u.UID, u.UID, `"` + u.Name + `"`, u.Name + " " + database.Text(u.Email)}
	if email := database.Text(u.Email); email != "" {
		about, arguments = append(about, in+"(detail, ?) > 0"), append(arguments, email)
	}
	q := database.Unscoped(tx.Handle).Exec("UPDATE audit_events SET detail = '{}' WHERE pk IN (SELECT pk FROM audit_events WHERE uid <> ? AND detail <> '{}' AND action <> '"+
		erased+"' AND ("+strings.Join(about, " OR ")+") LIMIT ?)", append(arguments, batch)...)
	return q.RowsAffected, q.Error
}

// clearDecisions takes out who decided about calls of others.
func (repository) clearDecisions(tx database.Tx, uid string) (int64, error) {
	q := database.Unscoped(tx.Handle).Exec("UPDATE approvals SET decided_by = '' WHERE decided_by = ?", uid)
	return q.RowsAffected, q.Error
}

// forgetWords takes words of deleted passages out of the index of SQLite, which only
// marks them.
func (repository) forgetWords(tx database.Tx) error {
	if tx.Dialect() == database.Postgres {
		return nil
	}
	return database.Unscoped(tx.Handle).Exec("INSERT INTO knowledge_words (knowledge_words) VALUES ('optimize')").Error
}
