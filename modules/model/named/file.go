// Package named is the models that requests choose among by name: where each is
// asked, what it costs, how much it reads at once, and which answers in its place.
package named

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/model"
)

// Model is one of them.
type Model struct {
	Name   string
	Config model.Config
	Prices Prices
	// Context is how many tokens the model reads and writes at most in one request;
	// 0 is not known.
	Context int64
	// Fallbacks are the names of those that are asked where this one gives no answer.
	Fallbacks []string
}

// Prices are credits for a million tokens: of the input, of what the provider read
// from its cache, of what it wrote to it, and of the output.
type Prices struct{ Input, Cached, Written, Output money.Amount }

// Defaults are what models have of which the file says nothing.
type Defaults struct {
	MaxOutput     int64
	Retries       int
	Timeout, Idle time.Duration
}

// MaxFile is the largest file of models, in bytes.
const MaxFile = 1 << 20

type fileBody struct {
	Models []modelBody `yaml:"models"`
}

// modelBody is a model as the file has it: docs/models.md#several-models.
type modelBody struct {
	Name      string            `yaml:"name"`
	Protocol  model.Protocol    `yaml:"protocol"`
	BaseURL   string            `yaml:"baseUrl"`
	Model     string            `yaml:"model"`
	APIKey    string            `yaml:"apiKey"`
	Headers   map[string]string `yaml:"headers"`
	Request   map[string]any    `yaml:"request"`
	Strict    bool              `yaml:"strict"`
	Lacks     []model.Lack      `yaml:"lacks"`
	MaxOutput int64             `yaml:"maxOutput"`
	Context   int64             `yaml:"context"`
	Prices    pricesBody        `yaml:"prices"`
	Fallbacks []string          `yaml:"fallbacks"`
	Retries   *int              `yaml:"retries"`
	Timeout   time.Duration     `yaml:"timeout"`
	Idle      time.Duration     `yaml:"idleTimeout"`
}

type pricesBody struct {
	Input   string  `yaml:"input"`
	Cached  *string `yaml:"cached"`
	Written *string `yaml:"written"`
	Output  string  `yaml:"output"`
}

// Load reads a file of models. Texts in it may name a variable, as in ${MODEL_KEY}. An
// error says everything that is wrong.
func Load(file string, variables map[string]string, d Defaults) ([]Model, error) {
	if info, err := os.Stat(file); err == nil && info.Size() > MaxFile {
		return nil, fmt.Errorf("%s has more than %d bytes", file, MaxFile)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("the file of models cannot be read: %w", err)
	}
	models, err := Parse(text, variables, d)
	if err != nil {
		return nil, fmt.Errorf("%s is not valid: %w", file, err)
	}
	return models, nil
}

// Parse reads the text of such a file.
func Parse(text []byte, variables map[string]string, d Defaults) ([]Model, error) {
	var body fileBody
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&body); err != nil {
		return nil, err
	}
	if len(body.Models) == 0 {
		return nil, errors.New("it has no models")
	}
	var (
		models []Model
		wrong  []error
		names  = map[string]bool{}
	)
	for i, b := range body.Models {
		m, err := b.model(variables, d)
		where := fmt.Sprintf("models[%d] (%s)", i, b.Name)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", where, err))
		}
		if names[b.Name] {
			wrong = append(wrong, fmt.Errorf("%s: there are two of this name", where))
		}
		names[b.Name] = true
		models = append(models, m)
	}
	for _, m := range models {
		for _, f := range m.Fallbacks {
			if !names[f] || f == m.Name {
				wrong = append(wrong, fmt.Errorf("%s: its fallback %q is not another model of the file", m.Name, f))
			}
		}
	}
	return models, errors.Join(wrong...)
}

var (
	modelName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}$`)
	variable  = regexp.MustCompile(`\$\{[^}]*\}`)
)

// model checks one model and fills in what it leaves out.
func (b modelBody) model(variables map[string]string, d Defaults) (Model, error) {
	var wrong []error
	must := func(ok bool, why string) {
		if !ok {
			wrong = append(wrong, errors.New(why))
		}
	}
	fill := func(text string) string {
		return variable.ReplaceAllStringFunc(text, func(found string) string {
			value, ok := variables[found[2:len(found)-1]]
			must(ok, found+" is not set; variables of this file begin with MODEL_")
			return value
		})
	}
	c := model.Config{
		Protocol: cmp.Or(b.Protocol, model.Responses), BaseURL: fill(b.BaseURL), APIKey: fill(b.APIKey), Model: cmp.Or(b.Model, b.Name),
		Strict: b.Strict, Lacks: b.Lacks, MaxOutput: cmp.Or(b.MaxOutput, d.MaxOutput), Retries: d.Retries,
		Timeout: cmp.Or(b.Timeout, d.Timeout), Idle: cmp.Or(b.Idle, d.Idle), Headers: map[string]string{},
	}
	if b.Retries != nil {
		c.Retries = *b.Retries
	}
	for name, value := range b.Headers {
		c.Headers[name] = fill(value)
	}
	address, err := url.Parse(c.BaseURL)
	must(err == nil && (address.Scheme == "http" || address.Scheme == "https") && address.Host != "", "baseUrl must be a URL of http or https")
	must(modelName.MatchString(b.Name), "name must be 1 to 64 letters, digits and . _ : / -, and begin with a letter or digit")
	must(slices.Contains(model.Protocols(), c.Protocol), fmt.Sprintf("protocol must be one of %s", join(model.Protocols())))
	for _, lack := range b.Lacks {
		must(slices.Contains(model.Lackings(), lack), fmt.Sprintf("lacks must be some of %s", join(model.Lackings())))
	}
	must(b.MaxOutput >= 0 && b.Context >= 0 && c.Retries >= 0 && c.Timeout >= 0 && c.Idle >= 0, "numbers must not be negative")
	must(b.Context == 0 || b.Context > c.MaxOutput, "context must be more than maxOutput")
	if c.Extra, err = extra(b.Request); err != nil {
		wrong = append(wrong, err)
	}
	prices, err := b.Prices.prices()
	if err != nil {
		wrong = append(wrong, err)
	}
	return Model{Name: b.Name, Config: c, Prices: prices, Context: b.Context, Fallbacks: b.Fallbacks}, errors.Join(wrong...)
}

// extra are the members of every request that the file adds.
func extra(members map[string]any) (map[string]json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if slices.Contains(model.Reserved(), name) {
			return nil, fmt.Errorf("request must not have %s, which the server writes", name)
		}
		text, err := json.Marshal(members[name])
		if err != nil {
			return nil, fmt.Errorf("request.%s is not JSON: %w", name, err)
		}
		all[name] = text
	}
	return all, nil
}

// prices reads the prices. What the cache is about costs as the input does where the
// file does not say it.
func (b pricesBody) prices() (p Prices, err error) {
	var wrong []error
	read := func(name, text string) money.Amount {
		amount, err := money.Parse(cmp.Or(text, "0"))
		if err != nil || amount < 0 {
			wrong = append(wrong, fmt.Errorf("prices.%s must be credits for a million tokens, such as 2.5", name))
		}
		return amount
	}
	p.Input, p.Output = read("input", b.Input), read("output", b.Output)
	p.Cached, p.Written = p.Input, p.Input
	if b.Cached != nil {
		p.Cached = read("cached", *b.Cached)
	}
	if b.Written != nil {
		p.Written = read("written", *b.Written)
	}
	return p, errors.Join(wrong...)
}

func join[T ~string](words []T) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	return strings.Join(texts, ", ")
}
