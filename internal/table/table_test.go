package table_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/table"
)

func convert(t *testing.T, csv string) (table.Report, []map[string]any) {
	t.Helper()
	var out bytes.Buffer
	report, err := table.ConvertCSV(t.Context(), strings.NewReader(csv), &out)
	require.NoError(t, err)
	return report, read(t, out.Bytes())
}

func read(t *testing.T, data []byte) []map[string]any {
	t.Helper()
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	var rows []map[string]any
	buf := make([]parquet.Row, 1)
	names := f.Schema().Columns()
	for _, group := range f.RowGroups() {
		r := group.Rows()
		for {
			n, err := r.ReadRows(buf)
			for _, row := range buf[:n] {
				m := map[string]any{}
				for i, v := range row {
					m[names[i][0]] = plain(v)
				}
				rows = append(rows, m)
			}
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
		}
		require.NoError(t, r.Close())
	}
	return rows
}

func plain(v parquet.Value) any {
	if v.IsNull() {
		return nil
	}
	switch v.Kind() {
	case parquet.Boolean:
		return v.Boolean()
	case parquet.Int32:
		return int64(v.Int32())
	case parquet.Int64:
		return v.Int64()
	case parquet.Double:
		return v.Double()
	default:
		return string(v.ByteArray())
	}
}

func types(r table.Report) string {
	var list []string
	for _, c := range r.Columns {
		list = append(list, c.Name+":"+c.Type)
	}
	return strings.Join(list, " ")
}

func TestTypesAreInferred(t *testing.T) {
	t.Parallel()
	report, rows := convert(t, `id,price,zip,active,day,at,seen,note,big
1,2.5,01234,true,2024-02-29,2024-02-29 10:00:00,2024-02-29T10:00:00Z,"a, b",99999999999999999999
2,3,98765,FALSE,1969-12-31,2024-03-01,2024-02-29T10:00:00+02:00,,1
NA,-1e3,00001,,,,,NA,
`)
	require.Equal(t, "id:integer price:number zip:text active:boolean day:date at:datetime seen:datetime note:text big:text", types(report))
	require.Equal(t, int64(3), report.Rows)
	require.Zero(t, report.BadRows)
	require.Empty(t, cmp.Diff([]map[string]any{
		{"id": int64(1), "price": 2.5, "zip": "01234", "active": true, "day": int64(19782), "at": int64(1709200800000000), "seen": int64(1709200800000000), "note": "a, b", "big": "99999999999999999999"},
		{"id": int64(2), "price": 3.0, "zip": "98765", "active": false, "day": int64(-1), "at": int64(1709251200000000), "seen": int64(1709193600000000), "note": nil, "big": "1"},
		{"id": nil, "price": -1000.0, "zip": "00001", "active": nil, "day": nil, "at": nil, "seen": nil, "note": "NA", "big": nil},
	}, rows))
	require.Equal(t, int64(1), report.Columns[0].Nulls)
	require.Equal(t, int64(1), report.Columns[7].Nulls, "NA is a word in a column of text")
	require.Contains(t, report.Summary(), "Table with id integer, price number")
	report, rows = convert(t, "exact,long\n1.5,1.5\n9007199254740992,9007199254740993\n")
	require.Equal(t, "exact:number long:text", types(report), "a whole number that no float has stays as it is")
	require.Equal(t, map[string]any{"exact": 9007199254740992.0, "long": "9007199254740993"}, rows[1])
}

func TestBadRowsAreReported(t *testing.T) {
	t.Parallel()
	report, rows := convert(t, "a,b\n1,2\n3\n4,5,6\n\n7,8\n")
	require.Equal(t, int64(2), report.Rows)
	require.Len(t, rows, 2)
	require.Equal(t, int64(2), report.BadRows)
	require.Equal(t, []table.BadRow{{Line: 3, Reason: "1 fields instead of 2"}, {Line: 4, Reason: "3 fields instead of 2"}}, report.Bad)
	require.Contains(t, report.Summary(), "did not fit and were left out: 2.")

	report, _ = convert(t, "a,b\n"+strings.Repeat("x\n", 500))
	require.Equal(t, int64(500), report.BadRows)
	require.Len(t, report.Bad, table.MaxReported)
}

func TestDialects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ csv, types, delimiter, encoding string }{
		"semicolon":    {"a;b\n1;2,5\n", "a:integer b:text", ";", "UTF-8"},
		"tab":          {"a\tb\n1\t2\n", "a:integer b:integer", "\t", "UTF-8"},
		"pipe":         {"a|b\n1|x\n", "a:integer b:text", "|", "UTF-8"},
		"byte order":   {"\uFEFFa,b\r\n1,2\r\n", "a:integer b:integer", ",", "UTF-8"},
		"utf16":        {"\xff\xfea\x00,\x00b\x00\n\x001\x00,\x00\xe4\x00\n\x00", "a:integer b:text", ",", "UTF-16"},
		"latin":        {"name,n\nZo\xeb,1\n", "name:text n:integer", ",", "Windows-1252"},
		"one column":   {"a\n1\n2\n", "a:integer", ",", "UTF-8"},
		"header only":  {"a,b\n", "a:text b:text", ",", "UTF-8"},
		"same names":   {" a ,a,,a\n1,2,3,4\n", "a:integer a_2:integer column_3:integer a_3:integer", ",", "UTF-8"},
		"quote inside": {"size,n\n5\" pipe,1\n", "size:text n:integer", ",", "UTF-8"},
		"odd names":    {"\"x, \"\"y\"\"\",ключ\n1,2\n", `x, "y":integer ключ:integer`, ",", "UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report, _ := convert(t, c.csv)
			require.Equal(t, c.types, types(report))
			require.Equal(t, []string{c.delimiter, c.encoding}, []string{report.Delimiter, report.Encoding})
		})
	}
}

func TestWhatIsNoTable(t *testing.T) {
	t.Parallel()
	for name, csv := range map[string]string{
		"empty": "", "binary": "PK\x03\x04\x00\x00rest", "blank": "\n\n",
		"endless quote": "a,b\n1,\"" + strings.Repeat("x\n", table.MaxRow),
		"columns":       strings.Repeat("x,", table.MaxColumns+1) + "\n",
	} {
		_, err := table.ConvertCSV(t.Context(), strings.NewReader(csv), io.Discard)
		require.ErrorIs(t, err, table.ErrInvalid, name)
		require.NotEmpty(t, errs.Message(err), name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := table.ConvertCSV(ctx, strings.NewReader("a\n1\n"), io.Discard)
	require.ErrorIs(t, err, context.Canceled)
}

func TestManyRows(t *testing.T) {
	t.Parallel()
	const rows = 200_000
	var csv strings.Builder
	csv.WriteString("n,t\n")
	for n := range rows {
		fmt.Fprintf(&csv, "%d,text of row %d\n", n, n)
	}
	report, got := convert(t, csv.String())
	require.Equal(t, int64(rows), report.Rows)
	require.Len(t, got, rows)
	require.Equal(t, map[string]any{"n": int64(rows - 1), "t": "text of row 199999"}, got[rows-1])
}

// Every kind of column comes back, with and without values, over several pages
// and groups of rows.
func TestColumnsOfEveryKindInManyPages(t *testing.T) {
	t.Parallel()
	const rows = 150_000
	long := strings.Repeat("long ", 60)
	field := func(n, every int, text string) string {
		if n%every == 0 {
			return ""
		}
		return text
	}
	var csv strings.Builder
	csv.WriteString("i,x,b,d,t,none\n")
	for n := range rows {
		fmt.Fprintf(&csv, "%s,%s,%s,%s,%s,\n", field(n, 3, strconv.Itoa(-n)), field(n, 5, fmt.Sprintf("%d.5", n)),
			field(n, 7, strconv.FormatBool(n%4 == 1)), field(n, 2, time.Unix(int64(n)*86400, 0).UTC().Format(time.DateOnly)), field(n, 11, long+strconv.Itoa(n)))
	}
	var out bytes.Buffer
	report, err := table.ConvertCSV(t.Context(), strings.NewReader(csv.String()), &out)
	require.NoError(t, err)
	require.Equal(t, "i:integer x:number b:boolean d:date t:text none:text", types(report))
	f, err := parquet.OpenFile(bytes.NewReader(out.Bytes()), int64(out.Len()))
	require.NoError(t, err)
	require.Len(t, f.RowGroups(), 2)
	require.Equal(t, int64(rows), f.NumRows())
	require.Equal(t, int64(rows), f.Metadata().RowGroups[0].Columns[5].MetaData.Statistics.NullCount+f.Metadata().RowGroups[1].Columns[5].MetaData.Statistics.NullCount)
	require.Less(t, out.Len(), csv.Len()/4, "it is compressed")
	for n, row := range read(t, out.Bytes()) {
		got := func(name string, every int, want any) {
			if n%every == 0 {
				want = nil
			}
			if row[name] != want { // many comparisons: require takes too long
				require.Equal(t, want, row[name], "row %d, column %s", n, name)
			}
		}
		got("i", 3, int64(-n))
		got("x", 5, float64(n)+0.5)
		got("b", 7, n%4 == 1)
		got("d", 2, int64(n))
		got("t", 11, long+strconv.Itoa(n))
		got("none", 1, nil)
	}
}

func FuzzConvertCSV(f *testing.F) {
	for _, s := range []string{"a,b\n1,2\n", "a;b\n\"x\n\"\"", "\xff\xfea\x00", "a\n2024-01-01\nNA\n", "\"\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, csv string) {
		var out bytes.Buffer
		report, err := table.ConvertCSV(t.Context(), strings.NewReader(csv), &out)
		if err != nil {
			require.ErrorIs(t, err, table.ErrInvalid)
			return
		}
		require.Len(t, read(t, out.Bytes()), int(report.Rows))
		_, err = json.Marshal(report)
		require.NoError(t, err)
	})
}
