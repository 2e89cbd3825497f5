package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/toolset/mark"
	"github.com/portico-run/portico/modules/toolset/store"
)

// What a file says of its methods replaces what was said before; what an operator
// said of others stays, and ends with the toolset.
func TestMarksAreStored(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		marks := mark.New(mark.Deps{DB: f.db})
		put := func(key string, list ...mark.Mark) (store.Report, error) {
			spec := mail()
			spec.Key, spec.Marks = key, list
			return f.Store(t.Context(), []store.Spec{spec})
		}
		all := func() []mark.Mark {
			list, err := marks.All(t.Context())
			require.NoError(t, err)
			return list
		}
		read := mark.Mark{Toolset: "mail", Tool: "read", Name: "read", ReadOnly: true, FromFile: true}
		_, err := put("mail", read)
		require.NoError(t, err)
		r, err := put("mail", read)
		require.NoError(t, err)
		require.Equal(t, []string{"mail"}, r.Unchanged)
		require.Equal(t, []mark.Mark{read}, all())

		send := mark.Mark{Toolset: "mail", Tool: "send", Name: "post", Idempotent: true}
		require.NoError(t, marks.Set(t.Context(), send))
		require.Equal(t, errs.Conflict, errs.CodeOf(marks.Set(t.Context(), mark.Mark{Toolset: "mail", Tool: "read", Name: "other", ReadOnly: true})), "the file has it")
		require.Equal(t, errs.Conflict, errs.CodeOf(marks.Remove(t.Context(), "mail", "read")), "the file has it")
		require.Equal(t, errs.Conflict, errs.CodeOf(marks.Set(t.Context(), mark.Mark{Toolset: "x", Tool: "y", Name: "post", ReadOnly: true})), "another has the name")
		_, err = put("other", mark.Mark{Toolset: "other", Tool: "read", Name: "read", ReadOnly: true, FromFile: true})
		require.Equal(t, errs.Conflict, errs.CodeOf(err), "another has the name")

		_, err = put("mail")
		require.NoError(t, err)
		require.Equal(t, []mark.Mark{send}, all())
		require.NoError(t, f.Delete(t.Context(), "mail"))
		require.Empty(t, all())
	})
}
