package app

import (
	"time"

	"github.com/portico-run/portico/modules/agent"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/program/tables"
)

func (a *App) agents() *agent.Module {
	c := a.Config
	d := agent.Deps{
		DB: a.DB, Runs: a.Runs.Service, Records: a.Records.Service, Outside: a.Outside, Tools: a.Tools.Service, Programs: a.Programs.Service, Interpreters: a.Interpreters.Service, Streams: a.Streams.Service,
		Billing: a.Credits.Service, Wake: a.Hub,
		Access: agent.Access{
			Policy: a.PTC.Service, Tools: a.Toolsets.Service, SDK: a.SDK.Service, Files: a.Drive.Service,
			Tables: &tables.Service{Sandbox: a.Engine, Timeout: c.Sandbox.Timeout},
		},
		Settings: agent.Settings{
			Limits: agent.Limits{
				Requests: c.Agent.MaxRequests, Wall: c.Agent.Timeout, Tokens: int64(c.Agent.MaxTokens), Repeats: c.Agent.MaxRepeats,
				Parallel: c.Agent.MaxParallel, Output: int(c.Agent.Output),
			},
			MaxRuns: c.Agent.MaxRuns, BreakEven: c.Agent.BreakEven, Minimal: c.Agent.Builtins == "minimal",
			Lifecycle: c.Agent.LifecycleTools, CodeTool: c.Agent.CodeToolName,
			Price:       billing.ModelPrice{Input: credits(c.Model.InputPrice), Output: credits(c.Model.OutputPrice)},
			CodeTimeout: min(time.Duration(c.Agent.CodeTimeout)*time.Second, c.Sandbox.MaxTimeout),
		},
		Logger: a.Logger,
	}
	if c.Model.Name != "" {
		d.Model = model.New(model.Config{
			BaseURL: c.Model.BaseURL, APIKey: c.Model.APIKey.Reveal(), Headers: c.Model.HeaderMap(), Model: c.Model.Name, MaxOutput: int64(c.Model.MaxOutput),
			Retries: c.Model.Retries, Timeout: c.Model.Timeout, LogOutput: c.Model.LogOutput, Logger: a.Logger,
		})
	}
	return agent.New(d)
}
