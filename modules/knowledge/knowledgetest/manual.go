package knowledgetest

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/portico-run/portico/modules/knowledge/read"
)

//go:embed manual/*.md questions.json
var files embed.FS

// Passages is how many passages the manual has, one for each section.
const Passages = 200

// Manual lists the chapters of the manual of a cabin, which was made up for this:
// twenty subjects with ten sections each.
func Manual() ([]read.Source, error) {
	names, err := fs.Glob(files, "manual/*.md")
	sources := make([]read.Source, len(names))
	for i, name := range names {
		sources[i] = read.Source{
			Name: path.Base(name), MIME: "text/markdown", Size: -1, Open: func() (io.ReadCloser, error) { return files.Open(name) },
		}
	}
	return sources, err
}

// Question has its answer in one section of the manual, in other words mostly.
type Question struct {
	Text    string `json:"q"`
	Source  string `json:"source"`
	Section string `json:"section"`
}

// Questions are those about the manual, 60 of them.
func Questions() ([]Question, error) {
	b, err := files.ReadFile("questions.json")
	if err != nil {
		return nil, err
	}
	var list []Question
	return list, json.Unmarshal(b, &list)
}

// Place is a section of a chapter, as a path of headings.
type Place struct{ Source, Section string }

// Quality is how good a search is.
type Quality struct {
	Questions int
	// Recall is the share of questions whose section is among the first ten, MRR
	// the mean of 1 over its place, 0 where it is not among them.
	Recall, MRR float64
	// Missed are those whose section is not.
	Missed []string
}

// String implements fmt.Stringer.
func (q Quality) String() string { return fmt.Sprintf("recall@10 %.3f, MRR %.3f", q.Recall, q.MRR) }

// Among is how many of the first passages count.
const Among = 10

// Measure asks all questions of a search.
func Measure(ctx context.Context, search func(ctx context.Context, question string) ([]Place, error)) (Quality, error) {
	questions, err := Questions()
	if err != nil {
		return Quality{}, err
	}
	q := Quality{Questions: len(questions)}
	for _, asked := range questions {
		places, err := search(ctx, asked.Text)
		if err != nil {
			return q, err
		}
		found := false
		for i, p := range places[:min(Among, len(places))] {
			if found = p.Source == asked.Source && strings.HasSuffix("> "+p.Section, "> "+asked.Section); found {
				q.Recall += 1 / float64(len(questions))
				q.MRR += 1 / float64(i+1) / float64(len(questions))
				break
			}
		}
		if !found {
			q.Missed = append(q.Missed, asked.Text)
		}
	}
	return q, nil
}
