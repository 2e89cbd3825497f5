package mcpserver

import "github.com/modelcontextprotocol/go-sdk/mcp"

// instructions are what a model is told of the server. Clients cut them at 2 kB, as
// they do descriptions.
const instructions = `Portico runs Python that calls the tools of this account. Find tools with search_tools, then call them in one program with run_code: loop, filter and join there, and print only what you need. What tools return stays in the program.`

type searchInput struct {
	Query   string   `json:"query,omitempty" jsonschema:"What you want to do, in words"`
	Queries []string `json:"queries,omitempty" jsonschema:"Several at once, at most 5"`
	Server  string   `json:"server,omitempty" jsonschema:"Only tools of this toolset or MCP server"`
	Limit   int      `json:"limit,omitempty" jsonschema:"At most so many tools for a query, up to 20; 10 without it"`
}

func searchTool() *mcp.Tool {
	return &mcp.Tool{
		Name: "search_tools", Title: "Search tools", Annotations: reads(),
		Description: "Find tools that programs of run_code can call, best first: a line of Python for each says how it is called and what it returns. Without a query, all of them. The best three come with everything about them.",
	}
}

type describeInput struct {
	Names []string `json:"names" jsonschema:"At most 10 names of tools, as search_tools writes them; portico tells how programs work"`
}

func describeTool() *mcp.Tool {
	return &mcp.Tool{
		Name: "describe_tool", Title: "Describe tools", Annotations: reads(),
		Description: `Tell all about tools that programs of run_code can call: description, parameters, result. The name "portico" tells how programs work.`,
	}
}

type runInput struct {
	Code     string   `json:"code" jsonschema:"Python. Tools are functions with the names that search_tools writes; print what you want to see"`
	Toolsets []string `json:"toolsets,omitempty" jsonschema:"The only toolsets and MCP servers that the program may call; without it, all of the account"`
	Canvas   string   `json:"canvas,omitempty" jsonschema:"Whose files are in the program's folder, and where it leaves files; new makes one. Without it, files are lost at its end"`
	Timeout  int      `json:"timeout_s,omitempty" jsonschema:"Wall-clock limit of the program in seconds"`
	Wait     *int     `json:"wait_s,omitempty" jsonschema:"Wait at most so many seconds for its end, up to 50, which is usual; 0 gives the handle at once"`
}

func runTool(reading bool) *mcp.Tool {
	if reading {
		return &mcp.Tool{
			Name: "run_code_readonly", Title: "Run code that only reads", Annotations: reads(),
			Description: "run_code, where every call of a tool that may change something is refused.",
		}
	}
	return &mcp.Tool{
		Name: "run_code", Title: "Run code", Annotations: &mcp.ToolAnnotations{DestructiveHint: new(true), OpenWorldHint: new(true)},
		Description: "Run a Python program that calls tools: weather_forecast(city=\"Oslo\") and the like, found with search_tools. Use loops and gather over many calls; only what the program prints comes back, at most 20,000 characters at once. " +
			"A failed call raises ToolExecutionError. Programs share no variables. One that takes longer than about 50 seconds goes on, with status running: resume_code with its execution waits for it. With status paused, a person has to allow a call first, where pending says.",
	}
}

type resumeInput struct {
	Execution string `json:"execution" jsonschema:"As run_code gave it"`
	Wait      int    `json:"wait_s,omitempty" jsonschema:"Wait at most so many seconds for its end, up to 50; 0 only reports"`
	Offset    int    `json:"offset,omitempty" jsonschema:"Where to go on in what it printed, in characters: truncated.next of the answer before"`
}

func resumeTool() *mcp.Tool {
	return &mcp.Tool{
		Name: "resume_code", Title: "Wait for code", Annotations: reads(),
		Description: "Wait for a program that run_code began, or read on in what it printed. It runs nothing again, and allows nothing: that is for a person.",
	}
}

func reads() *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true}
}

// guide is what describe_tool tells about programs.
const guide = `Programs are Python 3 in a sandbox without a network. Each call of run_code is a program of its own; variables and files are gone at its end.

Tools are functions. search_tools writes their lines, such as
  get_weather(city: str, days: int = 3) -> dict
and for MCP servers server.tool(...). They take positional and keyword arguments and return plain values: dicts, lists, texts, numbers.

  from concurrent.futures import ThreadPoolExecutor
  cities = ["Oslo", "Rome"]
  with ThreadPoolExecutor() as pool:
      for city, w in zip(cities, pool.map(get_weather, cities)):
          print(city, w["forecast"][0]["celsius"])

Functions may be awaited as well: await asyncio.gather(*(get_weather(c) for c in cities)).

A call that fails raises ToolExecutionError with code, message and suggestion. AUTH_NEEDED has url: a person opens it and connects an account; tell your user. APPROVAL_DENIED is final: do not try again.

print(search_tools("words")) and print(help("name")) work inside programs, too.

Print little: summaries, not data. What tools return never reaches you unless it is printed.
`
