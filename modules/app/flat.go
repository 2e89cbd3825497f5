package app

import (
	"net"
	"slices"

	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/program/flat"
	"github.com/portico-run/portico/modules/tool/function"
	"github.com/portico-run/portico/modules/toolset/mark"
)

// callTools wires what executes tools, the functions and the sandbox among them,
// and what records it.
func (a *App) callTools() error {
	a.record()
	a.bounds()
	var err error
	if a.Engine, err = a.engine(); err != nil {
		return err
	}
	a.Fetch = a.fetching()
	if err := a.knowledge(); err != nil {
		return err
	}
	functions, err := a.functions()
	if err != nil {
		return err
	}
	a.Tools = a.tools(functions)
	a.Flat = a.flat(functions)
	return nil
}

// functions are the tools of the server's own that programs may call.
func (a *App) functions() (*function.Registry, error) {
	var list []function.Function
	if q := a.Config.Flat.Query; q.Model != "" {
		list = append(list, a.question().Function())
	}
	// What the options bring takes the place of what has the same name.
	for _, f := range slices.Concat(a.Fetch.Service.Functions(), a.Answers.Service.Functions()) {
		if !slices.ContainsFunc(a.Functions, func(given function.Function) bool { return given.Name == f.Name }) {
			list = append(list, f)
		}
	}
	return function.NewRegistry(append(list, a.Functions...)...)
}

// question asks the model that programs ask.
func (a *App) question() flat.Questions {
	c := a.Config
	asked := a.oneModel()
	asked.Model = c.Flat.Query.Model
	tokens := price.PerMillion(credits(c.Model.InputPrice), credits(c.Model.OutputPrice))
	if a.Models != nil && a.Models.Has(c.Flat.Query.Model) { // a name of the file
		m := a.Models.Find(c.Flat.Query.Model)
		asked, tokens = m.Config, perMillion(m.Prices)
	}
	asked.MaxOutput, asked.Timeout, asked.Logger = int64(c.Flat.Query.MaxTokens), c.Flat.Query.Timeout, a.Logger
	return flat.Questions{
		Model: model.New(asked),
		DB:    a.DB, Billing: a.Credits.Service, Records: a.Records.Service, Logger: a.Logger,
		Price:         tokens,
		MaxPerProgram: c.Flat.Query.MaxPerProgram, Timeout: c.Flat.Query.Timeout,
	}
}

// flat wires the functions of programs.
func (a *App) flat(functions *function.Registry) *flat.Module {
	_, port, err := net.SplitHostPort(a.Config.Server.Listen)
	if err != nil {
		port = "5800" // what cannot be listened on is refused at the start
	}
	a.marks = mark.New(mark.Deps{DB: a.DB, Wake: a.Hub})
	return flat.New(flat.Deps{
		Functions: functions, Marks: a.marks, Tools: a.Toolsets.Service, Executor: a.Tools.Service, Hints: a.hints,
		Settings: flat.Settings{Off: !a.Config.Flat.Tools, Port: port}, Logger: a.Logger,
	})
}
