package pages

import (
	"net/http"

	"github.com/portico-run/portico/modules/console/help"
)

type helpView struct {
	Pages []help.Page
	Query string
	Found []help.Found
	Page  *help.Page
}

// help lists the documents, or what a search found in them.
func (p *Pages) help(v *Visit) (Answer, error) {
	const longest = 200
	documents, err := p.documents()
	if err != nil {
		return Answer{}, err
	}
	view := helpView{Pages: documents.Pages(), Query: v.R.URL.Query().Get("q")}
	if len(view.Query) > longest {
		return Answer{}, errBadSearch
	}
	view.Found = documents.Search(view.Query)
	return Answer{Title: "Help", Template: "help", Data: view}, nil
}

func (p *Pages) document(v *Visit) (Answer, error) {
	documents, err := p.documents()
	if err != nil {
		return Answer{}, err
	}
	page, ok := documents.Page(v.R.PathValue("name"))
	if !ok {
		return Answer{}, errNoPage
	}
	return Answer{Title: page.Title, Template: "document", Data: helpView{Page: &page}, Status: http.StatusOK}, nil
}
