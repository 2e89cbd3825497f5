package openapi

import (
	"bytes"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/portico-run/portico/modules/toolset"
)

// file is a toolset file.
type file struct {
	Key          string            `yaml:"key"`
	Name         string            `yaml:"name"`
	Type         string            `yaml:"type,omitempty"`
	Domain       string            `yaml:"domain"`
	Descriptions map[string]string `yaml:"descriptions,omitempty"`
	Credential   *credential       `yaml:"credential,omitempty"`
	Egress       *egress           `yaml:"egress,omitempty"`
	Billing      string            `yaml:"billing"`
	Methods      []method          `yaml:"-"`

	schemas map[string]schema
}

type egress struct {
	Allow []string `yaml:"allow"`
}

type credential struct {
	Type     string `yaml:"type"`
	Name     string `yaml:"name,omitempty"`
	Username string `yaml:"username,omitempty"`
	Value    string `yaml:"value"`
	Scopes   string `yaml:"scopes,omitempty"`
	// Authorize is where users agree, with authorizationCode.
	Authorize string       `yaml:"authorize,omitempty"`
	Also      []credential `yaml:"also,omitempty"`
}

type method struct {
	Name        string   `yaml:"name"`
	Description string   `yaml:"description,omitempty"`
	Endpoint    string   `yaml:"endpoint"`
	Method      string   `yaml:"method"`
	Adapter     *adapter `yaml:"adapter,omitempty"`
	Request     schema   `yaml:"request"`
	Response    schema   `yaml:"response,omitempty"`
}

type adapter struct {
	Headers          map[string]string    `yaml:"headers,omitempty"`
	UseFormData      bool                 `yaml:"useFormData,omitempty"`
	QueryParameters  []string             `yaml:"queryParameters,omitempty"`
	HeaderParameters map[string]string    `yaml:"headerParameters,omitempty"`
	Parameters       map[string]parameter `yaml:"parameters,omitempty"`
	BodyParameter    string               `yaml:"bodyParameter,omitempty"`
	Body             string               `yaml:"body,omitempty"`
}

func (a adapter) empty() bool {
	return len(a.Headers)+len(a.QueryParameters)+len(a.HeaderParameters)+len(a.Parameters) == 0 && !a.UseFormData && a.BodyParameter == "" && a.Body == ""
}

// parameter is a toolset.Parameter with what is the default left out.
type parameter struct {
	In            string `yaml:"in"`
	Name          string `yaml:"name,omitempty"`
	Style         string `yaml:"style,omitempty"`
	Explode       *bool  `yaml:"explode,omitempty"`
	AllowReserved bool   `yaml:"allowReserved,omitempty"`
	ContentType   string `yaml:"contentType,omitempty"`
}

// styled leaves out what a place has by itself.
func styled(in, style string, explode bool) parameter {
	p := parameter{In: in}
	if style != toolset.DefaultStyle(in) {
		p.Style = style
	}
	if explode != toolset.DefaultExplode(style) {
		p.Explode = &explode
	}
	return p
}

// text writes the file piece by piece: the encoder keeps all that it has
// written of one.
func (f file) text() ([]byte, error) {
	out, err := yaml.Marshal(f)
	if err != nil {
		return nil, err
	}
	for i, name := range slices.Sorted(maps.Keys(f.schemas)) {
		if i == 0 {
			out = append(out, "schemas:\n"...)
		}
		piece, err := yaml.Marshal(map[string]schema{name: f.schemas[name]})
		if err != nil {
			return nil, err
		}
		out = indent(out, piece)
	}
	out = append(out, "methods:\n"...)
	for _, m := range f.Methods {
		piece, err := yaml.Marshal([]method{m})
		if err != nil {
			return nil, err
		}
		out = indent(out, piece)
	}
	return out, nil
}

// indent appends lines of YAML as part of what is above them.
func indent(out, lines []byte) []byte {
	for line := range bytes.Lines(lines) {
		if len(line) > 1 {
			out = append(out, "    "...)
		}
		out = append(out, line...)
	}
	return out
}
