// Package describe reads descriptions of MCP servers: the YAML files of operators,
// and the configuration of desktop clients.
package describe

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/connector/mcp/server"
	"github.com/portico-run/portico/modules/toolset/mark"
)

// Problem is something that is wrong in a description.
type Problem struct {
	File string
	Line int
	// Server is whose entry it is; empty for the whole file.
	Server  string
	Message string
}

// Error implements error.
func (p Problem) Error() string {
	if p.Server == "" {
		return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message)
	}
	return fmt.Sprintf("%s:%d: server %s: %s", p.File, p.Line, p.Server, p.Message)
}

// maxFile bounds one file, in bytes.
const maxFile = 4 << 20

// files reads a file, or the .yaml and .yml files of a folder in the order of
// their names. An entry that is not valid is a problem and costs only itself.
// Variables are what ${NAME} stands for. The error is about the path.
func files(path string, variables map[string]string) ([]described, []Problem, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, fmt.Errorf("MCP servers: %w", err)
	}
	names := []string{path}
	if info.IsDir() {
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, nil, fmt.Errorf("MCP servers: %w", err)
		}
		names = nil
		for _, e := range entries {
			if ext := filepath.Ext(e.Name()); ext == ".yaml" || ext == ".yml" {
				names = append(names, filepath.Join(path, e.Name()))
			}
		}
	}
	r := reader{variables: variables, seen: map[string]string{}}
	for _, name := range names {
		content, err := readFile(name)
		if err != nil {
			r.problem(name, 1, "", "the file cannot be read: "+err.Error())
			continue
		}
		r.file(name, content)
	}
	return r.servers, r.problems, nil
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = fmt.Errorf("it is larger than %d bytes", maxFile)
	}
	return content, err
}

type reader struct {
	variables map[string]string
	servers   []described
	problems  []Problem
	seen      map[string]string // where a name was used first
}

func (r *reader) problem(file string, line int, name, message string) {
	r.problems = append(r.problems, Problem{File: file, Line: line, Server: name, Message: message})
}

// entry is one server of a file.
type entry struct {
	URL      string               `yaml:"url"`
	Headers  map[string]string    `yaml:"headers"`
	Command  string               `yaml:"command"`
	Args     []string             `yaml:"args"`
	Env      map[string]string    `yaml:"env"`
	Sandbox  bool                 `yaml:"sandbox"`
	OAuth    bool                 `yaml:"oauth"`
	ClientID string               `yaml:"clientId"`
	Secret   string               `yaml:"clientSecret"`
	Scopes   []string             `yaml:"scopes"`
	Egress   []string             `yaml:"egress"`
	Refresh  string               `yaml:"refresh"`
	Price    yaml.Node            `yaml:"price"`
	Prices   map[string]yaml.Node `yaml:"prices"`
	Enabled  *bool                `yaml:"enabled"`
	Callable yaml.Node            `yaml:"sandboxCallable"`
}

// Keys are what an entry of a file may have.
func Keys() []string {
	return []string{"url", "headers", "command", "args", "env", "sandbox", "oauth", "clientId", "clientSecret", "scopes", "egress", "refresh", "price", "prices", "enabled", "sandboxCallable"}
}

// file reads the servers of one file: a mapping servers, by name.
func (r *reader) file(name string, content []byte) {
	var document struct {
		Servers yaml.Node `yaml:"servers"`
	}
	d := yaml.NewDecoder(bytes.NewReader(content))
	d.KnownFields(true)
	if err := d.Decode(&document); err != nil {
		if !errors.Is(err, io.EOF) { // an empty file has none
			r.problem(name, 1, "", "it has the key servers, with a mapping of servers by name: "+strings.TrimPrefix(err.Error(), "yaml: "))
		}
		return
	}
	n := document.Servers
	if n.Kind != yaml.MappingNode {
		if n.Kind != 0 {
			r.problem(name, n.Line, "", "servers is a mapping of servers by name")
		}
		return
	}
	for i := 0; i < len(n.Content); i += 2 {
		r.server(name, n.Content[i], n.Content[i+1])
	}
}

func (r *reader) server(file string, key, value *yaml.Node) {
	name := key.Value
	if before, twice := r.seen[name]; twice {
		r.problem(file, key.Line, name, "it is also in "+before)
		return
	}
	r.seen[name] = fmt.Sprintf("%s:%d", file, key.Line)
	d := described{source: file, line: key.Line}
	d.Spec, d.marks, d.err = r.spec(name, value)
	if d.err != nil {
		r.problem(file, key.Line, name, strings.TrimPrefix(d.err.Error(), "yaml: "))
	}
	r.servers = append(r.servers, d)
}

func (r *reader) spec(name string, n *yaml.Node) (server.Spec, []mark.Mark, error) {
	s := server.Spec{Name: name, Transport: server.HTTP}
	if n.Kind != yaml.MappingNode {
		return s, nil, errors.New("it is a mapping with the keys " + strings.Join(Keys(), ", "))
	}
	for i := 0; i < len(n.Content); i += 2 {
		if key := n.Content[i].Value; !slices.Contains(Keys(), key) {
			return s, nil, fmt.Errorf("unknown key %q; known are %s", key, strings.Join(Keys(), ", "))
		}
	}
	var e entry
	if err := n.Decode(&e); err != nil {
		return s, nil, err
	}
	if e.Command != "" {
		s.Transport = server.Stdio
	}
	var missing []string
	expand := func(text string) string { return expand(text, r.variables, &missing) }
	s.URL, s.Command, s.Sandbox, s.OAuth, s.Scopes = expand(e.URL), expand(e.Command), e.Sandbox, e.OAuth, e.Scopes
	s.Client = server.Client{ID: expand(e.ClientID), Secret: expand(e.Secret)}
	for _, a := range e.Args {
		s.Args = append(s.Args, expand(a))
	}
	s.Headers, s.Env = expandAll(e.Headers, expand), expandAll(e.Env, expand)
	s.Off = e.Enabled != nil && !*e.Enabled
	if len(missing) > 0 {
		slices.Sort(missing)
		return s, nil, errors.New("these variables are not set: " + strings.Join(slices.Compact(missing), ", "))
	}
	m, err := marks(name, e.Callable)
	return s, m, errors.Join(err, numbers(e, &s))
}

// numbers reads what has a form of its own.
func numbers(e entry, s *server.Spec) error {
	for _, text := range e.Egress {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return fmt.Errorf("egress %q is no network such as 10.1.0.0/16", text)
		}
		s.Egress = append(s.Egress, p.Masked())
	}
	var err error
	if e.Refresh != "" {
		if s.Refresh, err = time.ParseDuration(e.Refresh); err != nil {
			return fmt.Errorf("refresh %q is no time such as 10m", e.Refresh)
		}
	}
	if s.Price, err = amount("price", e.Price); err != nil {
		return err
	}
	for tool, n := range e.Prices {
		if s.Prices == nil {
			s.Prices = map[string]money.Amount{}
		}
		if s.Prices[tool], err = amount("the price of "+tool, n); err != nil {
			return err
		}
	}
	return nil
}

func amount(what string, n yaml.Node) (money.Amount, error) {
	if n.Kind == 0 {
		return 0, nil
	}
	price, err := money.Parse(n.Value)
	if err != nil || n.Kind != yaml.ScalarNode {
		return 0, fmt.Errorf("%s is no number of credits", what)
	}
	return price, nil
}

var variable = regexp.MustCompile(`\$\{([A-Za-z0-9_]*)\}`)

// expand replaces ${NAME}, and notes the names that have no value.
func expand(text string, variables map[string]string, missing *[]string) string {
	return variable.ReplaceAllStringFunc(text, func(place string) string {
		name := variable.FindStringSubmatch(place)[1]
		value, ok := variables[name]
		if !ok {
			*missing = append(*missing, name)
		}
		return value
	})
}

func expandAll(texts map[string]string, expand func(text string) string) map[string]string {
	if len(texts) == 0 {
		return nil
	}
	out := make(map[string]string, len(texts))
	for name, text := range texts {
		out[name] = expand(text)
	}
	return out
}
