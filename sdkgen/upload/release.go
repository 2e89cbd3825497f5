package upload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/portico-run/portico/sdkgen/python"
)

// historyFolder holds, below the prefix, a record of each release: 000001.json,
// 000002.json and so on. No hash can have its name.
const historyFolder = ".published"

// maxRaces is how many other releases may come first while one is recorded.
const maxRaces = 20

var recordPattern = regexp.MustCompile(`^[0-9]{6,9}\.json$`)

// record says what was released.
type record struct {
	Hash     string   `json:"hash"`
	Toolsets []string `json:"toolsets"` // their keys, sorted
}

// LostError says that a bundle lacks toolsets of the one before it. Programs
// that use them would stop working.
type LostError struct {
	Last     string // hash of the release before
	Toolsets []string
}

// Error names the toolsets.
func (e *LostError) Error() string {
	return fmt.Sprintf("the package lost toolsets since %s was published: %s", e.Last, strings.Join(e.Toolsets, ", "))
}

// Release is a bundle on its way to a prefix.
type Release struct {
	Prefix, Hash string
	Bundle       python.Bundle
	// Prune allows the bundle to lack toolsets of the release before.
	Prune bool
	// Progress, if not nil, is called after each file.
	Progress func(path string)
}

// To publishes the release as Publish does, and records it below the prefix. A
// bundle without toolsets that the release before had is a *LostError, and
// nothing is published, unless Prune is set. Of two releases at once, the later
// one is compared with the earlier; only then are its files there already, and
// its hash is not recorded.
func (r Release) To(ctx context.Context, s Store) (int, error) {
	if err := checkNames(r.Prefix, r.Hash); err != nil {
		return 0, err
	}
	if _, _, err := r.check(ctx, s); err != nil {
		return 0, err
	}
	written, err := Publish(ctx, s, r)
	if err != nil {
		return written, err
	}
	for range maxRaces {
		number, last, err := r.check(ctx, s)
		if err != nil {
			return written, err
		}
		next := r.record()
		if last.Hash == next.Hash && slices.Equal(last.Toolsets, next.Toolsets) {
			return written, nil
		}
		text, err := json.Marshal(next)
		if err != nil {
			return written, fmt.Errorf("record the release: %w", err)
		}
		err = s.Create(ctx, path.Join(r.history(), fmt.Sprintf("%06d.json", number+1)), text)
		if !errors.Is(err, ErrExists) {
			return written, err
		}
	}
	return written, fmt.Errorf("record the release: %d others came first; run this again", maxRaces)
}

func (r Release) history() string { return path.Join(strings.Trim(r.Prefix, "/"), historyFolder) }

func (r Release) record() record {
	keys := make([]string, len(r.Bundle.Toolsets))
	for i, t := range r.Bundle.Toolsets {
		keys[i] = t.Key
	}
	slices.Sort(keys)
	return record{r.Hash, keys}
}

// check compares the bundle with the last release, which it returns with its
// number; 0 where there is none.
func (r Release) check(ctx context.Context, s Store) (int, record, error) {
	number, last, err := r.last(ctx, s)
	if err != nil || r.Prune {
		return number, last, err
	}
	have := r.record().Toolsets
	lost := slices.DeleteFunc(slices.Clone(last.Toolsets), func(key string) bool { return slices.Contains(have, key) })
	if len(lost) > 0 {
		return 0, record{}, &LostError{last.Hash, lost}
	}
	return number, last, nil
}

func (r Release) last(ctx context.Context, s Store) (int, record, error) {
	names, err := s.List(ctx, r.history()+"/")
	if err != nil {
		return 0, record{}, err
	}
	number, newest := 0, ""
	for _, name := range names {
		base := path.Base(name)
		if !recordPattern.MatchString(base) {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSuffix(base, ".json"))
		if err == nil && n > number {
			number, newest = n, name
		}
	}
	if number == 0 {
		return 0, record{}, nil
	}
	text, err := s.Get(ctx, newest)
	if err != nil {
		return 0, record{}, err
	}
	var last record
	if err := json.Unmarshal(text, &last); err != nil {
		return 0, record{}, fmt.Errorf("%s is not the record of a release: %w", newest, err)
	}
	return number, last, nil
}
