// Package dotenv reads a file of environment variables, .env by custom. It takes
// only lines that a shell and docker compose read as the same value, and refuses
// the others, so that a value never depends on who read the file.
package dotenv

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Variable is one assignment.
type Variable struct{ Name, Value string }

// maxFile bounds the file, in bytes.
const maxFile = 1 << 20

// Load calls set for each variable of the file that environ, which has the form
// of os.Environ, does not set; an empty variable counts as not set. A file that
// is not there sets nothing, and so does one with an error. An error names the
// line.
func Load(path string, environ []string, set func(name, value string) error) error {
	variables, err := Read(path)
	if err != nil {
		return err
	}
	given := map[string]bool{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		given[name] = value != ""
	}
	for _, v := range variables {
		if given[v.Name] {
			continue
		}
		if err := set(v.Name, v.Value); err != nil {
			return fmt.Errorf("%s: set %s: %w", path, v.Name, err)
		}
	}
	return nil
}

// Read returns the assignments of the file in their order, or none if there is
// no file. Errors name the line and never repeat a value, which may be a secret.
func Read(path string) ([]Variable, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	if len(content) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	variables, err := Parse(string(content))
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	return variables, nil
}

// Parse reads lines of the form NAME=value, with "export " before them or not.
// A value is bare, or as a whole in single or double quotes. Empty lines and
// comments are skipped; a comment may also follow a value and a space. An error
// begins with the number of its line.
func Parse(text string) ([]Variable, error) {
	var variables []Variable
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.Trim(strings.TrimSuffix(line, "\n"), " \t")
		if line == "" || line[0] == '#' {
			continue
		}
		v, err := assignment(line)
		if err != nil {
			return nil, fmt.Errorf("%d: %w", number, err)
		}
		variables = append(variables, v)
	}
	return variables, nil
}

var beginning = regexp.MustCompile(`^(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=`)

func assignment(line string) (Variable, error) {
	if !utf8.ValidString(line) || strings.ContainsFunc(line, func(r rune) bool { return r != '\t' && unicode.IsControl(r) }) {
		return Variable{}, errors.New("must be UTF-8 text without control characters; lines end with a line feed only")
	}
	found := beginning.FindStringSubmatch(line)
	if found == nil {
		return Variable{}, errors.New("must be NAME=value, without spaces around the equals sign, or a comment")
	}
	v := Variable{Name: found[1]}
	rest := line[len(found[0]):]
	var err error
	switch {
	case strings.HasPrefix(rest, "'"):
		v.Value, rest, err = quoted(rest, "'", "")
	case strings.HasPrefix(rest, `"`):
		v.Value, rest, err = quoted(rest, `"`, "$`\\")
	default:
		v.Value, rest, err = bare(rest)
	}
	if err == nil && !isComment(rest) {
		err = errors.New("has something behind its value: put the whole value in single quotes")
	}
	if err != nil {
		return Variable{}, fmt.Errorf("%s %w", v.Name, err)
	}
	return v, nil
}

// quoted takes a value in quotes from the beginning of the text. What a shell
// would replace in it is refused.
func quoted(text, quote, replaced string) (value, rest string, err error) {
	value, rest, closed := strings.Cut(text[1:], quote)
	switch {
	case !closed:
		return "", "", errors.New("has a quote that is not closed on its line")
	case strings.ContainsAny(value, replaced):
		return "", "", errors.New("has a character in double quotes that a shell replaces ($ ` \\): use single quotes")
	}
	return value, rest, nil
}

// bare takes a value without quotes, up to the next space.
func bare(text string) (value, rest string, err error) {
	if end := strings.IndexAny(text, " \t"); end >= 0 {
		text, rest = text[:end], text[end:]
	}
	if strings.ContainsAny(text, "'\"$`\\;&|<>(){") || strings.HasPrefix(text, "#") || strings.HasPrefix(text, "~") || strings.Contains(text, ":~") {
		return "", "", errors.New("has a character that means something to a shell: put the whole value in single quotes")
	}
	return text, rest, nil
}

// isComment reports whether nothing but spaces and a comment is left.
func isComment(rest string) bool {
	text := strings.TrimLeft(rest, " \t")
	return text == "" || text[0] == '#' && len(text) < len(rest)
}
