package responses

// The items of responses: docs/wire/openai.md#items.
type (
	messageItem struct {
		ID      string `json:"id"`
		Type    string `json:"type"`
		Role    string `json:"role"`
		Status  string `json:"status"`
		Content []any  `json:"content"`
	}
	outputText struct {
		Type        string `json:"type"`
		Text        string `json:"text"`
		Annotations []any  `json:"annotations"`
		Logprobs    []any  `json:"logprobs"`
	}
	reasoningItem struct {
		ID        string    `json:"id"`
		Type      string    `json:"type"`
		Summary   []summary `json:"summary"`
		Content   []any     `json:"content"`
		Encrypted string    `json:"encrypted_content,omitempty"`
	}
	summary struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	callItem struct {
		ID        string  `json:"id"`
		Type      string  `json:"type"`
		Status    string  `json:"status"`
		Namespace string  `json:"namespace,omitempty"`
		Name      string  `json:"name"`
		Arguments string  `json:"arguments"`
		CallID    string  `json:"call_id"`
		Caller    *caller `json:"caller,omitempty"`
	}
	caller struct {
		Type string `json:"type"`
		ID   string `json:"caller_id,omitempty"`
	}
	programItem struct {
		ID          string `json:"id"`
		Type        string `json:"type"`
		CallID      string `json:"call_id"`
		Code        string `json:"code"`
		Fingerprint string `json:"fingerprint"`
	}
	outputItem struct {
		ID     string `json:"id"`
		Type   string `json:"type"`
		CallID string `json:"call_id"`
		Result string `json:"result"`
		Status string `json:"status"`
	}
	approvalItem struct {
		ID        string `json:"id"`
		Type      string `json:"type"`
		Label     string `json:"server_label"`
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
)

func textPart(text string) outputText {
	return outputText{Type: "output_text", Text: text, Annotations: []any{}, Logprobs: []any{}}
}

// event is one event of a stream: docs/wire/openai.md#events.
type event struct {
	Type         string    `json:"type"`
	Sequence     int       `json:"sequence_number"`
	Response     *Response `json:"response,omitempty"`
	OutputIndex  *int      `json:"output_index,omitempty"`
	ItemID       string    `json:"item_id,omitempty"`
	ContentIndex *int      `json:"content_index,omitempty"`
	SummaryIndex *int      `json:"summary_index,omitempty"`
	Item         any       `json:"item,omitempty"`
	Part         any       `json:"part,omitempty"`
	Delta        *string   `json:"delta,omitempty"`
	Text         *string   `json:"text,omitempty"`
	Arguments    *string   `json:"arguments,omitempty"`
	Logprobs     *[]any    `json:"logprobs,omitempty"`
}
