package made_test

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/agent/openai/made"
)

type turn struct{ n int }

func (*turn) Events(context.Context) iter.Seq[dialogue.Event] { return nil }
func (*turn) Answer(context.Context) (dialogue.Answer, error) { return dialogue.Answer{}, nil }
func (*turn) Delivered()                                      {}
func (t *turn) Begun() dialogue.Begun                         { return dialogue.Begun{ID: strconv.Itoa(t.n)} }

func TestAnAnswerIsMadeOnce(t *testing.T) {
	t.Parallel()
	var m made.Memory
	one := &turn{1}
	_, err := m.Of("u-anna", one).Make(func() ([]byte, error) { return nil, errors.New("no database") })
	require.Error(t, err)
	for _, text := range []string{"first", "second"} {
		got, err := m.Of("u-anna", one).Make(func() ([]byte, error) { return []byte(text), nil })
		require.NoError(t, err)
		require.Equal(t, "first", string(got))
	}
	got, err := m.Of("u-ben", one).Make(func() ([]byte, error) { return []byte("ben's"), nil })
	require.NoError(t, err)
	require.Equal(t, "ben's", string(got))
}

// The oldest answers of a user make room, by number and by size; others keep theirs.
func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	var m made.Memory
	keep := func(uid string, one *turn, size int) (kept bool) {
		_, err := m.Of(uid, one).Make(func() ([]byte, error) {
			kept = true
			return make([]byte, size), nil
		})
		require.NoError(t, err)
		return !kept
	}
	turns := make([]*turn, 70)
	others := &turn{-1}
	require.False(t, keep("u-ben", others, 1))
	for i := range turns {
		turns[i] = &turn{i}
		require.False(t, keep("u-anna", turns[i], 1))
	}
	require.True(t, keep("u-anna", turns[69], 1))
	require.False(t, keep("u-anna", turns[0], 1), "it was forgotten")
	large := []*turn{{100}, {101}, {102}}
	for _, one := range large {
		require.False(t, keep("u-anna", one, 10<<20))
	}
	require.True(t, keep("u-anna", large[2], 1))
	require.False(t, keep("u-anna", large[0], 1), "there is no room for three")
	require.True(t, keep("u-ben", others, 1))
}

func TestWhatProgramsWaitFor(t *testing.T) {
	t.Parallel()
	var m made.Memory
	asked := []dialogue.Approval{{CallID: "ptc:1"}}
	m.Wait("u-anna", "call_1", asked, time.Now().Add(time.Hour))
	m.Wait("u-anna", "call_2", asked, time.Now().Add(-time.Hour))
	require.Equal(t, asked, m.Waiting("u-anna", "call_1"))
	require.Nil(t, m.Waiting("u-anna", "call_2"), "nothing waits any more")
	require.Nil(t, m.Waiting("u-ben", "call_1"))
}
