package jsonschema

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	upstream "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Problem is one thing that is wrong with a value.
type Problem struct {
	// Path names the field: "city", "items[2].name"; empty for the whole.
	Path string
	// Message is what is expected. It never holds the value itself.
	Message string
}

// String is the problem in one line.
func (p Problem) String() string {
	if p.Path == "" {
		return p.Message
	}
	return p.Path + ": " + p.Message
}

// Problems are all that is wrong with a value.
type Problems []Problem

// String is the problems in one line.
func (list Problems) String() string {
	lines := make([]string, len(list))
	for i, p := range list {
		lines[i] = p.String()
	}
	return strings.Join(lines, "; ")
}

// maxProblems bounds what is reported of one value.
const maxProblems = 20

func problems(err *upstream.ValidationError, root any) Problems {
	var out Problems
	collect(err, root, &out)
	slices.SortStableFunc(out, func(a, b Problem) int { return strings.Compare(a.Path, b.Path) })
	out = slices.Compact(out)
	if over := len(out) - maxProblems; over > 0 {
		out = append(out[:maxProblems], Problem{Message: fmt.Sprintf("and %d more problems", over)})
	}
	return out
}

// collect walks to the leaves of the validator's error tree: they say what is
// wrong. A failed set of alternatives stays one problem, because none of them is
// more right than another.
func collect(err *upstream.ValidationError, root any, out *Problems) {
	at := path(err.InstanceLocation)
	switch k := err.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			*out = append(*out, Problem{join(at, name), "is required"})
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			*out = append(*out, Problem{join(at, name), "is not a known parameter" + suggest(name, known(root, err.InstanceLocation))})
		}
	case *kind.AnyOf, *kind.OneOf:
		*out = append(*out, Problem{at, alternatives(err)})
	default:
		if len(err.Causes) == 0 {
			*out = append(*out, Problem{at, expectation(err.ErrorKind)})
		}
		for _, cause := range err.Causes {
			collect(cause, root, out)
		}
	}
}

// alternatives describes a value that fits none of several schemas, by their
// types if that is what differs.
func alternatives(err *upstream.ValidationError) string {
	var types []string
	for _, cause := range err.Causes {
		if k, ok := cause.ErrorKind.(*kind.Type); ok && len(cause.InstanceLocation) == len(err.InstanceLocation) {
			types = append(types, k.Want...)
		}
	}
	if len(types) > 0 && len(types) >= len(err.Causes) {
		slices.Sort(types)
		return "must be " + strings.Join(slices.Compact(types), " or ")
	}
	return "must match one of the forms its schema allows"
}

func expectation(k upstream.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return "must be " + strings.Join(k.Want, " or ")
	case *kind.Enum:
		return "must be one of " + list(k.Want)
	case *kind.Const:
		return "must be " + list([]any{k.Want})
	case *kind.Format:
		return "must be a valid " + k.Want
	case *kind.Pattern:
		return "must match the pattern " + k.Want
	case *kind.Minimum:
		return "must be at least " + number(k.Want)
	case *kind.Maximum:
		return "must be at most " + number(k.Want)
	case *kind.ExclusiveMinimum:
		return "must be more than " + number(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be less than " + number(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + number(k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %d characters, has %d", k.Want, k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %d characters, has %d", k.Want, k.Got)
	case *kind.MinItems:
		return fmt.Sprintf("must have at least %d items, has %d", k.Want, k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %d items, has %d", k.Want, k.Got)
	case *kind.UniqueItems:
		return fmt.Sprintf("must not repeat items: %d and %d are equal", k.Duplicates[0], k.Duplicates[1])
	}
	return "breaks the rule " + strings.Join(k.KeywordPath(), "/")
}

func number(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// list shows at most ten choices.
func list(values []any) string {
	const most = 10
	var shown []string
	for _, v := range values[:min(len(values), most)] {
		b, err := json.Marshal(v)
		if err != nil {
			continue // a choice JSON cannot show cannot be sent either
		}
		shown = append(shown, string(b))
	}
	if over := len(values) - most; over > 0 {
		shown = append(shown, fmt.Sprintf("%d more", over))
	}
	return strings.Join(shown, ", ")
}

// Path names the field at a place as problems do.
func Path(location []string) string { return path(location) }

func path(location []string) string {
	out := ""
	for _, token := range location {
		if _, err := strconv.Atoi(token); err == nil && out != "" {
			out += "[" + token + "]"
			continue
		}
		out = join(out, token)
	}
	return out
}

func join(path, name string) string {
	const longest = 100
	if len(name) > longest {
		name = strings.ToValidUTF8(name[:longest], "") + "…"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// known lists the properties of the object at a place.
func known(root any, location []string) []string {
	f := filler{root, newMeter(nil)}
	node, ok := f.resolve(root)
	for _, token := range location {
		if !ok {
			return nil
		}
		properties, _ := node["properties"].(map[string]any)
		next, named := properties[token]
		if !named {
			next = node["items"]
		}
		node, ok = f.resolve(next)
	}
	properties, _ := node["properties"].(map[string]any)
	names := make([]string, 0, len(properties))
	for name := range properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// suggest finds the name that was probably meant.
func suggest(name string, names []string) string {
	best, least := "", 1+len(name)/3
	for _, n := range names {
		if d := distance(strings.ToLower(name), strings.ToLower(n)); d <= least && (best == "" || d < least) {
			best, least = n, d
		}
	}
	switch {
	case best != "":
		return "; did you mean " + best + "?"
	case len(names) > 0:
		return "; known are " + strings.Join(names[:min(len(names), 20)], ", ")
	}
	return ""
}

// Nearly finds the name that another one is a slip of: other case or
// separators, a letter more, less or wrong, or two that changed places. Short
// names must begin alike: mode is not code. It returns "" for none.
func Nearly(name string, names []string) string {
	plain := func(s string) string { return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s)) }
	of := plain(name)
	for _, n := range names {
		candidate := plain(n)
		if of == candidate {
			return n
		}
		most, short := 1, min(len(of), len(candidate))
		if short >= 9 {
			most = 2
		}
		if short >= 4 && (short >= 6 || of[0] == candidate[0]) && distance(swapped(of, candidate), candidate) <= most {
			return n
		}
	}
	return ""
}

// swapped returns name with the first two neighbouring letters exchanged that
// stand the other way round in other.
func swapped(name, other string) string {
	b := []byte(name)
	for i := 0; i+1 < min(len(b), len(other)); i++ {
		if b[i] != other[i] && b[i] == other[i+1] && b[i+1] == other[i] {
			b[i], b[i+1] = b[i+1], b[i]
			break
		}
	}
	return string(b)
}

// distance counts the edits between two names (Levenshtein). Names far longer
// than any parameter are not compared.
func distance(a, b string) int {
	const longest = 64
	if len(a) > longest || len(b) > longest {
		return longest
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
