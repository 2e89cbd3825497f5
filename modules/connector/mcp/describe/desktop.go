package describe

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/portico-run/portico/modules/connector/mcp/server"
)

// Left is a server of a desktop client's configuration, or a part of one, that is
// not taken.
type Left struct{ Server, Reason string }

// Desktop reads the configuration of a desktop client: mcpServers, or servers, by
// name. Variables are what ${NAME} and ${env:NAME} stand for. What cannot be taken
// is left, with the reason.
func Desktop(path string, variables map[string]string) ([]server.Spec, []Left, error) {
	content, err := readFile(path)
	if err != nil {
		if _, ok := errors.AsType[*os.PathError](err); ok {
			return nil, nil, err
		}
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	var document struct {
		Servers map[string]json.RawMessage `json:"mcpServers"`
		Others  map[string]json.RawMessage `json:"servers"`
	}
	if err := json.Unmarshal(content, &document); err != nil {
		return nil, nil, fmt.Errorf("%s is not the JSON of a client's configuration: %w", path, err)
	}
	if document.Servers == nil {
		document.Servers = document.Others
	}
	if document.Servers == nil {
		return nil, nil, fmt.Errorf("%s has neither mcpServers nor servers", path)
	}
	var (
		specs []server.Spec
		left  []Left
		taken = map[string]string{}
	)
	for _, name := range slices.Sorted(maps.Keys(document.Servers)) {
		spec, notes, err := desktopServer(name, document.Servers[name], variables)
		for _, note := range notes {
			left = append(left, Left{name, note})
		}
		if err == nil && taken[spec.Name] != "" {
			err = fmt.Errorf("its name becomes %s, as that of %q", spec.Name, taken[spec.Name])
		}
		if err != nil {
			left = append(left, Left{name, err.Error()})
			continue
		}
		taken[spec.Name] = name
		specs = append(specs, spec)
	}
	return specs, left, nil
}

// ignored are keys for a client's own
// windows.
func ignored() []string {
	return []string{"alwaysAllow", "autoApprove", "disabledTools", "icon", "description", "timeout", "gallery", "version", "name"}
}

func desktopServer(name string, text json.RawMessage, variables map[string]string) (server.Spec, []string, error) {
	var e struct {
		Type     string            `json:"type"`
		URL      string            `json:"url"`
		Server   string            `json:"serverUrl"`
		HTTP     string            `json:"httpUrl"`
		Headers  map[string]string `json:"headers"`
		Command  string            `json:"command"`
		Args     []string          `json:"args"`
		Env      map[string]string `json:"env"`
		Disabled bool              `json:"disabled"`
		Enabled  *bool             `json:"enabled"`
	}
	var keys map[string]json.RawMessage
	if json.Unmarshal(text, &keys) != nil {
		return server.Spec{}, nil, errors.New("it is not an object")
	}
	if err := json.Unmarshal(text, &e); err != nil {
		return server.Spec{}, nil, fmt.Errorf("it is not as clients have it: %w", err)
	}
	var notes []string
	known := []string{"type", "url", "serverUrl", "httpUrl", "headers", "command", "args", "env", "disabled", "enabled"}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if !slices.Contains(known, key) && !slices.Contains(ignored(), key) {
			notes = append(notes, fmt.Sprintf("%s is not taken", key))
		}
	}
	s := server.Spec{Name: plainName(name), Transport: server.HTTP, URL: firstOf(e.HTTP, e.URL, e.Server), Headers: e.Headers, Command: e.Command, Args: e.Args, Env: e.Env}
	s.Off = e.Disabled || e.Enabled != nil && !*e.Enabled
	switch kind := strings.ToLower(e.Type); {
	case kind == "sse" || kind == "ws" || kind == "websocket":
		return s, notes, fmt.Errorf("its transport %s is not supported; many servers have streamable HTTP at another address", kind)
	case s.Command != "" && s.URL != "":
		return s, notes, errors.New("it has both a command and a URL")
	case s.Command != "":
		s.Transport = server.Stdio
	case s.URL == "":
		return s, notes, errors.New("it has neither a command nor a URL")
	}
	if err := server.CheckName(s.Name); err != nil {
		return s, notes, errors.New("its name cannot be used; add it by `portico mcp add`")
	}
	return s, notes, resolve(&s, variables)
}

var place = regexp.MustCompile(`\$\{([^}]*)\}`)

// resolve puts values in place of variables. What a client would ask its person
// for has none.
func resolve(s *server.Spec, variables map[string]string) error {
	var missing []string
	expand := func(text string) string {
		return place.ReplaceAllStringFunc(text, func(p string) string {
			name := strings.TrimPrefix(place.FindStringSubmatch(p)[1], "env:")
			value, ok := variables[name]
			if !ok {
				missing = append(missing, p)
			}
			return value
		})
	}
	s.URL, s.Command = expand(s.URL), expand(s.Command)
	for i, a := range s.Args {
		s.Args[i] = expand(a)
	}
	s.Headers, s.Env = expandAll(s.Headers, expand), expandAll(s.Env, expand)
	if len(missing) > 0 {
		slices.Sort(missing)
		return errors.New("these have no value here: " + strings.Join(slices.Compact(missing), ", "))
	}
	return nil
}

var notPlain = regexp.MustCompile(`[^a-z0-9]+`)

// plainName is a name as servers have it here.
func plainName(name string) string {
	return strings.Trim(notPlain.ReplaceAllString(strings.ToLower(name), "-"), "-")
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}
