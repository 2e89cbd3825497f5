package model_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/model/content"
)

// A whole picture of one point, the beginning of a PDF, and a text with a name.
const (
	pixelData = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
	pixel     = "data:image/png;base64," + pixelData
	pdfData   = "JVBERi0xLjcK"
	pdf       = "data:application/pdf;base64," + pdfData
	note      = "data:text/markdown;base64,IyBIaSA8Yj4="
)

// talkOfParts is a conversation in which the user shows pictures and files. Not every
// protocol takes results with pictures, or files by their address.
func talkOfParts(all bool) []model.Item {
	files := []model.Part{{Type: content.File, URL: pdf, Name: "a.pdf"}}
	seen := []model.Part{{Type: content.Text, Text: "Seen <b>"}}
	if all {
		files = append(files, model.Part{Type: content.File, URL: "https://example.com/b.pdf"})
		seen = append(seen, model.Part{Type: content.Image, URL: pixel, Detail: "auto"})
	}
	return []model.Item{
		model.Developer("Be kind."),
		model.UserParts(append([]model.Part{{Type: content.Text, Text: "Look: "}, {Type: content.Image, URL: pixel, Detail: "low"}, {Type: content.Image, URL: "https://example.com/a.png?x=1&y=2", Detail: "auto"}}, files...)),
		model.CallItem("c1", "look", `{"n":1}`), model.CallItem("c2", "look", `{}`),
		model.OutputParts("c1", seen), model.FailedOutput("c2", "not there"),
	}
}

// Pictures, files and results with them are written as the vendors' own types write
// them, in all protocols.
func TestPartsAreThoseOfTheVendorsClients(t *testing.T) {
	t.Parallel()
	image := func(url string, detail responses.ResponseInputImageDetail) responses.ResponseInputContentUnionParam {
		return responses.ResponseInputContentUnionParam{OfInputImage: &responses.ResponseInputImageParam{ImageURL: openai.String(url), Detail: detail}}
	}
	ours, theirs := sent(t, model.Config{MaxOutput: 9}, model.Request{Input: talkOfParts(true)}, func(base string) {
		message := func(role responses.EasyInputMessageRole) responses.ResponseInputItemUnionParam {
			item := responses.ResponseInputItemParamOfMessage("Be kind.", role)
			item.OfMessage.Type = responses.EasyInputMessageTypeMessage
			return item
		}
		parts := message("user")
		parts.OfMessage.Content = responses.EasyInputMessageContentUnionParam{OfInputItemContentList: []responses.ResponseInputContentUnionParam{
			{OfInputText: &responses.ResponseInputTextParam{Text: "Look: "}},
			image(pixel, "low"), image("https://example.com/a.png?x=1&y=2", "auto"),
			{OfInputFile: &responses.ResponseInputFileParam{FileData: openai.String(pdf), Filename: openai.String("a.pdf")}},
			{OfInputFile: &responses.ResponseInputFileParam{FileURL: openai.String("https://example.com/b.pdf")}},
		}}
		output := func(id string, value responses.ResponseInputItemFunctionCallOutputOutputUnionParam) responses.ResponseInputItemUnionParam {
			return responses.ResponseInputItemUnionParam{OfFunctionCallOutput: &responses.ResponseInputItemFunctionCallOutputParam{CallID: openai.String(id), Output: value}}
		}
		vendor := official(base, 0)
		s := vendor.Responses.NewStreaming(t.Context(), responses.ResponseNewParams{
			Model: "m", MaxOutputTokens: openai.Int(9), Store: openai.Bool(false), ParallelToolCalls: openai.Bool(false),
			Include: []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent},
			Input: responses.ResponseNewParamsInputUnion{OfInputItemList: []responses.ResponseInputItemUnionParam{
				message("developer"), parts, responses.ResponseInputItemParamOfFunctionCall(`{"n":1}`, "c1", "look"), responses.ResponseInputItemParamOfFunctionCall(`{}`, "c2", "look"),
				output("c1", responses.ResponseInputItemFunctionCallOutputOutputUnionParam{OfResponseFunctionCallOutputItemArray: responses.ResponseFunctionCallOutputItemListParam{
					{OfInputText: &responses.ResponseInputTextContentParam{Text: "Seen <b>"}},
					{OfInputImage: &responses.ResponseInputImageContentParam{ImageURL: openai.String(pixel), Detail: "auto"}},
				}}),
				output("c2", responses.ResponseInputItemFunctionCallOutputOutputUnionParam{OfString: openai.String("not there")}),
			}},
		})
		for s.Next() {
		}
		require.NoError(t, s.Err())
	})
	require.JSONEq(t, theirs, ours)

	ours, theirs = sent(t, model.Config{Protocol: model.Chat}, model.Request{Input: talkOfParts(false)}, func(base string) {
		call := func(id, arguments string) openai.ChatCompletionMessageToolCallUnionParam {
			return openai.ChatCompletionMessageToolCallUnionParam{OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
				ID: id, Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: "look", Arguments: arguments},
			}}
		}
		vendor := official(base, 0)
		s := vendor.Chat.Completions.NewStreaming(t.Context(), openai.ChatCompletionNewParams{
			Model: "m", StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
			Messages: []openai.ChatCompletionMessageParamUnion{
				openai.SystemMessage("Be kind."),
				openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
					openai.TextContentPart("Look: "), openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: pixel, Detail: "low"}),
					openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: "https://example.com/a.png?x=1&y=2", Detail: "auto"}),
					openai.FileContentPart(openai.ChatCompletionContentPartFileFileParam{FileData: openai.String(pdf), Filename: openai.String("a.pdf")}),
				}),
				{OfAssistant: &openai.ChatCompletionAssistantMessageParam{ToolCalls: []openai.ChatCompletionMessageToolCallUnionParam{call("c1", `{"n":1}`), call("c2", `{}`)}}},
				openai.ToolMessage("Seen <b>", "c1"), openai.ToolMessage("not there", "c2"),
			},
		})
		for s.Next() {
		}
		require.NoError(t, s.Err())
	})
	require.JSONEq(t, theirs, strings.Replace(ours, `"content":null,`, "", 1))

	talk := append(talkOfParts(true), model.UserParts([]model.Part{{Type: content.Text, Text: " "}, {Type: content.File, URL: note, Name: "a.md"}}))
	ours, theirs = sent(t, model.Config{Protocol: model.Messages}, model.Request{Input: talk}, func(base string) {
		titled := anthropic.NewDocumentBlock(anthropic.Base64PDFSourceParam{Data: pdfData})
		titled.OfDocument.Title = anthropic.String("a.pdf")
		markdown := anthropic.NewDocumentBlock(anthropic.PlainTextSourceParam{Data: "# Hi <b>"})
		markdown.OfDocument.Title, markdown.OfDocument.CacheControl = anthropic.String("a.md"), anthropic.NewCacheControlEphemeralParam()
		seen := anthropic.NewToolResultBlock("c1", "Seen <b>", false)
		seen.OfToolResult.IsError = anthropic.ToolResultBlockParam{}.IsError
		seen.OfToolResult.Content = append(seen.OfToolResult.Content, anthropic.ToolResultBlockParamContentUnion{OfImage: anthropic.NewImageBlockBase64("image/png", pixelData).OfImage})
		vendor := anthropicOf(base)
		s := vendor.Messages.NewStreaming(t.Context(), anthropic.MessageNewParams{
			Model: "m", MaxTokens: 8192, System: []anthropic.TextBlockParam{{Text: "Be kind.", CacheControl: anthropic.NewCacheControlEphemeralParam()}},
			Messages: []anthropic.MessageParam{
				anthropic.NewUserMessage(anthropic.NewTextBlock("Look: "), anthropic.NewImageBlockBase64("image/png", pixelData),
					anthropic.NewImageBlock(anthropic.URLImageSourceParam{URL: "https://example.com/a.png?x=1&y=2"}), titled,
					anthropic.NewDocumentBlock(anthropic.URLPDFSourceParam{URL: "https://example.com/b.pdf"})),
				anthropic.NewAssistantMessage(anthropic.NewToolUseBlock("c1", map[string]any{"n": 1}, "look"), anthropic.NewToolUseBlock("c2", map[string]any{}, "look")),
				anthropic.NewUserMessage(seen, anthropic.NewToolResultBlock("c2", "not there", true), markdown),
			},
		})
		for s.Next() {
		}
		require.NoError(t, s.Err())
	})
	// The one thing that differs: the vendor's type has results as lists only.
	require.JSONEq(t, theirs, strings.Replace(ours, `"content":"not there"`, `"content":[{"type":"text","text":"not there"}]`, 1))
}

// What a protocol cannot carry, or is not known, is refused before anything is sent.
func TestPartsThatCannotBeSent(t *testing.T) {
	t.Parallel()
	user := func(parts string) model.Item {
		return model.Item(`{"type":"message","role":"user","content":` + parts + `}`)
	}
	result := func(parts string) model.Item {
		return model.Item(`{"type":"function_call_output","call_id":"c1","output":` + parts + `}`)
	}
	file := func(url, name string) model.Item {
		return model.UserParts([]model.Part{{Type: content.File, URL: url, Name: name}})
	}
	all := model.Protocols()
	for _, c := range []struct {
		item model.Item
		want string
		by   []model.Protocol
	}{
		{user(`[]`), "is an empty list", all},
		{user(`null`), "neither a text nor a list", all},
		{user(`{"type":"input_text"}`), "neither a text nor a list", all},
		{user(`[{"type":"input_audio","data":"x"}]`), `Part 1 of a message or a result has the type "input_audio", which is not known.`, all},
		{user(`[{"type":"input_text","text":"x"},{}]`), "Part 2 of a message or a result has no type", all},
		{user(`[{"type":"input_text"}]`), "has no text", all},
		{user(`[{"type":"input_image"}]`), "neither an https: nor a data: URL", all},
		{user(`[{"type":"input_image","image_url":"http://169.254.169.254/x.png"}]`), "neither an https: nor a data: URL", all},
		{user(`[{"type":"input_image","image_url":{"url":"https://example.com/a.png"}}]`), "neither an https: nor a data: URL", all},
		{user(`[{"type":"input_image","file_id":"file_1"}]`), "by file_id", all},
		{user(`[{"type":"input_file","file_id":"file_1"}]`), "by file_id", all},
		{user(`[{"type":"input_file"}]`), "one of file_data and file_url", all},
		{user(`[{"type":"input_file","file_data":"JVBE"}]`), "not a data: URL", all},
		{user(`[{"type":"input_file","file_url":"http://example.com/a.pdf"}]`), "not an https: URL", all},
		{result(`[]`), "is an empty list", all},
		{result(`7`), "neither a text nor a list", all},
		{result(`[{"type":"computer_screenshot"}]`), "is not known", all},
		{model.Item(`{"type":"message","role":"system","content":[{"type":"input_image","image_url":"` + pixel + `"}]}`), "A message of the role system must be text", []model.Protocol{model.Chat, model.Messages}},
		{model.Item(`{"type":"message","role":"assistant","content":[{"type":"input_image","image_url":"` + pixel + `"}]}`), "A message of the role assistant must be text", []model.Protocol{model.Chat, model.Messages}},
		{model.OutputParts("c1", []model.Part{{Type: content.Image, URL: pixel}}), "no images or files from tools", []model.Protocol{model.Chat}},
		{file("https://example.com/a.pdf", ""), "no files by their URL", []model.Protocol{model.Chat}},
		{file("data:application/zip;base64,UEs=", "a.zip"), "no files of type application/zip", []model.Protocol{model.Messages}},
		{file("data:text/plain;base64,/w==", "a.txt"), "not base64 of UTF-8", []model.Protocol{model.Messages}},
		{file("data:text/plain;base64,!", "a.txt"), "not base64 of UTF-8", []model.Protocol{model.Messages}},
		{file("data:,", "a.txt"), "no media type, or no data", []model.Protocol{model.Messages}},
	} {
		for _, protocol := range c.by {
			client, asked := faulty(t, model.Config{Protocol: protocol}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
			_, err := client.Respond(t.Context(), model.Request{Input: []model.Item{c.item}}, nothing)
			require.Equal(t, errs.Invalid, errs.CodeOf(err), "%s %s: %v", protocol, c.item, err)
			require.Contains(t, errs.Message(err), c.want, protocol)
			require.Zero(t, asked.Load(), "nothing is sent")
		}
	}
}

// A model without a system role is told with the user's picture, and a text in parts is
// sent as a text always was.
func TestPartsThatAreTexts(t *testing.T) {
	t.Parallel()
	_, _, body := converse(t, model.Config{Protocol: model.Chat, Lacks: model.Lackings()}, chatDone(`{"content":"x"}`), `"auto"`,
		model.System("Be kind."), model.UserParts([]model.Part{{Type: content.Image, URL: pixel}}), model.Item(`{"type":"message","role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]}`))
	var got struct{ Messages json.RawMessage }
	require.NoError(t, json.Unmarshal(body, &got))
	require.JSONEq(t, `[{"role":"user","content":[{"type":"text","text":"Be kind."},{"type":"image_url","image_url":{"url":"`+pixel+`"}}]},{"role":"user","content":"ab"}]`, string(got.Messages))

	_, _, body = converse(t, model.Config{Protocol: model.Chat}, chatDone(`{"content":"x"}`), `"auto"`, model.Item(`{"type":"message","role":"odd","content":"x"}`))
	require.Contains(t, string(body), `"role":"odd"`, "no role becomes one that says more")

	id, text, ok := model.ReadOutput(model.OutputParts("c1", []model.Part{{Type: content.Text, Text: "a"}, {Type: content.Image, URL: pixel}, {Type: content.Text, Text: "b"}}))
	require.Equal(t, []any{"c1", "ab", true}, []any{id, text, ok})
	id, text, ok = model.ReadOutput(model.FailedOutput("c2", "no"))
	require.Equal(t, []any{"c2", "no", true}, []any{id, text, ok})
	require.Equal(t, `{"content":[{"type":"input_text","text":""},{"type":"input_file","file_url":"https://example.com/a.pdf"}],"role":"user","type":"message"}`,
		string(model.UserParts([]model.Part{{Type: content.Text}, {Type: content.File, URL: "https://example.com/a.pdf"}})), "an empty text is one")
}
