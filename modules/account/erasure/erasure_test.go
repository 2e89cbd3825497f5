package erasure_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/objectstore"
	"github.com/portico-run/portico/modules/account/erasure"
)

// admin erases, anna is erased, ben stays.
const admin, anna, ben = "u-admin", "u-anna", "u-ben"

// column is a column of the schema.
type column struct{ Tab, Col, Type string }

func schema(t *testing.T, db *database.DB) []column {
	t.Helper()
	q := `SELECT m.name AS tab, p.name AS col, lower(p.type) AS type FROM sqlite_schema m JOIN pragma_table_info(m.name) p
		WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND m.sql NOT LIKE 'CREATE VIRTUAL%'`
	if db.Dialect() == database.Postgres {
		q = `SELECT table_name AS tab, column_name AS col, data_type AS type FROM information_schema.columns
			WHERE table_schema = current_schema() AND is_generated = 'NEVER'`
	}
	var columns []column
	require.NoError(t, database.Unscoped(db.Read(t.Context())).Raw(q).Scan(&columns).Error)
	require.Greater(t, len(columns), 200)
	return columns
}

// Every table with rows of users is erased, or kept with a reason; so are the tables
// that belong to such rows.
func TestEveryTableOfUsersIsErasedOrKept(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		deleted, kept := erasure.Plan()
		for table, why := range kept {
			require.NotEmpty(t, why, table)
		}
		for _, c := range schema(t, db) {
			if c.Col != "uid" && c.Col != "result_id" && c.Col != "collection_pk" || c.Tab == "audit_events" {
				continue // of the audit log the ids stay: who did what
			}
			_, stays := kept[c.Tab]
			require.True(t, stays || slices.Contains(deleted, c.Tab), "%s has rows of users: erase them, or say why they stay", c.Tab)
		}
	})
}

// value fills a column of a user's row: texts name the column and the user, so that
// columns that refer to each other agree, and numbers are the user's.
func value(c column, uid string, n int) any {
	text := func(name string) string { return name + " canary of " + uid }
	switch c.Tab + "." + c.Col {
	case "toolsets.is_global", "mcp_servers.is_global":
		return false
	case "action_results.status":
		return "finish"
	case "tool_call_results.status", "code_executions.status":
		return "completed"
	case "tool_call_results.type":
		return "agent"
	case "tool_call_results.ptc_call_id", "credit_usages.tool_call_id":
		return text("call_id")
	case "action_messages.type":
		return "ai"
	case "approvals.state":
		return "allowed"
	case "approval_rules.level":
		return "never"
	case "one_time_codes.kind":
		return "link"
	case "audit_events.action":
		return "key.create"
	case "users.role":
		return "user"
	case "users.disabled_at":
		return nil
	case "credit_recharges.recharge_id", "credit_debts.debt_id", "credit_usages.usage_id", "credit_usages.model_name", "credit_usages.usage_type", "credit_recharges.source", "credit_debts.source":
		return c.Col + " " + fmt.Sprint(n) // ids of the books, and kinds
	case "toolset_grants.toolset_key", "toolset_authorizations.toolset_key":
		return "shared"
	}
	switch {
	case c.Col == "uid":
		return uid
	case c.Type == "boolean":
		return true
	case c.Type == "blob" || c.Type == "bytea":
		return []byte(text(c.Col))
	case strings.HasPrefix(c.Type, "timestamp") || c.Type == "datetime":
		return time.Now().UTC()
	case c.Type == "text" || c.Type == "jsonb" || strings.HasPrefix(c.Type, "char"):
		return text(c.Col)
	}
	return n
}

func exec(t *testing.T, db *database.DB, sql string, args ...any) {
	t.Helper()
	require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error { return database.Unscoped(tx.Handle).Exec(sql, args...).Error }), sql)
}

// fill writes a row of a user's into every table of the plan, with something in every
// column, and into the audit log.
func fill(t *testing.T, db *database.DB, uid string, n int) {
	t.Helper()
	columns := schema(t, db)
	tables := slices.Compact(erasure.Tables())
	slices.Reverse(tables)
	done := map[string]bool{}
	for _, table := range append(tables, "audit_events") {
		if done[table] {
			continue
		}
		done[table] = true
		var names, marks []string
		var values []any
		for _, c := range columns {
			if c.Tab == table {
				names, marks, values = append(names, c.Col), append(marks, "?"), append(values, value(c, uid, n))
			}
		}
		require.NotEmpty(t, names, table)
		exec(t, db, "INSERT INTO "+table+" ("+strings.Join(names, ", ")+") VALUES ("+strings.Join(marks, ", ")+")", values...)
	}
	exec(t, db, "INSERT INTO audit_events (pk, uid, action, subject, detail) VALUES (?, ?, 'ask.list', ?, ?)", 100+n, admin, "/v1/admin/users/"+uid, `{"q":"canary of `+uid+`"}`)
	exec(t, db, "INSERT INTO audit_events (pk, uid, action, subject, detail) VALUES (?, ?, 'ask.list-users', 'all', ?)", 200+n, admin, `{"q":"nary of `+uid+`"}`)
}

// found says where a text is in the database.
func found(t *testing.T, db *database.DB, text string) []string {
	t.Helper()
	var places []string
	for _, c := range schema(t, db) {
		q := fmt.Sprintf("SELECT count(*) FROM %s WHERE instr(CAST(%s AS blob), CAST(? AS blob)) > 0", c.Tab, c.Col)
		if db.Dialect() == database.Postgres {
			as := "CAST(" + c.Col + " AS text)"
			if c.Type == "bytea" {
				as = "encode(" + c.Col + ", 'escape')"
			}
			q = fmt.Sprintf("SELECT count(*) FROM %s WHERE strpos(%s, ?) > 0", c.Tab, as)
		}
		var n int64
		require.NoError(t, database.Unscoped(db.Read(t.Context())).Raw(q, text).Scan(&n).Error, q)
		if n > 0 {
			places = append(places, c.Tab+"."+c.Col)
		}
	}
	slices.Sort(places)
	return places
}

type accounts struct{ db *database.DB }

func (a accounts) DisableBy(ctx context.Context, _ actor.Actor, uid string, _ bool) error {
	return a.db.InTx(ctx, func(tx database.Tx) error {
		return database.Unscoped(tx.Handle).Exec("UPDATE users SET disabled_at = ? WHERE uid = ?", database.Now(), uid).Error
	})
}

// work ends what is open, or does not.
type work struct {
	db      *database.DB
	endless bool
	aborted []string
}

func (w *work) Abort(ctx context.Context, uid, resultID string, _ int) error {
	w.aborted = append(w.aborted, resultID)
	if w.endless {
		return nil
	}
	return w.db.InTx(ctx, func(tx database.Tx) error {
		var disabled int64
		err := database.Unscoped(tx.Handle).Table("users").Where("uid = ? AND disabled_at IS NOT NULL", uid).Count(&disabled).Error
		if err == nil && disabled == 0 {
			err = errors.New("work is ended before new work is refused")
		}
		return errors.Join(err, database.Unscoped(tx.Handle).Exec("UPDATE action_results SET status = 'aborted' WHERE result_id = ?", resultID).Error)
	})
}

func (w *work) Refuse(context.Context, string, string) error { return nil }

// stalls is a storage that fails once something was deleted.
type stalls struct {
	objectstore.Store

	after int
}

func (s *stalls) Delete(ctx context.Context, key string) error {
	if s.after--; s.after < 0 {
		return errors.New("the storage has gone")
	}
	return s.Store.Delete(ctx, key)
}

func keys(uid string) []string {
	return []string{"drive/" + uid + "/c/a.txt", "code/" + uid + "/s/f", "tool-output/" + uid + "/c.json", "temporary/1700000000/" + uid + "/c/x.png"}
}

// Nothing of a user is left in any column of any table, nor in the storage, but where
// it is said to be; everything of another user is there as it was. It goes on where it
// was interrupted, and once it is done there is nothing more to do.
func TestNothingOfAUserIsLeft(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		exec(t, db, "INSERT INTO toolset_inventory (key, name) VALUES ('shared', 'Shared')")
		exec(t, db, "INSERT INTO users (pk, uid, name) VALUES (1, ?, 'admin')", admin)
		fill(t, db, anna, 7)
		fill(t, db, ben, 8)
		exec(t, db, "UPDATE action_results SET status = 'running' WHERE uid = ?", anna)
		exec(t, db, "UPDATE approvals SET decided_by = ? WHERE uid = ?", anna, ben)
		folder, err := objectstore.NewFolder(t.TempDir())
		require.NoError(t, err)
		for _, key := range append(keys(anna), keys(ben)...) {
			require.NoError(t, folder.Put(t.Context(), key, strings.NewReader("x"), ""))
		}
		his := found(t, db, ben)
		require.Greater(t, len(his), 200)

		w := &work{db: db, endless: true}
		d := erasure.Deps{DB: db, Objects: folder, Accounts: accounts{db}, Work: w, Logger: slog.New(slog.DiscardHandler)}
		_, err = erasure.New(d).Erase(t.Context(), actor.Actor{UID: admin}, anna)
		require.ErrorIs(t, err, erasure.ErrBusy)
		require.NotEmpty(t, w.aborted)
		w.endless, d.Patience = false, time.Minute
		d.Objects = &stalls{folder, 2}
		_, err = erasure.New(d).Erase(t.Context(), actor.Actor{UID: admin}, anna)
		require.ErrorContains(t, err, "the storage has gone")
		d.Objects = folder
		r, err := erasure.New(d).Erase(t.Context(), actor.Actor{UID: admin}, anna)
		require.NoError(t, err)
		require.Equal(t, int64(2), r.Objects)
		require.Greater(t, r.Rows, int64(30))

		require.Empty(t, found(t, db, "canary of "+anna))
		require.Equal(t, []string{
			"audit_events.subject", "audit_events.uid", "credit_debts.uid", "credit_recharges.uid", "credit_usages.uid", "users.name", "users.uid",
		}, found(t, db, anna))
		require.Equal(t, slices.DeleteFunc(his, func(place string) bool { return place == "approvals.decided_by" }),
			slices.DeleteFunc(found(t, db, ben), func(place string) bool { return place == "approvals.decided_by" }))
		left, err := folder.List(t.Context(), "")
		require.NoError(t, err)
		want := keys(ben)
		slices.Sort(want)
		require.Equal(t, want, left)
		var amounts []float64
		require.NoError(t, database.Unscoped(db.Read(t.Context())).Raw("SELECT amount FROM credit_usages WHERE uid = ?", anna).Scan(&amounts).Error)
		require.Equal(t, []float64{7}, amounts)
		var audited []string
		require.NoError(t, database.Unscoped(db.Read(t.Context())).Raw("SELECT detail FROM audit_events WHERE action = 'user.erase' AND uid = ? AND subject = ?", admin, anna).Scan(&audited).Error)
		require.Len(t, audited, 1)

		again, err := erasure.New(d).Erase(t.Context(), actor.Actor{UID: admin}, anna)
		require.NoError(t, err)
		require.Equal(t, erasure.Report{}, again)
		_, err = erasure.New(d).Erase(t.Context(), actor.Actor{UID: admin}, "u-nobody")
		require.ErrorContains(t, err, "There is no such user.")
	})
}
