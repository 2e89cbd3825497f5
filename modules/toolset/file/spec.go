package file

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/portico-run/portico/modules/toolset"
)

// text is a string that knows its line.
type text struct {
	value string
	line  int
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (t *text) UnmarshalYAML(n *yaml.Node) error {
	t.line = n.Line
	err := n.Decode(&t.value)
	if err == nil && strings.ContainsRune(t.value, 0) {
		t.value = ""
		err = &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: must not hold NUL", n.Line)}}
	}
	return err
}

// tree is a part of a file that is read later, such as a JSON Schema.
type tree struct{ node *yaml.Node }

// UnmarshalYAML implements yaml.Unmarshaler.
func (t *tree) UnmarshalYAML(n *yaml.Node) error {
	t.node = n
	return nil
}

// spec is one toolset of a file.
type spec struct {
	Key          text              `yaml:"key"`
	Name         text              `yaml:"name"`
	Domain       text              `yaml:"domain"`
	Labels       map[string]string `yaml:"labels"`
	Descriptions map[string]string `yaml:"descriptions"`
	Type         text              `yaml:"type"`
	AuthType     text              `yaml:"authType"`
	Enabled      *bool             `yaml:"enabled"`
	Global       *bool             `yaml:"global"`
	Credential   *credentialSpec   `yaml:"credential"`
	Egress       egressSpec        `yaml:"egress"`
	Approval     text              `yaml:"approval"`
	Billing      tree              `yaml:"billing"`
	AuthPatterns tree              `yaml:"authPatterns"`
	ConfigItems  tree              `yaml:"configItems"`
	Config       tree              `yaml:"config"`
	Schemas      map[string]tree   `yaml:"schemas"`
	Methods      []methodSpec      `yaml:"methods"`

	form
}

// form is where a mapping begins and what is wrong with its form. It is kept
// beside the rest, so that the rest is checked too.
type form struct {
	line     int
	problems []string
}

type credentialSpec struct {
	Type     text `yaml:"type"`
	Name     text `yaml:"name"`
	Username text `yaml:"username"`
	Value    text `yaml:"value"`
	Scopes   text `yaml:"scopes"`
	// Authorize is where users agree, with authorizationCode.
	Authorize text `yaml:"authorize"`

	Also []*credentialSpec `yaml:"also"`

	form
}

type egressSpec struct {
	Allow []text `yaml:"allow"`
}

type methodSpec struct {
	Name        text        `yaml:"name"`
	Version     int         `yaml:"version"`
	Description text        `yaml:"description"`
	Endpoint    text        `yaml:"endpoint"`
	Method      text        `yaml:"method"`
	Request     tree        `yaml:"request"`
	Response    tree        `yaml:"response"`
	Pricing     tree        `yaml:"pricing"`
	Adapter     adapterSpec `yaml:"adapter"`
	Callers     []text      `yaml:"allowedCallers"`
	Approval    text        `yaml:"approval"`
	// Callable makes it a plain function of programs; ReadOnly and Idempotent
	// are why it may be one.
	Callable   bool  `yaml:"sandbox_callable"`
	ReadOnly   *bool `yaml:"read_only"`
	Idempotent bool  `yaml:"idempotent"`

	form
}

// keep remembers the problems of a mapping's form and returns other errors.
func (f *form) keep(n *yaml.Node, err error) error {
	f.line = n.Line
	wrong, ok := errors.AsType[*yaml.TypeError](err)
	if !ok {
		return err
	}
	f.problems = wrong.Errors
	return nil
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (s *spec) UnmarshalYAML(n *yaml.Node) error {
	type plain spec
	return s.keep(n, strict(n, (*plain)(s), "key", "name", "domain", "labels", "descriptions", "type", "authType", "enabled",
		"global", "credential", "egress", "approval", "billing", "authPatterns", "configItems", "config", "schemas", "methods"))
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (s *credentialSpec) UnmarshalYAML(n *yaml.Node) error {
	type plain credentialSpec
	return s.keep(n, strict(n, (*plain)(s), "type", "name", "username", "value", "scopes", "authorize", "also"))
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (s *egressSpec) UnmarshalYAML(n *yaml.Node) error {
	type plain egressSpec
	return strict(n, (*plain)(s), "allow")
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (s *methodSpec) UnmarshalYAML(n *yaml.Node) error {
	type plain methodSpec
	return s.keep(n, strict(n, (*plain)(s), "name", "version", "description", "endpoint", "method", "request", "response", "pricing", "adapter", "allowedCallers", "approval",
		"sandbox_callable", "read_only", "idempotent"))
}

// adapterSpec is toolset.Adapter with the strictness of a file.
type adapterSpec struct {
	toolset.Adapter `yaml:",inline"`

	Polling    *pollingSpec             `yaml:"polling"`
	Parameters map[string]parameterSpec `yaml:"parameters"`
	GraphQL    *graphqlSpec             `yaml:"graphql"`
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (a *adapterSpec) UnmarshalYAML(n *yaml.Node) error {
	type plain adapterSpec
	err := strict(n, (*plain)(a), "headers", "timeout", "maxRetries", "useFormData", "queryParameters", "headerParameters", "bodyParameter",
		"parameters", "body", "idempotent", "polling", "graphql")
	for name, p := range a.Parameters {
		if a.Adapter.Parameters == nil {
			a.Adapter.Parameters = map[string]toolset.Parameter{}
		}
		a.Adapter.Parameters[name] = toolset.Parameter(p)
	}
	if a.Polling != nil {
		a.Adapter.Polling = (*toolset.Polling)(a.Polling)
	}
	if a.GraphQL != nil {
		a.Adapter.GraphQL = (*toolset.GraphQL)(a.GraphQL)
	}
	return err
}

// parameterSpec is toolset.Parameter with the strictness of a file.
type parameterSpec toolset.Parameter

// UnmarshalYAML implements yaml.Unmarshaler.
func (p *parameterSpec) UnmarshalYAML(n *yaml.Node) error {
	return strict(n, (*toolset.Parameter)(p), "in", "name", "style", "explode", "allowReserved", "contentType")
}

// pollingSpec is toolset.Polling with the strictness of a file.
type pollingSpec toolset.Polling

// UnmarshalYAML implements yaml.Unmarshaler. The body is any value.
func (p *pollingSpec) UnmarshalYAML(n *yaml.Node) error {
	err := strict(n, (*toolset.Polling)(p), "statusUrl", "statusMethod", "statusBody", "taskIdPath", "statusPath", "resultPath", "completedStatuses", "failedStatuses",
		"maxWaitSeconds", "intervalSeconds")
	if err != nil {
		return err
	}
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == "statusBody" {
			p.StatusBody, err = toJSON(n.Content[i+1])
		}
	}
	return err
}

// strict decodes a mapping and reports the keys that mean nothing in it.
func strict(n *yaml.Node, into any, keys ...string) error {
	if n.Kind != yaml.MappingNode {
		return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: must be a mapping with the keys %s", n.Line, strings.Join(keys, ", "))}}
	}
	var problems []string
	for i := 0; i < len(n.Content); i += 2 {
		if key := n.Content[i]; !slices.Contains(keys, key.Value) {
			problems = append(problems, fmt.Sprintf("line %d: unknown key %q; known are %s", key.Line, key.Value, strings.Join(keys, ", ")))
		}
	}
	err := n.Decode(into)
	if wrong, ok := errors.AsType[*yaml.TypeError](err); ok {
		problems = append(problems, wrong.Errors...)
	} else if err != nil {
		return err
	}
	if len(problems) > 0 {
		return &yaml.TypeError{Errors: problems}
	}
	return nil
}
