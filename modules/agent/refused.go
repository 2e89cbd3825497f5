package agent

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/portico-run/portico/modules/tool"
)

// refused records a call of an answer that was not executed.
func (j *job) refused(ctx context.Context, c Call, r Refusal) {
	j.refuse(ctx, c, j.live.shownAs(c.ID), r)
}

// refuse records a call that was not executed, with the reason: it begins and
// fails, as the user saw it begin, also when the run is being ended.
func (j *job) refuse(ctx context.Context, c Call, shown tool.Shown, r Refusal) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	m := tool.ModelCall{Shown: shown, Tool: nameable(c.Name), Arguments: c.Arguments}
	if e := j.offered.Load().byName[c.Name]; e != nil {
		m.Toolset, m.Tool = e.toolset, e.method
	}
	call, _, err := j.service.Tools.Perform(ctx, j.actor, j.run, m, func(context.Context) tool.Answer {
		return tool.Refuse(codeOf(r.Kind), r.Reason)
	})
	if err != nil {
		// The model is told all the same. One that was recorded before it failed
		// is here, too.
		j.service.Logger.WarnContext(ctx, "a refused call is not recorded", "resultId", j.run.ResultID, "error", err)
		return
	}
	j.live.given(ctx, call.CallID, r.Reason)
}

func codeOf(kind RefusalKind) string {
	switch kind {
	case UnknownTool:
		return tool.CodeMethodNotFound
	case WrongArguments:
		return tool.CodeInvalidArguments
	}
	return tool.CodeNotExecuted
}

// nameable is a name that a model made up as the record takes it.
func nameable(name string) string {
	name = strings.ReplaceAll(strings.ToValidUTF8(name, "\uFFFD"), "\x00", "\uFFFD")
	for len(name) > maxToolName {
		_, size := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-size]
	}
	return name
}
