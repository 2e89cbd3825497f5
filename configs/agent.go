package configs

import "time"

// Agent bounds the runs of agents.
type Agent struct {
	// MaxRequests is how often a run asks the model, MaxTokens how many tokens
	// it uses, in and out, and Timeout how long it takes.
	MaxRequests int           `key:"maxRequests" env:"AGENT_MAX_REQUESTS"`
	MaxTokens   int           `key:"maxTokens" env:"AGENT_MAX_TOKENS"`
	Timeout     time.Duration `key:"timeout" env:"AGENT_TIMEOUT"`
	// MaxRepeats is how often in a row a model may make the same calls.
	MaxRepeats int `key:"maxRepeats" env:"AGENT_MAX_REPEATS"`
	// MaxParallel is how many calls of a run are executed at once, MaxRuns how
	// many runs this process works on.
	MaxParallel int `key:"maxParallel" env:"AGENT_MAX_PARALLEL"`
	MaxRuns     int `key:"maxRuns" env:"AGENT_MAX_RUNS"`
	// MaxRunsPerUser is how many runs of one user all processes work on; 0 is no bound.
	MaxRunsPerUser int `key:"maxRunsPerUser" env:"AGENT_MAX_RUNS_PER_USER"`
	// Output is the most of one output that the model is given.
	Output int64 `key:"output" env:"AGENT_OUTPUT_CAP"`
	// CodeTimeout is the limit, in seconds, of a program that names none.
	CodeTimeout int `key:"codeTimeout" env:"PTC_TIMEOUT"`
	// BreakEven keeps plain tool calling where code would cost more tokens.
	BreakEven bool `key:"breakEven" env:"AGENT_BREAK_EVEN"`
	// Builtins is "all", or "minimal" to leave the model with the tool that runs
	// code and the lifecycle tools; CodeToolName is what that tool is called:
	// "execute_code" or "exec_code".
	Builtins     string `key:"builtins" env:"AGENT_BUILTINS"`
	CodeToolName string `key:"codeToolName" env:"AGENT_CODE_TOOL_NAME"`
	// Describe is how a model that writes code is shown tools: "auto", "docs",
	// "lines" or "names".
	Describe string `key:"describe" env:"AGENT_DESCRIBE"`
	// LifecycleTools offers the tools by which the model ends its run.
	LifecycleTools bool `key:"lifecycleTools" env:"AGENT_LIFECYCLE_TOOLS"`
	// MaxInterpreters is how many persistent interpreters this process keeps.
	MaxInterpreters int `key:"maxInterpreters" env:"AGENT_MAX_INTERPRETERS"`
	// MaxInterpretersPerUser is one user's share of them; 0 is a quarter,
	// rounded up.
	MaxInterpretersPerUser int `key:"maxInterpretersPerUser" env:"AGENT_MAX_INTERPRETERS_PER_USER"`
	// InterpreterIdle is how long they are kept after their last use.
	InterpreterIdle time.Duration `key:"interpreterIdle" env:"AGENT_INTERPRETER_IDLE"`
}
