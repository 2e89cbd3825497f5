package app_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/billing"
)

// listed is a page of any list.
type listed struct {
	Items          []json.RawMessage
	NextCursor     string
	Total          *int
	Page, PageSize int
}

func (s *instance) page(path string) listed {
	s.t.Helper()
	a := s.send(s.key, "GET", path, nil)
	require.Equal(s.t, 200, a.status, "%s: %s", path, a.raw)
	var l listed
	require.NoError(s.t, json.Unmarshal(a.body.Data, &l))
	return l
}

// Every list has the same items in the same order by numbered pages and by
// cursors.
func TestEveryListIsPagedByNumberAndByCursor(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		uid, err := s.app.Accounts.Service.KeyOwner(t.Context(), s.key)
		require.NoError(t, err)
		for i := range 3 {
			other, err := s.app.Accounts.Service.CreateUser(t.Context(), fmt.Sprint("u", i), "")
			require.NoError(t, err)
			require.NoError(t, s.app.Credits.Service.SetLimits(t.Context(), other.UID, billing.Limits{Day: new(money.Credit)}))
			canvas := s.canvas(fmt.Sprint("c", i))
			s.store(canvas, "a.txt", "a")
			require.Equal(t, 200, s.send(s.key, "POST", "/v1/knowledge/documents", fmt.Sprintf(`{"source":"%d.md","text":"The lantern is red."}`, i)).status)
			s.run(map[string]any{"code": "from refly_tools.demo import Demo\nDemo.get_weather(city='Rome', file_name_title='x')"})
			require.Equal(t, 200, s.send(s.key, "POST", "/v1/auth/cli/api-key", `{"name":"k"}`).status)
			require.NoError(t, s.app.Credits.Service.Grant(t.Context(), uid, billing.Recharge{ID: fmt.Sprint("cr-", i), Source: "gift", Amount: 5 * money.Credit, ExpiresAt: time.Now().Add(time.Hour)}))
		}
		s.another("ben")
		s.another("dora")
		defer s.someApprovals()()
		lists := 0
		for _, op := range operations(document(t, s)) {
			if op.Parameters.GetByInAndName("query", "cursor") == nil || op.path == "/v1/cli/tool-call" || op.path == "/v1/action/ar-none/programs" { // another form, and a list of one run
				continue
			}
			lists++
			first := s.page(op.path)
			require.Nil(t, first.Total)
			require.GreaterOrEqual(t, len(first.Items), 3, op.path)
			var all []json.RawMessage
			for p := s.page(op.path + "?limit=2"); ; p = s.page(op.path + "?limit=2&cursor=" + p.NextCursor) {
				if all = append(all, p.Items...); p.NextCursor == "" {
					break
				}
			}
			require.Equal(t, text(first.Items), text(all), op.path)
			for i, item := range all {
				p := s.page(fmt.Sprintf("%s?page=%d&pageSize=1", op.path, i+1))
				require.Equal(t, text([]json.RawMessage{item}), text(p.Items), op.path)
				require.Equal(t, len(all), *p.Total, op.path)
				require.Equal(t, []int{i + 1, 1}, []int{p.Page, p.PageSize}, op.path)
				require.Equal(t, i == len(all)-1, p.NextCursor == "", op.path)
			}
			beyond := s.page(fmt.Sprintf("%s?page=%d&pageSize=2", op.path, len(all)))
			require.Empty(t, beyond.Items)
			require.Equal(t, len(all), *beyond.Total)
			require.Equal(t, 10, s.page(op.path+"?page=1").PageSize)
			for _, query := range []string{
				"?page=1&limit=2", "?pageSize=2&cursor=" + s.page(op.path+"?limit=1").NextCursor, "?page=0", "?page=-1", "?page=x", "?pageSize=201",
				"?pageSize=0", "?page=51&pageSize=200", "?page=9223372036854775807&pageSize=200", "?limit=0", "?cursor=!",
			} {
				a := s.send(s.key, "GET", op.path+query, nil)
				require.Equal(t, 400, a.status, "%s%s: %s", op.path, query, a.raw)
				require.NotEmpty(t, a.body.ErrDetail)
			}
		}
		require.Equal(t, 14, lists)
	})
}

func text(items []json.RawMessage) string {
	lines := make([]string, len(items))
	for i, item := range items {
		lines[i] = string(item)
	}
	return strings.Join(lines, "\n")
}
