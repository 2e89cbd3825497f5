package tool_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/run"
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
		_, err := f.Service.Execute(t.Context(), anna, req)
		require.NoError(t, err)
		hers := f.calls(anna)[1]
		before := len(f.events(anna, r))
		ctx := t.Context()

		tries := map[string]func(t *testing.T){
			"Execute": func(t *testing.T) {
				_, err := f.Service.Execute(ctx, ben, req)
				require.ErrorIs(t, err, tool.ErrParentForeign)
			},
			"Call": func(t *testing.T) {
				_, foreign := f.Service.Call(ctx, ben, hers.CallID)
				_, absent := f.Service.Call(ctx, ben, "ptc:none")
				require.ErrorIs(t, foreign, tool.ErrMissing)
				require.Equal(t, absent.Error(), foreign.Error())
			},
			"ForgetOutputs": func(t *testing.T) { // Ben's objects have other names
				require.NoError(t, f.Service.ForgetOutputs(ctx, ben, []string{hers.CallID}))
			},
			"Calls": func(t *testing.T) {
				got, err := f.Service.Calls(ctx, ben, []string{hers.CallID, p.CallID})
				require.NoError(t, err)
				require.Empty(t, got)
			},
			"List": func(t *testing.T) {
				_, err := f.Service.List(ctx, ben, tool.Filter{ResultID: r.ResultID}, httpapi.PageQuery{Limit: 10})
				require.Equal(t, errs.ResultMissing, errs.CodeOf(err))
				page, err := f.Service.List(ctx, ben, tool.Filter{}, httpapi.PageQuery{Limit: 10})
				require.NoError(t, err)
				require.Empty(t, page.Items)
			},
			"File": func(t *testing.T) {
				_, err := f.Service.File(ctx, ben, hers.CallID, "x")
				require.ErrorIs(t, err, tool.ErrMissing)
			},
			"ExecuteWhole": func(t *testing.T) {
				_, _, err := f.Service.ExecuteWhole(ctx, ben, req)
				require.ErrorIs(t, err, tool.ErrParentForeign)
			},
			"LastShape": func(t *testing.T) {
				shape, err := f.Service.LastShape(ctx, ben, req.Toolset, req.Tool)
				require.NoError(t, err)
				require.Empty(t, shape)
			},
			"OpenOutput": func(t *testing.T) {
				_, _, err := f.Service.OpenOutput(ctx, ben, hers.CallID, p.CallID)
				require.ErrorIs(t, err, tool.ErrMissing)
			},
			"Output": func(t *testing.T) {
				_, err := f.Service.Output(ctx, ben, hers.CallID)
				require.ErrorIs(t, err, tool.ErrMissing)
			},
			"OpenProgram": func(t *testing.T) {
				_, err := f.Service.OpenProgram(ctx, ben, r, tool.ProgramInput{Code: "pass"})
				require.Equal(t, errs.ResultMissing, errs.CodeOf(err))
			},
			"ExecuteForModel": func(t *testing.T) {
				_, _, err := f.Service.ExecuteForModel(ctx, ben, r, tool.ModelCall{Toolset: req.Toolset, Tool: req.Tool, Arguments: req.Arguments})
				require.ErrorIs(t, err, tool.ErrResultForeign)
			},
			"NewCallID": func(t *testing.T) {
				require.NotEqual(t, f.Service.NewCallID(), f.Service.NewCallID(), "it reaches nothing")
			},
			"Perform": func(t *testing.T) {
				_, _, err := f.Service.Perform(ctx, ben, r, tool.ModelCall{Tool: "get_time", Arguments: []byte(`{}`)}, func(context.Context) tool.Answer {
					t.Error("executed in another user's run")
					return tool.Answer{}
				})
				require.Equal(t, errs.ResultMissing, errs.CodeOf(err))
			},
			"RegisterOutside": func(t *testing.T) {
				_, _, err := f.Service.RegisterOutside(ctx, ben, outside(r.ResultID, "his"))
				require.ErrorIs(t, err, run.ErrMissing)
				_, _, err = f.Service.RegisterOutside(ctx, ben, outside("", p.CallID))
				require.ErrorIs(t, err, tool.ErrCallTaken)
			},
			"FinishOutside": func(t *testing.T) {
				for _, callID := range []string{"", p.CallID} {
					_, _, err := f.Service.FinishOutside(ctx, ben, tool.Ending{ResultID: r.ResultID, CallID: callID, Status: run.Aborted})
					require.ErrorIs(t, err, run.ErrMissing)
				}
			},
			"CloseProgram": func(t *testing.T) {
				stolen := p
				stolen.UID = ben.UID
				err := f.Service.CloseProgram(ctx, stolen, tool.Answer{Status: tool.Success}, func(database.Tx) error { return nil })
				require.ErrorIs(t, err, tool.ErrMissing)
			},
		}
		for m := range reflect.TypeFor[*tool.Service]().Methods() {
			try, tried := tries[m.Name]
			require.True(t, tried, "%s is not tried as another user", m.Name)
			try(t)
		}
		require.Len(t, f.events(anna, r), before)
		require.Empty(t, f.calls(ben))
		f.close(p)
	})
}
