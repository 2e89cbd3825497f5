// Package scripted is a model that follows a script: an HTTP server that
// answers what a file says, in each protocol that the server speaks with models. It stands in for a
// language model in tests, demonstrations and without a network, refuses what
// the real service refuses, and says in every answer that it is scripted.
package scripted

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"go.yaml.in/yaml/v3"
)

// Script is a conversation. The turn that answers a request follows from what
// the request holds, so that any number of conversations may go on at once.
type Script struct {
	Name  string `yaml:"name"`
	Turns []Turn `yaml:"turns"`
}

// Turn is one answer of the model.
type Turn struct {
	// On begins another conversation here: one whose newest message of the user
	// holds this text. Without it conversations begin with the first turn.
	On string `yaml:"on"`
	// Expect are texts that the request must hold, Reject those that it must
	// not; otherwise it is refused, which ends a test. Numbers and truths are texts
	// with the name of their member, such as "temperature: 0.5".
	Expect []string `yaml:"expect"`
	Reject []string `yaml:"reject"`
	// Fail are refusals that come first, one for each request.
	Fail []Failure `yaml:"fail"`
	// Break is how many answers end in their middle first.
	Break int `yaml:"break"`
	// Delay passes before the answer.
	Delay  time.Duration `yaml:"delay"`
	Output []Output      `yaml:"output"`
	// Usage is what is reported; without it about four characters are a token.
	Usage *Usage `yaml:"usage"`
	// Incomplete cuts the answer for this reason.
	Incomplete string `yaml:"incomplete"`
	// Stop is the text at which the answer ended; Chat Completions does not say it.
	Stop string `yaml:"stop"`
}

// Failure is a refusal.
type Failure struct {
	Status     int    `yaml:"status"`
	Code       string `yaml:"code"`
	Message    string `yaml:"message"`
	RetryAfter string `yaml:"retryAfter"` // seconds
}

// Usage is tokens.
type Usage struct {
	Input  int64 `yaml:"input"`
	Cached int64 `yaml:"cached"` // of the input
	Output int64 `yaml:"output"`
}

// Output is one item of an answer: exactly one of its members.
type Output struct {
	Text      string `yaml:"text"`
	Refusal   string `yaml:"refusal"`
	Reasoning string `yaml:"reasoning"`
	Call      *Call  `yaml:"call"`
	// Item is sent as it is, whatever its type.
	Item map[string]any `yaml:"item"`
}

// Call is a function call. Raw replaces Arguments by a text that need not be
// JSON.
type Call struct {
	Name      string         `yaml:"name"`
	Arguments map[string]any `yaml:"arguments"`
	Raw       *string        `yaml:"raw"`
}

func (c Call) arguments() (string, error) {
	if c.Raw != nil {
		return *c.Raw, nil
	}
	if c.Arguments == nil {
		return "{}", nil
	}
	text, err := json.Marshal(c.Arguments)
	return string(text), err
}

// Load reads a script from a YAML file.
func Load(file string) (Script, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return Script{}, err
	}
	s, err := Parse(text)
	if err != nil {
		return s, fmt.Errorf("%s: %w", file, err)
	}
	return s, nil
}

// Parse reads a script.
func Parse(text []byte) (Script, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	var s Script
	if err := d.Decode(&s); err != nil && !errors.Is(err, io.EOF) {
		return s, err
	}
	if s.Name == "" {
		return s, errors.New("the script has no name")
	}
	for n, t := range s.Turns {
		for _, o := range t.Output {
			if o.kinds() != 1 {
				return s, fmt.Errorf("turn %d: an output is one of text, refusal, reasoning, call and item", n+1)
			}
			if o.Call != nil && o.Call.Name == "" {
				return s, fmt.Errorf("turn %d: a call has no name", n+1)
			}
		}
		for _, f := range t.Fail {
			if f.Status < 400 || f.Status > 599 {
				return s, fmt.Errorf("turn %d: %d is no status of a refusal", n+1, f.Status)
			}
		}
	}
	return s, nil
}

func (o Output) kinds() (n int) {
	for _, is := range []bool{o.Text != "", o.Refusal != "", o.Reasoning != "", o.Call != nil, o.Item != nil} {
		if is {
			n++
		}
	}
	return n
}
