package price_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/portico-run/portico/modules/billing/price"
)

// The vectors of docs/wire/refly.md#vectors-of-price-formulas, by their numbers.

const (
	plainSchema = `{"type":"object","properties":{
		"resolution":{"type":"string"},"size":{"type":"number"},"count":{"type":"integer"},"factor":{"type":"number"},"flag":{"type":"boolean"},
		"text":{"type":"string"},"duration":{"type":"number"},"audio":{"type":"boolean"},"unit":{"type":"number"},
		"nested":{"type":"object","properties":{"value":{"type":"integer"}}},
		"images":{"type":"array","items":{"type":"string"}},"durations":{"type":"array","items":{"type":"number"}},
		"contents":{"type":"array","items":{"type":"object","properties":{"parts":{"type":"array","items":{"type":"object","properties":{"text":{"type":"string"}}}}}}}}}`
	resultSchema = `{"type":"object","properties":{"text":{"type":"string"},"duration":{"type":"number"},"steps":{"type":"number"},"images":{"type":"array","items":{"type":"object","properties":{"url":{"type":"string"}}}}}}`
)

func TestVectorsOfPaths(t *testing.T) {
	t.Parallel()
	union := `{"type":"object","properties":{"data":{"anyOf":[{"type":"object","properties":{"duration":{"type":"number"}}},{"type":"array","items":{"type":"object","properties":{"duration":{"type":"number"}}}}]}}}`
	property := func(schema string) string { return `{"type":"object","properties":{"x":` + schema + `}}` }
	for name, c := range map[string]struct{ schema, path, want string }{
		"1.1 simple path":            {plainSchema, "resolution", "string"},
		"1.2 nested path":            {plainSchema, "nested.value", "integer"},
		"1.3 every item":             {plainSchema, "images[*]", "string"},
		"1.4 index and every item":   {plainSchema, "contents[0].parts[*].text", "string"},
		"1.5 missing path":           {plainSchema, "nested.other", ""},
		"12.1 oneOf":                 {property(`{"oneOf":[{"type":"number"},{"type":"string"}]}`), "x", "number"},
		"12.2 anyOf":                 {property(`{"anyOf":[{"type":"string"},{"type":"number"}]}`), "x", "string"},
		"12.3 nullable anyOf":        {property(`{"anyOf":[{"type":"null"},{"type":"number"}]}`), "x", "number"},
		"12.4 nullable type list":    {property(`{"type":["null","string"]}`), "x", "string"},
		"12.5 type list":             {property(`{"type":["number","string"]}`), "x", "number"},
		"12.6 const number":          {property(`{"const":5}`), "x", "number"},
		"12.7 const in oneOf":        {property(`{"oneOf":[{"const":"a"},{"const":"b"}]}`), "x", "string"},
		"12.8 enum string":           {property(`{"enum":["a","b"]}`), "x", "string"},
		"12.9 union, array":          {union, "data[*].duration", "number"},
		"12.10 union, object":        {union, "data.duration", "number"},
		"12.11 nested oneOf":         {property(`{"oneOf":[{"anyOf":[{"type":"null"},{"type":"boolean"}]}]}`), "x", "boolean"},
		"16.1 $ref fails closed":     {`{"type":"object","properties":{"x":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"number"}}}`, "x", ""},
		"16.2 allOf fails closed":    {property(`{"allOf":[{"type":"number"}]}`), "x", ""},
		"an index outside an array":  {plainSchema, "text[0]", ""},
		"a name inside a text":       {plainSchema, "text.length", ""},
		"a broken path":              {plainSchema, "images[", "broken"},
		"a path with an empty name":  {plainSchema, "nested..value", "broken"},
		"a bracket that is no place": {plainSchema, "images[x]", "broken"},
	} {
		if got := price.TypeAt(c.schema, c.path); got != c.want {
			t.Errorf("%s: %s is %q, want %q", name, c.path, got, c.want)
		}
	}
}

// priceOf reads rules and prices a call with them.
func priceOf(t *testing.T, rules, tokens, input, output string) (float64, error) {
	t.Helper()
	f, err := price.NewPricer(120*credit).ParseFormula(json.RawMessage("["+rules+"]"), json.RawMessage(tokens), json.RawMessage(plainSchema), json.RawMessage(resultSchema))
	if err != nil {
		return 0, err
	}
	price, err := f.Price(decode(t, input), decode(t, output))
	if err != nil {
		return 0, err
	}
	near, _ := price.Float64()
	return near, nil
}

func decode(t *testing.T, text string) any {
	t.Helper()
	if text == "" {
		return nil
	}
	var v any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func TestVectorsOfPrices(t *testing.T) {
	t.Parallel()
	words := func(n int) string { return `{"text":"` + strings.Repeat("word ", n) + `"}` }
	const (
		in         = `"phase":"input"`
		resolution = `{"fieldPath":"resolution",` + in + `,"category":"image","defaultCreditsPerUnit":5,"pricingTiers":[{"value":"2K","creditsPerUnit":20}]}`
		ten        = `{"fieldPath":"size",` + in + `,"category":"image","unitField":"unit","defaultCreditsPerUnit":10}`
		twenty     = `{"fieldPath":"size",` + in + `,"category":"image","unitField":"unit","defaultCreditsPerUnit":20}`
		times      = `,{"fieldPath":"factor",` + in + `,"isMultiplier":true,"applyTo":"image"}`
		output     = `{"outputPer1MUsd":3}`
		textOut    = `{"fieldPath":"text","phase":"output","category":"text","defaultCreditsPerUnit":1}`
		textIn     = `{"fieldPath":"text",` + in + `,"category":"text","defaultCreditsPerUnit":100}`
		images     = `{"fieldPath":"images[*]",` + in + `,"category":"image","defaultCreditsPerUnit":5}`
		film       = `{"fieldPath":"audio",` + in + `,"category":"video","unitField":"duration","defaultCreditsPerUnit":33.6,"pricingTiers":[{"value":false,"creditsPerUnit":26.88},{"value":true,"creditsPerUnit":33.6}]}`
	)
	tier := func(field, category, value string, credits float64) string {
		return fmt.Sprintf(`{"fieldPath":%q,"phase":"input","category":%q,"defaultCreditsPerUnit":5,"pricingTiers":[{"value":%s,"creditsPerUnit":%v}]}`, field, category, value, credits)
	}
	for name, c := range map[string]struct {
		rules, tokens, input, output string
		from, to                     float64
	}{
		"4.1 tier that matches":          {resolution, "", `{"resolution":"2K"}`, "", 20, 20},
		"4.2 tier that does not":         {resolution, "", `{"resolution":"1K"}`, "", 5, 5},
		"4.4 field missing":              {resolution, "", `{}`, "", 5, 5},
		"5.1 multiplier":                 {ten + times, "", `{"factor":3}`, "", 30, 30},
		"5.2 two multipliers":            {ten + times + `,{"fieldPath":"count",` + in + `,"isMultiplier":true,"applyTo":"image"}`, "", `{"factor":2,"count":1.5}`, "", 30, 30},
		"5.3 multiplier of nothing":      {`{"fieldPath":"factor",` + in + `,"isMultiplier":true,"applyTo":"image"}`, "", `{"factor":3}`, "", 0, 0},
		"5.7 multiplier zero":            {ten + times, "", `{"factor":0}`, "", 0, 0},
		"5.8 multiplier below one":       {twenty + times, "", `{"factor":0.5}`, "", 10, 10},
		"7.1 short text":                 {textIn, "", `{"text":"Hello world"}`, "", 1e-9, 0.01},
		"7.2 three images":               {images, "", `{"images":["a","b","c"]}`, "", 15, 15},
		"7.3 text and two images":        {textIn + "," + images, "", `{"text":"Hello","images":["a","b"]}`, "", 10, 10.01},
		"7.4 tokens of the output":       {textOut, output, "", words(5000), 1, 50},
		"7.5 nested text":                {`{"fieldPath":"contents[0].parts[*].text",` + in + `,"category":"text","defaultCreditsPerUnit":1}`, "", `{"contents":[{"parts":[{"text":"a"},{"text":"b"}]}]}`, "", 1e-9, 0.01},
		"8.4 no rules":                   {"", "", `{}`, `{}`, 0, 0},
		"8.6 output phase":               {`{"fieldPath":"images[*].url","phase":"output","category":"image","defaultCreditsPerUnit":5}`, "", "", `{"images":[{"url":"a"},{"url":"b"}]}`, 10, 10},
		"9.1 nulls are left out":         {images, "", `{"images":["a",null,"b"]}`, "", 10, 10},
		"9.2 empty array":                {strings.Replace(images, ":5}", ":10}", 1), "", `{"images":[]}`, "", 10, 10},
		"9.3 much text":                  {textIn, "", words(50_000), "", 5, 20},
		"9.4 sound by its length":        {`{"fieldPath":"duration",` + in + `,"category":"audio","defaultCreditsPerUnit":0.1}`, "", `{"duration":36}`, "", 3.6, 3.6},
		"9.5 multiplier absent":          {ten + times, "", `{}`, "", 10, 10},
		"11.1 film without sound":        {film, "", `{"duration":5,"audio":false}`, "", 134.4, 134.4},
		"11.2 film with sound":           {film, "", `{"duration":5,"audio":true}`, "", 168, 168},
		"11.3 longer film":               {film, "", `{"duration":10,"audio":true}`, "", 336, 336},
		"11.4 flag absent":               {film, "", `{"duration":5}`, "", 168, 168},
		"11.5 unit in the output":        {strings.Replace(film, `"unitField"`, `"unitPhase":"output","unitField"`, 1), "", `{"audio":false}`, `{"duration":7}`, 188.16, 188.16},
		"11.6 tier and number of images": {`{"fieldPath":"resolution",` + in + `,"category":"image","unitField":"count","defaultCreditsPerUnit":5,"pricingTiers":[{"value":"2048x2048","creditsPerUnit":10}]}`, "", `{"resolution":"2048x2048","count":3}`, "", 30, 30},
		"11.7 numeric tier on text":      {tier("text", "text", "10", 20), "", `{"text":"10"}`, "", 1e-9, 0.001},
		"13.1 text equals number":        {tier("resolution", "image", "10", 20), "", `{"resolution":"10"}`, "", 20, 20},
		"13.2 number equals text":        {tier("size", "audio", `"5"`, 50), "", `{"size":5}`, "", 250, 250},
		"13.3 spaces":                    {tier("resolution", "image", "10", 30), "", `{"resolution":" 10 "}`, "", 30, 30},
		"13.4 hexadecimal is text":       {tier("resolution", "image", "26", 20), "", `{"resolution":"0x1A"}`, "", 5, 5},
		"13.5 empty text":                {tier("resolution", "image", `""`, 99), "", `{"resolution":""}`, "", 99, 99},
		"13.5 empty text is no number":   {tier("resolution", "image", `0`, 99), "", `{"resolution":""}`, "", 5, 5},
		"13.6 text of a truth value":     {tier("resolution", "image", "true", 40), "", `{"resolution":"true"}`, "", 40, 40},
		"13.6 truth value of a text":     {tier("flag", "image", `"true"`, 40), "", `{"flag":true}`, "", 40, 40},
		"13.7 decimal text":              {tier("resolution", "image", "3.14", 77), "", `{"resolution":"3.14"}`, "", 77, 77},
		"14.2 unit phase output":         {`{"fieldPath":"size",` + in + `,"category":"video","unitField":"steps","unitPhase":"output","defaultCreditsPerUnit":10}`, "", `{"size":1}`, `{"steps":10}`, 100, 100},
		"14.4 unit phase as the rule's":  {`{"fieldPath":"size",` + in + `,"category":"video","unitField":"unit","defaultCreditsPerUnit":5}`, "", `{"size":1,"unit":3}`, "", 15, 15},
		"15.1 unit is a number":          {`{"fieldPath":"size",` + in + `,"category":"video","unitField":"unit","defaultCreditsPerUnit":10}`, "", `{"unit":5}`, "", 50, 50},
		"15.2 unit is a sum":             {`{"fieldPath":"size",` + in + `,"category":"video","unitField":"durations[*]","defaultCreditsPerUnit":5}`, "", `{"durations":[3,5,7]}`, "", 75, 75},
		"15.3 unit is missing":           {`{"fieldPath":"size",` + in + `,"category":"video","unitField":"unit","defaultCreditsPerUnit":20}`, "", `{}`, "", 20, 20},
		"bytes of text":                  {`{"fieldPath":"text",` + in + `,"category":"text","unitMode":"utf8_bytes","defaultCreditsPerUnit":1000000}`, "", `{"text":"aé"}`, "", 3, 3},
		"two [*] find nothing":           {`{"fieldPath":"contents[*].parts[*].text",` + in + `,"category":"image","defaultCreditsPerUnit":7}`, "", `{"contents":[{"parts":[{"text":"a"}]}]}`, "", 7, 7},
	} {
		got, err := priceOf(t, c.rules, c.tokens, c.input, c.output)
		if err != nil || got < c.from-1e-9 || got > c.to+1e-9 {
			t.Errorf("%s: %v, %v, want %v to %v", name, got, err, c.from, c.to)
		}
	}
}

func TestVectorsOfMistakes(t *testing.T) {
	t.Parallel()
	const additive = `{"fieldPath":"size","phase":"input","category":"image","defaultCreditsPerUnit":10}`
	const times = additive + `,{"fieldPath":"factor","phase":"input","isMultiplier":true,"applyTo":"image"}`
	many := `{"images":[` + strings.Repeat(`"a",`, 1000) + `"a"]}`
	for name, c := range map[string]struct{ rules, tokens, input, says string }{
		"4.3 tiers on [*]":            {`{"fieldPath":"images[*]","phase":"input","category":"image","defaultCreditsPerUnit":5,"pricingTiers":[{"value":"a","creditsPerUnit":1}]}`, "", `{}`, "pricingTiers not allowed on aggregated field"},
		"5.4 multiplier is text":      {times, "", `{"factor":"invalid"}`, "Invalid multiplier value"},
		"5.6 multiplier is negative":  {times, "", `{"factor":-2}`, "Negative multiplier not allowed"},
		"8.1 unknown field":           {strings.Replace(additive, "size", "sise", 1), "", `{}`, `Field "sise" not found in input schema`},
		"8.3 token price is missing":  {`{"fieldPath":"text","phase":"output","category":"text","defaultCreditsPerUnit":1}`, `{"inputPer1MUsd":1}`, `{}`, "Missing tokenPricing.outputPer1MUsd"},
		"8.5 more than 1000 items":    {`{"fieldPath":"images[*]","phase":"input","category":"image","defaultCreditsPerUnit":5}`, "", many, "Array too large"},
		"8.5 as one array":            {`{"fieldPath":"images","phase":"input","category":"image","defaultCreditsPerUnit":5}`, "", many, "Array too large"},
		"14.1 unknown unit":           {strings.Replace(additive, `"defaultC`, `"unitField":"nothing","defaultC`, 1), "", `{}`, `unitField "nothing" not found in input schema`},
		"14.3 unit of the other side": {strings.Replace(additive, `"defaultC`, `"unitField":"steps","defaultC`, 1), "", `{}`, `unitField "steps" not found in input schema`},
		"unknown phase":               {strings.Replace(additive, "input", "inputs", 1), "", `{}`, `phase "inputs"`},
		"unknown category":            {strings.Replace(additive, `"image"`, `"picture"`, 1), "", `{}`, `category "picture"`},
		"no price":                    {`{"fieldPath":"size","phase":"input","category":"image"}`, "", `{}`, "defaultCreditsPerUnit"},
		"negative price":              {strings.Replace(additive, "10", "-1", 1), "", `{}`, "defaultCreditsPerUnit"},
		"negative token price":        {additive, `{"inputPer1MUsd":-1}`, `{}`, "negative"},
		"unknown word":                {strings.Replace(additive, "defaultC", "defaulC", 1), "", `{}`, "defaulC"},
		"unknown unit mode":           {strings.Replace(additive, `"defaultC`, `"unitMode":"words","defaultC`, 1), "", `{}`, `unitMode "words"`},
		"length that is none":         {`{"fieldPath":"resolution","phase":"input","category":"video","defaultCreditsPerUnit":1}`, "", `{"resolution":"long"}`, "not a number"},
	} {
		got, err := priceOf(t, c.rules, c.tokens, c.input, "")
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, %v, want it to say %q", name, got, err, c.says)
		}
	}
	// 5.5: JSON has no infinity, but a value may be one.
	f, err := price.NewPricer(120*credit).ParseFormula(json.RawMessage("["+times+"]"), nil, json.RawMessage(plainSchema), json.RawMessage(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := f.Price(map[string]any{"factor": math.Inf(1)}, nil); err == nil || !strings.Contains(err.Error(), "Invalid multiplier value") {
		t.Errorf("5.5 multiplier is infinite: %v, %v", got, err)
	}
	// 8.2
	_, err = price.NewPricer(120*credit).ParseFormula(json.RawMessage("["+additive+"]"), nil, json.RawMessage(`{"type":`), json.RawMessage(`{}`))
	if err == nil || !strings.Contains(err.Error(), "Invalid input schema JSON") {
		t.Errorf("8.2 broken schema: %v", err)
	}
}

// Which price counts: docs/wire/refly.md#prices.
func TestVectorsOfPrecedence(t *testing.T) {
	t.Parallel()
	rule := func(perUnit string) string {
		return `[{"fieldPath":"num","phase":"input","category":"image","defaultCreditsPerUnit":` + perUnit + `}]`
	}
	for name, c := range map[string]struct {
		static, rules, tokens, arguments string
		want                             string
		problem                          bool
	}{
		"dynamic 25":                        {"5", rule("25"), "", `{}`, "25", false},
		"no dynamic rules":                  {"5", "", "", `{}`, "5", false},
		"dynamic fails, the other price":    {"5", `[{"fieldPath":"text","phase":"input","category":"video","defaultCreditsPerUnit":1}]`, "", `{"text":"x"}`, "5", true},
		"enabled false, nothing calculated": {`{"m":{"enabled":false}}`, rule("25"), "", `{}`, "0", false},
		"0.18 is raised to 1":               {"5", rule("0.18"), "", `{}`, "1", false},
		"0 stays 0":                         {"5", rule("0"), "", `{}`, "0", false},
		"1 stays 1":                         {"5", rule("1"), "", `{}`, "1", false},
		"1.5 stays 1.5":                     {"5", rule("1.5"), "", `{}`, "1.5", false},
		"only dynamic":                      {"", rule("3"), "", `{}`, "3", false},
	} {
		m := priced("m")
		m[0].Rules, m[0].TokenPricing = json.RawMessage(c.rules), json.RawMessage(c.tokens)
		p, err := price.NewPricer(120*credit).ParsePrices(c.static, m)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		arguments, _ := decode(t, c.arguments).(map[string]any)
		q, err := p.Price("m", arguments, json.RawMessage(`{}`))
		if err != nil || q.Price.String() != c.want || (q.Problem != nil) != c.problem {
			t.Errorf("%s: %+v, %v, want %s", name, q, err, c.want)
		}
	}
	// No source is no silent default: not when it is loaded, and not when it is
	// asked for.
	if _, err := price.NewPricer(120*credit).ParsePrices("", priced("m")); err == nil {
		t.Error("no source of a price was loaded")
	}
	m := priced("m")
	m[0].Rules = json.RawMessage(`[{"fieldPath":"nothing","phase":"input","category":"image","defaultCreditsPerUnit":1}]`)
	if _, err := price.NewPricer(120*credit).ParsePrices("5", m); err == nil || !strings.Contains(err.Error(), `pricing of "m": rule 1`) {
		t.Errorf("a rule that no call can satisfy was loaded: %v", err)
	}
}

func TestEstimates(t *testing.T) {
	t.Parallel()
	m := priced("in", "out", "flat")
	m[0].Rules = json.RawMessage(`[{"fieldPath":"num","phase":"input","category":"video","defaultCreditsPerUnit":2}]`)
	m[1].Rules = json.RawMessage(`[{"fieldPath":"n","phase":"output","category":"video","defaultCreditsPerUnit":2}]`)
	m[1].Response = json.RawMessage(`{"type":"object","properties":{"n":{"type":"number"}}}`)
	p, err := price.NewPricer(120*credit).ParsePrices(`{"flat":3}`, m)
	if err != nil {
		t.Fatal(err)
	}
	arguments := map[string]any{"num": json.Number("4")}
	for method, want := range map[string]string{"in": "8", "out": "0", "flat": "3", "unknown": "0"} {
		if got := p.Estimate(method, arguments).String(); got != want {
			t.Errorf("%s will cost %s, want %s", method, got, want)
		}
	}
	q, err := p.Price("out", arguments, bytes.TrimSpace([]byte(` {"n": 2.25} `)))
	if err != nil || q.Price.String() != "4.5" {
		t.Errorf("%+v, %v", q, err)
	}
}

// The table of docs/wire/refly.md#prices-of-composio-tools.
func TestVectorsOfProviders(t *testing.T) {
	t.Parallel()
	rates := &price.Rates{Standard: 299_000, Premium: 897_000, Margin: credit}
	for name, c := range map[string]struct {
		raw   string
		rates *price.Rates
		want  map[string]string
	}{
		"nothing is 3":         {"", nil, map[string]string{"A": "3"}},
		"a number":             {"2.5", nil, map[string]string{"A": "2.5"}},
		"a number as text":     {`"7"`, nil, map[string]string{"A": "7"}},
		"0 is free":            {"0", nil, map[string]string{"A": "0"}},
		"tiers":                {`{"A":{"tier":"premium"},"_default":{"tier":"standard"}}`, rates, map[string]string{"A": "0.10764", "B": "0.03588"}},
		"without a default":    {`{"A":{"tier":"standard"}}`, rates, map[string]string{"A": "0.03588", "B": "3"}},
		"a number for one":     {`{"A":9,"_default":1}`, nil, map[string]string{"A": "9", "B": "1"}},
		"margin and rate":      {`{"A":{"tier":"standard"}}`, &price.Rates{Standard: credit, Margin: 2 * credit}, map[string]string{"A": "0.24"}},
		"28 calls make up one": {`{"A":{"tier":"standard"}}`, rates, map[string]string{"A": "0.03588"}},
	} {
		p, err := price.NewPricer(120*credit).ParseProvided(c.raw, c.rates)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for action, want := range c.want {
			if q, err := p.Price(action, nil, nil); err != nil || q.Price.String() != want {
				t.Errorf("%s: %s costs %v, %v, want %s", name, action, q.Price, err, want)
			}
		}
	}
	for raw, says := range map[string]string{
		`{"A":{"tier":"gold"}}`: `"gold"`, `{"A":{"tier":"standard"}}`: "no rates", `[1]`: "neither a number", `-1`: "negative", `{"A":true}`: `"A"`, `null`: "not a decimal",
	} {
		if _, err := price.NewPricer(120*credit).ParseProvided(raw, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want it to say %q", raw, err, says)
		}
	}
}
