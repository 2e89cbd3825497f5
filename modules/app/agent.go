package app

import (
	"time"

	"github.com/portico-run/portico/modules/agent"
	"github.com/portico-run/portico/modules/agent/builtin"
	"github.com/portico-run/portico/modules/agent/checkpoint"
	"github.com/portico-run/portico/modules/agent/loop"
	"github.com/portico-run/portico/modules/program/tables"
)

func (a *App) agents() *agent.Module {
	c := a.Config
	d := agent.Deps{
		Records: agent.Records{DB: a.DB, Runs: a.Runs.Service, Calls: a.Records.Service, Outside: a.Outside, Streams: a.Streams.Service, Wake: a.Hub, Turns: checkpoint.New(a.DB)},
		Tools:   a.Tools.Service, Billing: a.Credits.Service,
		Access: agent.Access{Policy: a.PTC.Service, Tools: a.Toolsets.Service, SDK: a.SDK.Service, Flat: a.Flat.Service, Programs: a.Programs.Service},
		Builtin: builtin.Deps{
			Programs: a.Programs.Service, Interpreters: a.Interpreters.Service, Files: a.Drive.Service,
			Tables: &tables.Service{Sandbox: a.Engine, Timeout: c.Sandbox.Timeout},
		},
		Settings: agent.Settings{
			Limits: loop.Limits{
				Requests: c.Agent.MaxRequests, Wall: c.Agent.Timeout, Tokens: int64(c.Agent.MaxTokens), Repeats: c.Agent.MaxRepeats,
				Parallel: c.Agent.MaxParallel, Output: int(c.Agent.Output),
			},
			Lease: c.Tool.Lease, MaxRuns: c.Agent.MaxRuns, MaxPerUser: c.Agent.MaxRunsPerUser, Limiter: a.Bounds, BreakEven: c.Agent.BreakEven, Minimal: c.Agent.Builtins == "minimal",
			Lifecycle: c.Agent.LifecycleTools, CodeTool: c.Agent.CodeToolName, Describe: agent.Describe(c.Agent.Describe),
			Facts:       a.facts,
			CodeTimeout: min(time.Duration(c.Agent.CodeTimeout)*time.Second, c.Sandbox.MaxTimeout),
		},
		Logger: a.Logger,
	}
	if a.Models != nil {
		d.Model = a.Models
	}
	return agent.New(d)
}
