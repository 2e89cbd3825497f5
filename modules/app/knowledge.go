package app

import (
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/knowledge"
	"github.com/portico-run/portico/modules/knowledge/answer"
	"github.com/portico-run/portico/modules/knowledge/embedding"
	"github.com/portico-run/portico/modules/knowledge/read"
)

// knowledge wires the store of documents and what is asked of it.
func (a *App) knowledge() error {
	c := a.Config
	d := knowledge.Deps{
		DB: a.DB, Files: a.Drive.Service, Logger: a.Logger,
		Reader: func(uid string) read.Reader {
			return read.Any{Office: read.Office{Sandbox: a.Engine, Timeout: c.Sandbox.MaxTimeout, Owner: uid}}
		},
		Settings: knowledge.Settings{
			MaxPassages: int64(c.Knowledge.MaxPassages), MaxBytes: c.Knowledge.MaxBytes, MaxDocument: c.Knowledge.MaxDocument, Memory: c.Knowledge.Memory,
		},
	}
	if c.Embedding.URL != "" {
		client, err := embedding.New(embedding.Config{
			URL: c.Embedding.URL, APIKey: c.Embedding.APIKey.Reveal(), Model: c.Embedding.Model, Dimensions: c.Embedding.Dimensions,
			Timeout: c.Embedding.Timeout, Retries: c.Embedding.Retries, Observe: a.watch.upstream("embedding"),
		})
		if err != nil {
			return err
		}
		d.Embedder = client
	}
	a.Knowledge = knowledge.New(d)
	a.Answers = answer.New(a.answers())
	return nil
}

func (a *App) answers() answer.Deps {
	c := a.Config
	d := answer.Deps{
		Knowledge: a.Knowledge.Service, DB: a.DB, Billing: a.Credits.Service, Records: a.Records.Service, Logger: a.Logger,
		Settings: answer.Settings{
			Price:   func(model string) price.Tokens { return a.facts(model).Price },
			Timeout: c.Model.Timeout, MinSimilarity: c.Knowledge.MinSimilarity.Float(),
		},
	}
	if a.Models != nil {
		d.Model = a.Models
	}
	return d
}
