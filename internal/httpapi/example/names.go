package example

// object is a JSON object.
type object = map[string]any

const (
	run     = "ar-b1e8s3v7k2m4p6q9"
	canvas  = "c-h4j6k8m1n3p5q7r9"
	call    = "ptc:2f1f3c4e-8a0b-4c7d-9e6f-0a1b2c3d4e5f"
	program = "agent:7d1c5a4b-1f2e-4d3c-8b6a-9e0f1a2b3c4d"
	moment  = 1_772_600_767_000 // the same as the time of date-times
	session = "tQ7m2XkP9vR4sW1yZ6aB3"
	object1 = "n5DfG8hJ2kLqM4pS7tV0x"
)

// leftOut are members that most answers do not have: they say what went wrong,
// or are for requests of another kind.
func leftOut(name string) bool {
	switch name {
	case "error", "errors", "errorCode", "error_code", "errorType", "errorMessage", "error_message", "is_error", "warnings", "handoff", "artifact_delivery",
		"truncated", "invalidToolsetFiles", "deleted_files", "dropped_files", "badRows", "runtime_session_hint", "workspace_instance_id", "continuation_token",
		"tool_results", "resultHist", "resultHistory", "history", "images", "input_files", "target", "context", "tplConfig", "runtimeConfig", "modelItemId",
		"toolChoice", "retry_after_seconds", "modified_from", "resource_id", "cursor", "page", "pageSize", "total", "mcpServer", "message", "mode", "files", "args",
		"authData", "scope", "UploadForm.version":
		return true
	}
	return false
}

// named is an example by what a member or a parameter is called. One name has
// one example everywhere, so that all of them tell one story: a program that
// asks for the weather. More than one is for names that mean several things:
// the first that fits counts. A name of one schema only follows the schema's.
func named(name string) []any {
	switch name {
	case "resultId", "actionResultId":
		return []any{run}
	case "canvasId", "targetId", "entityId", "AuditBody.subject", "ChangeBody.subject":
		return []any{canvas}
	case "callId", "toolCallId", "call_id", "AskedCall.id":
		return []any{call}
	case "ptcCallId", "x-ptc-call-id", "parentId":
		return []any{program}
	case "createdAt", "updatedAt", "expiresAt", "lastUsedAt", "lastSeenAt", "lastModified", "startTs", "endTs":
		return []any{moment, "2026-03-04T05:06:07Z"}
	case "session_id", "storage_session_id", "session":
		return []any{session}
	case "fileId":
		return []any{"df-q2w4e6r8t1y3u5i7"}
	case "file":
		return []any{object1}
	case "messageId", "messagesCursor":
		return []any{"am-b1e8s3v7k2m4p6q9"}
	case "uid", "decidedBy":
		return []any{"u-5f3k8d1m6q9w2x7z"}
	case "sessionId":
		return []any{"us-7h3k9m2n5p8r1t4v"}
	case "email":
		return []any{"anna@example.com"}
	case "keyId":
		return []any{"ak-9x4c7v2b5n8m1k3j"}
	case "apiKey":
		return []any{"rf_9f2c4e6a8b1d3f5a7c9e0b2d4f6a8c1e"}
	case "keyPrefix":
		return []any{"rf_9f2c4e"}
	case "usageId":
		return []any{"cu-3s5d7f9g1h2j4k6l"}
	case "rechargeId":
		return []any{"cr-gift-2026-03"}
	case "continuation_token":
		return []any{"eyJhbGciOiJIUzI1NiJ9.eyJyb3VuZCI6MX0.c2lnbmF0dXJl"}
	case "entity_id", "resource_id":
		return []any{"agent_4f6a9d6b"}
	case "traceId", "request_id":
		return []any{"0b4f4e0a-6f5e-4f6a-9d6b-0d4f3b1c2a19"}
	}
	return documents(name)
}

// words are the examples of names that are not ids.
func words(name string) []any {
	switch name {
	case "toolsetKey", "toolset", "toolsets", "toolsetKeys", "toolsetId", "key", "ToolsetRef.id", "GenericBody.id", "missing":
		return []any{"demo"}
	case "app", "ToolsetRef.name":
		return []any{"gmail"}
	case "toolName", "tool", "CallerTool.name", "AskedCall.name", "InventoryTool.name", "ToolDefinition.name", "function", "selectedTool":
		return []any{"get_weather"}
	case "name", "title", "toolsetName", "label":
		return []any{"Weather"}
	case "CreateInputBody.name", "CreatedBody.name", "KeyBody.name", "RenameInputBody.name":
		return []any{"laptop"}
	case "filename", "originalFilename", "File.name", "DriveFile.name", "CodeFile.name", "FileRefBody.name", "NormalizedBody.name":
		return []any{"cities.csv"}
	case "ObjectBody.name", "SummaryBody.name":
		return []any{session + "/" + object1 + ".csv"}
	case "path":
		return []any{"/mnt/data/cities.csv"}
	case "id":
		return []any{object1}
	case "arguments", "toolInput":
		return []any{object{"city": "Rome"}, `{"city":"Rome"}`}
	case "input":
		return []any{object{"input": object{"city": "Rome"}}}
	case "output", "data", "result":
		return []any{object{"city": "Rome", "temperature": 18}}
	case "code":
		return []any{"print(6 * 7)"}
	case "stdout":
		return []any{"42\n"}
	case "stderr", "error", "errorMessage":
		return []any{""}
	case "lang", "CodeProgram.language", "CodeProgramWithTools.language":
		return []any{"py"}
	case "language":
		return []any{"python"}
	case "query", "originalQuery":
		return []any{"How warm is it in Rome?"}
	case "content":
		return []any{"It is 18 degrees in Rome."}
	case "reasoningContent":
		return []any{"The weather tool knows the temperature."}
	case "description", "descriptionDict", "DescriptionDict.description":
		return []any{"The weather in a city"}
	}
	return labels(name)
}

// labels are the examples of names whose values are one of several words.
func labels(name string) []any {
	switch name {
	case "status":
		return []any{"completed", "success", "finish", "active", "ok"}
	case "type":
		return []any{"skill", "regular", "text"}
	case "DriveFile.type", "File.type", "contentType", "content-type":
		return []any{"text/csv"}
	case "Server.type":
		return []any{"sse"}
	case "stepName", "step", "EventStep.name", "ActionStep.name":
		return []any{"answer"}
	case "modelName", "model":
		return []any{"gpt-5.2"}
	case "locale":
		return []any{"en"}
	case "kind":
		return []any{"user"}
	case "action":
		return []any{"key.create"}
	case "authType":
		return []any{"config_based"}
	case "usageType":
		return []any{"tool_call"}
	case "source":
		return []any{"gift", "manual"}
	case "scope":
		return []any{"present", "read"}
	case "entityType", "targetType":
		return []any{"canvas"}
	case "provider", "domain":
		return []any{"demo.example.com"}
	case "delimiter":
		return []any{","}
	case "encoding":
		return []any{"utf-8"}
	case "version":
		return []any{0}
	case "StartBody.version", "HealthBody.version", "ReadyBody.version", "StatusBody.version":
		return []any{"1.0.0"}
	case "UploadForm.version":
		return []any{"1"}
	}
	return rest(name)
}

// rest are examples of members that mean the same wherever they are.
func rest(name string) []any {
	switch name {
	case "etag":
		return []any{"9f86d081884c7d65"}
	case "storageKey":
		return []any{"drive/u-5f3k8d1m6q9w2x7z/" + canvas + "/cities.csv"}
	case "url", "redirectUrl":
		return []any{"https://portico.example.com/v1/drive/file/content/df-q2w4e6r8t1y3u5i7/cities.csv"}
	case "ref":
		return []any{"/v1/tool/call/output?toolCallId=" + call}
	case "pathPrefix":
		return []any{"sandbox/s3lib"}
	case "nextCursor":
		return []any{"Mng"}
	case "connectionRequestId", "connectedAccountId", "integrationId":
		return []any{"ca_h3J5k7L9m1N4"}
	case "message", "warning":
		return []any{"Nothing is left to do."}
	case "check":
		return []any{"mode"}
	case "reason", "summary", "text":
		return []any{"The mode is on"}
	case "schema", "inputSchema", "parameters":
		return []any{object{"type": "object", "properties": object{"city": object{"type": "string"}}, "required": []any{"city"}}}
	case "outputSchema":
		return []any{object{"type": "object", "properties": object{"temperature": object{"type": "number"}}}}
	case "value", "defaultValue", "options":
		return []any{"metric"}
	}
	return numbers(name)
}

// numbers are examples of counts, sizes and times.
func numbers(name string) []any {
	switch name {
	case "amount", "dueAmount", "credits", "charged", "fromLine", "line":
		return []any{2}
	case "balance", "creditAmount", "creditBalance", "regularCredits":
		return []any{998}
	case "size", "bytes", "inputTokens":
		return []any{1834}
	case "durationMs", "wall_time":
		return []any{412}
	case "outputTokens":
		return []any{96}
	case "rows", "lastEventId", "calls", "toolCallsMade", "tool_calls_made":
		return []any{4}
	case "limit":
		return []any{50}
	case "expiresInDays":
		return []any{90}
	case "expiresIn":
		return []any{3600}
	case "timeout":
		return []any{10_000}
	case "max_concurrency", "total", "succeeded", "page":
		return []any{1}
	}
	return console(name)
}

// console are examples of what pages of people and administrators show.
func console(name string) []any {
	switch name {
	case "ProgramBody.ended":
		return []any{"completed"}
	case "ProgramBody.output":
		return []any{"42\n"}
	case "permissionId":
		return []any{"perm-2m5p8r1t4v7h3k9n"}
	case "day":
		return []any{100, "2026-03-04"}
	case "timeZone":
		return []any{"Europe/Rome"}
	case "plan", "lookupKey":
		return []any{"pro_monthly"}
	case "planType":
		return []any{"pro"}
	case "interval":
		return []any{"monthly"}
	case "debug":
		return []any{"opt-in"}
	case "rolloutSalt":
		return []any{"2026-03"}
	case "process":
		return []any{"portico-0b4f4e0a"}
	case "origin":
		return []any{"https://api.example.com"}
	case "problem":
		return []any{"method get_weather has no endpoint"}
	case "connectUrl":
		return []any{"https://portico.example.com/connect/7h3k9m2n5p8r1t4v"}
	case "OneTool.line":
		return []any{"get_weather(city: str) -> dict"}
	case "toolsetAllowlist", "toolsetBlocklist":
		return []any{"demo"}
	case "user":
		return []any{"u-5f3k8d1m6q9w2x7z"}
	}
	return nil
}
