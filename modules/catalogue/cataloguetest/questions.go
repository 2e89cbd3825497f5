// Package cataloguetest asks a catalogue the questions that its search is
// measured with.
package cataloguetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/portico-run/portico/modules/catalogue"
	"github.com/portico-run/portico/modules/catalogue/signature"
	"github.com/portico-run/portico/modules/toolset"
)

// Question is asked in words that are not in the names of the tools, any of
// which is right. They are named toolset.tool.
type Question struct {
	Question string   `json:"question"`
	Tools    []string `json:"tools"`
}

// Questions reads a file of questions.
func Questions(path string) ([]Question, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list []Question
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

// Corpus reads the tools of public servers, each server as a toolset.
func Corpus(dir string) ([]toolset.Definition, error) {
	servers, err := signature.ReadCorpus(dir)
	if err != nil {
		return nil, err
	}
	var sets []toolset.Definition
	for _, key := range slices.Sorted(maps.Keys(servers)) {
		d := toolset.Definition{Key: key, Name: key}
		for _, t := range servers[key] {
			d.Tools = append(d.Tools, toolset.ToolDefinition{
				Name: t.Name, Description: t.Description, InputSchema: t.Input, OutputSchema: t.Output, Callers: toolset.Callers{Code: true},
			})
		}
		sets = append(sets, d)
	}
	return sets, nil
}

// Among is how many of the first results are looked at.
const Among = 3

// Missed are the questions whose tools are not among the first results.
func Missed(c *catalogue.Catalogue, questions []Question) []Question {
	var missed []Question
	for _, q := range questions {
		found := c.Find(q.Question)
		right := func(t catalogue.Tool) bool { return slices.Contains(q.Tools, t.Toolset+"."+t.Name) }
		if !slices.ContainsFunc(found[:min(Among, len(found))], right) {
			missed = append(missed, q)
		}
	}
	return missed
}
