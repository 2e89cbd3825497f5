package app

import (
	"strings"

	"github.com/portico-run/portico/modules/agent"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/model/named"
)

// namedModels wires the models that agents ask: those of the file, or the one of the
// settings.
func (a *App) namedModels() error {
	c := a.Config.Model
	var list []named.Model
	switch {
	case c.File != "":
		variables := map[string]string{}
		for name, value := range a.Environ {
			if strings.HasPrefix(name, "MODEL_") && value != "" {
				variables[name] = value
			}
		}
		var err error
		list, err = named.Load(c.File, variables, named.Defaults{MaxOutput: int64(c.MaxOutput), Retries: c.Retries, Timeout: c.Timeout, Idle: c.IdleTimeout})
		if err != nil {
			return err
		}
		for i := range list {
			list[i].Config.LogOutput, list[i].Config.Observe = c.LogOutput, a.watch.upstream("model")
		}
	case c.Name != "":
		prices := named.Prices{Input: credits(c.InputPrice), Output: credits(c.OutputPrice)}
		prices.Cached, prices.Written = prices.Input, prices.Input
		list = []named.Model{{Name: c.Name, Config: a.oneModel(), Prices: prices}}
	default:
		return nil
	}
	var err error
	a.Models, err = named.New(list, c.Name, a.Logger)
	return err
}

// oneModel is the model of the settings.
func (a *App) oneModel() model.Config {
	c := a.Config.Model
	return model.Config{
		Protocol: model.Protocol(c.Protocol), BaseURL: c.BaseURL, APIKey: c.APIKey.Reveal(), Headers: c.HeaderMap(), Model: c.Name, MaxOutput: int64(c.MaxOutput),
		Retries: c.Retries, Timeout: c.Timeout, Idle: c.IdleTimeout, LogOutput: c.LogOutput, Logger: a.Logger, Observe: a.watch.upstream("model"),
	}
}

// facts are what agents must know of a model.
func (a *App) facts(name string) agent.Facts {
	if a.Models == nil {
		return agent.Facts{}
	}
	m := a.Models.Find(name)
	facts := agent.Facts{Price: perMillion(m.Prices), Context: m.Context, Answer: m.Config.MaxOutput}
	for _, f := range m.Fallbacks {
		if other := a.Models.Find(f); other.Context > 0 && (facts.Context == 0 || other.Context < facts.Context) {
			facts.Context, facts.Answer = other.Context, other.Config.MaxOutput
		}
	}
	return facts
}

func perMillion(p named.Prices) price.Tokens {
	return price.Tokens{Input: p.Input, Cached: p.Cached, Written: p.Written, Output: p.Output}
}
