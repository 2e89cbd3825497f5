package demo

import _ "embed"

//go:embed agent.yaml
var agentScript string

// AgentScript is what the scripted model says when it is asked Question about
// the toolset Shop, and, when the question begins with Plainly, about PlainShop.
func AgentScript() string { return agentScript }

// Question is what the agent's demo asks about Targets and the made-up shop.
const Question = "Which regions missed their sales target in March 2026? Draw it."

// Plainly begins the question that is answered without code.
const Plainly = "Plainly: "

// Keys of the same toolset: one for code, and one for the comparison.
const (
	Shop      = "shop"
	PlainShop = "plain"
)

// Targets is the table that is uploaded, with one row that is none.
const Targets = "region,target\nNorth,2400\nSouth,2300\nthis row is damaged\nEast,2600\nWest,2000\n"
