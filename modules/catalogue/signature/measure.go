package signature

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tiktoken-go/tokenizer/codec"

	"github.com/portico-run/portico/internal/schema/jsontree"
)

// Counter counts tokens as the models of the o200k_base vocabulary do.
type Counter struct{ codec *codec.Codec }

// NewCounter loads the vocabulary, which takes a moment.
func NewCounter() *Counter { return &Counter{codec.NewO200kBase()} }

// Count is the number of tokens of a text.
func (c *Counter) Count(text string) (int, error) { return c.codec.Count(text) }

// Measurement is what the tools of one server cost in a prompt, in tokens.
type Measurement struct {
	Server string
	Tools  int
	// Schemas are what signatures replace: the names with the minified schemas
	// of arguments and, where a tool states one, of its result. Definitions have
	// the descriptions of tools as well, as a request carries them.
	Schemas, Definitions int
	// Signatures are the lines without comments, Lines those with them.
	Signatures, Lines int
}

// definition is a tool as a request carries it.
type definition struct {
	Name         string `json:"name"`
	Description  string `json:"description,omitempty"`
	InputSchema  any    `json:"input_schema"`
	OutputSchema any    `json:"output_schema,omitempty"`
}

func define(t Tool) (definition, error) {
	d := definition{Name: t.Name, Description: t.Description, InputSchema: jsontree.NewObject()}
	var err error
	if len(t.Input) > 0 {
		if d.InputSchema, err = jsontree.Parse(t.Input); err != nil {
			return d, err
		}
	}
	if len(t.Output) > 0 {
		d.OutputSchema, err = jsontree.Parse(t.Output)
	}
	return d, err
}

// Measure counts what tools cost in both forms.
func (c *Counter) Measure(server string, tools []Tool) (Measurement, error) {
	m := Measurement{Server: server, Tools: len(tools)}
	definitions, schemas := []definition{}, []definition{}
	signatures, lines := make([]string, len(tools)), make([]string, len(tools))
	for i, t := range tools {
		d, err := define(t)
		if err != nil {
			return m, fmt.Errorf("%s: %w", t.Name, err)
		}
		definitions = append(definitions, d)
		d.Description = ""
		schemas = append(schemas, d)
		signatures[i], lines[i] = Signature("", t), Line("", t)
	}
	count := func(into *int, v any) error {
		text, err := jsontree.Encode(v)
		if err != nil {
			return err
		}
		*into, err = c.Count(string(text))
		return err
	}
	if err := count(&m.Schemas, schemas); err != nil {
		return m, err
	}
	if err := count(&m.Definitions, definitions); err != nil {
		return m, err
	}
	var err error
	if m.Signatures, err = c.Count(strings.Join(signatures, "\n")); err != nil {
		return m, err
	}
	m.Lines, err = c.Count(strings.Join(lines, "\n"))
	return m, err
}

// ReadCorpus reads the answers to tools/list of MCP servers: the files *.json
// of a folder.
func ReadCorpus(dir string) (map[string][]Tool, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("the folder %s is not there, or holds no *.json", dir)
	}
	servers := map[string][]Tool{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		var answer struct {
			Tools []Tool `json:"tools"`
		}
		if err := json.Unmarshal(text, &answer); err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		servers[strings.TrimSuffix(filepath.Base(f), ".json")] = answer.Tools
	}
	return servers, nil
}

// Totals are the measurements of several servers.
type Totals struct {
	Servers []Measurement // in the order of their names
	All     Measurement
}

// Total measures every server.
func (c *Counter) Total(servers map[string][]Tool) (Totals, error) {
	t := Totals{All: Measurement{Server: "all"}}
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		m, err := c.Measure(name, servers[name])
		if err != nil {
			return t, fmt.Errorf("%s: %w", name, err)
		}
		t.Servers = append(t.Servers, m)
		t.All.Tools += m.Tools
		t.All.Schemas += m.Schemas
		t.All.Definitions += m.Definitions
		t.All.Signatures += m.Signatures
		t.All.Lines += m.Lines
	}
	return t, nil
}

// Average is what is saved on average over the servers with at least so many
// tools, by signatures or by lines.
func (t Totals) Average(tools int, saved func(Measurement) float64) float64 {
	sum, n := 0.0, 0
	for _, m := range t.Servers {
		if m.Tools >= tools {
			sum += saved(m)
			n++
		}
	}
	return sum / float64(max(n, 1))
}

// SignaturesSaved is the part of the schemas' tokens that signatures save.
func (m Measurement) SignaturesSaved() float64 { return saved(m.Schemas, m.Signatures) }

// LinesSaved is the part of the definitions' tokens that lines save.
func (m Measurement) LinesSaved() float64 { return saved(m.Definitions, m.Lines) }

func saved(before, after int) float64 { return 1 - float64(after)/float64(max(before, 1)) }
