package pages

import (
	"encoding/csv"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// creditsView is the page of credits. Each part can be missing alone, with its
// own reason.
type creditsView struct {
	From, Until string // days of the period, the last one included
	Balance     part[balance]
	Lots        part[list[lot]]
	Days        part[dayReport]
	Report      part[report]
	Limits      part[limits]
	Ledger      part[list[usage]]
	Bars        []bar
	BarWidth    float64
	Next        string
}

type balance struct {
	CreditAmount, CreditBalance, Debt json.Number
}

type lot struct {
	RechargeID, Source, Description string
	Amount, Balance                 json.Number
	CreatedAt, ExpiresAt            int64
}

type usage struct {
	UsageID, UsageType, ActionResultID, ToolCallID, ModelName, Description string
	Amount, DueAmount                                                      json.Number
	Version                                                                *int
	CreatedAt                                                              int64
	ToolCallMeta                                                           struct{ ToolsetKey, ToolName string }
}

// What is what was charged for, in words.
func (u usage) What() string {
	switch {
	case u.ToolCallMeta.ToolsetKey != "":
		return u.ToolCallMeta.ToolsetKey + "." + u.ToolCallMeta.ToolName
	case u.ModelName != "":
		return u.ModelName
	case u.Description != "":
		return u.Description
	}
	return u.UsageType
}

// report is what was charged, by tool and model.
type report struct {
	Total, Charged json.Number
	Lines          []struct {
		UsageType, ToolsetKey, ToolName, ModelName string
		Calls                                      int64
		Total, Charged                             json.Number
	}
}

const day = 24 * time.Hour

func (p *Pages) credits(v *Visit) (Answer, error) {
	from, until, err := period(v.R.URL.Query(), p.now())
	if err != nil {
		return Answer{}, err
	}
	view := creditsView{From: from.Format(time.DateOnly), Until: until.Add(-day).Format(time.DateOnly)}
	span := url.Values{"from": {from.Format(time.RFC3339)}, "until": {until.Format(time.RFC3339)}}
	view.Balance = load[balance](v, "/v1/credit/balance", nil)
	if view.Balance.err != nil { // who may not know this may know none of it
		return Answer{}, view.Balance.err
	}
	view.Lots = load[list[lot]](v, "/v1/credit/recharge", nil)
	view.Report = load[report](v, "/v1/credit/report", span)
	view.Days = load[dayReport](v, "/v1/credit/report", with(span, "by", "day"))
	view.Limits = load[limits](v, "/v1/limits", nil)
	view.Ledger = load[list[usage]](v, "/v1/credit/usage", pick(v.R.URL.Query(), "cursor"))
	view.Bars = view.Days.Data.bars(from, until)
	if n := len(view.Bars); n > 0 {
		view.BarWidth = max(chartWidth/float64(n)-2, 1)
	}
	view.Next = v.next(view.Ledger.Data.NextCursor)
	return Answer{Title: "Credits", Template: "credits", Data: view}, nil
}

// period is what the query asks for, in whole days of UTC; a month when it does
// not say.
func period(q url.Values, now time.Time) (from, until time.Time, err error) {
	const usual, longest = 30 * day, 366 * day
	until = now.UTC().Truncate(day).Add(day)
	if text := q.Get("until"); text != "" {
		if until, err = time.Parse(time.DateOnly, text); err != nil {
			return from, until, errBadDay
		}
		until = until.Add(day)
	}
	from = until.Add(-usual)
	if text := q.Get("from"); text != "" {
		if from, err = time.Parse(time.DateOnly, text); err != nil {
			return from, until, errBadDay
		}
	}
	if !from.Before(until) || until.Sub(from) > longest {
		return from, until, errBadDay
	}
	return from, until, nil
}

// bar is one day of the chart, in its own units.
type bar struct {
	X, Y, Height float64
	Day          string
	Charged      json.Number
	Calls        int64
	Label        bool
}

// Measures of the chart.
const (
	chartWidth  = 600
	chartHeight = 120
)

// bars draws the days of a period, those without a charge as well.
func (d dayReport) bars(from, until time.Time) []bar {
	by, most := d.byDay()
	if most == 0 {
		return nil
	}
	days := int(until.Sub(from) / day)
	bars := make([]bar, days)
	for i := range bars {
		name := from.Add(time.Duration(i) * day).Format(time.DateOnly)
		line := by[name]
		height := line.amount() / most * chartHeight
		bars[i] = bar{
			X: chartWidth / float64(days) * float64(i), Y: chartHeight - height, Height: height, Day: name, Charged: line.Charged, Calls: line.Calls,
		}
	}
	return bars
}

// ledger writes all that was charged, newest first. A spreadsheet takes a cell
// that begins like a formula for one, so that such a cell gets an apostrophe.
func (p *Pages) ledger(v *Visit) (Answer, error) {
	var page list[usage]
	if err := v.get("/v1/credit/usage", url.Values{"limit": {"200"}}, &page); err != nil {
		return Answer{}, err
	}
	v.W.Header().Set("Content-Type", "text/csv; charset=utf-8")
	v.W.Header().Set("Content-Disposition", `attachment; filename="credits.csv"`)
	out := csv.NewWriter(v.W)
	_ = out.Write([]string{"time", "what", "credits", "list price", "type", "run", "version", "call"})
	for {
		for _, u := range page.Items {
			version := ""
			if u.Version != nil {
				version = strconv.Itoa(*u.Version)
			}
			_ = out.Write([]string{
				time.UnixMilli(u.CreatedAt).UTC().Format(time.RFC3339), cell(u.What()), u.Amount.String(), u.DueAmount.String(),
				cell(u.UsageType), cell(u.ActionResultID), version, cell(u.ToolCallID),
			})
		}
		out.Flush()
		if page.NextCursor == "" || out.Error() != nil {
			break
		}
		page = v.charges(page.NextCursor)
	}
	return Answer{}, nil //nolint:nilerr // whoever is gone reads no error
}

// charges reads on in a file of which a part is sent. Without the rest, the file
// must not look whole.
func (v *Visit) charges(cursor string) list[usage] {
	var page list[usage]
	if err := v.get("/v1/credit/usage", url.Values{"limit": {"200"}, "cursor": {cursor}}, &page); err != nil {
		panic(http.ErrAbortHandler)
	}
	return page
}

func cell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
