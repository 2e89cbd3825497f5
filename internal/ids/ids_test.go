package ids_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/portico-run/portico/internal/ids"
)

func TestNew(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^ar-[0-9a-z]{24}$`)
	seen := map[string]bool{}
	for range 1000 {
		id := ids.New(ids.Run)
		if !form.MatchString(id) {
			t.Fatalf("id %q has the wrong form", id)
		}
		if seen[id] {
			t.Fatalf("id %q was made twice", id)
		}
		seen[id] = true
	}
}

func TestCallIDsAreRecognisedInBothForms(t *testing.T) {
	t.Parallel()
	for _, sep := range []string{ids.Colon, ids.Underscore} {
		for _, want := range []ids.Origin{ids.PTC, ids.Standalone, ids.Agent} {
			id := ids.Calls{Separator: sep}.New(want)
			if got, ok := ids.OriginOf(id); !ok || got != want {
				t.Errorf("OriginOf(%q) = %q, %v", id, got, ok)
			}
		}
	}
}

func TestOriginOfRefusesForeignIDs(t *testing.T) {
	t.Parallel()
	for _, id := range []string{
		"", "ptc", "ptc:", "ptc:not-a-uuid", "ptc-0b0ec1a4-54c3-4e48-a5ab-6d1f3e1f39b6",
		"0b0ec1a4-54c3-4e48-a5ab-6d1f3e1f39b6", "ptcx:0b0ec1a4-54c3-4e48-a5ab-6d1f3e1f39b6",
	} {
		if o, ok := ids.OriginOf(id); ok {
			t.Errorf("OriginOf(%q) = %q, want none", id, o)
		}
	}
}

func TestMessagesFollowFromCalls(t *testing.T) {
	t.Parallel()
	const call = "agent:0b0ec1a4-54c3-4e48-a5ab-6d1f3e1f39b6"
	form := regexp.MustCompile(`^am-[0-9a-z]{24}$`)
	seen := map[string]bool{}
	for n := range 1000 {
		id := ids.MessageOf(call + strings.Repeat("x", n))
		if !form.MatchString(id) || seen[id] {
			t.Fatalf("message id %q has the wrong form or was given twice", id)
		}
		seen[id] = true
	}
	if !seen[ids.MessageOf(call)] {
		t.Error("the message of a call changes")
	}
}

func TestCallsOfCodeAreRecognised(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]bool{"ptc_a": true, "ptc:b": true, "ptc-c": false, "agent:ptc_d": false, "": false} {
		if got := ids.MadeByCode(id); got != want {
			t.Errorf("MadeByCode(%q) = %v", id, got)
		}
	}
}
