package loop

import (
	"encoding/json"
	"fmt"

	"github.com/portico-run/portico/internal/shorten"
)

// ReadToolResult is the name of the tool that reads what the model was not given
// of a result.
const ReadToolResult = "read_tool_result"

// cut makes an output fit: one that is an object or a list stays valid JSON,
// any other keeps its beginning and its end. It says how long the whole is and,
// where that is kept, how to read it.
func cut(text string, limit int, record string) string {
	if len(text) <= limit {
		return text
	}
	about := map[string]any{"bytes": len(text)}
	hint := ""
	if record != "" {
		about["read"] = map[string]any{"tool": ReadToolResult, "call_id": record, "offset": 0}
		hint = fmt.Sprintf("; %s with call_id %q reads all of it", ReadToolResult, record)
	}
	if (text[0] == '{' || text[0] == '[') && json.Valid([]byte(text)) {
		if short, err := shorten.JSON([]byte(text), limit); err == nil {
			whole, err := json.Marshal(map[string]any{"truncated": about, "value": short})
			if err == nil {
				return string(whole)
			}
		}
	}
	return shorten.Text(text, limit) + fmt.Sprintf("\n[The whole is %d bytes%s.]", len(text), hint)
}
