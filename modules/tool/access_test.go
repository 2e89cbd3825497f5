package tool_test

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/ptc"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/outside"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool"
)

// Every exported method of the service is tried by a user on another user's
// calls.
func TestNoMethodReachesAnotherUser(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		r := f.startRun(anna)
		p := f.open(anna, r)
		req := request(`{"city":"Rome"}`)
		req.Context.ParentID = p.CallID
		_, err := f.execute(t.Context(), anna, req)
		require.NoError(t, err)
		hers := f.calls(anna)[1]
		before := len(f.events(anna, r))
		ctx := t.Context()

		tries := map[string]func(t *testing.T){
			"Execute": func(t *testing.T) {
				_, err := f.execute(ctx, ben, req)
				require.ErrorIs(t, err, record.ErrParentForeign)
			},
			"record.Call": func(t *testing.T) {
				_, foreign := f.records.Call(ctx, ben, hers.CallID)
				_, absent := f.records.Call(ctx, ben, "ptc:none")
				require.ErrorIs(t, foreign, record.ErrMissing)
				require.Equal(t, absent.Error(), foreign.Error())
			},
			"record.Calls": func(t *testing.T) {
				got, err := f.records.Calls(ctx, ben, []string{hers.CallID, p.CallID})
				require.NoError(t, err)
				require.Empty(t, got)
			},
			"record.List": func(t *testing.T) {
				_, err := f.records.List(ctx, ben, record.Filter{ResultID: r.ResultID}, httpapi.PageQuery{Limit: 10})
				require.Equal(t, errs.ResultMissing, errs.CodeOf(err))
				page, err := f.records.List(ctx, ben, record.Filter{}, httpapi.PageQuery{Limit: 10})
				require.NoError(t, err)
				require.Empty(t, page.Items)
			},
			"File": func(t *testing.T) {
				_, err := f.Service.File(ctx, ben, hers.CallID, "x")
				require.ErrorIs(t, err, record.ErrMissing)
			},
			"record.LastShape": func(t *testing.T) {
				shape, err := f.records.LastShape(ctx, ben, req.Toolset, req.Tool)
				require.NoError(t, err)
				require.Empty(t, shape)
			},
			"record.Summaries": func(t *testing.T) {
				calls, err := f.records.Summaries(ctx, anna, []string{hers.CallID})
				require.NoError(t, err)
				require.Len(t, calls, 1)
				calls, err = f.records.Summaries(ctx, ben, []string{hers.CallID})
				require.NoError(t, err)
				require.Empty(t, calls)
			},
			"record.ListSummaries": func(t *testing.T) {
				page, err := f.records.ListSummaries(ctx, ben, record.Filter{ParentID: p.CallID}, httpapi.PageQuery{})
				require.NoError(t, err)
				require.Empty(t, page.Items)
			},
			"record.Programs": func(t *testing.T) {
				_, err := f.records.Programs(ctx, anna, r.ResultID, nil, "")
				require.NoError(t, err)
				_, err = f.records.Programs(ctx, ben, r.ResultID, nil, "")
				require.ErrorIs(t, err, run.ErrMissing)
			},
			"record.Nth": func(t *testing.T) {
				n, err := f.records.Nth(ctx, anna, hers.CallID)
				require.NoError(t, err)
				require.Equal(t, int64(1), n)
				n, err = f.records.Nth(ctx, ben, hers.CallID)
				require.NoError(t, err)
				require.Zero(t, n)
			},
			"record.OpenOutput": func(t *testing.T) {
				_, _, err := f.records.OpenOutput(ctx, ben, hers.CallID, p.CallID)
				require.ErrorIs(t, err, record.ErrMissing)
			},
			"record.Output": func(t *testing.T) {
				_, err := f.records.Output(ctx, ben, hers.CallID)
				require.ErrorIs(t, err, record.ErrMissing)
			},
			"record.OpenProgram": func(t *testing.T) {
				_, err := f.records.OpenProgram(ctx, ben, r, record.ProgramInput{Code: "pass"})
				require.Equal(t, errs.ResultMissing, errs.CodeOf(err))
			},
			"ExecuteForModel": func(t *testing.T) {
				_, _, err := f.Service.ExecuteForModel(ctx, ben, r, tool.ModelCall{Toolset: req.Toolset, Tool: req.Tool, Arguments: req.Arguments})
				require.ErrorIs(t, err, record.ErrResultForeign)
			},
			"ContinueForModel": func(t *testing.T) {
				_, err := f.Service.ContinueForModel(ctx, ben, hers.CallID, nil)
				require.ErrorIs(t, err, record.ErrMissing)
			},
			"Lend": func(t *testing.T) { // to whom is said when one is called
				f.Service.Lend(p.CallID, []tool.Function{{Name: "hers", Schema: json.RawMessage(`{"type":"object"}`)}})
				own := req
				own.Toolset, own.Tool = ptc.Own, "hers"
				_, err := f.execute(ctx, ben, own)
				require.ErrorIs(t, err, record.ErrParentForeign)
			},
			"AtOnce": func(t *testing.T) {
				now, _ := f.Service.AtOnce(ben)
				require.Zero(t, now)
			},
			"TakeBack": func(*testing.T) { f.Service.TakeBack(p.CallID) },
			"Perform": func(t *testing.T) {
				_, _, err := f.Service.Perform(ctx, ben, r, tool.ModelCall{Tool: "get_time", Arguments: []byte(`{}`)}, func(context.Context) record.Answer {
					t.Error("executed in another user's run")
					return record.Answer{}
				})
				require.Equal(t, errs.ResultMissing, errs.CodeOf(err))
			},
			"outside.Register": func(t *testing.T) {
				_, _, err := f.outside.Register(ctx, ben, registration(r.ResultID, "his"))
				require.ErrorIs(t, err, run.ErrMissing)
				_, _, err = f.outside.Register(ctx, ben, registration("", p.CallID))
				require.ErrorIs(t, err, outside.ErrCallTaken)
			},
			"outside.Finish": func(t *testing.T) {
				for _, callID := range []string{"", p.CallID} {
					_, _, err := f.outside.Finish(ctx, ben, outside.Ending{ResultID: r.ResultID, CallID: callID, Status: run.Aborted})
					require.ErrorIs(t, err, run.ErrMissing)
				}
			},
			"record.CloseProgram": func(t *testing.T) {
				stolen := p
				stolen.UID = ben.UID
				err := f.records.CloseProgram(ctx, stolen, record.Answer{Status: record.Success}, func(database.Tx) error { return nil })
				require.ErrorIs(t, err, record.ErrMissing)
			},
		}
		foreignRecords(f, r, p, tries)
		for of, service := range map[string]reflect.Type{
			"": reflect.TypeFor[*tool.Service](), "record.": reflect.TypeFor[*record.Service](), "outside.": reflect.TypeFor[*outside.Service](),
		} {
			for m := range service.Methods() {
				try, tried := tries[of+m.Name]
				if of == "record." && system[m.Name] != "" {
					require.False(t, tried, m.Name)
					continue
				}
				require.True(t, tried, "%s%s is not tried as another user", of, m.Name)
				try(t)
			}
		}
		require.Len(t, f.events(anna, r), before)
		require.Empty(t, f.calls(ben))
		f.close(p)
	})
}

// system are the methods that belong to no user, or reach nothing.
var system = map[string]string{
	"NewID": "makes an id", "FromModel": "makes a value", "Work": "says what this process works on",
	"Abandon": "is for what a process works on, for all users", "Working": "is a number, of all users", "Expired": "is the keeper's, for all users",
	"WhenSettled": "runs what it is given", "Lost": "counts those of a process",
}

// foreignRecords tries what is done to a record with one that claims to be another
// user's.
func foreignRecords(f *fixture, r run.Run, p record.Call, tries map[string]func(*testing.T)) {
	ctx, stolen, answer := f.t.Context(), p, record.Answer{Status: record.Success}
	stolen.UID = ben.UID
	his := r.Ref()
	his.UID = ben.UID
	nothing := func(database.Tx) error { return nil }
	undecided := func(database.Tx) (any, error) { return struct{}{}, nil }
	in := func(t *testing.T, work func(tx database.Tx) error) error {
		t.Helper()
		return f.db.InTx(ctx, work)
	}
	tries["record.Begin"] = func(t *testing.T) {
		child := stolen
		child.CallID, child.ParentID, child.ResultID = "ptc:his", p.CallID, run.NoResult
		_, _, err := f.records.Begin(ctx, child, record.Once{})
		require.ErrorIs(t, err, record.ErrMissing)
	}
	tries["record.Settle"] = func(t *testing.T) {
		got, err := f.records.Settle(ctx, stolen, answer, func(context.Context, database.Tx) error { return nil })
		require.NoError(t, err)
		require.Equal(t, "INTERRUPTED", got.ErrorCode, "there is no such call of his")
	}
	tries["record.Postpone"] = func(t *testing.T) {
		require.NoError(t, f.records.Postpone(ctx, stolen, time.Now().Add(time.Hour), time.Now()), "it changes nothing")
	}
	tries["record.Adopt"] = func(t *testing.T) {
		require.NoError(t, in(t, func(tx database.Tx) error { return f.records.Adopt(tx, his) }), "he has none")
	}
	tries["record.Progress"] = func(t *testing.T) {
		require.ErrorIs(t, f.records.Progress(ctx, stolen, "x"), run.ErrMissing)
	}
	tries["record.CheckClaims"] = func(t *testing.T) {
		require.ErrorIs(t, f.records.CheckClaims(ctx, stolen), record.ErrResultForeign)
	}
	tries["record.Caller"] = func(t *testing.T) {
		_, _, err := f.records.Caller(ctx, ben, p.CallID)
		require.ErrorIs(t, err, record.ErrParentForeign)
	}
	tries["record.CallerNow"] = func(t *testing.T) {
		_, _, err := f.records.CallerNow(ctx, ben, p.CallID)
		require.ErrorIs(t, err, record.ErrParentForeign)
	}
	tries["record.Fit"] = func(t *testing.T) { // is kept under the user's own name
		_, err := f.records.Fit(ctx, stolen, record.Answer{Data: json.RawMessage(`"` + strings.Repeat("x", 2*outputCap) + `"`)})
		require.NoError(t, err)
		_, err = f.records.Whole(ctx, anna, p.CallID, record.Answer{Truncated: &record.Truncated{}})
		require.Equal(t, errs.NotFound, errs.CodeOf(err))
	}
	tries["record.Whole"] = func(t *testing.T) {
		_, err := f.records.Fit(ctx, p, record.Answer{Data: json.RawMessage(`"` + strings.Repeat("y", 2*outputCap) + `"`)})
		require.NoError(t, err)
		_, err = f.records.Whole(ctx, actor.Actor{UID: "u-carl"}, p.CallID, record.Answer{Truncated: &record.Truncated{}})
		require.Equal(t, errs.NotFound, errs.CodeOf(err))
	}
	tries["record.Hold"] = func(t *testing.T) {
		require.ErrorIs(t, f.records.Hold(ctx, stolen, undecided), record.ErrMissing)
	}
	tries["record.Decided"] = func(t *testing.T) {
		require.ErrorIs(t, f.records.Decided(ctx, ben.UID, p.CallID, undecided), record.ErrMissing)
	}
	tries["record.Take"] = func(t *testing.T) {
		require.ErrorIs(t, f.records.Take(ctx, stolen, nil), record.ErrMissing)
	}
	tries["CheckArguments"] = func(t *testing.T) { // reaches what its user may call
		require.Equal(t, errs.ToolsetMissing, errs.CodeOf(f.Service.CheckArguments(ctx, ben, "hers", "go", json.RawMessage(`{}`))))
	}
	tries["record.GiveUp"] = func(t *testing.T) {
		require.NoError(t, f.records.GiveUp(ctx, stolen, f.clock().Add(2*leaseTime), nothing))
	}
	tries["record.Find"] = func(t *testing.T) {
		require.ErrorIs(t, in(t, func(tx database.Tx) error {
			_, err := f.records.Find(tx, ben.UID, p.CallID)
			return err
		}), record.ErrMissing)
	}
	tries["record.Register"] = func(t *testing.T) {
		require.Error(t, in(t, func(tx database.Tx) error { return f.records.Register(ctx, tx, stolen) }))
	}
	tries["record.EndProgram"] = func(t *testing.T) {
		require.ErrorIs(t, in(t, func(tx database.Tx) error { return f.records.EndProgram(ctx, tx, stolen, answer, true) }), record.ErrMissing)
	}
	tries["record.Executing"] = func(t *testing.T) {
		require.NoError(t, in(t, func(tx database.Tx) error {
			n, err := f.records.Executing(tx, his)
			require.Zero(t, n)
			return err
		}))
	}
	tries["record.CountOutside"] = func(t *testing.T) {
		require.NoError(t, in(t, func(tx database.Tx) error {
			n, err := f.records.CountOutside(tx, ben.UID)
			require.Zero(t, n)
			return err
		}))
	}
	tries["record.LockOutside"] = func(t *testing.T) {
		require.NoError(t, in(t, func(tx database.Tx) error {
			programs, err := f.records.LockOutside(tx, his, "")
			require.Empty(t, programs)
			return err
		}))
	}
	tries["record.Seal"] = func(t *testing.T) { require.NoError(t, f.records.Seal(ctx, his, p.CallID)) }
}
