package openapi

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/portico-run/portico/internal/schema/shared"
)

// shares are the schemas of a document that a file has once.
type shares struct {
	schemas map[string]schema
	// bases are the names by reference, names those by reference and what stands
	// beside it, which makes a schema of its own.
	bases map[string]string
	names map[named]string
	used  map[string]int
}

func newShares() *shares {
	return &shares{schemas: map[string]schema{}, bases: map[string]string{}, names: map[named]string{}, used: map[string]int{}}
}

// named is a reference and what stands beside it, as JSON.
type named struct{ ref, beside string }

var plainName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)

// share keeps what a reference refers to, and returns the reference to that.
func (c *converter) share(ref string, target node, beside map[string]any) string {
	return shared.To(c.shares.name(ref, beside, func() schema { return c.content(merged(target, beside), nil) }))
}

// name is what the file calls a schema, which is made when it is first named.
func (s *shares) name(ref string, beside map[string]any, make func() schema) string {
	key := named{ref: ref}
	if len(beside) > 0 {
		text, _ := json.Marshal(beside) // it was read from JSON or YAML
		key.beside = string(text)
	}
	if name, ok := s.names[key]; ok {
		return name
	}
	base, again := s.bases[ref]
	if !again {
		base = s.free(ref)
		s.bases[ref] = base
	}
	name := base
	if s.used[base]++; s.used[base] > 1 {
		name = fmt.Sprintf("%s!%d", base, s.used[base])
	}
	s.names[key] = name
	s.schemas[name] = make()
	return name
}

// free is a name that no other reference has.
func (s *shares) free(ref string) string {
	base := strings.TrimSuffix(ref, "#")
	base = base[strings.LastIndex(base, "/")+1:]
	for _, ending := range []string{".json", ".yaml", ".yml"} {
		base = strings.TrimSuffix(base, ending)
	}
	if !plainName.MatchString(base) {
		base = "schema"
	}
	name := base
	for n := 2; s.used[name] > 0; n++ {
		name = fmt.Sprintf("%s_%d", base, n)
	}
	return name
}
