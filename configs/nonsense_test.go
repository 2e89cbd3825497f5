package configs_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/portico-run/portico/configs"
)

// nonsense are values that no setting means, or that one program reads in a way
// and another in another.
func nonsense() map[string]string {
	return map[string]string{
		"text":           "nonsense value",
		"separators":     "1_000",
		"hexadecimal":    "0x10",
		"binary float":   "0x1p4",
		"exponent":       "1e3",
		"over a double":  "1e309",
		"negative":       "-1",
		"sign":           "+5",
		"not a number":   "NaN",
		"infinite":       "Inf",
		"huge":           strings.Repeat("9", 300),
		"many decimals":  "0.00000001",
		"control":        "5\x07",
		"NUL":            "5\x006",
		"line break":     "5\n6",
		"a list":         "a b,c d",
		"empty items":    ",,",
		"foreign digits": "٥",
		"wide digits":    "５",
		"no UTF-8":       "5\xff",
		"nearly a bool":  "ture",
		"unit":           "5 parsecs",
	}
}

// spelled are the kinds that no setting takes, not even one that is any text.
func spelled() []string { return []string{"control", "NUL", "line break", "no UTF-8"} }

// texts are the settings that are texts, with what they refuse besides. A
// setting that is not here refuses every kind of nonsense.
func texts() map[string][]string {
	names := []string{"text", "sign", "a list", "empty items", "foreign digits", "wide digits", "unit"}
	return map[string][]string{
		// Secrets, and names that other systems give.
		"JWT_SECRET": nil, "S3_ACCESS_KEY": nil, "S3_SECRET_KEY": nil, "MODEL_API_KEY": nil, "COMPOSIO_API_KEY": nil, "APPROVAL_WEBHOOK_SECRET": nil,
		"CODEAPI_JWT_HS256_SECRET": nil, "CODEAPI_JWT_KID": nil, "CODEAPI_JWT_HS256_KID": nil, "CODEAPI_JWT_ISSUER": nil, "CODEAPI_JWT_AUDIENCE": nil,
		"CODEAPI_USER": nil, "EMBEDDING_API_KEY": nil, "EMBEDDING_MODEL": nil, "MODEL_NAME": nil, "SANDBOX_CLAIM_NAMESPACE": nil, "LLM_QUERY_MODEL": nil, "COMPOSIO_USER": nil, "PTC_ROLLOUT_SALT": nil,
		// Paths: what is not there fails when it is opened.
		"OBJECT_STORAGE_FOLDER": nil, "SANDBOX_ROOT": nil, "SANDBOX_RUN_DIR": nil, "SANDBOX_CLAIM_KUBECONFIG": nil, "SANDBOX_RUNSC": nil, "TOOLSETS_DIR": nil, "MODEL_FILE": nil, "MCP_DIR": nil, "MCP_SERVERS_FILE": nil, "CODEAPI_JWT_PUBLIC_KEYS_DIR": nil,
		// What these do not know is off, with a warning.
		"PTC_MODE": nil, "PTC_DEBUG": nil, "PTC_ENABLED": nil,
		// Lists of which blanks are dropped.
		"PTC_USER_ALLOWLIST": nil, "PTC_TOOLSET_ALLOWLIST": nil, "PTC_TOOLSET_BLOCKLIST": nil,
		// Names that may look like numbers.
		"S3_BUCKET":                 append([]string{"negative", "huge"}, names...),
		"S3_REGION":                 append([]string{"separators", "many decimals"}, names...),
		"SANDBOX_S3LIB_PATH_PREFIX": names,
		"SANDBOX_S3LIB_HASH":        names,
		"BILLING_FREE_TOOLSETS":     append([]string{"negative", "huge"}, names...),
		// Of at least 32 characters, which only one of these has.
		"PORTICO_ADMIN_TOKEN": append([]string{"separators", "hexadecimal", "binary float", "exponent", "over a double", "negative", "not a number", "infinite", "many decimals", "nearly a bool"}, names...),
		// Names of modules: "NaN" is one.
		"SANDBOX_PRELOAD": append([]string{"separators", "hexadecimal", "binary float", "exponent", "over a double", "negative", "huge", "many decimals"}, names...),
	}
}

// Every setting refuses what it cannot mean, and names itself. The settings are
// all there are, so that this holds of those that are yet to come.
func TestNoSettingTakesNonsense(t *testing.T) {
	t.Parallel()
	for _, name := range configs.Variables() {
		if name == configs.FileVariable {
			continue // names the file; see TestFile
		}
		also, isText := texts()[name]
		for kind, value := range nonsense() {
			problem := problemWith(t, name, value)
			wanted := !isText || slices.Contains(spelled(), kind) || slices.Contains(also, kind)
			switch {
			case wanted && problem == "":
				t.Errorf("%s takes %s: %q", name, kind, value)
			case wanted && !strings.HasPrefix(problem, name+" ("):
				t.Errorf("%s with %s: the problem names another setting: %s", name, kind, problem)
			case !wanted && problem != "":
				t.Errorf("%s refuses %s: %s", name, kind, problem)
			case strings.Contains(problem, value) && len(value) > 3:
				t.Errorf("%s with %s: the problem repeats the value, which may be a secret: %s", name, kind, problem)
			}
		}
		if problem := problemWith(t, name, " \t "); problem != "" {
			t.Errorf("%s of spaces does not count as not set: %s", name, problem)
		}
	}
	for name := range texts() {
		if !slices.Contains(configs.Variables(), name) {
			t.Errorf("%s is not a setting", name)
		}
	}
}

// problemWith is the first thing that is wrong when a variable has a value.
func problemWith(t *testing.T, name, value string) string {
	t.Helper()
	_, err := configs.Load(configs.Options{Environ: []string{name + "=" + value}})
	if err == nil {
		return ""
	}
	var invalid *configs.InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("%s: %v", name, err)
	}
	return invalid.Problems[0]
}

func TestDecimalsAreExact(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]configs.Decimal{
		"0": 0, "1": configs.One, "0.000001": 1, "2.50": 2_500_000, "007": 7 * configs.One, "999999999999.999999": 999_999_999_999_999_999,
	} {
		c := mustLoad(t, "", production("BILLING_DAY_LIMIT="+text)...)
		if *c.Billing.DayLimit != want {
			t.Errorf("%s is %d millionths, want %d", text, *c.Billing.DayLimit, want)
		}
		if again := mustLoad(t, printed(t, c), production()...); *again.Billing.DayLimit != want {
			t.Errorf("%s printed and read again is %s", text, again.Billing.DayLimit)
		}
	}
	got := problems(t, "billing: {dayLimit: 99999999999.999999}")
	if len(got) != 1 || !strings.Contains(got[0], "in quotes") {
		t.Errorf("a number that YAML cannot keep: %q", got)
	}
}
