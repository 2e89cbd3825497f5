package main

import (
	"context"
	"fmt"
	"time"

	"github.com/portico-run/portico/modules/catalogue"
	"github.com/portico-run/portico/modules/catalogue/cataloguetest"
)

// wantFound is how many of the questions must find their tool.
const wantFound = 100

// benchSearch asks search_tools questions in other words than the tools' names,
// and measures how long the index of so many tools takes to make.
func benchSearch(context.Context, options) ([]result, error) {
	sets, err := cataloguetest.Corpus("modules/catalogue/signature/testdata/corpus")
	if err != nil {
		return nil, err
	}
	questions, err := cataloguetest.Questions("modules/catalogue/testdata/questions.json")
	if err != nil {
		return nil, err
	}
	c := catalogue.New(sets, nil)
	began := time.Now()
	c.Find("anything")
	index := time.Since(began)
	found := len(questions) - len(cataloguetest.Missed(c, questions))
	return []result{{
		what:     fmt.Sprintf("search_tools: of %d questions, the right tool among the first %d", len(questions), cataloguetest.Among),
		measured: fmt.Sprint(found), baseline: "-", ratio: fmt.Sprintf("%.0f %%", 100*float64(found)/float64(len(questions))),
		target: fmt.Sprintf(">= %d", wantFound), holds: found >= wantFound,
	}, {
		what: "search_tools: index of the corpus, first question", measured: ms(index), baseline: "-", ratio: "-",
		target: "<= 50 ms", holds: index <= 50*time.Millisecond,
	}}, nil
}
